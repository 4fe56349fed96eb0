"""Folders that other processes replace while they are read."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from shortlist.errors import InputError
from shortlist.files import folders_left_aside

ATTEMPTS = 5
PAUSE = 0.05  # seconds; between the two renames that replace a folder there is far less
Given = ParamSpec("Given")
Read = TypeVar("Read")


def again_if_replaced(read: Callable[Concatenate[str | Path, Given], Read]) -> Callable[Concatenate[str | Path, Given], Read]:
    """Reads again where the folder was replaced by another in the meantime: parts of two would look like damage."""

    @functools.wraps(read)
    def reading(path: str | Path, /, *args: Given.args, **keywords: Given.kwargs) -> Read:
        for _ in range(ATTEMPTS):
            seen = _number_once_there(path)
            try:
                return read(path, *args, **keywords)
            except (InputError, OSError, RuntimeError):
                if _number_of(path) == seen:
                    raise
        return read(path, *args, **keywords)

    return reading


def _number_once_there(path: str | Path) -> int | None:
    """The number of the folder; one that is being replaced may be missing for the moment between two renames."""
    for _ in range(ATTEMPTS):
        number = _number_of(path)
        if number is not None or not folders_left_aside(path):
            return number
        time.sleep(PAUSE)
    return None


def _number_of(path: str | Path) -> int | None:
    """What the file system calls this folder; a new one has another number."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None
