"""A benchmark as a folder: pictures by split and class, and a manifest that names each with its checksum."""

import csv
import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Literal, TypeAlias

from shortlist.data.dataset import Dataset
from shortlist.data.pictures import PictureFiles
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.machine import usable_cores
from shortlist.tensors import is_single_label
from shortlist.words import expected_one_of

Placing: TypeAlias = Literal["link", "copy", "none"]
PLACINGS: dict[str, Placing] = {"link": "link", "copy": "copy", "none": "none"}
MANIFEST, CLASSES = "manifest.csv", "classes.csv"
SUMS = "SHA256SUMS"  # of these two, as sha256sum writes and checks them
OPTIONAL = ("superclass", "group")
COLUMNS = ("path", "label", "superclass", "split", "group", "bytes", "sha256", "source")
LONGEST_NAME = 200  # bytes: file systems hold 255, and a number may follow
UNSAFE = re.compile(r'[\x00-\x1f/\\:*?"<>|]+')


@dataclass(frozen=True)
class Entry:
    """One picture of a benchmark."""

    path: str
    label: str
    superclass: str
    split: str
    group: str
    bytes: int
    sha256: str
    source: str

    def row(self, columns: Sequence[str] = COLUMNS) -> list[str | int]:
        """Its line of the manifest."""
        return [getattr(self, column) for column in columns]


def write_benchmark(
    dataset: Dataset, folder: Path, *, placing: Placing = "link", progress: Callable[[int], None] | None = None
) -> list[Entry]:
    """Put the pictures of a dataset into a folder as ``split/class/picture``, with manifest.csv, classes.csv and SHA256SUMS.

    Args:
        dataset: of picture files, with one label a row.
        folder: an empty folder.
        placing: ``"link"`` gives files a second name where the file system can and copies them where not, ``"copy"`` copies,
            ``"none"`` leaves them where they are and only lists them, by their paths below :func:`pictures_folder`.
        progress: callback, called with the number of pictures done.
    """
    if placing not in PLACINGS:
        raise InputError(f"placing: {expected_one_of(placing, PLACINGS)}, got {placing!r}")
    check_writable(dataset)
    entries = list(_entries(dataset, folder, placing, progress))
    columns = [name for name in COLUMNS if name not in OPTIONAL or any(getattr(entry, name) for entry in entries)]
    with (folder / MANIFEST).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(entry.row(columns) for entry in entries)
    _write_classes(dataset, folder / CLASSES)
    sums = "".join(f"{checksum(folder / name)[1]}  {name}\n" for name in (CLASSES, MANIFEST))
    (folder / SUMS).write_text(sums, encoding="utf-8", newline="")
    return entries


def check_writable(dataset: Dataset) -> None:
    """Raise an error unless the dataset consists of picture files with one label each."""
    dataset.check_labelled()
    for name, split in dataset.splits.items():
        if not isinstance(split.inputs, PictureFiles):
            raise InputError(f"{dataset.name}: expected picture files, got pictures in memory or in a table, or features")
        if not is_single_label(split.labels):
            raise InputError(f"{dataset.name}: expected one label a row, got any number")
        if UNSAFE.search(name) or name.strip(" .") != name or not name:
            raise InputError(f"split {name!r}: expected a name that a folder can have")


def pictures_folder(dataset: Dataset) -> Path:
    """The innermost folder that holds all pictures of a dataset of picture files."""
    folders = {
        os.path.dirname(os.path.realpath(split.inputs.path(row)))
        for split in dataset.splits.values()
        if isinstance(split.inputs, PictureFiles)
        for row in range(len(split))
    }
    return Path(os.path.commonpath(folders))


def repeated_pictures(entries: Sequence[Entry]) -> list[Problem]:
    """Pictures that are there twice, byte for byte: under one label, or under two."""
    first: dict[str, Entry] = {}
    problems = []
    for entry in entries:
        other = first.setdefault(entry.sha256, entry)
        if other is not entry:
            same = other.label == entry.label
            kind = "same picture twice" if same else "same picture under two labels"
            what = (
                f"is {other.source} again"
                + ("" if same else f", there {other.label!r} and here {entry.label!r}")
                + ": both kept"
            )
            problems.append(Problem(kind, entry.source, what))
    return problems


def _entries(dataset: Dataset, folder: Path, placing: Placing, progress: Callable[[int], None] | None) -> Iterator[Entry]:
    names = _safe_names(dataset)
    home = pictures_folder(dataset) if placing == "none" else folder
    copies: Counter[str] = Counter()
    done = 0
    for split_name, split in dataset.splits.items():
        assert isinstance(split.inputs, PictureFiles)
        labels, sources = split.labels.tolist(), [split.inputs.path(row) for row in range(len(split))]
        with ThreadPoolExecutor(usable_cores()) as pool:
            for row, (length, digest) in enumerate(pool.map(checksum, sources)):
                label = labels[row]
                name = f"{digest[:12]}{sources[row].suffix.lower()}"
                inside = f"{split_name}/{names[label]}/{name}"
                if placing == "none":
                    path = sources[row].resolve().relative_to(home).as_posix()
                else:
                    copies[inside] += 1
                    path = _placed(sources[row], folder, inside, copies[inside], placing == "link")
                group = "" if split.groups is None else split.groups[row]
                above = "" if dataset.superclasses is None else dataset.superclasses[label]
                yield Entry(path, dataset.classes[label], above, split_name, group, length, digest, split.ids[row])
                done += 1
                if progress is not None:
                    progress(done)


def _placed(source: Path, folder: Path, inside: str, copy: int, link: bool) -> str:
    """Where the picture was put: under its checksum, numbered where the same picture comes twice."""
    path = folder / inside
    if copy > 1:
        path = path.with_stem(f"{path.stem}-{copy}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if link:
        try:
            os.link(source.resolve(), path)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, path)
    else:
        shutil.copyfile(source, path)
    return path.relative_to(folder).as_posix()


def checksum(path: Path) -> tuple[int, str]:
    """Length and SHA-256 of a file."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _safe_names(dataset: Dataset) -> list[str]:
    """A folder name for each class: its own, without what file systems refuse, and no two alike."""
    found: list[str] = []
    taken: set[str] = set()
    for label, name in enumerate(dataset.classes):
        cut = UNSAFE.sub("_", name).strip(" .").encode()[:LONGEST_NAME].decode(errors="ignore").rstrip(" .")
        candidates = chain([cut or f"class {label}"], (f"{cut} ({number})" for number in count(label)))
        free = next(safe for safe in candidates if safe.casefold() not in taken)
        found.append(free)
        taken.add(free.casefold())
    return found


def _write_classes(dataset: Dataset, path: Path) -> None:
    names = list(dataset.splits)
    counts = [dataset.splits[name].counts(len(dataset.classes)).tolist() for name in names]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "name", "superclass", "folder", *names])
        for label, (name, folder) in enumerate(zip(dataset.classes, _safe_names(dataset), strict=True)):
            above = "" if dataset.superclasses is None else dataset.superclasses[label]
            writer.writerow([label, name, above, folder, *(count[label] for count in counts)])
