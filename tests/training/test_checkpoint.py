"""A checkpoint comes back as it was, or the one before it is still there."""

import errno
import json
import math
import os
import random
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from shortlist.errors import InputError
from shortlist.training import checkpoint
from shortlist.training.checkpoint import (
    Checkpoint,
    TrainingState,
    load_checkpoint,
    save_checkpoint,
    with_prefix,
    without_prefix,
)

MOMENT = TrainingState(
    step=17,
    history=[{"epoch": 1, "loss": 0.1 + 0.2, "metrics": {"top-1": 1 / 3}, "best": True}, {"epoch": 2, "loss": None}],
    best=1 / 3,
    best_epoch=1,
    stale=2,
    skipped=1,
    running={"loss": math.pi, "steps": 3.0},
    finished=False,
)
TENSORS = {
    "network.weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "network.steps": torch.tensor(9),
    "criterion.random": torch.Generator().get_state(),
    "best.half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "best.mask": torch.tensor([[True, False]]),
    "best.double": torch.tensor([math.pi], dtype=torch.float64),
    "best.none": torch.zeros(0, 3),
}
PLAIN = {"optimizer": {"groups": [{"lr": 0.1, "params": [0, 1], "fused": None}], "state": {}}}


def test_everything_comes_back_bit_for_bit(tmp_path):
    path = tmp_path / "deep" / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint(MOMENT, TENSORS, PLAIN))
    found = load_checkpoint(path)
    tensors = found.tensors
    assert (found.state, found.plain) == (MOMENT, PLAIN)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_first_moment_without_tensors_comes_back(tmp_path):
    save_checkpoint(tmp_path / "a", Checkpoint(TrainingState(), {}, {}))
    assert load_checkpoint(tmp_path / "a") == Checkpoint(TrainingState(), {}, {})


def test_numbers_that_are_none_come_back(tmp_path):
    save_checkpoint(tmp_path / "a", Checkpoint(TrainingState(history=[{"value": math.nan}, {"value": math.inf}]), {}, {}))
    first, second = load_checkpoint(tmp_path / "a").state.history
    assert math.isnan(first["value"])
    assert second["value"] == math.inf


def test_views_and_weights_with_a_gradient_are_written_as_they_look(tmp_path):
    whole = torch.arange(12.0).view(3, 4).requires_grad_()
    save_checkpoint(tmp_path / "a", Checkpoint(TrainingState(), {"across": whole.T, "column": whole[:, 1]}, {}))
    tensors = load_checkpoint(tmp_path / "a").tensors
    assert torch.equal(tensors["across"], whole.detach().T)
    assert tensors["column"].tolist() == [1.0, 5.0, 9.0]


def test_a_later_checkpoint_takes_the_place_of_an_earlier_one(tmp_path):
    for step in range(3):
        save_checkpoint(tmp_path / "a", Checkpoint(TrainingState(step=step), {"w": torch.full((2,), float(step))}, {}))
    found = load_checkpoint(tmp_path / "a")
    state, tensors = found.state, found.tensors
    assert (state.step, tensors["w"].tolist()) == (2, [2.0, 2.0])
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("written", [0, 40])
def test_a_full_disk_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch, written):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint(MOMENT, TENSORS, PLAIN))
    before = path.read_bytes()

    def full(tensors, filename, metadata=None):
        filename.write_bytes(b"x" * written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(InputError) as error:
        save_checkpoint(path, Checkpoint(TrainingState(step=99), TENSORS, PLAIN))
    assert f"cannot write the checkpoint {path}: " in str(error.value)
    assert "no space left on device; the previous one is kept" in str(error.value)
    assert path.read_bytes() == before
    assert load_checkpoint(path).state == MOMENT
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_disk_that_fails_late_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint(MOMENT, TENSORS, PLAIN))

    def failed(handle):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(checkpoint.os, "fsync", failed)
    with pytest.raises(InputError, match=r"cannot write the checkpoint .*Input/output error"):
        save_checkpoint(path, Checkpoint(TrainingState(step=99), {}, {}))
    assert load_checkpoint(path).state == MOMENT
    assert len(list(tmp_path.iterdir())) == 1


def test_a_killed_write_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint(MOMENT, TENSORS, PLAIN))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, Checkpoint(TrainingState(step=99), {}, {}))
    assert load_checkpoint(path).state == MOMENT


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the checkpoint"):
        save_checkpoint(tmp_path / "file" / "checkpoint.safetensors", Checkpoint(TrainingState(), {}, {}))


def header(**changes):
    return {"format": checkpoint.FORMAT, "state": json.dumps(vars(TrainingState())), "plain": "{}", "data": ""} | changes


FOREIGN = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("this is no checkpoint, and long enough for a header"),
    "no header": lambda path: save_file({"w": torch.zeros(2)}, path),
    "other format": lambda path: save_file({"w": torch.zeros(2)}, path, metadata=header(format="shortlist-checkpoint/2")),
    "no state": lambda path: save_file({}, path, metadata={"format": checkpoint.FORMAT}),
    "half a state": lambda path: save_file({}, path, metadata=header(state='{"step": 1')),
    "strange state": lambda path: save_file({}, path, metadata=header(state='{"stepp": 1}')),
    "list for a state": lambda path: save_file({}, path, metadata=header(state="[1]")),
    "half of plain": lambda path: save_file({}, path, metadata=header(plain="{")),
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_files_that_are_no_checkpoint_are_refused_in_one_sentence(tmp_path, kind):
    path = tmp_path / "checkpoint.safetensors"
    FOREIGN[kind](path)
    with pytest.raises(InputError) as error:
        load_checkpoint(path)
    assert str(error.value).startswith(f"cannot read the checkpoint {path}: ")
    assert "\n" not in str(error.value)


def test_another_format_is_named(tmp_path):
    FOREIGN["other format"](tmp_path / "a")
    with pytest.raises(InputError, match="expected the format shortlist-checkpoint/1, got shortlist-checkpoint/2"):
        load_checkpoint(tmp_path / "a")


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint(MOMENT, TENSORS, PLAIN))
    content = path.read_bytes()
    for length in [*range(0, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="cannot read the checkpoint"):
            load_checkpoint(path)


def test_weights_that_two_layers_share_can_be_kept(tmp_path):
    shared = torch.arange(4.0).view(2, 2)
    tensors = {"network.in": shared, "network.out": shared, "part": shared[1:], "turned": shared.T, "none": shared[:0]}
    save_checkpoint(tmp_path / "a", Checkpoint(TrainingState(), tensors, {}))
    found = load_checkpoint(tmp_path / "a").tensors
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_prefixes_are_put_before_and_taken_off():
    inner = {"weight": torch.zeros(1), "deep.weight": torch.ones(1)}
    both = with_prefix("network", inner) | with_prefix("net", {"x": torch.zeros(2)})
    assert set(both) == {"network.weight", "network.deep.weight", "net.x"}
    assert without_prefix("network", both).keys() == inner.keys()
    assert without_prefix("network", both)["deep.weight"] is inner["deep.weight"]
    assert set(without_prefix("net", both)) == {"x"}
    assert without_prefix("nothing", both) == {}
    assert set(without_prefix("best", with_prefix("best", with_prefix("best", inner)))) == {"best.weight", "best.deep.weight"}


def test_a_bit_that_changes_anywhere_is_noticed_or_harmless(tmp_path):
    """A training that went on from another weight would end with other weights, without a word."""
    path, draw = tmp_path / "a", random.Random(0)
    save_checkpoint(path, Checkpoint(MOMENT, TENSORS, PLAIN, data="digest", recipe={"name": "tiny"}))
    before, content = load_checkpoint(path), path.read_bytes()
    for _ in range(300):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        with suppress(InputError):
            found = load_checkpoint(path)
            assert replace(found, tensors={}) == replace(before, tensors={})
            assert found.tensors.keys() == before.tensors.keys()
            assert all(torch.equal(tensor, before.tensors[name]) for name, tensor in found.tensors.items())


def test_a_checkpoint_of_an_earlier_version_has_no_digest(tmp_path):
    save_checkpoint(tmp_path / "a", Checkpoint(MOMENT, TENSORS, PLAIN))
    with safe_open(tmp_path / "a", framework="pt") as file:
        header = {name: text for name, text in file.metadata().items() if name != "digest"}
    save_file(TENSORS, tmp_path / "b", metadata=header)
    assert load_checkpoint(tmp_path / "b").state == MOMENT
