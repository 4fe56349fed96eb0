"""Pictures that a label file names → splits: those that are not there, and those named twice, are noted and left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from shortlist.data.dataset import TRAIN, Dataset, Split, classes_without_rows
from shortlist.data.names import check_names
from shortlist.data.pictures import Box, PictureBoxes, PictureFiles, box_id
from shortlist.data.presence import absent_paths
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable

ABSENT = "absent picture"
TWICE = "picture named twice"


@dataclass(frozen=True, eq=False)
class NamedPictures:
    """Rows of a label file.

    Args:
        paths: of the pictures, below the folder of the dataset.
        target: int64 (N,), or bool (N, C).
        groups: which rows belong together, where it is known.
        boxes: the part of its picture that each row is of, where rows are not whole pictures.
        columns: what else is known about each row, by name.
    """

    paths: Sequence[str]
    target: Array
    groups: Sequence[str] | None = None
    boxes: Sequence[Box] | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.paths)

    def only(self, kept: Array) -> "NamedPictures":
        """The rows that are marked."""
        if kept.all():
            return self
        rows = np.flatnonzero(kept).tolist()
        groups = None if self.groups is None else [self.groups[row] for row in rows]
        boxes = None if self.boxes is None else [self.boxes[row] for row in rows]
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return NamedPictures([self.paths[row] for row in rows], self.target[kept], groups, boxes, columns)

    @property
    def ids(self) -> Sequence[str]:
        """The name of each row: its path, and its box where it is a part of a picture."""
        if self.boxes is None:
            return self.paths
        return [box_id(path, box) for path, box in zip(self.paths, self.boxes, strict=True)]

    def inputs(self, root: Path) -> PictureFiles | PictureBoxes:
        """The pictures, of which paths start from this folder."""
        return PictureFiles(root, self.paths) if self.boxes is None else PictureBoxes(root, self.paths, self.boxes)


def dataset_of(
    name: str,
    root: Path,
    classes: Sequence[str],
    named: Mapping[str, NamedPictures],
    *,
    superclasses: Sequence[str] | None = None,
    reference: str = "",
    problems: Sequence[Problem] = (),
    same_classes: bool = True,
) -> Dataset:
    """The dataset of the pictures that are there.

    Args:
        name: the name of the dataset.
        root: the folder that paths start from.
        classes: their names, in label order.
        named: the rows of each split.
        superclasses: the name of the superclass of each class.
        reference: the publication to cite.
        problems: problems found so far.
        same_classes: whether every split ought to hold every class, so that one which does not is noted.
    """
    noted = list(problems)
    splits = {}
    for split, rows in named.items():
        there = _there(root, split, _once(rows, noted), noted)
        if len(there):
            target = torch.from_numpy(np.ascontiguousarray(there.target))
            splits[split] = Split(there.inputs(root), target, there.ids, there.groups, columns=there.columns)
    if not splits:
        first = next((rows.paths[0] for rows in named.values() if len(rows)), None)
        raise InputError(
            f"{printable(str(root))}: expected the pictures of {name}"
            + (
                f", {printable(first)} the first of them, got none of {_total(named):,}"
                if first
                else ", got no row with a label"
            )
        )
    noted += [*check_names(classes), *classes_without_rows(splits, classes, same_classes)]
    return Dataset(name, classes, splits, superclasses, reference, noted)


def with_val_in_train(named: Mapping[str, NamedPictures]) -> dict[str, NamedPictures]:
    """The rows of train and val as train, for protocols that train on both; training sets rows aside to choose the epoch."""
    parts = [named[split] for split in (TRAIN, "val") if split in named]
    if len(parts) < 2:
        raise InputError(f"trainval: expected label files of train and val, got those of {', '.join(named) or 'none'}")
    first, second = parts
    groups = None if first.groups is None or second.groups is None else [*first.groups, *second.groups]
    boxes = None if first.boxes is None or second.boxes is None else [*first.boxes, *second.boxes]
    columns = {name: [*first.columns[name], *second.columns[name]] for name in first.columns if name in second.columns}
    target = np.concatenate([first.target, second.target])
    joined = NamedPictures([*first.paths, *second.paths], target, groups, boxes, columns)
    return {TRAIN: joined, **{split: rows for split, rows in named.items() if split not in (TRAIN, "val")}}


def distinct_names(names: Sequence[str], codes: Sequence[str]) -> list[str]:
    """Names that several classes share get the code of the class, so that every class has a name of its own.

    >>> distinct_names(["crane", "newt", "crane"], ["n02012849", "n01630670", "n03126707"])
    ['crane (n02012849)', 'newt', 'crane (n03126707)']
    """
    times = Counter(names)
    told_apart = [f"{name} ({code})" if times[name] > 1 else name for name, code in zip(names, codes, strict=True)]
    if len(set(told_apart)) == len(names) or len(set(codes)) < len(names):
        return told_apart
    return distinct_names(told_apart, codes)  # a class may already be called like a name with a code


def shared_names(names: Sequence[str]) -> Iterator[Problem]:
    """Names that several classes of a file have, where it should give each its own.

    >>> [str(problem) for problem in shared_names(["crane", "newt", "crane"])]
    ['crane: is the name of 2 classes: told apart by their numbers']
    """
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem("name of several classes", name, f"is the name of {count} classes: told apart by their numbers")


def _once(rows: NamedPictures, problems: list[Problem]) -> NamedPictures:
    """Only the first of rows with the same name."""
    names = rows.ids
    if len(set(names)) == len(rows):
        return rows
    first: dict[str, int] = {}
    kept = np.zeros(len(rows), bool)
    for row, path in enumerate(names):
        before = first.setdefault(path, row)
        kept[row] = before == row
        if before != row:
            same = np.array_equal(rows.target[row], rows.target[before])
            problems.append(Problem(TWICE, path, f"again, with {'the same' if same else 'another'} label: the first is kept"))
    return rows.only(kept)


def _there(root: Path, split: str, rows: NamedPictures, problems: list[Problem]) -> NamedPictures:
    """Only the rows whose picture is there; where none is, that is one problem and not thousands."""
    absent = absent_paths(root, rows.paths)
    if absent.all():
        what = f"none of its {len(rows):,} pictures is there" if len(rows) else "has no row with a label"
        problems.append(Problem("split without pictures", split, f"{what}: left out"))
    else:
        problems += [Problem(ABSENT, rows.paths[row], "is not there: left out") for row in np.flatnonzero(absent).tolist()]
    return rows.only(~absent)


def _total(named: Mapping[str, NamedPictures]) -> int:
    return sum(len(rows) for rows in named.values())
