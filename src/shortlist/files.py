"""Atomic writing: files and folders are written in a hidden folder beside their place, then moved there.

The hidden folder is locked by the process that writes, so that the next one can tell what a killed process left behind.
"""

import errno
import glob
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from shortlist.errors import InputError
from shortlist.locks import file_lock, is_still_at, lock_file, unlock_file
from shortlist.words import printable, similar

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space on the disk, quota exceeded, file too large
# Errors of the place rather than of what is read or written there.
SYSTEM = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.EIO)
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # of a rename to a path: there is a folder with something in it
PARTIAL = ".partial"  # the end of the name of a work folder
LEFTOVER = re.compile(r"\..*\.[0-9a-f]{8}" + re.escape(PARTIAL), re.DOTALL)
SHOWN_OF_NAME = 50  # characters: file systems allow 255 bytes
SCANNED_BLOCK = 2**20  # bytes
OLD = "old"  # part of the name of a folder that was moved aside to be replaced

_LOOKED_AT: set[Path] = set()  # places where this process has removed leftovers


class PlaceError(InputError, OSError):
    """Nothing can be written at the path that the user gave; the message says why and names that path, not a temporary file."""

    reason: str = ""  # without the path and without advice
    place: str = ""

    @staticmethod
    def at(path: str | Path, reason: str, error: Exception) -> "PlaceError":
        """The error for this path."""
        advice = "make room, or choose another place" if is_full(error) else "choose another place"
        found = PlaceError(f"cannot write {path}: {reason}: {advice}")
        found.reason, found.place, found.errno = reason, str(path), errno.ENOSPC if is_full(error) else None
        return found


def without_links(path: str | Path) -> Path:
    """The absolute path that a path leads to, which need not exist; an error if its links lead in a circle.

    >>> without_links(Path("/") / ".." / "a").as_posix()
    '/a'
    """
    try:
        found = Path(path).resolve()  # of a circle, Python up to 3.12 raises RuntimeError, and later ones nothing
        os.stat(found)
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            raise InputError(f"{path}: its links lead in a circle: remove the link, or choose another place") from None
        return Path(path).resolve()
    return found


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Context manager: a temporary path to write to. On success it becomes ``path``; on failure nothing is left behind."""
    with _a_place_for(path):
        target = without_links(path)  # a link stays, and the file it points to is replaced
        if target.exists() and not target.is_file():
            raise InputError(f"cannot write {target}: it is {'a folder' if target.is_dir() else 'not a regular file'}")
        target.parent.mkdir(parents=True, exist_ok=True)
    with work_folder(path) as folder:
        temporary = folder / target.name  # some writers choose their format by the suffix
        with _a_place_for(path):
            # Created by open rather than by tempfile, so that it has the permissions of any new file while it is written.
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        with room_for(path, folder):
            yield temporary
        with _a_place_for(path):
            _set_permissions(temporary, folder)
            temporary.replace(target)


@contextmanager
def folder_written_whole(path: str | Path) -> Iterator[Path]:
    """Context manager: a temporary folder to fill. On success it becomes ``path``, which must be new or empty; on failure
    nothing is left behind."""
    with _a_place_for(path):
        target = without_links(path)
        check_new_folder(target)
    with _folders_above(target, path), work_folder(path) as folder:
        temporary = folder / target.name
        with _a_place_for(path):
            temporary.mkdir()
        with room_for(path, folder):
            yield temporary
        with _a_place_for(path):
            _set_permissions(temporary, folder)
            if target.exists():
                target.rmdir()  # an empty one
            temporary.rename(target)


@contextmanager
def locked_place(path: str | Path, patience: float = 0.0) -> Iterator[None]:
    """Context manager: be the only one who changes a file, or replaces a folder, from reading what is there to writing it.

    Folders above it are made, and removed again if they stay empty. ``patience``: seconds to wait for another process.
    """
    with _a_place_for(path):
        target = without_links(path)
    with _folders_above(target, path), ExitStack() as held:
        with _a_place_for(path):
            held.enter_context(file_lock(target, patience))
        yield


@contextmanager
def _folders_above(target: Path, path: str | Path) -> Iterator[None]:
    """Make the folders above the target of a path; those that stay empty are removed again."""
    with _a_place_for(path):
        made = [above for above in target.parents if not above.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for above in made:
            with suppress(OSError):  # something is in it, perhaps of another process
                above.rmdir()


def similar_paths(path: Path, most: int = 2) -> str:
    """The end of a message that there is nothing at a path: files and folders beside it with a similar name, if there are any.

    >>> similar_paths(Path("no such folder") / "photos")
    ''
    """
    if "*" in path.name:  # a shell hands over a pattern as it is where nothing matches
        return ": no name matches the pattern"
    try:
        names = sorted(entry for entry in os.listdir(path.parent) if not entry.startswith(".") and entry != path.name)
    except OSError:
        return ""
    like = similar(path.name, names, most) if path.name else []
    if not like and path.name:  # runs/leaves, where there is runs/leaves-average-k
        like = [name for name in names if name.startswith(f"{path.name}-")][:most]
    shown = " or ".join(printable(str(path.parent / name)) for name in like)
    return f": did you mean {shown}?" if like else ""


def check_new_folder(path: Path) -> None:
    """Raise an error unless there is nothing at the path, or an empty folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        came = "one with files in it" if path.is_dir() else "a file"
        raise InputError(f"cannot write {path}: expected a new or empty folder, got {came}: choose another")


@contextmanager
def folder_replaced_whole(path: str | Path) -> Iterator[Path]:
    """Context manager: a path at which to create a new folder. On success it replaces the folder at ``path``.

    The old folder stays complete until the new one is. If the process dies between the two renames, the old folder is left
    under another name, where :func:`folders_left_aside` finds it.
    """
    target = without_links(path)
    with work_folder(path) as folder:
        with room_for(path, folder):
            yield folder / target.name
        with _a_place_for(path):
            _set_permissions(folder / target.name, folder)
            _swap(folder / target.name, target)


@contextmanager
def work_folder(path: str | Path) -> Iterator[Path]:
    """Context manager: a hidden folder beside ``path``, removed at the end.

    It is locked as long as this process lives. What a killed process left in the same place is not, and is removed here, the
    first time that this process writes there.
    """
    with _a_place_for(path):
        target = without_links(path)
        _remove_leftovers(target.parent)
        folder, handle = _new_work_folder(target)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        unlock_file(handle)


def _set_permissions(written: Path, folder: Path) -> None:
    """Give a new file, or every file in a new folder, the permissions of any new file.

    Some writers create their files anew as temporary ones, which only their owner can read (safetensors does). The mode is that
    of a file made in the work folder: reading the mask of the process means changing it, for other threads too. Files that are
    linked elsewhere, such as the pictures of a benchmark, keep theirs.
    """
    sample = folder / f".mode{PARTIAL}"
    os.close(os.open(sample, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    mode = stat.S_IMODE(sample.stat().st_mode)
    sample.unlink()
    for path in written.rglob("*") if written.is_dir() else [written]:
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1 and stat.S_IMODE(path.stat().st_mode) != mode:
            with suppress(OSError):  # some file systems have no permissions
                path.chmod(mode)


def _new_work_folder(target: Path) -> tuple[Path, int | None]:
    """A new hidden folder beside the target, and the handle that holds its lock."""
    while True:
        folder = target.with_name(f".{target.name[:SHOWN_OF_NAME]}.{secrets.token_hex(4)}{PARTIAL}")
        folder.mkdir()
        with suppress(LockedError):  # another process took it for a leftover, in the moment before it was locked
            return folder, _lock(folder)


def _remove_leftovers(place: Path) -> None:
    """Remove the work folders that killed processes of this user left in this place; those of living ones are locked."""
    if place in _LOOKED_AT:
        return
    _LOOKED_AT.add(place)
    own = os.geteuid() if hasattr(os, "geteuid") else None
    with suppress(OSError), os.scandir(place) as entries:
        left = [entry for entry in entries if LEFTOVER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
        for entry in left:
            with suppress(LockedError, OSError):
                if entry.stat(follow_symlinks=False).st_uid != own:
                    continue
                handle = _lock(Path(entry.path))
                if handle is not None:
                    shutil.rmtree(entry.path, ignore_errors=True)
                    unlock_file(handle)


class LockedError(Exception):
    """Another process holds the lock, or has removed the folder."""


def _lock(folder: Path) -> int | None:
    """Lock a folder until the process ends or the handle is closed; None where the system or the disk has no such locks."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        raise LockedError from None
    except PermissionError:  # Windows opens no folders
        return None
    taken = lock_file(handle)
    if taken and is_still_at(folder, handle):
        return handle
    os.close(handle)
    if taken is None:
        return None
    raise LockedError


def _swap(new: Path, path: Path) -> None:
    """Put the new folder in the place of the old one. Of two processes that do so at once the later one wins."""
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.{OLD}.", dir=path.parent))
    moved = True
    try:
        try:
            path.replace(old)  # an empty folder may be replaced by a rename
        except FileNotFoundError:  # another process has just moved it aside
            moved = False
        new.rename(path)
    except BaseException as error:  # Ctrl-C as well
        if moved:
            with suppress(OSError):  # another process has put its own there
                old.rename(path)
        if path.exists() or not moved:
            shutil.rmtree(old, ignore_errors=True)
        if getattr(error, "errno", None) not in TAKEN:
            raise
        _swap(new, path)
    else:
        shutil.rmtree(old, ignore_errors=True)


def folders_left_aside(path: str | Path) -> list[Path]:
    """Folders that were at this path and were left under another name by a process that died while it replaced them."""
    target = without_links(path)
    if not target.parent.is_dir():
        return []
    found = sorted(target.parent.glob(f"{glob.escape(f'.{target.name}.{OLD}.')}*"))
    return [folder for folder in found if _holds_something(folder)]


def _holds_something(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:  # no folder, or gone by now: the process that replaces it lives
        return False


def flush(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk and survives a power failure."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def contains(path: str | Path, sought: bytes) -> bool:
    """Whether this byte occurs anywhere in a file, which is read in blocks.

    Args:
        path: the file.
        sought: one byte.
    """
    with Path(path).open("rb") as file:
        return any(sought in block for block in iter(lambda: file.read(SCANNED_BLOCK), b""))


def order_header(path: Path) -> None:
    """Put the texts in the header of a safetensors file into the order of their names, so that equal files have equal bytes.

    The library writes them in an order that changes from one file to the next.
    """
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        texts = header.get("__metadata__", {})
        header["__metadata__"] = {name: texts[name] for name in sorted(texts)}
        ordered = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode().ljust(length)
        if len(ordered) == length:  # it says the same; were it longer, the tensors would have to move
            file.seek(8)
            file.write(ordered)


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
def room_for(path: str | Path, folder: Path) -> Iterator[None]:
    """Turn the errors of a full disk, and others of the system about files in the work folder, into a sentence about the path
    that the user gave."""
    try:
        yield
    except Exception as error:
        if is_full(error):
            raise PlaceError.at(path, os.strerror(errno.ENOSPC).lower(), error) from error
        named = error.place if isinstance(error, PlaceError) else getattr(error, "filename", None)
        if isinstance(error, OSError) and named and Path(str(named)).resolve().is_relative_to(folder.resolve()):
            raise PlaceError.at(path, _reason(error), error) from error
        raise


def is_full(error: Exception) -> bool:
    """Whether the error says that the disk is full: by its number, or by the message of a library written in Rust.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError(13, "Permission denied"))
    (True, False)
    """
    number = getattr(error, "errno", None)
    return number in FULL or any(f"(os error {code})" in str(error) for code in FULL)


def system_reason(error: BaseException) -> str | None:
    """Why the system refused, if it did, rather than what is in the file being wrong: permissions, too many open files, ….

    >>> system_reason(OSError(13, "Permission denied")), system_reason(OSError("not a Parquet file"))
    ('permission denied', None)
    """
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if isinstance(error, OSError) and number in SYSTEM else None


def _in_the_way(path: Path) -> str | None:
    """Which part of the path is a file where a folder is needed, if any."""
    with suppress(OSError):
        above = next((above for above in path.parents if above.exists()), path)
        if not above.is_dir():
            return f"{above} is a file, not a folder"
    return None


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, PlaceError) else (error.strerror or type(error).__name__).lower()
