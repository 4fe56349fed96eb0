"""Buffers that appear with the fit, and files that appear whole."""

import os
import stat

import pytest
import torch
from torch import nn

from shortlist.errors import InputError, NotFittedError
from shortlist.files import write_text, written_whole
from shortlist.fitting import Fitted


class Mean(Fitted):
    """The mean of each column, once it was fitted."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", None)

    def fit(self, values):
        self.mean = values.mean(0)
        return self

    def __repr__(self):
        return "mean"


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Mean()
        self.weight = nn.Parameter(torch.zeros(1))


def test_buffer_before_the_fit_says_what_to_call():
    with pytest.raises(NotFittedError, match=r"^mean has not been fitted: call fit\(…\) first$"):
        Mean().fitted_buffer("mean")
    with pytest.raises(NotFittedError, match="call update"):
        Mean().fitted_buffer("mean", "update")


def test_buffer_after_the_fit_is_the_buffer():
    assert Mean().fit(torch.ones(3, 2)).fitted_buffer("mean").tolist() == [1, 1]


def test_state_is_empty_before_the_fit_and_complete_after():
    assert Mean().state_dict() == {}
    assert list(Mean().fit(torch.ones(3, 2)).state_dict()) == ["mean"]


@pytest.mark.parametrize("before", [None, torch.zeros(4, 5), torch.zeros(1, 2)])
def test_state_comes_back_whatever_shape_was_there(before):
    state = Mean().fit(torch.arange(6.0).double().reshape(3, 2)).state_dict()
    module = Mean() if before is None else Mean().fit(before)
    module.load_state_dict(state)
    assert torch.equal(module.mean, state["mean"])
    assert module.mean.dtype == torch.float64


def test_loaded_state_is_a_copy():
    state = Mean().fit(torch.ones(3, 2)).state_dict()
    module = Mean()
    module.load_state_dict(state)
    state["mean"].zero_()
    assert module.mean.tolist() == [1, 1]


def test_state_comes_back_inside_another_module():
    outer, other = Outer(), Outer()
    outer.inner.fit(torch.ones(3, 2))
    other.load_state_dict(outer.state_dict())
    assert other.inner.mean.tolist() == [1, 1]


def test_foreign_state_is_refused():
    with pytest.raises(RuntimeError, match="median"):
        Mean().load_state_dict({"median": torch.zeros(1)})


def test_fitted_buffer_moves_with_the_module():
    assert Mean().fit(torch.ones(3, 2)).to("meta").mean.device.type == "meta"


def test_file_appears_whole_and_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "text.md"
    write_text(path, "Ñandú\n")
    assert path.read_bytes() == "Ñandú\n".encode()
    assert os.listdir(path.parent) == ["text.md"]


def test_nothing_is_at_the_path_before_the_end(tmp_path):
    path = tmp_path / "a.txt"
    with written_whole(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.parent == path.parent
        assert temporary.suffix == ".txt"
    assert path.read_text() == "new"


@pytest.mark.parametrize("old", ["old", None])
@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, InputError])
def test_failure_leaves_the_old_file_and_no_other(tmp_path, old, failure):
    path = tmp_path / "a.txt"
    if old:
        path.write_text(old)

    def interrupted():
        with written_whole(path) as temporary:
            temporary.write_text("half")
            raise failure("stop")

    with pytest.raises(failure):
        interrupted()
    assert os.listdir(tmp_path) == (["a.txt"] if old else [])
    assert not old or path.read_text() == old


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_any_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~umask


def test_folder_is_no_file_to_write(tmp_path):
    with pytest.raises(InputError, match="it is a folder"):
        write_text(tmp_path, "")
