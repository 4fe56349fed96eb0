"""Folders that other processes replace while they are read."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from shortlist.errors import InputError

ATTEMPTS = 5
Given = ParamSpec("Given")
Read = TypeVar("Read")


def again_if_replaced(read: Callable[Concatenate[str | Path, Given], Read]) -> Callable[Concatenate[str | Path, Given], Read]:
    """Reads again where the folder was replaced by another in the meantime: parts of two would look like damage."""

    @functools.wraps(read)
    def reading(path: str | Path, /, *args: Given.args, **keywords: Given.kwargs) -> Read:
        for _ in range(ATTEMPTS):
            seen = _number_of(path)
            try:
                return read(path, *args, **keywords)
            except (InputError, OSError, RuntimeError):
                if _number_of(path) == seen:
                    raise
        return read(path, *args, **keywords)

    return reading


def _number_of(path: str | Path) -> int | None:
    """What the file system calls this folder; a new one has another number."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None
