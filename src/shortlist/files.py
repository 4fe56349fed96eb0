"""Atomic writing: files and folders are written under a temporary name beside their place, then renamed."""

import errno
import glob
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shortlist.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space on the disk, quota exceeded, file too large
OLD = "old"  # part of the name of a folder that was moved aside to be replaced


class PlaceError(InputError, OSError):
    """Nothing can be written at the path that the user gave; the message says why and names that path, not a temporary file."""

    reason: str = ""  # without the path and without advice

    @staticmethod
    def at(path: str | Path, reason: str, error: Exception) -> "PlaceError":
        """The error for this path."""
        advice = "make room, or choose another place" if is_full(error) else "choose another place"
        found = PlaceError(f"cannot write {path}: {reason}: {advice}")
        found.reason, found.errno = reason, errno.ENOSPC if is_full(error) else None
        return found


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Context manager: a temporary path to write to. On success it becomes ``path``; on failure nothing is left behind."""
    with _a_place_for(path):
        target = Path(path).resolve()  # a link stays, and the file it points to is replaced
        if target.exists() and not target.is_file():
            raise InputError(f"cannot write {target}: it is {'a folder' if target.is_dir() else 'not a regular file'}")
        target.parent.mkdir(parents=True, exist_ok=True)
        # The suffix is kept because some writers choose their format by it.
        temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
        # Created by open rather than by tempfile, so that it has the permissions of any new file.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        with _room_for(path):
            yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(path: str | Path) -> Iterator[Path]:
    """Context manager: a temporary folder to fill. On success it becomes ``path``, which must be new or empty; on failure
    nothing is left behind."""
    with _a_place_for(path):
        target = Path(path).resolve()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            came = "one with files in it" if target.is_dir() else "a file"
            raise InputError(f"cannot write {target}: expected a new or empty folder, got {came}")
        made = [above for above in target.parents if not above.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        temporary.mkdir()
    try:
        with _room_for(path):
            yield temporary
        if target.exists():
            target.rmdir()  # an empty one
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not target.exists():
            for above in made:
                with suppress(OSError):  # another process may have put something there
                    above.rmdir()


@contextmanager
def folder_replaced_whole(path: str | Path) -> Iterator[Path]:
    """Context manager: a path at which to create a new folder. On success it replaces the folder at ``path``.

    The old folder stays complete until the new one is. If the process dies between the two renames, the old folder is left
    under another name, where :func:`folders_left_aside` finds it.
    """
    with _a_place_for(path):
        target = Path(path).resolve()
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.new.", dir=target.parent))
    try:
        with _room_for(path):
            yield beside / target.name
        _swap(beside / target.name, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _swap(new: Path, path: Path) -> None:
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.{OLD}.", dir=path.parent))
    path.replace(old)  # an empty folder may be replaced by a rename
    try:
        new.rename(path)
    except BaseException:  # Ctrl-C as well
        if not path.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def folders_left_aside(path: str | Path) -> list[Path]:
    """Folders that were at this path and were left under another name by a process that died while it replaced them."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        return []
    found = sorted(target.parent.glob(f"{glob.escape(f'.{target.name}.{OLD}.')}*"))
    return [folder for folder in found if folder.is_dir() and any(folder.iterdir())]


def flush(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk and survives a power failure."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _a_place_for(path: str | Path) -> Iterator[None]:
    """Turn errors of the system into a sentence about the path that the user gave."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise PlaceError.at(path, _in_the_way(Path(path)) or _reason(error), error) from error


@contextmanager
def _room_for(path: str | Path) -> Iterator[None]:
    """Turn the error of a full disk into a sentence about the path that the user gave."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        raise PlaceError.at(path, os.strerror(errno.ENOSPC).lower(), error) from error


def is_full(error: Exception) -> bool:
    """Whether the error says that the disk is full: by its number, or by the message of a library written in Rust.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError(13, "Permission denied"))
    (True, False)
    """
    number = getattr(error, "errno", None)
    return number in FULL or f"(os error {errno.ENOSPC})" in str(error)


def _in_the_way(path: Path) -> str | None:
    """Which part of the path is a file where a folder is needed, if any."""
    with suppress(OSError):
        above = next((above for above in path.parents if above.exists()), path)
        if not above.is_dir():
            return f"{above} is a file, not a folder"
    return None


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
