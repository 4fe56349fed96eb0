"""Files appear whole or not at all: written under a temporary name in the same folder, then renamed."""

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shortlist.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room: on the disk, for this person, for so large a file
OLD = "old"  # how a folder is called that stands aside while another takes its place


class PlaceError(InputError, OSError):
    """Nothing can be written at the path that a person gave; the message says why, and does not name a temporary file."""

    reason: str = ""  # why, without the path and without advice

    @staticmethod
    def at(path: str | Path, reason: str, error: Exception) -> "PlaceError":
        """The sentence about this path."""
        advice = "make room, or choose another place" if is_full(error) else "choose another place"
        found = PlaceError(f"cannot write {path}: {reason}: {advice}")
        found.reason, found.errno = reason, errno.ENOSPC if is_full(error) else None
        return found


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; on success it becomes ``path``, on failure nothing is left behind."""
    with _a_place_for(path):
        target = Path(path).resolve()  # through a link, to what it points at
        if target.exists() and not target.is_file():
            raise InputError(f"cannot write {target}: it is {'a folder' if target.is_dir() else 'no ordinary file'}")
        target.parent.mkdir(parents=True, exist_ok=True)
        # The suffix is kept because some writers choose their format by it.
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        with _room_for(path):
            yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary folder to fill; on success it becomes ``path``, which must be new or empty; on failure nothing is left."""
    with _a_place_for(path):
        target = Path(path).resolve()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            came = "one with files in it" if target.is_dir() else "a file"
            raise InputError(f"cannot write {target}: expected a new or empty folder, got {came}")
        made = [above for above in target.parents if not above.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with _room_for(path):
            yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        if target.exists():
            target.rmdir()  # an empty one
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not target.exists():
            for above in made:
                with suppress(OSError):  # somebody else may have put something there
                    above.rmdir()


@contextmanager
def folder_replaced_whole(path: str | Path) -> Iterator[Path]:
    """A new folder to make, at a path beside ``path``; on success it takes the place of the folder that is there.

    The old folder stays whole until the new one is there. Whoever is broken off between the two renames of this leaves the
    old one aside, where :func:`folders_left_aside` finds it.
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
    path.replace(old)  # an empty folder gives way to a rename
    try:
        new.rename(path)
    except BaseException:  # a person's Ctrl-C as well
        if not path.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def folders_left_aside(path: str | Path) -> list[Path]:
    """The folders that stood at this path and were left aside when somebody was broken off who replaced them."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        return []
    found = sorted(target.parent.glob(f"{glob.escape(f'.{target.name}.{OLD}.')}*"))
    return [folder for folder in found if folder.is_dir() and any(folder.iterdir())]


def flush(path: Path) -> None:
    """Wait until a file, or which files a folder holds, is on the disk, where a loss of power does not reach it."""
    if path.is_dir() and os.name == "nt":
        return  # whose folders cannot be opened
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: str | Path, text: str) -> None:
    """The text as a UTF-8 file, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _a_place_for(path: str | Path) -> Iterator[None]:
    """What the system says inside, as a sentence about the path that a person gave."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise PlaceError.at(path, _in_the_way(Path(path)) or _reason(error), error) from error


@contextmanager
def _room_for(path: str | Path) -> Iterator[None]:
    """A disk that fills up inside, as a sentence about the path that a person gave and not about a temporary file."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        raise PlaceError.at(path, os.strerror(errno.ENOSPC).lower(), error) from error


def is_full(error: Exception) -> bool:
    """Whether it says that there is no room to write: by its number, or in the words of a library written in Rust.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError(13, "Permission denied"))
    (True, False)
    """
    number = getattr(error, "errno", None)
    return number in FULL or f"(os error {errno.ENOSPC})" in str(error)


def _in_the_way(path: Path) -> str | None:
    """The file that stands where a folder above the path should, if there is one."""
    with suppress(OSError):
        above = next((above for above in path.parents if above.exists()), path)
        if not above.is_dir():
            return f"{above} is a file and no folder"
    return None


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
