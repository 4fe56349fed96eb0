"""Buffers that appear with the fit, and files that appear whole."""

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import shortlist
from shortlist import files
from shortlist.errors import InputError, NotFittedError
from shortlist.files import (
    PlaceError,
    folder_replaced_whole,
    folder_written_whole,
    folders_left_aside,
    write_text,
    written_whole,
)
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
        assert temporary.name == "a.txt"  # writers may choose their format by it
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


def fill(path, failure=None):
    """A folder with a file and a folder in it, or an error half way."""
    with folder_written_whole(path) as temporary:
        (temporary / "a.txt").write_text("a")
        if failure is not None:
            raise failure("stop")
        (temporary / "deep").mkdir()
        (temporary / "deep" / "b.txt").write_text("b")


def filled(path):
    return sorted(each.relative_to(path).as_posix() for each in path.rglob("*")) == ["a.txt", "deep", "deep/b.txt"]


@pytest.mark.parametrize("kind", ["new", "empty", "deep/new", "link to empty"])
def test_folder_appears_whole_where_there_is_none_or_an_empty_one(tmp_path, kind):
    path = tmp_path / kind
    if kind == "empty":
        path.mkdir()
    elif kind == "link to empty":
        (tmp_path / "real").mkdir()
        path.symlink_to(tmp_path / "real")
    fill(path)
    assert filled(path)
    assert path.is_symlink() == (kind == "link to empty")
    assert not [name for name in os.listdir(path.parent) if name.startswith(".")]


def test_nothing_is_at_the_path_of_a_folder_before_the_end(tmp_path):
    path = tmp_path / "out"
    with folder_written_whole(path) as temporary:
        assert temporary.is_dir()
        assert not path.exists()
    assert path.is_dir()
    assert os.listdir(path) == []


@pytest.mark.parametrize(
    ("kind", "words"), [("full", "one with files in it"), ("hidden", "one with files in it"), ("file", "a file")]
)
def test_a_full_folder_and_a_file_are_refused_and_left_alone(tmp_path, kind, words):
    path = tmp_path / kind
    if kind == "file":
        path.write_text("old")
    else:
        path.mkdir()
        (path / (".old" if kind == "hidden" else "old")).write_text("old")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f"expected a new or empty folder, got {words}: choose another$"):
        fill(path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, InputError])
@pytest.mark.parametrize("there", [False, True])
def test_an_error_inside_leaves_no_folder_behind(tmp_path, failure, there):
    path = tmp_path / "out"
    if there:
        path.mkdir()
    with pytest.raises(failure, match="stop"):
        fill(path, failure)
    assert sorted(tmp_path.rglob("*")) == ([path] if there else [])


def test_what_somebody_puts_there_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "out"

    def late():
        with folder_written_whole(path) as temporary:
            (temporary / "a.txt").write_text("ours")
            path.mkdir()
            (path / "b.txt").write_text("theirs")

    with pytest.raises(PlaceError, match=f"cannot write {re.escape(str(path))}: .*not empty"):
        late()
    assert [each.name for each in tmp_path.rglob("*")] == ["out", "b.txt"]


def test_an_error_inside_leaves_no_folder_above_behind(tmp_path):
    with pytest.raises(OSError, match="stop"):
        fill(tmp_path / "deep" / "out", OSError)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_any_new_folder(tmp_path, umask):
    before = os.umask(umask)
    try:
        fill(tmp_path / "out")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~umask
    assert stat.S_IMODE((tmp_path / "out" / "deep").stat().st_mode) == 0o777 & ~umask


def test_the_umask_of_the_process_is_never_touched(tmp_path, monkeypatch):
    """It belongs to all threads: another thread's files would have other permissions for a moment."""

    def touched(*_):
        raise AssertionError("umask")

    monkeypatch.setattr(os, "umask", touched)
    write_text(tmp_path / "a.txt", "")
    fill(tmp_path / "new")
    sources = Path(shortlist.__file__).parent.rglob("*.py")
    assert not [path for path in sources if "umask" in path.read_text()]


# What killed processes leave behind


KILLED = """
import os, signal, sys
from pathlib import Path
from shortlist.files import folder_replaced_whole, folder_written_whole, written_whole
kind, path, alive = sys.argv[1:]
write = {"file": written_whole, "folder": folder_written_whole, "replaced": folder_replaced_whole}[kind]
with write(path) as temporary:
    if kind == "replaced":
        temporary.mkdir()
    inside = temporary if kind == "file" else temporary / "half"
    inside.write_text("half")
    print("writing", flush=True)
    if alive == "alive":
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def begun(path, kind, alive):
    """A process that has begun to write at the path, and was killed at it or is still alive."""
    command = [sys.executable, "-c", KILLED, kind, str(path), "alive" if alive else "killed"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    if not alive:
        process.wait()
    return process


@pytest.mark.parametrize("kind", ["file", "folder", "replaced"])
def test_what_a_killed_process_left_goes_with_the_next_write_and_what_a_living_one_writes_stays(tmp_path, kind):
    if kind == "replaced":
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
    with begun(tmp_path / "two", kind, alive=True) as living, begun(tmp_path / "one", kind, alive=False):
        try:
            hidden = {name for name in os.listdir(tmp_path) if name.startswith(".")}
            assert {name[:5] for name in hidden} == {".one.", ".two."}
            write_text(tmp_path / "other.txt", "")
            assert [name[:5] for name in os.listdir(tmp_path) if name.startswith(".")] == [".two."]
            assert [path for path in tmp_path.rglob("*") if path.is_file() and path.read_text() == "half"]
        finally:
            living.kill()


def test_one_process_does_not_take_its_own_work_for_a_leftover(tmp_path):
    with written_whole(tmp_path / "a.txt") as first:
        files._LOOKED_AT.clear()
        write_text(tmp_path / "b.txt", "b")
        first.write_text("a")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


def test_what_others_call_alike_is_left_alone(tmp_path):
    (tmp_path / ".x.0123abcd.partial").write_text("a file")
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / ".y.0123abcd.partial").symlink_to(tmp_path / "real")
    before = sorted(os.listdir(tmp_path))
    write_text(tmp_path / "a.txt", "")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "a.txt"])


def test_where_there_are_no_locks_nothing_is_removed_and_files_are_written(tmp_path, monkeypatch):
    import fcntl

    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / ".x.0123abcd.partial").mkdir()
    monkeypatch.setattr(fcntl, "flock", unsupported)
    write_text(tmp_path / "a.txt", "a")
    assert sorted(os.listdir(tmp_path)) == [".x.0123abcd.partial", "a.txt"]


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    lock, tried = files._lock, []

    def beaten(folder):
        tried.append(folder)
        if len(tried) == 1:
            folder.rmdir()
        return lock(folder)

    monkeypatch.setattr(files, "_lock", beaten)
    write_text(tmp_path / "a.txt", "a")
    assert len(set(tried)) == 2
    assert (tmp_path / "a.txt").read_text() == "a"


@pytest.mark.parametrize("length", [255, 256])
def test_long_names_are_written_or_refused_in_a_sentence(tmp_path, length):
    path = tmp_path / ("x" * length)
    if length <= 255:
        write_text(path, "a")
        assert path.read_text() == "a"
    else:
        with pytest.raises(
            PlaceError, match=f"^cannot write {re.escape(str(path))}: file name too long: choose another place$"
        ):
            write_text(path, "a")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EMFILE, errno.EIO])
def test_errors_about_the_temporary_file_name_the_path_of_the_user(tmp_path, number):
    def write():
        with written_whole(tmp_path / "a.txt") as temporary:
            raise OSError(number, os.strerror(number), str(temporary))

    with pytest.raises(PlaceError, match=rf"^cannot write {re.escape(str(tmp_path))}/a.txt: {os.strerror(number).lower()}: "):
        write()
    assert os.listdir(tmp_path) == []


# Places where nothing can be written


def filled_file(path):
    write_text(path, "text")


each_writer = pytest.mark.parametrize("write", [filled_file, fill], ids=["file", "folder"])


@each_writer
@pytest.mark.parametrize("below", ["out.txt", "deep/er/out.txt"])
def test_a_file_where_a_folder_should_be_is_named(tmp_path, monkeypatch, write, below):
    monkeypatch.chdir(tmp_path)
    Path("leaves").write_text("mine")
    with pytest.raises(
        InputError, match=f"^cannot write leaves/{below}: leaves is a file, not a folder: choose another place$"
    ):
        write(Path("leaves") / below)
    assert [entry.name for entry in tmp_path.rglob("*")] == ["leaves"]
    assert Path("leaves").read_text() == "mine"


@each_writer
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("step", ["os.open os.mkdir", "pathlib.Path.mkdir"])
def test_what_the_system_refuses_is_told_of_the_path_that_was_given(tmp_path, monkeypatch, write, number, step):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number), str(tmp_path / ".out.k3j2.txt"))

    if "os.open" in step:
        (tmp_path / "new").mkdir()
    for name in step.split():
        monkeypatch.setattr(name, refuse)
    with pytest.raises(PlaceError) as caught:
        write(tmp_path / "new" / "out.txt")
    advice = "make room, or choose another place" if number == errno.ENOSPC else "choose another place"
    assert str(caught.value) == f"cannot write {tmp_path}/new/out.txt: {os.strerror(number).lower()}: {advice}"
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, OSError)  # for whoever goes on without the file


def rust(number):
    """As safetensors says it."""
    return RuntimeError(f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})")


def within(path):
    """A file below a folder that is written whole, whose temporary name nobody wants to read."""
    with folder_written_whole(path) as temporary:
        write_text(temporary / "README.md", "text")


@pytest.mark.parametrize("kind", [lambda number: OSError(number, os.strerror(number)), rust], ids=["system", "rust"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=["disk", "quota", "limit"])
@pytest.mark.parametrize("write", [filled_file, within], ids=["file", "folder"])
def test_a_disk_that_fills_up_is_one_sentence_with_the_path_and_what_to_do(tmp_path, monkeypatch, write, kind, number):
    def full(self, *args, **kwargs):
        raise kind(number)

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(PlaceError) as caught:
        write(tmp_path / "out.txt")
    assert str(caught.value) == (
        f"cannot write {tmp_path}/out.txt: no space left on device: make room, or choose another place"
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="an administrator may write everywhere")
@each_writer
def test_a_folder_that_may_not_be_written_to_is_one_sentence(tmp_path, write):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match=r"locked/out.txt: permission denied: choose another place$"):
        write(tmp_path / "locked" / "out.txt")


@each_writer
def test_a_name_that_is_too_long_is_one_sentence(tmp_path, write):
    with pytest.raises(InputError, match=r"^cannot write .*: file name too long: choose another place$"):
        write(tmp_path / ("x" * 300))
    assert list(tmp_path.iterdir()) == []


@each_writer
def test_a_link_in_a_circle_is_one_sentence(tmp_path, write):
    (tmp_path / "round.txt").symlink_to("round.txt")
    with pytest.raises(InputError, match=r"round.txt: its links lead in a circle: remove the link, or choose another place$"):
        write(tmp_path / "round.txt")
    assert os.listdir(tmp_path) == ["round.txt"]


# Folders that take the place of others


def replaced(path, failure=None):
    with folder_replaced_whole(path) as new:
        assert (path / "old.txt").exists()
        fill(new)
        if failure is not None:
            raise failure("stop")


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "na[m]e"  # letters that mean something in a pattern
    path.mkdir()
    (path / "old.txt").write_text("old")
    return path


def test_a_folder_takes_the_place_of_another(old):
    replaced(old)
    assert filled(old)
    assert os.listdir(old.parent) == [old.name]
    assert folders_left_aside(old) == []


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, InputError])
def test_a_failure_leaves_the_old_folder(old, failure):
    with pytest.raises(failure, match="stop"):
        replaced(old, failure)
    assert os.listdir(old) == ["old.txt"]
    assert os.listdir(old.parent) == [old.name]


@pytest.mark.parametrize("gap", ["before", "after"])
def test_two_that_replace_one_folder_leave_nothing_beside_it(old, monkeypatch, gap):
    """Another process is between its two renames when this one begins, or comes in between those of this one."""
    replace, rename = Path.replace, Path.rename
    theirs = old.parent / "theirs"
    theirs.mkdir()
    fill(theirs)

    def replace_too_late(self, target):
        if self == old and gap == "before" and old.exists():
            shutil.rmtree(old)
        return replace(self, target)

    def rename_too_late(self, target):
        if Path(target) == old and gap == "after" and theirs.exists():
            rename(theirs, old)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace_too_late)
    monkeypatch.setattr(Path, "rename", rename_too_late)
    replaced(old)
    monkeypatch.undo()
    assert filled(old)
    assert folders_left_aside(old) == []
    assert sorted(os.listdir(old.parent)) == ([old.name, "theirs"] if gap == "before" else [old.name])


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_swap_that_fails_after_another_process_leaves_theirs(old, monkeypatch, failure):
    rename = Path.rename

    def fail(self, target):
        if Path(target) == old and not old.exists():
            old.mkdir()
            (old / "theirs.txt").write_text("theirs")
            raise failure("stop")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(failure):
        replaced(old)
    assert os.listdir(old) == ["theirs.txt"]
    assert os.listdir(old.parent) == [old.name]


def test_a_folder_that_was_left_aside_is_found(old, monkeypatch):
    other = old.parent / "other"
    other.mkdir()
    monkeypatch.setattr("shortlist.files.shutil.rmtree", lambda *args, **kwargs: None)  # as if killed before the end
    replaced(old)
    (found,) = folders_left_aside(old)
    assert (found / "old.txt").read_text() == "old"
    assert folders_left_aside(other) == []
    assert folders_left_aside(old.parent / "gone" / "x") == []


@each_writer
def test_the_umask_of_the_process_is_never_switched(tmp_path, monkeypatch, write):
    def switched(mask):
        raise AssertionError("other threads would create files that everybody may write")

    monkeypatch.setattr("os.umask", switched)
    write(tmp_path / "out.txt")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
@pytest.mark.parametrize("writer", ["file", "folder", "replaced folder"])
def test_a_writer_that_creates_the_file_anew_leaves_the_permissions_of_any_new_file(tmp_path, umask, writer):
    def private(path):
        path.unlink(missing_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    before = os.umask(umask)
    try:
        if writer == "file":
            with written_whole(tmp_path / "a") as temporary:
                private(temporary)
        elif writer == "folder":
            with folder_written_whole(tmp_path / "folder") as temporary:
                (temporary / "deep").mkdir()
                private(temporary / "deep" / "a")
        else:
            (tmp_path / "folder").mkdir()
            with files.folder_replaced_whole(tmp_path / "folder") as temporary:
                temporary.mkdir()
                private(temporary / "a")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    (found,) = tmp_path.rglob("a")
    assert stat.S_IMODE(found.stat().st_mode) == 0o666 & ~umask
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".")] == []


def test_a_rule_may_be_read_by_those_who_may_read_any_new_file(tmp_path):
    before = os.umask(0o022)
    try:
        shortlist.sets.top_k(2).save(tmp_path / "rule.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "rule.safetensors").stat().st_mode) == 0o644


def test_a_file_that_is_linked_elsewhere_keeps_its_permissions(tmp_path):
    (tmp_path / "picture").touch()
    (tmp_path / "picture").chmod(0o400)
    with folder_written_whole(tmp_path / "folder") as temporary:
        os.link(tmp_path / "picture", temporary / "linked")
        (temporary / "pointing").symlink_to(tmp_path / "picture")
    assert stat.S_IMODE((tmp_path / "picture").stat().st_mode) == 0o400


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("leavs", ": did you mean {}/leaves?"),
        ("elm", ": did you mean {}/elm-average-k?"),
        ("*.jpg", ": no name matches the pattern"),
        ("zebra", ""),
    ],
)
def test_a_message_names_what_lies_beside_a_missing_path(tmp_path, typed, told):
    for name in ("leaves", "elm-average-k", ".hidden"):
        (tmp_path / name).mkdir()
    assert files.similar_paths(tmp_path / typed) == told.format(tmp_path)


def test_equal_tensor_files_have_equal_bytes_whatever_their_texts_say(tmp_path):
    path, tensors = tmp_path / "file.safetensors", {"b": torch.arange(3), "a": torch.ones(2, 2)}
    texts = {name: f'{name} \x01\x7f \\ " é 🌿 \u2028 \n' for name in "fedcbagé"}
    found = set()
    for _ in range(20):
        save_file(tensors, path, metadata=texts)
        before = path.stat().st_size
        files.order_header(path)
        assert path.stat().st_size == before
        found.add(path.read_bytes())
    assert len(found) == 1
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == texts
        assert torch.equal(file.get_tensor("a"), tensors["a"])
        assert torch.equal(file.get_tensor("b"), tensors["b"])
