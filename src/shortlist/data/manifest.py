"""A benchmark as a folder: pictures by split and class, and a manifest that names each with its checksum."""

import csv
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from shortlist.data.dataset import Dataset
from shortlist.data.pictures import PictureFiles
from shortlist.data.threads import usable_cores
from shortlist.errors import InputError

Placing: TypeAlias = Literal["link", "copy", "none"]
PLACINGS: dict[str, Placing] = {"link": "link", "copy": "copy", "none": "none"}
MANIFEST, CLASSES = "manifest.csv", "classes.csv"
COLUMNS = ("path", "label", "superclass", "split", "group", "bytes", "sha256", "source")
UNSAFE = re.compile(r'[\x00-\x1f/\\:*?"<>|]+')
BLOCK = 2**20


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

    def row(self) -> list[str | int]:
        """Its line of the manifest."""
        return [getattr(self, column) for column in COLUMNS]


def write_benchmark(
    dataset: Dataset, folder: Path, *, placing: Placing = "link", progress: Callable[[int], None] | None = None
) -> list[Entry]:
    """Put the pictures of a dataset into a folder as ``split/class/picture``, with manifest.csv and classes.csv.

    Args:
        dataset: of picture files, with one label a row.
        folder: an empty folder.
        placing: ``"link"`` gives files a second name where the file system can and copies them where not, ``"copy"`` copies,
            ``"none"`` leaves them where they are and only lists them.
        progress: told how many pictures are done.
    """
    if placing not in PLACINGS:
        raise InputError(f"placing: expected one of {', '.join(PLACINGS)}, got {placing!r}")
    entries = list(_entries(dataset, folder, placing, progress))
    with (folder / MANIFEST).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(entry.row() for entry in entries)
    _write_classes(dataset, folder / CLASSES)
    return entries


def _entries(dataset: Dataset, folder: Path, placing: Placing, progress: Callable[[int], None] | None) -> Iterator[Entry]:
    names = _safe_names(dataset)
    done = 0
    for split_name, split in dataset.splits.items():
        if not isinstance(split.inputs, PictureFiles):
            raise InputError(f"{dataset.name}: expected picture files, got pictures in memory or features")
        sources = [split.inputs.path(row) for row in range(len(split))]
        with ThreadPoolExecutor(usable_cores()) as pool:
            for row, (length, digest) in enumerate(pool.map(_checksum, sources)):
                label = int(split.target[row])
                name = f"{digest[:12]}{sources[row].suffix.lower()}"
                inside = f"{split_name}/{names[label]}/{name}"
                path = inside if placing != "none" else str(sources[row].resolve())
                if placing != "none":
                    path = _placed(sources[row], folder, inside, placing == "link")
                group = "" if split.groups is None else split.groups[row]
                above = "" if dataset.superclasses is None else dataset.superclasses[label]
                yield Entry(path, dataset.classes[label], above, split_name, group, length, digest, split.ids[row])
                done += 1
                if progress is not None:
                    progress(done)


def _placed(source: Path, folder: Path, inside: str, link: bool) -> str:
    """Where the picture was put: under its checksum, numbered where the same picture comes twice."""
    path, copies = folder / inside, 1
    while path.exists():
        copies += 1
        path = (folder / inside).with_stem(f"{Path(inside).stem}-{copies}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if link:
        try:
            os.link(source.resolve(), path)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, path)
    else:
        shutil.copyfile(source, path)
    return path.relative_to(folder).as_posix()


def _checksum(path: Path) -> tuple[int, str]:
    digest, length = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            length += len(block)
    return length, digest.hexdigest()


def _safe_names(dataset: Dataset) -> list[str]:
    """A folder name for each class: its own, without what file systems refuse, and no two alike."""
    found: list[str] = []
    taken: set[str] = set()
    for label, name in enumerate(dataset.classes):
        safe = UNSAFE.sub("_", name).strip(" .")[:120] or f"class {label}"
        found.append(safe if safe.casefold() not in taken else f"{safe} ({label})")
        taken.add(found[-1].casefold())
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
