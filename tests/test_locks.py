"""One writer at a time, whatever becomes of the one before."""

import errno
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from shortlist import locks
from shortlist.errors import InputError
from shortlist.locks import LOCK, file_lock, folder_lock, locked_folder
from tests import warm

HOLDS = """
import sys, time
from shortlist.locks import folder_lock
with folder_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder."""
    with warm.Program(HOLDS, tmp_path) as child:
        assert child.stdout.readline() == "held\n"
        yield child
        child.kill()


def test_a_second_writer_is_told_who_is_the_first(tmp_path, holder):
    message = rf"{tmp_path} is being written to .*process {holder.pid}; the lock is {tmp_path / LOCK}"
    with pytest.raises(InputError, match=message), folder_lock(tmp_path):
        pytest.fail("two writers")


def test_the_lock_of_a_killed_process_is_free(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).exists()
    with folder_lock(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert not (tmp_path / LOCK).exists()


def test_a_patient_writer_waits_for_the_other_to_end(tmp_path, holder, monkeypatch):
    waits = []

    def wait(seconds):
        waits.append(seconds)
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
    with folder_lock(tmp_path, patience=60):
        assert waits
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()


def test_patience_has_an_end(tmp_path, holder, monkeypatch):
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    with pytest.raises(InputError, match=f"process {holder.pid};"), locked_folder(tmp_path, patience=100):
        pytest.fail("two writers")
    assert next(clock) == 160


def test_two_threads_of_one_process_are_two_writers(tmp_path):
    found = []

    def inside():
        try:
            with folder_lock(tmp_path):
                found.append("two writers")
        except InputError as error:
            found.append(str(error))

    with folder_lock(tmp_path):
        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
    assert f"process {os.getpid()}" in found[0]
    with folder_lock(tmp_path):
        pass


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_worker_does_not_hold_on_to_the_lock(tmp_path):
    """A worker of a killed training may outlive it for a while."""
    read, write = os.pipe()
    with folder_lock(tmp_path):
        worker = os.fork()
        if worker == 0:  # in the worker: wait until the pipe is closed
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.close(read)
    try:
        with folder_lock(tmp_path):
            pass
    finally:
        os.close(write)
        os.waitpid(worker, 0)


def test_a_lock_file_that_its_holder_removed_meanwhile_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    taken = locks.lock_file
    count = iter(range(10))

    def removed(handle):
        if next(count) == 0:
            (tmp_path / LOCK).unlink()
        return taken(handle)

    monkeypatch.setattr(locks, "lock_file", removed)
    with folder_lock(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert next(count) == 2


def test_a_file_system_without_locks_is_no_other_writer(tmp_path, monkeypatch):
    import fcntl

    def unsupported(handle, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with folder_lock(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": "x"}', '{"process": {}}', "[" * 5000])
def test_whatever_is_in_the_lock_file_the_second_writer_is_refused(tmp_path, holder, content):
    (tmp_path / LOCK).write_text(content)
    with pytest.raises(InputError, match=r"another process \(the lock is"), folder_lock(tmp_path):
        pytest.fail("two writers")


def test_a_folder_that_stays_empty_is_removed_again(tmp_path):
    with locked_folder(tmp_path / "new" / "run"):
        assert (tmp_path / "new" / "run").is_dir()
    assert list(tmp_path.iterdir()) == []
    with locked_folder(tmp_path / "new" / "run"):
        (tmp_path / "new" / "run" / "file").write_text("")
    assert [entry.name for entry in (tmp_path / "new" / "run").iterdir()] == ["file"]


def test_a_folder_that_was_there_stays(tmp_path):
    with locked_folder(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cannot write .*run: not a directory"), locked_folder(tmp_path / "file" / "run"):
        pytest.fail("no folder")


@pytest.mark.parametrize("name", ["state.safetensors", "é" * 120 + ".safetensors"])
def test_files_of_one_folder_have_locks_of_their_own(tmp_path, name):
    first, second = tmp_path / name, tmp_path / name.replace("state", "other").replace("éé.", "ee.")
    with file_lock(first), file_lock(second), folder_lock(tmp_path):
        assert len(os.listdir(tmp_path)) == 3
        with pytest.raises(InputError, match=rf"{first.name} is being written to by .*choose another name"), file_lock(first):
            pytest.fail("two writers")
    assert os.listdir(tmp_path) == []
