"""Where a published dataset lies, and its label files: found and read, or one sentence on what was expected where."""

import gc
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shortlist.data.picture_kinds import is_picture_name
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.words import printable

SHOWN = 4  # entries of a folder that a message names


def find_home(root: str | Path, what: str, *, holds: Sequence[str], below: Sequence[str] = (), source: str = "") -> Path:
    """The folder that holds one of these names: ``root``, or the first of these folders below it.

    Args:
        root: the folder given by the user.
        what: the dataset, for the message.
        holds: files or folders by which its folder is recognised; any one will do.
        below: folders that its archive may have added.
        source: where the dataset is had, for the message.
    """
    root = Path(root)
    for home in (root, *(root / folder for folder in below)):
        if any((home / name).exists() for name in holds):
            return home
    places = f"in it or in {' or '.join(below)} below it" if below else "in it"
    expected = f"expected the folder of {what}, with {' or '.join(holds)} {places}"
    raise InputError(f"{printable(str(root))}: {expected}, got {contents(root)}" + (f". {source}" if source else ""))


def chosen_year(years: Sequence[int], year: int | None) -> int:
    """The year asked for, or the only one there is.

    >>> chosen_year([2014, 2017], 2017), chosen_year([2017], None)
    (2017, 2017)
    """
    if year is None and len(years) > 1:
        raise InputError(f"year: expected one of {' and '.join(map(str, years))}, as the files of each are there, got none")
    if year is not None and year not in years:
        raise InputError(f"year: expected {' or '.join(map(str, years))}, of which there are files, got {year}")
    return years[0] if year is None else year


def contents(path: Path) -> str:
    """What is there, for messages.

    >>> contents(Path("no such folder"))
    'nothing'
    """
    if not path.exists():
        return "nothing"
    if not path.is_dir():
        return "a file"
    names = sorted(os.listdir(path))
    if not names:
        return "an empty folder"
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"a folder with {', '.join(printable(name) for name in names[:SHOWN])}{more}"


def text_lines(path: Path, what: str, *, strip: bool = True) -> list[str]:
    """The lines of a text file, without blanks around them unless ``strip`` is False, and without empty ones."""
    try:
        text = _bytes(path, what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{printable(str(path))}: expected {what} in UTF-8, got another byte at position {error.start:,}"
        ) from None
    return [line.strip() if strip else line for line in text.splitlines() if line.strip()]


def parsed_json(path: Path, what: str, *, fractions: bool = False) -> Any:
    """What a JSON file holds, but for its fractions: those all become None, unless they are wanted.

    No label is a fraction, while most of the hundreds of megabytes of a label file are outlines and coordinates. Not making
    numbers of them, and not looking for garbage meanwhile, took a quarter of the time and 57 % of the memory on a file of the
    size of COCO's.
    """
    content = _bytes(path, what)
    none_for_all = dict[str, None]().get
    try:
        with _collector_paused():
            return json.loads(content, parse_float=None if fractions else none_for_all)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:80]
        raise InputError(f"{printable(str(path))}: expected {what} in JSON, got a file that is not ({reason})") from None


def entries_of(root: Path, folder: str, problems: list[Problem]) -> list[tuple[str, bool]]:
    """What lies in a folder: each name, in order, and whether it is a folder; hidden ones are passed over.

    A folder that is not there holds nothing, and one that may not be read is noted.
    """
    try:
        with os.scandir(root / folder) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        problems.append(Problem("folder that may not be read", folder, "permission denied: left out"))
        return []


def pictures_in(root: Path, folder: str, problems: list[Problem]) -> list[str]:
    """The pictures in one folder, in the order of their names, as paths below ``root``."""
    names = (name for name, is_folder in entries_of(root, folder, problems) if not is_folder)
    return [f"{folder}/{name}" for name in names if is_picture_name(name)]


def class_folders(root: Path, folder: str, pattern: re.Pattern[str], problems: list[Problem]) -> list[str]:
    """The folders in one folder whose names fit the pattern, in order; others are noted."""
    names = [name for name, is_folder in entries_of(root, folder, problems) if is_folder]
    problems += [
        Problem("folder that is no class", f"{folder}/{name}", "is not named like a class: left out")
        for name in names
        if not pattern.fullmatch(name)
    ]
    return [name for name in names if pattern.fullmatch(name)]


def _bytes(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{printable(str(path))}: expected {what}, got nothing") from None
    except IsADirectoryError:
        raise InputError(f"{printable(str(path))}: expected {what}, got a folder") from None
    except OSError as error:
        raise InputError(f"{printable(str(path))}: expected {what}, which cannot be read ({error.strerror})") from None


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Millions of objects are made and none is garbage: looking for some again and again takes longer than parsing."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
