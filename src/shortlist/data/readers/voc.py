"""PASCAL VOC 2007 and 2012: which of 20 kinds of object a picture shows."""

import re
from collections import Counter
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import chosen_year, contents, text_lines
from shortlist.data.readers.named_pictures import TWICE, NamedPictures, dataset_of
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable

Difficult: TypeAlias = Literal["negative", "positive", "drop"]
MAIN = "ImageSets/Main"
SPLITS = (TRAIN, "val", "test")
YEAR_FOLDER = re.compile(r"VOC(\d{4})")
SOURCE = "It is offered at http://host.robots.ox.ac.uk/pascal/VOC/: give the folder VOCdevkit that the archives unpack to"
REFERENCE = "Everingham, Van Gool, Williams, Winn, Zisserman, The PASCAL Visual Object Classes Challenge {} Results"
SUPERCLASSES = {
    "person": ("person",),
    "animal": ("bird", "cat", "cow", "dog", "horse", "sheep"),
    "vehicle": ("aeroplane", "bicycle", "boat", "bus", "car", "motorbike", "train"),
    "indoor": ("bottle", "chair", "diningtable", "pottedplant", "sofa", "tvmonitor"),
}
SUPERCLASS_OF = {name: above for above, names in SUPERCLASSES.items() for name in names}
NEGATIVE, DIFFICULT, POSITIVE = -1, 0, 1  # as the files say


def read_voc(root: str | Path, *, year: int | None = None, difficult: Difficult = "negative") -> Dataset:
    """PASCAL VOC from ``VOCdevkit/VOC2007`` or ``VOC2012``: the splits there are of train, val and test; a bool target (N, 20).

    A label of 0 says that a picture shows the class only in objects marked as difficult, and the challenge leaves such pairs
    out of its evaluation. A bool target cannot, so there is a choice. They count as absent by default, as in Cole et al.,
    "Multi-label learning from single positive labels", 2021 (``preproc/format_pascal.py`` of their code), and in mmpretrain;
    Durand et al., WILDCAT, 2017, and code that follows it, train on them as present.

    Args:
        root: VOCdevkit, a folder that holds it, or the folder of one year.
        year: 2007 or 2012; only needed where both are there.
        difficult: ``"negative"`` or ``"positive"``, or ``"drop"`` to leave out every picture with such a label.
    """
    if difficult not in ("negative", "positive", "drop"):
        raise InputError(f"difficult: expected 'negative', 'positive' or 'drop', got {difficult!r}")
    home, found = _home(Path(root), year)
    splits = [split for split in SPLITS if (home / MAIN / f"{split}.txt").is_file()]
    classes = _classes(home / MAIN, splits)
    problems: list[Problem] = []
    named = {split: _rows(home, split, classes, difficult, problems) for split in splits}
    superclasses = [SUPERCLASS_OF[name] for name in classes] if set(classes) <= set(SUPERCLASS_OF) else None
    reference = REFERENCE.format(found)
    return dataset_of(f"VOC {found}", home, classes, named, superclasses=superclasses, reference=reference, problems=problems)


def _home(root: Path, year: int | None) -> tuple[Path, int]:
    """The folder of a year, and the year."""
    folders = {
        int(match[1]): folder
        for folder in (root.resolve(), *(inner for place in (root, root / "VOCdevkit") for inner in place.glob("VOC*")))
        if (match := YEAR_FOLDER.fullmatch(folder.name)) and (folder / MAIN).is_dir()
    }
    if not folders:
        raise InputError(
            f"{printable(str(root))}: expected PASCAL VOC, with VOC2007/{MAIN} or its like below it, "
            f"got {contents(root)}. {SOURCE}"
        )
    chosen = chosen_year(sorted(folders), year)
    return folders[chosen], chosen


def _classes(main: Path, splits: list[str]) -> list[str]:
    """The classes that have a file, in alphabetical order, which is the published one."""
    names = [path.stem.rpartition("_") for path in main.glob("*_*.txt")]
    classes = sorted({name for name, _, split in names if split in splits})
    if not classes:
        raise InputError(f"{printable(str(main))}: expected lists such as train.txt and cat_train.txt, got {contents(main)}")
    return classes


def _rows(home: Path, split: str, classes: list[str], difficult: Difficult, problems: list[Problem]) -> NamedPictures:
    lines = text_lines(home / MAIN / f"{split}.txt", "the pictures of a split")
    pictures = list(dict.fromkeys(lines))
    if len(pictures) < len(lines):
        problems += [Problem(TWICE, name, f"is in {split}.txt more than once") for name, n in Counter(lines).items() if n > 1]
    row = {picture: place for place, picture in enumerate(pictures)}
    marks = np.full((len(pictures), len(classes)), NEGATIVE, np.int8)
    for label, name in enumerate(classes):
        marks[:, label] = _marks(home / MAIN / f"{name}_{split}.txt", row, problems)
    hard = marks == DIFFICULT
    target = (marks == POSITIVE) | (hard if difficult == "positive" else False)
    kept = ~hard.any(1) if difficult == "drop" else np.ones(len(pictures), bool)
    if hard.any():
        done = "their pictures are left out" if difficult == "drop" else f"they count as {difficult}"
        problems.append(Problem("difficult labels", split, f"{hard.sum():,} labels of {hard.any(1).sum():,} pictures: {done}"))
    return NamedPictures([f"JPEGImages/{picture}.jpg" for picture in pictures], target).only(kept)


def _marks(path: Path, row: dict[str, int], problems: list[Problem]) -> Array:
    """-1, 0 or 1 for each picture of the split, from lines ``picture  1``; pictures that the file lacks are noted."""
    marks = np.full(len(row), NEGATIVE, np.int8)
    seen = np.zeros(len(row), bool)
    for line in text_lines(path, "the labels of a class"):
        picture, mark = [*line.split(), ""][:2]
        if picture in row and mark in ("-1", "0", "1"):
            marks[row[picture]] = int(mark)
            seen[row[picture]] = True
        else:
            problems.append(
                Problem("line that cannot be read", path.name, f"{line[:60]!r} is no picture of the split with -1, 0 or 1")
            )
    if not seen.all():
        missing = [picture for picture, place in row.items() if not seen[place]]
        problems += [
            Problem("picture without a label", picture, f"is not in {path.name}: counts as negative") for picture in missing
        ]
    return marks
