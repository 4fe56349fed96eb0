"""Verify a benchmark: every file that its manifest lists is there with its checksum, and no other; so are its own lists."""

import csv
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from shortlist.data.inside import check_inside
from shortlist.data.manifest import CLASSES, MANIFEST, SUMS, checksum
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.machine import usable_cores
from shortlist.words import printable

NEEDED = ("path", "bytes", "sha256")
MISSING, CHANGED, EXTRA = KINDS = "missing file", "changed file", "file that is not in the manifest"
BESIDE = frozenset((MANIFEST, CLASSES, SUMS, "README.md", "lorenz.svg", "sheet.jpg"))  # what a build adds to the pictures


@dataclass(frozen=True)
class Listed:
    """A line of a manifest, as text."""

    path: str
    size: str
    sha256: str


def verify_benchmark(
    folder: str | Path, *, pictures_root: str | Path | None = None, progress: Callable[[int], None] | None = None
) -> list[Problem]:
    """The files of a benchmark that are missing, changed or not in its manifest, which is one of them; none if it is intact.

    Args:
        folder: with manifest.csv.
        pictures_root: the folder that the paths start from, if the pictures are not in the benchmark.
        progress: callback, called with the number of files read.
    """
    folder = Path(folder)
    root = folder if pictures_root is None else Path(pictures_root)
    listed = read_manifest(folder)
    check_inside(root, (line.path for line in listed), folder / MANIFEST)
    found = _changed_lists(folder)
    with ThreadPoolExecutor(usable_cores()) as pool:
        for number, difference in enumerate(pool.map(partial(_difference, root), listed), 1):
            found += [] if difference is None else [difference]
            if progress is not None:
                progress(number)
    if pictures_root is None:
        known = {line.path for line in listed} | BESIDE
        found += [Problem(EXTRA, path, "is there, but not in the manifest") for path in _files(folder) if path not in known]
    return sorted(found, key=lambda problem: (KINDS.index(problem.kind), problem.where))


def _changed_lists(folder: Path) -> list[Problem]:
    """Those of manifest.csv and classes.csv that are not as they were written; earlier versions noted no checksums of them."""
    try:
        lines = (folder / SUMS).read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Problem(CHANGED, SUMS, f"cannot be read: {(error.strerror or type(error).__name__).lower()}")]
    known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = []
    for name in (MANIFEST, CLASSES):
        if not (folder / name).is_file():
            found.append(Problem(MISSING, name, "belongs to the benchmark, but there is no such file"))
        elif (digest := checksum(folder / name)[1]) != known.get(name):
            listed = f"{known[name][:12]}…" if name in known else "none"
            found.append(Problem(CHANGED, name, f"has the SHA-256 {digest[:12]}…, {SUMS} lists {listed}"))
    return found


def read_manifest(folder: Path) -> list[Listed]:
    """The lines of a manifest."""
    path = folder / MANIFEST
    shown = printable(str(path))
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if lacking:
                raise InputError(f"{shown}: expected the columns {', '.join(NEEDED)}, got no {lacking[0]}")
            return [Listed(*(line[name] or "" for name in NEEDED)) for line in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{shown}: expected a table in CSV and UTF-8, got another file ({error})") from None


def _difference(root: Path, line: Listed) -> Problem | None:
    """How a file differs from its line, if it does."""
    path = root / line.path
    try:
        if not path.is_file():
            return Problem(MISSING, line.path, "is in the manifest, but there is no such file")
        length = path.stat().st_size
        if str(length) != line.size:
            return Problem(CHANGED, line.path, f"has {length:,} bytes, the manifest lists {line.size}")
        found = checksum(path)[1]
    except OSError as error:
        return Problem(CHANGED, line.path, f"cannot be read: {(error.strerror or type(error).__name__).lower()}")
    if found == line.sha256:
        return None
    return Problem(CHANGED, line.path, f"has the SHA-256 {found[:12]}…, the manifest lists {line.sha256[:12]}…")


def _files(folder: Path) -> Iterator[str]:
    """The paths of the files below a folder."""
    for where, _, names in os.walk(folder):
        inside = os.path.relpath(where, folder).replace(os.sep, "/")
        yield from (name if inside == "." else f"{inside}/{name}" for name in names)
