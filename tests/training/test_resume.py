"""A resumed training ends with the same weights, bit for bit, as one that was never interrupted."""

import dataclasses
import json
import random
import shutil
import signal
import subprocess
import time

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.models import artefact
from shortlist.training import run_folder, train
from shortlist.training.callbacks import Callback
from shortlist.training.checkpoint import load_checkpoint, save_checkpoint
from shortlist.training.interruption import Paused
from shortlist.training.loop import Loop
from shortlist.training.run_folder import RunFolder
from tests import warm
from tests.training.small import dataset, recipe, run, same, weights

METHODS = ["average-k", "quasibinary", "role", "noised-topk"]
STEPS = 15  # of three epochs


class PowerCut(BaseException):
    """Nothing catches it."""


class CutAfter(Callback):
    def __init__(self, step):
        self.step = step

    def step_ended(self, step, loss):
        if step == self.step:
            raise PowerCut


def settings_of(method):
    return {"method": method, "epochs": 3, "augmentation": "shift-flip", "ema": 0.9, "backbone": "resnet-8"}


def data_of(method):
    return dataset(multi=method == "quasibinary")


@pytest.mark.parametrize("method", METHODS)
def test_a_training_cut_at_any_step_ends_with_the_same_weights(tmp_path, method):
    whole = run(tmp_path / "whole", data_of(method), **settings_of(method))
    for step in random.Random(method).sample(range(1, STEPS + 1), 3):
        folder = tmp_path / str(step)
        with pytest.raises(PowerCut):
            run(folder, data_of(method), callback=CutAfter(step), **settings_of(method))
        again = run(folder, data_of(method), resume=True, **settings_of(method))
        assert same(weights(whole), weights(again)), f"cut after step {step}"
        assert [{**line, "seconds": 0, "rows_per_second": 0} for line in again.history] == [
            {**line, "seconds": 0, "rows_per_second": 0} for line in whole.history
        ]
        for name, part in whole.predictions.items():
            assert torch.equal(part.scores, again.predictions[name].scores)
            if part.link is not None:
                assert part.link.fingerprint() == again.predictions[name].link.fingerprint()


def test_adamw_goes_on_as_well(tmp_path):
    changes = {"optimizer": "adamw", "lr": 1e-3, "epochs": 2}
    whole = run(tmp_path / "whole", **changes)
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", callback=CutAfter(7), **changes)
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True, **changes)))


def test_a_training_cut_before_its_first_checkpoint_begins_again(tmp_path):
    whole = run(tmp_path / "whole")
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", callback=CutAfter(1), checkpoint_seconds=1e9)
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True)))


def test_a_training_that_has_ended_only_finishes_again(tmp_path, monkeypatch):
    whole = run(tmp_path / "run")
    monkeypatch.setattr(Loop, "_step", lambda *_: pytest.fail("no step is left"))
    assert same(weights(whole), weights(run(tmp_path / "run", resume=True)))


@pytest.mark.parametrize("content", [None, "", "{", '{"epoch": 7}\n', "\udce9"])
def test_the_history_of_a_training_that_has_ended_is_written_again(tmp_path, content):
    whole = run(tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    written = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content.encode(errors="surrogateescape"))
    assert run(tmp_path / "run", resume=True).history == whole.history
    assert path.read_bytes() == written
    assert RunFolder(tmp_path / "run").history == whole.history


def test_the_history_of_a_training_that_paused_is_written_again_before_its_next_epoch(tmp_path):
    for _ in range(2):
        with pytest.raises(Paused):
            train(recipe(epochs=3), tmp_path / "run", dataset=dataset(), resume="auto", device="cpu", until=1)
        assert len(RunFolder(tmp_path / "run").history) == 1
        (tmp_path / "run" / "metrics.jsonl").unlink()


def test_a_history_that_cannot_be_read_says_what_to_do(tmp_path):
    run(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*metrics.jsonl: .*remove it, and resume the run"):
        _ = RunFolder(tmp_path / "run").history
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    with pytest.raises(InputError, match=r"cannot read .*metrics.jsonl: (?!.*remove it)"):
        _ = RunFolder(tmp_path / "run").history


def test_a_cut_while_a_file_is_written_leaves_the_old_one(tmp_path, monkeypatch):
    """Every write of the run dies once, half done; what is there afterwards is enough to go on."""
    import shortlist.training.checkpoint as checkpoint

    whole = run(tmp_path / "whole")
    save = checkpoint.save_file
    count = iter(range(10**6))

    def half(tensors, path, metadata=None):
        if next(count) == 4:
            path.write_bytes(b"half of a ")
            raise PowerCut
        save(tensors, path, metadata=metadata)

    monkeypatch.setattr(checkpoint, "save_file", half)
    with pytest.raises(PowerCut):
        run(tmp_path / "cut")
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True)))


def test_a_full_disk_keeps_the_last_checkpoint_and_says_so(tmp_path, monkeypatch):
    import shortlist.training.checkpoint as checkpoint

    whole = run(tmp_path / "whole")
    save = checkpoint.save_file
    count = iter(range(10**6))

    def full(tensors, path, metadata=None):
        if next(count) == 6:
            raise OSError(28, "No space left on device")
        save(tensors, path, metadata=metadata)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(InputError, match=r"checkpoint.safetensors: no space left on device; .*continue with resume=True$"):
        run(tmp_path / "cut")
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True)))
    assert not [entry for entry in (tmp_path / "cut").iterdir() if entry.name.startswith(".")]


def test_the_folder_tells_the_whole_recipe(tmp_path):
    run(tmp_path / "run", method="average-k", lr=0.01)
    assert RunFolder(tmp_path / "run").recipe == recipe(method="average-k", lr=0.01)
    written = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert written["recipe"]["lr"] == 0.01
    assert written["versions"]["torch"] == torch.__version__.split("+")[0] or written["versions"]["torch"]
    assert "commit" in written


@pytest.mark.parametrize("change", [{"lr": 0.5}, {"epochs": 9}, {"weight_decay": 0.25, "epochs": 9}])
def test_a_recipe_that_was_edited_is_not_that_of_the_weights(tmp_path, change):
    """Resuming with the edited settings, as the command line does, wrote a run that states what was never done."""
    trained = run(tmp_path / "run")
    path = tmp_path / "run" / "recipe.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written | {"recipe": written["recipe"] | change}))
    with pytest.raises(InputError, match=rf"was trained with .*{[*change][-1]} .*, not {[*change.values()][-1]}"):
        run(tmp_path / "run", resume=True, **change)
    path.write_text(json.dumps(written | {"recipe": written["recipe"] | {"data": "elsewhere"}}))
    moved = recipe().with_settings(data="elsewhere")
    again = train(moved, tmp_path / "run", resume=True, device="cpu", dataset=dataset())
    assert same(weights(again), weights(trained))


def test_the_classifier_of_a_run_is_written_by_training_alone(tmp_path):
    trained = run(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    (tmp_path / "link").symlink_to(tmp_path / "run" / "classifier")
    for path in (tmp_path / "run" / "classifier", str(tmp_path / "run" / "classifier"), tmp_path / "link"):
        with pytest.raises(InputError, match="is part of the run in"):
            trained.classifier.save(path)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    trained.classifier.save(tmp_path / "classifier")
    trained.classifier.save(tmp_path / "run" / "mine")
    assert (run_folder.CLASSIFIER, run_folder.RECIPE) == (artefact.OF_RUN, artefact.RUN_RECORD)


@pytest.mark.parametrize(
    ("prepare", "resume", "settings", "sentence"),
    [
        ("run", False, {}, "already holds a run"),
        ("run", True, {"lr": 0.02, "epochs": 3}, r"another recipe \(epochs 3 here, 2 there; lr 0.02 here, 0.05 there\)"),
        ("nothing", True, {}, "holds no run to resume"),
        ("file", False, {}, "expected a folder for the run, got a file"),
        ("strange", False, {}, "got one with files in it"),
        ("damaged", True, {}, "cannot read"),
        ("foreign", True, {}, "belongs to another training|expected the format"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused_and_left_alone(tmp_path, prepare, resume, settings, sentence):
    folder = tmp_path / "run"
    if prepare in ("run", "damaged", "foreign"):
        run(folder)
    if prepare == "damaged":
        (folder / "recipe.json").write_text("{")
    if prepare == "foreign":
        (folder / "checkpoint.safetensors").write_bytes((folder / "classifier" / "model.safetensors").read_bytes())
    if prepare == "file":
        folder.write_text("mine")
    if prepare == "strange":
        folder.mkdir()
        (folder / "thesis.tex").write_text("mine")
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    with pytest.raises(InputError, match=sentence):
        run(folder, resume=resume, **settings)
    assert before == {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}


PROGRAM = """
import sys, torch
torch.set_num_threads(1)
from tests.training.small import run, dataset
run(sys.argv[1], dataset(240), resume=sys.argv[2] == "resume", method="average-k", epochs=8, augmentation="shift-flip",
    ema=0.9, backbone="resnet-8", checkpoint_seconds=0.1)
print("ended", flush=True)
"""


@pytest.mark.slow
def test_kill_9_at_ten_random_moments_loses_nothing(tmp_path):
    """A real process, really killed, at moments drawn at random over its whole life, ten times."""

    def start(folder, how):
        return warm.Program(PROGRAM, folder, how)

    began = time.monotonic()
    assert "ended" in start(tmp_path / "whole", "new").communicate()[0]
    life = time.monotonic() - began
    chance = random.Random(0)
    killed = 0
    while killed < 10:
        resume = (tmp_path / "cut" / "recipe.json").exists()
        began = time.monotonic()
        with start(tmp_path / "cut", "resume" if resume else "new") as child:
            try:
                child.wait(chance.uniform(0.3 * life, life))
                # It ended before the knife fell: from the beginning, sooner next time; the kills so far still count.
                life = min(life, time.monotonic() - began)
                shutil.rmtree(tmp_path / "cut")
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                killed += 1
    resume = (tmp_path / "cut" / "recipe.json").exists()
    assert "ended" in start(tmp_path / "cut", "resume" if resume else "new").communicate()[0]
    assert (tmp_path / "whole" / "classifier" / "model.safetensors").read_bytes() == (
        tmp_path / "cut" / "classifier" / "model.safetensors"
    ).read_bytes()
    for name in ("val", "calibration", "test"):
        one, other = (Predictions.load(tmp_path / folder / f"{name}.safetensors") for folder in ("whole", "cut"))
        assert torch.equal(one.scores, other.scores)
        assert one.link.fingerprint() == other.link.fingerprint()


def copy_with_own_recipe(source, path):
    """A checkpoint in place of another whose recipe it claims as its own; the tensors tell."""
    save_checkpoint(path, dataclasses.replace(load_checkpoint(source), recipe=load_checkpoint(path).recipe))


@pytest.mark.parametrize("header", [{"recipe": "{}", "digest": None}, {"recipe": None, "digest": None}])
def test_a_checkpoint_that_does_not_say_its_recipe_is_refused(tmp_path, header):
    """It may be that of another training: one with another learning rate has the same tensors."""
    with pytest.raises(PowerCut):
        run(tmp_path / "run", callback=CutAfter(3))
    path = tmp_path / "run" / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        kept = {name: text for name, text in (file.metadata() | header).items() if text is not None}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, kept)
    with pytest.raises(InputError, match="does not say with which recipe"):
        run(tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_network_says_what_differs(tmp_path):
    run(tmp_path / "wide", backbone="plain-16")
    run(tmp_path / "narrow")
    copy_with_own_recipe(tmp_path / "wide" / "checkpoint.safetensors", tmp_path / "narrow" / "checkpoint.safetensors")
    with pytest.raises(InputError, match=r"belongs to another training: \S+ is 16\b.* and 8\b.* here; "):
        run(tmp_path / "narrow", resume=True)


def test_a_checkpoint_without_the_average_of_the_weights_says_so(tmp_path):
    run(tmp_path / "bare")
    run(tmp_path / "run", ema=0.9)
    copy_with_own_recipe(tmp_path / "bare" / "checkpoint.safetensors", tmp_path / "run" / "checkpoint.safetensors")
    with pytest.raises(InputError, match=r"another training: average\.\S+ is missing in the checkpoint"):
        run(tmp_path / "run", resume=True, ema=0.9)


def test_hidden_files_of_others_outlive_a_resume(tmp_path):
    names = (".env", ".test.env", ".recipe.json.swp", ".metrics.db")
    (tmp_path / "run" / ".report.notes").mkdir(parents=True)
    for name in names:
        (tmp_path / "run" / name).write_text("mine")
    with pytest.raises(PowerCut):
        run(tmp_path / "run", callback=CutAfter(3))
    run(tmp_path / "run", resume=True)
    assert [(tmp_path / "run" / name).read_text() for name in names] == ["mine"] * 4
    assert (tmp_path / "run" / ".report.notes").is_dir()


def test_the_last_classifier_outlives_a_resume_whose_checkpoint_cannot_be_read(tmp_path):
    """A process died between the two renames that put a new classifier in the place of the one before."""
    trained = run(tmp_path / "run")
    place, checkpoint = tmp_path / "run" / "classifier", tmp_path / "run" / "checkpoint.safetensors"
    place.rename(tmp_path / "run" / ".classifier.old.abc12345")
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[:-1])
    with pytest.raises(InputError, match="cannot read the checkpoint"):
        run(tmp_path / "run", resume=True)
    assert same(weights(trained), artefact.load(place).network.state_dict())
    checkpoint.write_bytes(content)
    place.rename(tmp_path / "run" / ".classifier.old.abc12345")
    assert same(weights(trained), weights(run(tmp_path / "run", resume=True)))
    assert place.is_dir()
    assert not list((tmp_path / "run").glob(".classifier.*"))


def test_a_model_card_that_was_edited_outlives_a_resume_that_changes_nothing(tmp_path):
    run(tmp_path / "run")
    card = tmp_path / "run" / "classifier" / "README.md"
    card.write_text("my notes")
    run(tmp_path / "run", resume=True)
    assert card.read_text() == "my notes"
    (card.parent / "classes.json").write_text("[]")
    with pytest.warns(ShortlistWarning, match=r"README.md had been edited: it is kept beside .* as README.old.md"):
        run(tmp_path / "run", resume=True)  # what is damaged is written again
    assert "my notes" not in card.read_text()
    assert card.with_name("README.old.md").read_text() == "my notes"
    assert RunFolder(tmp_path / "run").has_results


def test_an_edited_model_card_outlives_a_resume_under_another_version(tmp_path, monkeypatch, recwarn):
    """The versions are in the configuration, so that the classifier is written again."""
    run(tmp_path / "run")
    card = tmp_path / "run" / "classifier" / "README.md"
    written = card.read_text()
    monkeypatch.setattr(artefact, "version_of", lambda name: "98.0")
    run(tmp_path / "run", resume=True)
    assert not card.with_name("README.old.md").exists()  # as it was written
    for n, name in ((1, "README.old.md"), (2, "README.old.2.md")):
        card.write_text(f"{written}note {n}\n")
        monkeypatch.setattr(artefact, "version_of", lambda _, n=n: f"99.{n}")
        recwarn.clear()
        run(tmp_path / "run", resume=True)
        assert [str(one.message) for one in recwarn if "had been edited" in str(one.message)] == [
            f"{card} had been edited: it is kept beside the new model card, as {name}"
        ]
        assert card.with_name(name).read_text() == f"{written}note {n}\n"
    assert card.with_name("README.old.md").read_text() == f"{written}note 1\n"
    assert card.read_text() == written
    assert RunFolder(tmp_path / "run").has_results


def test_an_edited_card_of_a_classifier_without_digests_is_kept(tmp_path):
    run(tmp_path / "run")
    card = tmp_path / "run" / "classifier" / "README.md"
    config = json.loads((card.parent / "config.json").read_text())
    del config["digests"]
    (card.parent / "config.json").write_text(json.dumps(config))
    written = card.read_text()
    card.write_text(written + "note\n")
    with pytest.warns(ShortlistWarning, match="kept beside the new model card, as README.old.md"):
        run(tmp_path / "run", resume=True)
    assert (card.read_text(), card.with_name("README.old.md").read_text()) == (written, written + "note\n")


def test_the_state_of_an_optimiser_is_laid_out_as_its_weights(tmp_path):
    """One kernel for all weights, which GPUs use, demands it; a file does not know how tensors are laid out."""
    from shortlist.training.optimizers import optimizer_tensors, restore_optimizer

    weight = torch.nn.Parameter(torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9)
    weight.sum().backward()
    optimizer.step()
    tensors, plain = optimizer_tensors(optimizer)
    fresh = torch.optim.SGD([weight], 0.1, momentum=0.9)
    restore_optimizer(fresh, {name: tensor.contiguous() for name, tensor in tensors.items()}, plain)
    assert fresh.state[weight]["momentum_buffer"].stride() == weight.stride()
    assert torch.equal(fresh.state[weight]["momentum_buffer"], optimizer.state[weight]["momentum_buffer"])
