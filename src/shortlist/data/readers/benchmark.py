"""A benchmark that ``write_benchmark`` wrote: its manifest, and the order of its classes."""

import csv
from dataclasses import replace
from pathlib import Path

from shortlist.data.dataset import Dataset
from shortlist.data.inside import check_inside
from shortlist.data.manifest import CLASSES, MANIFEST
from shortlist.data.readers.picture_table import pictures_of_table
from shortlist.data.readers.table_dataset import Asked
from shortlist.data.verification import read_manifest
from shortlist.errors import InputError
from shortlist.words import printable


def read_benchmark(root: str | Path, *, pictures_root: str | Path | None = None, tolerance: float = 0.01) -> Dataset:
    """The pictures, labels, splits, groups and superclasses that a manifest lists, labels numbered as in its classes.csv.

    A manifest that lists files outside its folder is refused: it may come from others.

    Args:
        root: the folder with manifest.csv, or that file.
        pictures_root: the folder that the paths start from, if the pictures were left where they are (``--pictures none``); by
            default that of the manifest.
        tolerance: the share of absent pictures above which this fails.
    """
    folder = benchmark_folder(root)
    home = folder if pictures_root is None else Path(pictures_root)
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{printable(str(folder))}: expected a folder with {MANIFEST}, as `shortlist data build` writes it")
    listed = read_manifest(folder)
    check_inside(home, (line.path for line in listed), folder / MANIFEST)
    if pictures_root is None and listed and not any((home / line.path).exists() for line in listed):
        raise InputError(
            f"{printable(str(folder))}: none of the pictures in its manifest is there; for a benchmark built with --pictures "
            "none, set pictures_root=FOLDER to the folder that holds them"
        )
    asked = Asked("label", exact_labels=True)
    dataset = pictures_of_table(folder / MANIFEST, home, "path", asked, tolerance)
    order = _order(folder / CLASSES, dataset)
    classes = [dataset.classes[label] for label in order]
    return replace(
        dataset,
        name=folder.resolve().name,
        classes=classes,
        superclasses=None if dataset.superclasses is None else [dataset.superclasses[label] for label in order],
    )


def benchmark_folder(path: str | Path) -> Path:
    """The folder of a benchmark, given by itself or by its manifest."""
    path = Path(path)
    return path.parent if path.name == MANIFEST else path


def is_benchmark(path: Path) -> bool:
    """Whether this is the folder, or the manifest, of a benchmark."""
    folder = benchmark_folder(path)
    return (folder / MANIFEST).is_file() and (folder / CLASSES).is_file()


def _order(path: Path, dataset: Dataset) -> list[int]:
    """The classes in the order of the list; those that it lacks come last."""
    if not path.is_file():
        raise InputError(f"{printable(str(path))}: expected the classes of the benchmark, got nothing")
    place = {name: label for label, name in enumerate(dataset.classes)}
    with path.open(newline="", encoding="utf-8") as file:
        listed = [place[line["name"]] for line in csv.DictReader(file) if line.get("name") in place]
    return [*dict.fromkeys(listed), *(label for label in range(len(place)) if label not in set(listed))]
