"""One writer at a time: a lock that goes when its holder does, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shortlist.errors import InputError

NAME = ".lock"


@contextmanager
def writers_lock(folder: Path) -> Iterator[None]:
    """Held while inside; readers take no notice of it."""
    try:
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {(error.strerror or str(error)).lower()}") from error
    try:
        if not _taken(handle):
            raise InputError(f"{folder} is being written to by another process: wait for it, then try again")
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    """Whether the lock is ours now; where the system has no such locks (Windows), there is none to take."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
