"""``shortlist train``, ``tune`` and ``recipes``, and the commands that take the folder of a run."""

import json
import re
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from PIL import Image

import shortlist
from shortlist import Classifier, Predictions
from shortlist.recipes import all_recipes
from shortlist.training.run_folder import RunFolder
from tests import warm
from tests.recipes.searches import RECIPE, VALUES, FakeTraining

TINY = "flora:species=8,genera=2,train=120,val=60,test=40,size=8"
QUICK = ("--backbone", "plain-8", "--epochs", "2", "--set", "batch_size=16", "--no-tensorboard")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has ended."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    shortlist.train(TINY, folder=folder, device="cpu", k=2, backbone="plain-8", epochs=2, batch_size=16)
    return folder


@pytest.fixture
def here(finished, tmp_path):
    """The same run, in this test's folder."""
    return shutil.copytree(finished, tmp_path / "tiny")


def leaves(folder, classes=("ash", "elm", "oak"), rows=12, side=20):
    """A folder of class folders; a class is a colour."""
    generator = torch.Generator().manual_seed(0)
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for row in range(rows):
            pixels = torch.randint(0, 60, (side, side + row % 3, 3), generator=generator)
            pixels[..., number % 3] += 150
            Image.fromarray(pixels.to(torch.uint8).numpy()).save(folder / name / f"{row}.png")
    return folder


def test_pictures_in_folders_become_a_classifier_and_a_report(run, tmp_path):
    leaves(tmp_path / "leaves")
    outcome = run("train", "leaves", "-k", 2, *QUICK, "--set", "size=16")
    assert outcome.code == 0
    folder = tmp_path / "runs" / "leaves-average-k"
    names = {entry.name for entry in folder.iterdir()}
    assert {"classifier", "report.html", "recipe.json", "metrics.jsonl", "test.safetensors", "checkpoint.safetensors"} <= names
    classifier = Classifier.load(folder / "classifier")
    assert classifier.classes == ("ash", "elm", "oak")
    assert classifier.rule.text == "average-k:2"
    assert "Training" in (folder / "report.html").read_text()
    assert "epoch 2" in outcome.err
    assert "set aside from the training rows" in outcome.err
    answer = run("predict", folder, "leaves/oak", "--json")
    assert len(answer.out.splitlines()) == 12


def test_splits_that_are_not_used_are_told(run, tmp_path):
    parts = [*["train"] * 8, "dev", "final"]
    rows = [f"{row % 3}.{row},{row},{'oak' if row % 2 else 'elm'},{parts[row // 2 % 10]}" for row in range(200)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,y,label,split", *rows]) + "\n")
    outcome = run("train", "rows.csv", "-k", 1, "--set", "epochs=1", "--device", "cpu", "--no-tensorboard", "--out", "one")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("split not used 1 (final: 20 rows") == 1
    assert "set aside from the training rows: 16 for test" in outcome.err
    assert any("final: 20 rows" in remark for remark in shortlist.Run(tmp_path / "one").remarks)


def test_problems_that_the_reader_found_are_told(run, tmp_path):
    rows = [f"{row % 3}.{row},{row},{'' if row < 20 else 'oak' if row % 2 else 'elm'}" for row in range(120)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,y,label", *rows]) + "\n")
    common = ("rows.csv", "-k", 1, "--set", "epochs=1", "--device", "cpu")
    outcome = run("train", *common, "--no-tensorboard", "--out", "one")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("20 problems: row without a label 20") == 1
    assert "20 problems: row without a label 20" in (tmp_path / "one" / "report.html").read_text()
    assert any("20 problems" in remark for remark in shortlist.Run(tmp_path / "one").remarks)
    searched = run("tune", *common, "--grid", "lr=0.1,0.2", "--out", "search")
    assert searched.code == 0, searched.err
    assert searched.err.count("20 problems: row without a label 20") == 1


def test_a_few_broken_pictures_are_left_out_and_many_are_not(run, tmp_path):
    leaves(tmp_path / "leaves")
    (tmp_path / "leaves" / "oak" / "0.png").write_bytes(b"no picture")
    outcome = run("train", "leaves", "-k", 2, *QUICK, "--set", "size=16", "--out", "few")
    assert outcome.code == 0
    assert "oak/0.png: " in outcome.err
    for number in range(1, 4):
        (tmp_path / "leaves" / "oak" / f"{number}.png").write_bytes(b"no picture")
    refused = run("train", "leaves", "-k", 2, *QUICK, "--set", "size=16", "--out", "many")
    assert refused.code == 1
    assert "4 of 36 pictures could not be used" in refused.err
    assert "shortlist data info leaves --check" in refused.err
    assert "tolerance=0.12" in refused.err
    assert run("train", "leaves", "-k", 2, *QUICK, "--set", "size=16", "--set", "tolerance=0.12", "--out", "many").code == 0


def test_where_the_optimum_is_known_the_distance_is_told(run, tmp_path):
    outcome = run("train", TINY, "-k", 2, *QUICK, "--out", "mine")
    assert outcome.code == 0
    assert "the best possible classifier covers" in outcome.err
    assert json.loads((tmp_path / "mine" / "optimum.json").read_text())["rows"] == 40
    assert "points away" in outcome.err


def test_a_run_that_was_cut_short_goes_on(run, tmp_path, monkeypatch):
    from shortlist.training.loop import Loop

    assert run("train", TINY, "-k", 2, *QUICK, "--out", "whole").code == 0
    step = Loop._step

    def cut(self, number, *others):
        if number == 9:
            raise OSError(28, "No space left on device")
        step(self, number, *others)

    save = Loop.save
    with monkeypatch.context() as patch:
        patch.setattr(
            Loop, "_step", lambda self, number, *others: (save(self) if number == 8 else None, cut(self, number, *others))
        )
        assert run("train", TINY, "-k", 2, *QUICK, "--out", "cut").code == 1
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists()
    refused = run("train", TINY, "-k", 2, *QUICK, "--out", "cut")
    assert refused.code == 1
    assert "already holds a run" in refused.err
    assert run("train", "--out", "cut", "--resume", "--no-tensorboard").code == 0
    one, other = ((tmp_path / name / "classifier" / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert one == other


@pytest.fixture
def presses(monkeypatch):
    """Ctrl-C after so many steps, so many times."""
    from shortlist.training.loop import Loop

    whole = Loop._step

    def at(step, times=1):
        def pressed(self, number, *others):
            whole(self, number, *others)
            for _ in range(times if number + 1 == step else 0):
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Loop, "_step", pressed)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield at
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_keeps_the_step_and_says_how_to_go_on(run, tmp_path, presses):
    assert run("train", TINY, "-k", 2, *QUICK, "--out", "whole").code == 0
    presses(9)
    outcome = run("train", TINY, "-k", 2, *QUICK, "--out", "a cut")
    assert (outcome.code, outcome.out) == (130, "")
    last = outcome.err.splitlines()[-1]
    assert last.startswith("stopped after step 9 of 14, epoch 2 of 2; ")
    assert last.endswith("shortlist train --resume --out 'a cut'")
    again = run("train", "--resume", "--out", "a cut", "--no-tensorboard")
    assert again.code == 0
    assert "resuming after step 9 of 14" in again.err
    one, other = ((tmp_path / name / "classifier" / "model.safetensors").read_bytes() for name in ("whole", "a cut"))
    assert one == other


def test_sigterm_keeps_the_step_and_says_how_to_go_on(tmp_path):
    """A real process, which a real signal reaches."""
    program = "import runpy; runpy.run_module('shortlist', run_name='__main__')"
    arguments = ["train", TINY, "-k", 2, "--out", "a cut", "--no-tensorboard", *QUICK, "--epochs", 10_000]
    lines = []
    with warm.Program(program, *arguments, folder=tmp_path) as child:
        for line in child.stderr:
            lines.append(line)
            if line.startswith("epoch"):
                child.send_signal(signal.SIGTERM)
                break
        lines += child.stderr.read().splitlines(keepends=True)
    assert child.returncode == 143, lines
    assert re.fullmatch(r"stopped after step \d+ of .*; the checkpoint was saved: .*--resume --out 'a cut'\n", lines[-1])
    assert (tmp_path / "a cut" / "checkpoint.safetensors").exists()


def test_sigterm_in_a_search_says_how_to_go_on(run, monkeypatch):
    import shortlist.training.run as module

    monkeypatch.setattr(module, "load_data", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        outcome = run("tune", TINY, "-k", 2, "--set", "backbone=plain-8", "--grid", "alpha=0.1,1", "--out", "cut")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert outcome.code == 143
    assert outcome.err.splitlines()[-1].endswith("continue with shortlist tune --resume --out cut")


def test_a_run_that_had_finished_says_so(run):
    assert run("train", TINY, "-k", 2, *QUICK, "--out", "done").code == 0
    again = run("train", "--resume", "--out", "done", "--no-tensorboard")
    assert again.code == 0
    assert "training had already finished" in again.err


def test_resume_auto_begins_goes_on_and_ends(run, tmp_path, presses):
    arguments = ("train", TINY, "-k", 2, *QUICK, "--resume", "auto", "--out")
    assert run(*arguments, "whole").code == 0
    presses(9)
    assert run(*arguments, "cut").code == 130
    presses(9, times=0)
    again = run(*arguments, "cut")
    assert again.code == 0
    assert "resuming after step 9 of 14" in again.err
    files = {path: path.read_bytes() for path in (tmp_path / "cut").rglob("*") if path.is_file()}
    assert (
        files[tmp_path / "cut/classifier/model.safetensors"] == (tmp_path / "whole/classifier/model.safetensors").read_bytes()
    )
    ended = run("train", "--resume", "auto", "--out", "cut", "--no-tensorboard")
    assert ended.code == 0
    assert "training had already finished: nothing is left to do" in ended.err
    assert ended.out == again.out
    assert {path: path.read_bytes() for path in (tmp_path / "cut").rglob("*") if path.is_file()} == files


def test_resume_takes_no_other_word_for_its_own(run, fails):
    assert "whole holds no run to resume" in fails("train", "--resume", TINY, "-k", 2, *QUICK, "--out", "whole")


def test_messages_about_runs_name_the_option(run, fails):
    assert run("train", TINY, "-k", 2, *QUICK, "--out", "done run").code == 0
    message = fails("train", TINY, "-k", 2, *QUICK, "--out", "done run")
    assert "continue it with shortlist train --resume --out 'done run'" in message
    assert "resume=True" not in message


def test_ctrl_c_twice_leaves_at_once_and_a_run_without_a_checkpoint_begins_again(run, presses):
    presses(2, times=2)
    outcome = run("train", TINY, "-k", 2, *QUICK, "--out", "cut")
    assert outcome.code == 130
    assert "stopped before the first checkpoint: shortlist train --resume --out cut" in outcome.err
    presses(2, times=0)
    assert "no checkpoint yet" in run("train", "--resume", "--out", "cut", "--no-tensorboard").err


def test_ctrl_c_before_training_began_says_so(run, tmp_path, monkeypatch):
    import shortlist.training.run as module

    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "split_for_training", pressed)
    outcome = run("train", TINY, "-k", 2, *QUICK, "--out", "cut")
    assert (outcome.code, outcome.err) == (130, "stopped before training began\n")
    assert not (tmp_path / "cut").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "expected data to train on, or --recipe NAME"),
        (("--recipe", "flora-minuts"), "did you mean 'flora-minutes'?"),
        (("--recipe", "cifar100-top5"), "data: expected the path of the data of recipe cifar100-top5"),
        (("nowhere", "--recipe", "flora-seconds"), "expected no path"),
        (("nowhere",), "there is no such folder or file"),
        ((TINY, "--method", "averge-k"), "did you mean 'average-k'?"),
        ((TINY, "--set", "lrr=0.1"), "did you mean 'lr'?"),
        ((TINY, "--set", "lr"), "--set: expected NAME=VALUE"),
        ((TINY, "--set", "lr=fast"), "lr: expected a number"),
        ((TINY, "-k", "9"), "k: expected a number from 1 to 7"),
        ((TINY, "--method", "spa"), "method spa is for any number of labels"),
        ((TINY + ",kind=quadrats", "--method", "average-k"), "method average-k is for exactly one label"),
        ((TINY, "--rule", "lac:2"), "alpha"),
        ((TINY, "--backbone", "resnet-19"), "resnet"),
        ((TINY, "--device", "gpu"), "device: "),
        ((TINY, "--resume"), "holds no run to resume"),
        (("--resume",), "--resume: expected --out"),
        (("--resume", "auto"), "--resume: expected --out"),
        ((TINY, "--resume=always"), "--resume: expected nothing after it, or auto, got 'always'"),
        ((TINY, "--resume", "atuo"), "--resume: expected nothing after it, or auto, got 'atuo'"),
        (("--resume", "auto", "--out", "none"), "none holds no run to continue: to begin one, data or a recipe are needed"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_and_nothing_is_written(run, tmp_path, arguments, sentence):
    outcome = run("train", *arguments)
    assert outcome.code == 1
    (last,) = outcome.err.splitlines()  # no heading of a run that never began
    assert last.startswith("error: ")
    assert sentence in last
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("classes", "rows", "sentence"),
    [
        (("ash",), 5, "expected at least two classes"),
        (("ash", "elm"), 0, "got 2 folders without a picture"),
        (("ash",), 0, "got 1 folder without"),
        ((), 0, "no folder below it"),
    ],
)
def test_a_folder_that_cannot_be_trained_on_is_refused(run, tmp_path, classes, rows, sentence):
    (tmp_path / "leaves").mkdir()
    leaves(tmp_path / "leaves", classes, rows)
    outcome = run("train", "leaves", *QUICK)
    assert outcome.code == 1
    assert sentence in outcome.err
    assert not (tmp_path / "runs").exists()


def test_recipes_are_listed_and_shown(run):
    listed = run("recipes").out
    assert all(recipe.name in listed for recipe in all_recipes())
    shown = run("recipes", "cifar100-average5")
    assert "densenet-40-40" in shown.out
    assert "Garcin 2023, Table 1" in shown.out
    assert "97.35 ± 0.06" in shown.out
    assert "alpha 0.1, 0.3" in shown.out
    record = json.loads(run("recipes", "cifar100-average5", "--json").out)
    assert {number["method"]: number["value"] for number in record["published"]}["average-k"] == 97.35
    assert "published" not in run("recipes", "flora-minutes").out
    assert len(json.loads(run("recipes", "--json").out)) == len(all_recipes())


def test_tuning_records_every_trial_and_goes_on(run, tmp_path):
    arguments = ("tune", TINY, "-k", 2, "--grid", "alpha=0.1,1", "--backbone", "plain-8", "--epochs", 1, "--seed", 3)
    outcome = run(*arguments, "--out", "search")
    assert outcome.code == 0
    assert "best on validation: alpha" in outcome.err
    said = outcome.err.splitlines()
    assert len(set(said)) == len(said)  # what is odd about the data, once and not for every trial
    assert "have no training row" in outcome.err
    assert len((tmp_path / "search" / "trials.jsonl").read_text().splitlines()) == 2
    again = run(*arguments, "--out", "search", "--resume", "--json")
    assert len(json.loads(again.out)) == 2
    assert run(*arguments, "--out", "search").code == 1
    alone = run("tune", "--out", "search", "--resume", "--json")
    assert alone.out == again.out


def test_a_rule_that_was_typed_does_not_follow_a_grid_of_k(run, tmp_path):
    common = ("tune", TINY, "--rule", "average-k:2", "--backbone", "plain-8", "--epochs", 1, "--set", "monitor=top-1")
    outcome = run(*common, "-k", 2, "--grid", "k=1,2", "--out", "search")
    assert outcome.code == 0, outcome.err
    assert [RunFolder(tmp_path / "search" / f"trial-00{number}").recipe.rule for number in (0, 1)] == ["average-k:2"] * 2
    again = run("tune", "--resume", "--out", "search", "--json")
    assert [trial["values"] for trial in json.loads(again.out)] == [{"rule": "average-k:2", "k": k} for k in (1, 2)]


def test_a_search_stopped_by_ctrl_c_goes_on_with_its_folder_alone(run, tmp_path, presses):
    arguments = ("tune", TINY, "-k", 2, "--grid", "alpha=0.1,1", "--set", "backbone=plain-8", "--set", "epochs=1")
    whole = json.loads(run(*arguments, "--out", "whole", "--json").out)
    presses(1)
    outcome = run(*arguments, "--out", "cut")
    assert outcome.code == 130
    last = outcome.err.splitlines()[-1]
    assert last == "stopped after 0 of 2 trials: continue with shortlist tune --resume --out cut"
    presses(1, times=0)
    again = run("tune", "--resume", "--out", "cut", "--json")
    assert again.code == 0
    values = [[(trial["values"], trial["value"]) for trial in trials] for trials in (whole, json.loads(again.out))]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--resume",), "--resume: expected --out"),
        (("--resume", "--out", "nowhere"), "nowhere holds no search to resume"),
        (("--resume", "--out", "search", "--grid", "alpha=0.1,2"), "holds a search over another grid"),
        (("--resume", "--out", "search", "--set", "epochs=2"), r"another recipe (epochs 2 here, 1 there)"),
        (("--resume", "--out", "damaged"), "cannot read damaged/tuning.json"),
    ],
)
def test_a_search_that_cannot_be_gone_on_with_is_refused(run, tmp_path, arguments, sentence):
    from shortlist.recipes import tune

    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "tuning.json").write_text("{")
    tune(RECIPE, tmp_path / "search", grid={"alpha": (0.5, 1.0)}, train=FakeTraining(VALUES))
    outcome = run("tune", *arguments)
    assert outcome.code == 1
    assert sentence in outcome.err.splitlines()[-1]


def test_a_run_is_evaluated_by_its_own_rule_on_its_own_rows(run, here):
    numbers = json.loads(run("evaluate", here, "--json").out)[0]
    assert numbers["rule"] == "average-k:2"
    assert numbers["rows"] == 40
    assert numbers["name"] == "tiny"


def test_a_run_brings_rows_for_another_rule(run, here):
    both = json.loads(run("evaluate", here, "--rule", "lac:0.2", "--rule", "top-k:3", "--json").out)
    assert [one["rule"] for one in both] == ["lac:0.2", "top-k:3"]
    assert both[1]["size"] == 3


def test_a_file_of_scores_still_needs_a_rule(fails, here):
    assert "--rule: expected a rule" in fails("evaluate", here / "test.safetensors")


def test_the_report_of_a_run_has_its_curves_and_its_optimum(run, here, tmp_path):
    assert run("report", here, "--out", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Training" in page
    assert "best" in page.lower()


def test_the_report_of_a_run_is_written_again_where_it_was(run, here, tmp_path):
    trained = (here / "report.html").read_text()
    (here / "report.html").unlink()
    outcome = run("report", here)
    assert outcome.code == 0
    assert f"→ {here}/report.html" in outcome.err
    assert not (tmp_path / "report.html").exists()
    assert (here / "report.html").read_text() == trained  # title, remarks, curves and all


@pytest.mark.parametrize(
    "more",
    [
        ("--rule", "lac:0.2"),
        ("--split", "0.5"),
        ("--rule", "average-k:2", "--same-rows"),
        ("--calibration-bins", "10"),
        ("--top-n", "2"),
    ],
)
def test_a_report_of_something_else_leaves_the_run_s_own_alone(run, here, tmp_path, more):
    before = (here / "report.html").read_bytes()
    assert run("report", here, *more).code == 0
    assert (here / "report.html").read_bytes() == before
    assert (tmp_path / "report.html").exists()


def test_two_runs_are_compared(run, here, tmp_path):
    shutil.copytree(here, tmp_path / "other")
    assert run("report", here, "other", "--out", "page.html").code == 0
    table = run("evaluate", here, "other").out
    assert "tiny" in table
    assert "other" in table


def test_the_folder_of_a_classifier_is_no_file_of_scores(fails, here):
    sentence = fails("evaluate", here / "classifier", "--rule", "top-k:2")
    assert "classifier: expected a file of scores, got a folder" in sentence


def test_sets_of_a_run(run, here):
    assert len(run("sets", here, "--json").out.splitlines()) == 40


def test_a_run_that_has_not_ended_says_so(fails, here):
    (here / "test.safetensors").unlink()
    assert "the run has not finished (test.safetensors is missing)" in fails("evaluate", here)


def test_a_classifier_gets_another_rule_and_another_link(run, here, tmp_path):
    outcome = run("calibrate", here, "--out", "new", "--rule", "lac:0.2", "--method", "platt")
    assert outcome.code == 0
    classifier = Classifier.load(tmp_path / "new")
    assert classifier.rule.text == "lac:0.2"
    assert classifier.link.kind == "platt"
    old = Classifier.load(here / "classifier")
    assert torch.equal(old.network.state_dict()["head.labels.weight"], classifier.network.state_dict()["head.labels.weight"])


def test_a_rule_of_superclasses_or_of_the_prior_without_rows_to_fit_on(run, fails, here, tmp_path):
    """Superclasses and prior are those of the classifier, which was said to have none."""
    shutil.copytree(here / "classifier", tmp_path / "alone")
    sentence = fails("calibrate", "alone", "--rule", "sure-node:0.1", "--out", "new")
    assert sentence.startswith("--on: expected labelled scores")
    assert run("calibrate", "alone", "--rule", "top-k:2", "--out", "new").code == 0


def test_a_run_with_one_label_per_row_is_not_calibrated_on_several(fails, here, tmp_path):
    rows = Predictions.load(here / "val.safetensors")
    several = torch.nn.functional.one_hot(rows.target, rows.num_classes).bool()
    replace(rows, target=several).save("several.safetensors")
    sentence = fails("calibrate", here, "--on", "several.safetensors", "--rule", "lac:0.2", "--out", "new")
    assert "several.safetensors has any number of labels per row and" in sentence


def test_scores_with_another_link_are_not_calibrated_on(run, fails, here):
    rows = Predictions.load(here / "val.safetensors")
    rows.with_link("sigmoid").save("other.safetensors")
    message = fails("calibrate", here, "--on", "other.safetensors", "--out", "new", "--rule", "lac:0.2")
    assert "other.safetensors has the link" in message
    rows.with_link(None).save("bare.safetensors")
    for same in ("bare.safetensors", here / "val.safetensors"):
        outcome = run("calibrate", here, "--on", same, "--out", f"new-{len(str(same))}", "--rule", "lac:0.2")
        assert outcome.code == 0, outcome.err


def test_scores_of_another_network_are_not_calibrated_on(run, fails, here, tmp_path):
    other = Classifier.load(here / "classifier")
    with torch.no_grad():
        other.network.state_dict()["head.labels.weight"][0, 0] += 0.01
    other.save("other")
    assert run("predict", "other", TINY, "--out", "theirs.safetensors").code == 0
    for folder in (here, here / "classifier"):
        message = fails("calibrate", folder, "--on", "theirs.safetensors", "--out", "new", "--rule", "lac:0.2")
        assert "theirs.safetensors holds scores of another network" in message
    assert run("predict", here, TINY, "--out", "ours.safetensors").code == 0
    message = fails("sets", "ours.safetensors", "--rule", "lac:0.2", "--calibration", "theirs.safetensors")
    assert "theirs.safetensors holds scores of another network" in message
    unknown = replace(Predictions.load("theirs.safetensors"), network_digest=None)  # as files of other programs are
    unknown.save("unknown.safetensors")
    assert run("calibrate", here, "--on", "unknown.safetensors", "--out", "new", "--rule", "lac:0.2").code == 0


def test_predictions_of_a_run_name_its_network(here):
    digest = Classifier.load(here / "classifier").network.digest()
    assert {Predictions.load(here / f"{split}.safetensors").network_digest for split in ("val", "test")} == {digest}


def test_calibrating_on_training_rows_is_warned_of(run, here, tmp_path):
    assert run("predict", here, TINY, "--split", "train", "--out", "seen.safetensors").code == 0
    outcome = run("calibrate", here, "--on", "seen.safetensors", "--out", "new", "--rule", "lac:0.2")
    assert "120 of the 120 rows in seen.safetensors were training rows" in " ".join(outcome.err.split())
    assert run("predict", here, TINY, "--out", "other.safetensors").code == 0
    outcome = run("calibrate", here, "--on", "other.safetensors", "--out", "newer", "--rule", "lac:0.2")
    assert "training rows" not in outcome.err


def test_a_classifier_is_calibrated_on_scores_of_its_own(run, here, tmp_path):
    assert run("predict", here, TINY, "--out", "scores.safetensors").code == 0
    assert Predictions.load(tmp_path / "scores.safetensors").target is not None
    assert (
        run("calibrate", here / "classifier", "--on", "scores.safetensors", "--out", "new", "--method", "temperature").code == 0
    )
    assert Classifier.load(tmp_path / "new").rule.calibrated.rows == 20
    assert run("calibrate", "new", "--out", "newer", "--rule", "top-k:2").code == 0
    assert Classifier.load(tmp_path / "newer").rule.text == "top-k:2"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--out", "new", "--method", "plat"), "did you mean 'platt'?"),
        (("--out", "tiny/classifier", "--rule", "lac:0.1"), "part of the run"),
    ],
)
def test_calibrating_a_classifier_wrongly(run, here, arguments, sentence):
    outcome = run("calibrate", here, *arguments)
    assert outcome.code == 1
    assert sentence in outcome.err


def test_a_rule_that_needs_no_fit_is_not_said_to_be_fitted(run, here):
    outcome = run("calibrate", here, "--out", "new", "--rule", "top-k:2")
    assert "rule top-k:2, which needs no fit: Every set holds exactly 2 labels" in outcome.err
    assert "fitted on" not in outcome.err
    assert "rule lac:0.2, fitted on 30 rows: " in run("calibrate", here, "--out", "newer", "--rule", "lac:0.2").err


def test_calibrating_a_classifier_without_rows(fails, here):
    assert "--on: expected labelled scores of this classifier" in fails("calibrate", here / "classifier", "--out", "new")


def test_the_demo_of_scores_needs_no_training(run, tmp_path):
    pytest.importorskip("sklearn")
    assert run("demo", "--scores", "--out", "demo").code == 0
    assert (tmp_path / "demo" / "report.html").exists()


def test_the_demo_trains_reports_and_can_be_asked_again(run, tmp_path, monkeypatch):
    import shortlist.recipes as recipes

    small = recipes.find_recipe("flora-minutes").with_settings(
        data=TINY, backbone="plain-8", rule="average-k:2", batch_size=16, epochs=2
    )
    monkeypatch.setattr(recipes, "find_recipe", lambda name: small.with_settings(epoch_rows=48))
    for _ in range(2):
        outcome = run("demo", "--out", "demo")
        assert outcome.code == 0
        assert "points away" in outcome.err
    assert (tmp_path / "demo" / "report.html").exists()


@pytest.mark.parametrize("option", [["--link", "sigmoid"], ["--scores-key", "x"], ["--target-key", "y"], ["--same-rows"]])
def test_options_of_files_are_refused_for_classifiers(fails, here, option):
    assert f"{option[0]} applies only to score files" in fails("calibrate", here, "--out", "new", "--rule", "lac:0.2", *option)


def test_the_name_of_a_recipe_is_no_data(fails):
    assert "recipe='flora-seconds'" in fails("train", "flora-seconds")


@pytest.mark.parametrize("command", [["train"], ["tune", "--grid", "lr=0.1"]])
def test_a_folder_is_walked_once(command, run, tmp_path, monkeypatch):
    from shortlist.data.readers.class_folders import FolderWalk

    walked, classes = [], FolderWalk.classes
    monkeypatch.setattr(FolderWalk, "classes", lambda walk, folder: walked.append(folder) or classes(walk, folder))
    leaves(tmp_path / "leaves")
    assert run(*command, "leaves", "-k", 2, "--set", "size=16", "--set", "epochs=1", "--set", "backbone=plain-8").code == 0
    assert len(walked) == 1


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ("sets", "RUN", "--rule", "average-k:2", "--save-rule", "RUN/calibration.safetensors"),
        ("sets", "RUN", "--save-rule", "RUN/checkpoint.safetensors"),
        ("sets", "RUN", "--save-rule", "RUN/classifier/rule.safetensors"),
        ("sets", "RUN", "--save-rule", "RUN/classifier/new.safetensors"),
        ("sets", "RUN", "--out", "RUN/metrics.jsonl"),
        ("sets", "RUN/val.safetensors", "--rule", "top-k:2", "--out", "RUN/metrics.jsonl"),
        ("predict", "RUN", TINY, "--out", "RUN/test.safetensors"),
        ("calibrate", "RUN/test.safetensors", "--on", "RUN/val.safetensors", "--out", "RUN/calibration.safetensors"),
        ("calibrate", "RUN", "--rule", "lac:0.2", "--out", "RUN/classifier"),
        ("demo", "--scores", "--out", "RUN"),
        ("report", "RUN", "--out", "RUN/classifier/report.html"),
        ("data", "sheet", TINY, "--out", "RUN/classifier/sheet.png"),
        ("data", "build", TINY, "RUN/classifier/benchmark"),
        ("index", "build", "RUN", "RUN/classifier/index"),
        ("search", "ash", "index", "--html", "RUN/metrics.jsonl"),
        ("export", "RUN", "--out", "RUN/classifier/model.onnx"),
    ],
)
def test_no_command_writes_over_a_file_of_a_run(command, link, fails, here, tmp_path):
    before = files_in(here)
    (tmp_path / "alias").symlink_to(here)
    message = fails(*(text.replace("RUN", "alias" if link else "tiny") for text in command))
    assert "part of the run" in message
    assert files_in(here) == before


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ("sets", "tiny", "--rule", "average-k:2", "--save-rule", "OTHER/model.safetensors"),
        ("predict", "tiny", TINY, "--out", "OTHER/model.safetensors"),
        ("calibrate", "tiny/test.safetensors", "--on", "tiny/val.safetensors", "--out", "OTHER/model.safetensors"),
        ("search", "ash", "index", "--html", "OTHER/config.json"),
    ],
)
def test_no_command_writes_over_a_file_of_a_classifier(command, link, fails, here, tmp_path):
    alone = shutil.copytree(here / "classifier", tmp_path / "alone")
    (tmp_path / "alias").symlink_to(alone)
    before = files_in(alone)
    message = fails(*(text.replace("OTHER", "alias" if link else "alone") for text in command))
    assert "is part of the classifier in" in message
    assert files_in(alone) == before


def test_a_link_to_a_file_of_a_run_is_that_file(fails, here, tmp_path):
    before = files_in(here)
    (tmp_path / "history.jsonl").symlink_to(here / "metrics.jsonl")
    assert "part of the run" in fails("sets", here, "--out", "history.jsonl")
    assert files_in(here) == before


def test_new_files_and_the_report_may_be_written_into_the_folder_of_a_run(run, here):
    before = files_in(here)
    assert run("sets", here, "--out", here / "sets.jsonl", "--save-rule", here / "rule.safetensors").code == 0
    assert run("predict", here, TINY, "--out", here / "new.safetensors").code == 0
    assert run("calibrate", here, "--out", here / "careful", "--rule", "lac:0.2").code == 0
    assert run("report", here, "--out", here / "report.html").code == 0
    after = files_in(here)
    assert all(after[path] == held for path, held in before.items() if path.name != "report.html")


def test_a_classifier_is_calibrated_into_a_new_or_empty_folder(run, fails, here, tmp_path):
    (tmp_path / "new").mkdir()
    assert run("calibrate", here, "--out", "new", "--rule", "lac:0.2").code == 0
    before = files_in(tmp_path / "new")
    assert "new or empty folder" in fails("calibrate", here, "--out", "new", "--rule", "lac:0.1")
    assert "new or empty folder" in fails("calibrate", "new", "--out", "new", "--rule", "top-k:1")
    assert files_in(tmp_path / "new") == before


def test_runs_of_one_name_are_told_apart_in_a_report(run, tmp_path):
    for folder, epochs in (("one", 1), ("two", 3)):
        (tmp_path / folder).mkdir()
        assert run("train", TINY, "-k", 2, *QUICK, "--epochs", epochs, "--out", f"{folder}/leaves").code == 0
    assert run("report", "one/leaves", "two/leaves", "--out", "both.html").code == 0
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    training = page[page.index('id="training"') :] if 'id="training"' in page else page[page.index("Training") :]
    assert "one/leaves" in training
    assert "two/leaves" in training
