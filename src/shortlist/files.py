"""Files appear whole or not at all: written under a temporary name in the same folder, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shortlist.errors import InputError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; on success it becomes ``path``, on failure nothing is left behind."""
    path = Path(path).resolve()  # through a link, to what it points at
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'no ordinary file'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept because some writers choose their format by it.
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary folder to fill; on success it becomes ``path``, which must be new or empty; on failure nothing is left."""
    path = Path(path).resolve()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        came = "one with files in it" if path.is_dir() else "a file"
        raise InputError(f"cannot write {path}: expected a new or empty folder, got {came}")
    made = [above for above in path.parents if not above.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        if path.exists():
            path.rmdir()  # an empty one
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not path.exists():
            for above in made:
                with suppress(OSError):  # somebody else may have put something there
                    above.rmdir()


def write_text(path: str | Path, text: str) -> None:
    """The text as a UTF-8 file, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
