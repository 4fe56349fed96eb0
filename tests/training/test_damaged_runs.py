"""Odd types, shapes and values in the files of a run are refused in a sentence, and left alone."""

import json
import math
import random
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from shortlist.errors import InputError
from shortlist.recipes.tuning import Trial, search_in, trials_in
from shortlist.training.history import checked_history
from shortlist.training.run_folder import RunFolder
from tests.training.small import dataset, run
from tests.training.test_resume import CutAfter, PowerCut

SETTINGS = {"ema": 0.9, "backbone": "resnet-8"}


@pytest.fixture(scope="module")
def cuts(tmp_path_factory):
    """Runs that were cut after their first epoch, by optimiser."""
    place = tmp_path_factory.mktemp("cuts")
    for optimizer in ("sgd", "adamw"):
        with pytest.raises(PowerCut):
            run(place / optimizer, callback=CutAfter(7), optimizer=optimizer, **SETTINGS)
    return place


def parts(path):
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return header, tensors


def refused(cuts, tmp_path, optimizer, change):
    """The message with which a checkpoint that was changed in this way is refused."""
    folder = shutil.copytree(cuts / optimizer, tmp_path / "run")
    header, tensors = parts(folder / "checkpoint.safetensors")
    state, plain = json.loads(header["state"]), json.loads(header["plain"])
    change(state, plain, tensors)
    header |= {"state": json.dumps(state), "plain": json.dumps(plain)}
    header.pop("digest", None)  # as of a version that wrote none
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "checkpoint.safetensors", header)
    with pytest.raises(InputError) as error:
        run(folder, resume=True, optimizer=optimizer, **SETTINGS)
    message = str(error.value)
    assert "\n" not in message
    assert "checkpoint.safetensors" in message
    return message


STATES = {
    "step": ["7", -1, 1.5, None, [], 10**30, True, 11],
    "history": [None, {}, "x", [3], [{"epoch": "one"}], [{"epoch": 1, "loss": "low"}], [], [{"epoch": 1}] * 2],
    "best": ["high", [], {}],
    "best_epoch": [0, "1", 1.5],
    "stale": [-1, None, "x"],
    "skipped": [-1, None, "x"],
    "running": [None, [], {"loss": "x"}, {"other": 1.0}, {"loss": None}],
    "finished": [None, "yes", 1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in STATES.items() for value in values])
def test_a_state_with_an_odd_value_is_refused(cuts, tmp_path, name, value):
    message = refused(cuts, tmp_path, "sgd", lambda state, plain, tensors: state.update({name: value}))
    assert name in message


@pytest.mark.parametrize("change", [lambda s: s.pop("step"), lambda s: s.update(more=1)])
def test_a_state_with_other_entries_is_refused(cuts, tmp_path, change):
    assert "state: expected step, history" in refused(cuts, tmp_path, "sgd", lambda state, *_: change(state))


@pytest.mark.parametrize(
    "value", [None, 3, {}, {"state": 3}, {"state": {"x": {}}}, {"state": {"0": 3}}, {"state": {"0": {"a": 1}}}]
)
def test_an_optimiser_with_odd_values_is_refused(cuts, tmp_path, value):
    assert "optimiser" in refused(cuts, tmp_path, "sgd", lambda state, plain, tensors: plain.update(optimizer=value))


def first(tensors, prefix):
    return next(name for name, tensor in tensors.items() if name.startswith(prefix) and tensor.is_floating_point())


PREFIXES = {"sgd": ["network.", "average.", "best.", "optimizer.0."], "adamw": ["optimizer.0.exp_avg", "optimizer.0.step"]}
BROKEN = {
    "shape": lambda tensor: torch.zeros(3, 2, 1),
    "dtype": lambda tensor: tensor.to(torch.int32),
    "nan": lambda tensor: torch.full_like(tensor, math.nan),
    "inf": lambda tensor: torch.full_like(tensor, math.inf),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize(("optimizer", "prefix"), [(name, prefix) for name in PREFIXES for prefix in PREFIXES[name]])
def test_a_tensor_of_another_shape_type_or_value_is_refused(cuts, tmp_path, optimizer, prefix, kind):
    def change(state, plain, tensors):
        name = first(tensors, prefix)
        tensors[name] = BROKEN[kind](tensors[name])

    assert prefix in refused(cuts, tmp_path, optimizer, change)


@pytest.mark.parametrize(("optimizer", "prefix"), [("sgd", "network."), ("sgd", "best."), ("adamw", "optimizer.0.exp_avg_sq")])
def test_a_missing_tensor_is_refused(cuts, tmp_path, optimizer, prefix):
    refused(cuts, tmp_path, optimizer, lambda state, plain, tensors: tensors.pop(first(tensors, prefix)))


@pytest.mark.parametrize("name", ["optimizer.9999.momentum_buffer", "optimizer.x.a", "optimizer.0.other", "best.more"])
def test_a_tensor_too_many_is_refused(cuts, tmp_path, name):
    refused(cuts, tmp_path, "sgd", lambda state, plain, tensors: tensors.update({name: torch.zeros(1)}))


def test_the_state_of_a_loss_with_another_shape_is_refused(tmp_path):
    data = dataset(multi=True)
    with pytest.raises(PowerCut):
        run(tmp_path / "run", data, callback=CutAfter(7), method="quasibinary")
    header, tensors = parts(tmp_path / "run" / "checkpoint.safetensors")
    name = next(name for name in tensors if name.startswith("criterion."))
    for value in (torch.zeros(7, 7), torch.zeros(0), torch.tensor(math.nan)):
        save_file(tensors | {name: value}, tmp_path / "run" / "checkpoint.safetensors", header)
        with pytest.raises(InputError, match="checkpoint"):
            run(tmp_path / "run", data, resume=True, method="quasibinary")


@pytest.mark.slow
def test_no_byte_changed_in_a_checkpoint_is_a_traceback(cuts, tmp_path):
    """Seeded; a changed weight that is still a number cannot be told from a trained one."""
    folder = shutil.copytree(cuts / "sgd", tmp_path / "run")
    content = (folder / "checkpoint.safetensors").read_bytes()
    chance = random.Random(0)
    size = int.from_bytes(content[:8], "little") + 8
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(size)] = chance.randrange(256)
        (folder / "checkpoint.safetensors").write_bytes(changed)
        try:
            run(folder, resume=True, **SETTINGS)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
        shutil.rmtree(folder)
        shutil.copytree(cuts / "sgd", folder)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "3",
        '{"recipe": []}',
        "[" * 100_000,
        '{"recipe": {"name": 3, "data": "x"}}',
        '{"network": 3}',
        "\x00",
        '{"a": 1e999}',
    ],
)
def test_an_odd_recipe_is_refused(cuts, tmp_path, text):
    folder = shutil.copytree(cuts / "sgd", tmp_path / "run")
    (folder / "recipe.json").write_text(text)
    with pytest.raises(InputError, match="recipe.json"):
        run(folder, resume=True, **SETTINGS)


@pytest.mark.parametrize("network", [3, [], "x"])
def test_an_odd_record_of_a_network_is_refused(cuts, tmp_path, network):
    folder = shutil.copytree(cuts / "sgd", tmp_path / "run")
    record = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps(record | {"network": network}))
    with pytest.raises(InputError, match=r"recipe.json: network: expected a record"):
        run(folder, resume=True, **SETTINGS)


@pytest.mark.parametrize(
    "line",
    ["3", "[]", '{"epoch": 0}', '{"epoch": "1"}', '{"loss": []}', '{"metrics": {"a": "b"}}', "[" * 100_000],
)
def test_an_odd_history_is_refused(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f"{line}\n")
    with pytest.raises(InputError, match="metrics.jsonl"):
        _ = RunFolder(tmp_path).history


def test_a_history_with_values_that_were_not_numbers_is_read():
    lines = [{"epoch": 1, "loss": None, "value": math.nan, "metrics": {"nll": None, "top-1": math.inf}, "mine": "kept"}]
    assert checked_history(lines) is lines


@pytest.mark.parametrize("text", ["3", '{"test.safetensors": 3}', "{", "[" * 100_000])
def test_odd_digests_of_results_are_refused(tmp_path, text):
    run(tmp_path / "run", epochs=1)
    (tmp_path / "run" / "results.json").write_text(text)
    with pytest.raises(InputError, match="results.json|not the file that this run wrote"):
        RunFolder(tmp_path / "run").predictions()


TRIAL = Trial("trial-000", {"lr": 0.1}, "top-1", 0.5, 1, 3.0).record()
ODD = {"folder": 3, "values": [], "monitor": 3, "value": "x", "epoch": 0, "seconds": -1, "failed": {}, "metrics": {"nll": "x"}}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_trial_is_refused(tmp_path, name):
    (tmp_path / "trials.jsonl").write_text(json.dumps(TRIAL | {name: ODD[name]}) + "\n")
    with pytest.raises(InputError, match=rf"trials.jsonl: {name}.*: expected"):
        trials_in(tmp_path)


@pytest.mark.parametrize("text", ["3", "[]", "[" * 100_000, '{"format": "shortlist-tuning/1", "grid": {}, "recipe": 3}'])
def test_an_odd_search_is_refused(tmp_path, text):
    (tmp_path / "tuning.json").write_text(text)
    with pytest.raises(InputError):
        search_in(tmp_path)
