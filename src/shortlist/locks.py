"""Locks on folders and files: one writer at a time. The system releases a lock when its process ends, however it ends."""

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from shortlist.errors import InputError

LOCK = ".lock"  # name of the lock file in the folder, and the end of the name of one beside a file
LONGEST_NAME = 200  # bytes of the name of a file that are in that of its lock; file systems allow 255
MOST_READ = 1000  # bytes read from a lock file, which anybody may have written
PAUSE = 0.2  # seconds between two attempts to get a lock that another process holds
_held: set[int] = set()  # open lock files of this process


@contextmanager
def folder_lock(folder: str | Path, patience: float = 0.0) -> Iterator[None]:
    """Context manager: hold the lock of the only writer of an existing folder; readers ignore it.

    A second writer gets an error that names the process and the lock file. Systems without such locks (Windows, some network
    file systems) lock nothing.

    Args:
        folder: the folder.
        patience: seconds to wait for another writer to end before that is an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, folder_lock(folder):
    ...     (Path(folder) / LOCK).exists()
    True
    """
    folder = Path(folder)
    with ExitStack() as held:
        try:
            held.enter_context(_locked(folder / LOCK, folder, "folder", patience))
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {(error.strerror or str(error)).lower()}") from error
        yield


@contextmanager
def file_lock(path: str | Path, patience: float = 0.0) -> Iterator[None]:
    """Context manager: hold the lock of the only writer of a file, or of a folder that is replaced as a whole.

    Readers ignore it. The lock is a hidden file beside the path, which itself need not exist; the folder that both are in must.

    Args:
        path: without links, so that all writers mean the same place.
        patience: seconds to wait for another writer to end before that is an error.
    """
    path = Path(path)
    name = os.fsencode(path.name)
    shown = path.name if len(name) <= LONGEST_NAME else hashlib.sha256(name).hexdigest()
    with _locked(path.with_name(f".{shown}{LOCK}"), path, "name", patience):
        yield


@contextmanager
def _locked(path: Path, written: Path, other: str, patience: float) -> Iterator[None]:
    """Hold a lock file.

    Args:
        path: the lock file.
        written: what it locks.
        other: what to choose another of where it is taken.
        patience: seconds to wait for another writer to end before that is an error.
    """
    handle = _acquired(path, written, other, patience)
    _held.add(handle)
    try:
        with suppress(OSError):  # only for the message of others; a full disk is reported by what is written next
            os.truncate(handle, 0)
            os.write(handle, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        _held.discard(handle)
        unlock_file(handle)


@contextmanager
def locked_folder(folder: str | Path, patience: float = 0.0) -> Iterator[None]:
    """Context manager: make a folder, with its parents, and hold its lock; folders that stay empty are removed again.

    Args:
        folder: the folder.
        patience: seconds to wait for another writer to end before that is an error.
    """
    folder = Path(folder)
    made = [above for above in (folder, *folder.parents) if not above.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {(error.strerror or str(error)).lower()}: choose another folder") from error
    try:
        with folder_lock(folder, patience):
            yield
    finally:
        for above in made:
            with suppress(OSError):  # it has files in it
                above.rmdir()


def _acquired(path: Path, written: Path, other: str, patience: float) -> int:
    """The open and locked file."""
    deadline = time.monotonic() + patience
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if lock_file(handle) is False:
                if time.monotonic() >= deadline:
                    raise InputError(
                        f"{written} is being written to by another process ({_holder(handle)}the lock is {path}): wait for "
                        f"it to finish, or choose another {other}"
                    )
                time.sleep(PAUSE)
            elif is_still_at(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another process holds it, or its last holder removed the file after it was opened here: try again


def lock_file(handle: int) -> bool | None:
    """Try to lock an open file or folder, without waiting.

    Returns:
        True if the lock was taken, False if another open file holds it, None where the system or the disk has no such locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network disks
        return None
    return True


def unlock_file(handle: int | None) -> None:
    """Release the lock and close the file, if any; closing alone is not enough if a child process was forked meanwhile."""
    if handle is None:
        return
    try:
        import fcntl
    except ImportError:
        pass
    else:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def is_still_at(path: Path, handle: int) -> bool:
    """Whether the open file is the one at this path; it is not if somebody removed or replaced it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    """``"process 123 on host, "``, as far as the lock file says."""
    try:
        found = json.loads(os.pread(handle, MOST_READ, 0))
        process, host = int(found["process"]), str(found["host"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return ""
    here = "" if host == socket.gethostname() else f" on {host!r}"
    return f"process {process}{here}; "


def _close_in_child() -> None:
    """A lock lasts until every copy of the open file is closed: a forked worker must not keep that of its dead parent."""
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
