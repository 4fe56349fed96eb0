"""What every file format holds, and how it is written and found."""

import fnmatch
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.class_names import as_number
from shortlist.column_names import is_no_class, is_row_number
from shortlist.errors import InputError, ShortlistWarning
from shortlist.predictions.checks import as_quality, check_storable
from shortlist.predictions.columns import kinds_of
from shortlist.predictions.numbered import Numbered
from shortlist.predictions.record import Predictions
from shortlist.tensors import shape_of
from shortlist.words import listed, quoted

VERSION = "shortlist-predictions/1"
QUALITY = "quality"  # the name of one number per row
COLUMN_PREFIX = "column."  # of the names of columns among arrays
SIGNS = re.compile(r"\[!?(?:\][^\]]*|[^\]]+)\]|.", re.DOTALL)  # of a pattern: a star, or what stands for one character


def matched_part(name: str, pattern: str) -> str:
    """The part of a name that the star of a pattern stands for; of several stars, from the first to the last.

    The pattern is one of :mod:`fnmatch` that matches the name: ``?`` and ``[…]`` stand for one character each.

    >>> matched_part("label.oak", "label.*"), matched_part("oak_prob", "*_prob"), matched_part("p1_oak", "p[0-9]_*")
    ('oak', 'oak', 'oak')
    """
    signs = SIGNS.findall(pattern)
    if "*" not in signs:
        return name
    after = signs[::-1].index("*")
    return name[signs.index("*") : len(name) - after]


@dataclass(kw_only=True)
class Header:
    """What a file holds besides its rows, in the forms that files can hold."""

    classes: Sequence[str] | None = None
    superclasses: Sequence[str] | None = None
    train_counts: Tensor | None = None
    link: dict[str, Any] | None = None
    link_tensors: dict[str, Tensor] = field(default_factory=dict)
    network_digest: str | None = None


@dataclass(kw_only=True)
class Stored(Header):
    """A whole file: what it says about its columns, and its rows.

    If ``numbered`` is set, labels are the names of classes, which are numbers other than their places.
    """

    scores: Tensor
    target: Tensor | Sequence[str] | None = None  # class names, if that is what the file of another program holds
    ids: Sequence[str] | None = None
    quality: Tensor | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    labelled: Tensor | None = None  # bool (N,): the rows that the target is of, if those without a label were told apart
    numbered: Numbered | None = None


@dataclass(frozen=True)
class RowKind:
    """What each row of a file holds, known from its first block.

    Args:
        classes: the number of scores.
        scores: their dtype.
        target: the dtype of the labels: int64 (one) or bool (any number); None without labels.
        ids: whether rows have names.
        quality: whether rows have a quality.
        columns: the names of their columns, and whether these hold texts (U), whole numbers (i) or other numbers (f).
    """

    classes: int
    scores: torch.dtype
    target: torch.dtype | None
    ids: bool
    quality: bool
    columns: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(rows: Predictions) -> "RowKind":
        """The kind of these rows."""
        target = None if rows.target is None else rows.target.dtype
        ids, quality = rows.ids is not None, rows.quality is not None
        return RowKind(rows.num_classes, rows.scores.dtype, target, ids, quality, kinds_of(rows.columns))

    def check_same(self, other: "RowKind", where: str) -> None:
        """Raise an error if other rows differ from these, which are those of ``where``."""
        for name in ("classes", "scores", "target", "ids", "quality", "columns"):
            was, now = getattr(self, name), getattr(other, name)
            if was != now:
                raise InputError(f"{name}: expected {_worded(was, name)} {where}, got {_worded(now, name)}")

    @property
    def multi_label(self) -> bool:
        """Whether a row may have any number of labels."""
        return self.target == torch.bool


def _worded(value: Any, name: str) -> str:
    """A dtype, a number of classes, or whether something is there."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if name == "columns":
        held = {"U": "texts", "i": "whole numbers", "f": "numbers"}
        return listed([f"{one} ({held[kind]})" for one, kind in value]) or "none"
    if isinstance(value, bool):
        return "none" if not value else "names" if name == "ids" else "numbers"
    return "none" if value is None else str(value)


class Sink(ABC):
    """A file that is written a block of rows at a time; nothing of the size of the whole is held in memory.

    Args:
        path: the file to write.
        header: what it holds besides its rows.
        kind: what each of its rows holds.
    """

    @abstractmethod
    def __init__(self, path: Path, header: Header, kind: RowKind): ...

    def add(self, rows: Predictions) -> None:
        """Append rows of this kind; their names are left out if the file has none."""
        check_storable(rows.ids, "ids")
        self._append(rows)

    @abstractmethod
    def _append(self, rows: Predictions) -> None:
        """Write rows, whose names can be written."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the file."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file, complete or not."""


@dataclass(frozen=True)
class Keys:
    """The names under which a file holds scores, target, row names and quality; None stands for the names that we write."""

    scores: str | None = None
    target: str | None = None
    ids: str | None = None
    quality: str | None = None
    no_label: str | None = None  # the entry of the target that stands for no label
    columns: tuple[str, ...] = ()  # what else is read of files of other programs
    classes: tuple[str, ...] | None = None  # the name of each column of scores, where the file names none
    numbers: tuple[str, ...] = ()  # those of the columns that hold numbers, however these are written
    votes: str | None = None  # a pattern of columns with a number for each class, which are no scores

    def classes_of(self, own: Sequence[str] | None) -> list[str] | None:
        """The classes whose names are labels: those that were given, unless the file has names for them.

        >>> Keys(classes=("ash", "elm")).classes_of(["0", "1"]), Keys(classes=("ash", "elm")).classes_of(["fir", "oak"])
        (['ash', 'elm'], ['fir', 'oak'])
        """
        unnamed = own is None or list(own) == [str(place) for place in range(len(own))]
        return list(self.classes) if self.classes is not None and unnamed else None if own is None else list(own)

    def __post_init__(self) -> None:
        if self.ids in (self.scores or "scores", self.target or "target", "classes", ""):
            raise InputError(f"ids_key: expected the row names, got {self.ids!r}, which holds something else")
        if self.quality in (self.scores or "scores", self.target or "target", self.ids or "id", "classes", ""):
            raise InputError(f"quality_key: expected one number per row, got {self.quality!r}, which holds something else")

    def find_scores(self, names: Iterable[str]) -> list[str]:
        """The array or columns that hold the scores; ``*`` stands for any text, and also for itself.

        The target, ``id``, the quality, votes for a class and columns in which pandas writes row numbers never match; nor do
        columns with the usual name of labels, superclasses, splits or ids match a star that stands for the whole name.
        """
        quality = None if self.scores == QUALITY else QUALITY
        aside = (self.target or "target", self.ids, "id", self.quality or quality, *self.columns)
        names = [name for name in names if name not in aside and not is_row_number(name)]
        wanted = self.scores or "scores"
        matching = [name for name in names if fnmatch.fnmatchcase(name, wanted)]
        found = [name for name in matching if not is_no_class(name)] if set(wanted) == {"*"} else matching
        if wanted in names and ("*" not in wanted or wanted not in found):
            found = [name for name in names if name == wanted]
        found = self._without_votes(found)
        if not found:
            raise InputError(f"expected scores under {wanted!r}, found {quoted(names)}: set scores_key")
        return found

    def _without_votes(self, found: list[str]) -> list[str]:
        """Of columns that look like scores those that are not the votes for the class of another."""
        if self.votes is None or "*" not in self.votes:
            return found
        column_of = {self.votes.replace("*", label): name for name, label in zip(found, self.class_names(found), strict=True)}
        return [name for name in found if column_of.get(name, name) == name]

    def class_names(self, columns: Sequence[str]) -> list[str]:
        """The names of the classes: the part of each column's name that the star stands for."""
        if self.scores is None:
            return list(columns)
        return [matched_part(name, self.scores) for name in columns]

    def find_target(self, names: Iterable[str]) -> str | None:
        """The array or column of the target, if there is one; an error if it was named and is missing."""
        names = list(names)
        wanted = self.target or "target"
        if wanted not in names and self.target is not None:
            raise InputError(f"expected a target under {wanted!r}, found {quoted(names)}: set target_key")
        return wanted if wanted in names else None

    def find_ids(self, names: Iterable[str], usual: str) -> str | None:
        """The array or column of the row names, if there is one; an error if it was named and is missing."""
        names = list(names)
        wanted = usual if self.ids is None else self.ids
        if wanted not in names and self.ids is not None:
            raise InputError(f"expected row names under {wanted!r}, found {quoted(names)}: set ids_key")
        return wanted if wanted in names else None

    def present(self, target: Tensor | Sequence[str], classes: Sequence[str] = ()) -> Tensor | None:
        """Whether each entry of a target is a label, bool (N,); None if no entry was named that stands for none.

        What spells the same number as ``no_label``, such as -1.0 for -1, stands for none too, unless a class is called so.
        """
        if self.no_label is None:
            return None
        if isinstance(target, Tensor) and target.ndim != 1:
            raise InputError(f"no_label: expected a target with one entry per row, got {shape_of(target)}")
        number = as_number(self.no_label)
        if isinstance(target, Tensor):
            if number is not None:
                return target != float(number)
            return ~target.isnan() if self.no_label.casefold() in ("", "nan") else torch.ones_like(target, dtype=torch.bool)
        others = set() if number is None else set(target) - set(classes)
        none = {self.no_label, *(entry for entry in others if as_number(entry.strip()) == number)}
        return torch.tensor([entry not in none for entry in target], dtype=torch.bool)

    def find_quality(self, names: Iterable[str]) -> str | None:
        """The array or column of the quality, if there is one; an error if it was named and is missing."""
        names = list(names)
        if self.quality is not None and self.quality not in names:
            raise InputError(f"expected a quality under {self.quality!r}, found {quoted(names)}: set quality_key")
        wanted = self.quality or QUALITY
        return wanted if wanted in names and wanted not in (self.scores, self.target, self.ids) else None

    def find_columns(self, names: Iterable[str], ours: Iterable[str] = ()) -> dict[str, str]:
        """The arrays or columns that hold further columns, by the name of these; an error if one was asked for and is missing.

        Args:
            names: of everything in the file.
            ours: names under which the file says that it holds columns.
        """
        names = list(names)
        found = {name.removeprefix(COLUMN_PREFIX): name for name in ours if name in names}
        missing = next((name for name in self.columns if name not in names and name not in found), None)
        if missing is not None:
            raise InputError(f"columns: expected {missing!r}, found {quoted(names)}")
        return found | {name: name for name in self.columns if name not in found}

    def unread(self, names: Sequence[str]) -> list[str]:
        """The columns of a table of another program that are not read."""
        read = self.read(names, "id")
        return [name for name in names if name not in read and name not in self.columns and not is_row_number(name)]

    def read(self, names: Sequence[str], usual: str) -> set[str | None]:
        """The arrays or columns of scores, target, row names and quality; the usual name is that of row names."""
        return {*self.find_scores(names), self.find_target(names), self.find_ids(names, usual), self.find_quality(names)}

    def check_quality(self, quality: Any, rows: int) -> Tensor | None:
        """The quality if it is one finite number per row; else None, with a warning, or an error if it was named."""
        try:
            return as_quality(quality, rows)
        except InputError as error:
            if self.quality is not None:
                raise InputError(f"quality_key: {self.quality!r} cannot be the quality of the rows ({error})") from error
            warnings.warn(f"{QUALITY!r} is not read as the quality of the rows: {error}", ShortlistWarning, stacklevel=2)
            return None

    def check_ids(self, ids: Sequence[str]) -> Sequence[str] | None:
        """The row names if they are unique; else None, with a warning, or an error if the column was named."""
        counts = Counter(ids)
        nameless = "" in counts
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is None and not nameless:
            return ids
        fault = "leave some rows without a name" if nameless else f"name several rows {twice!r}"
        if self.ids is not None:
            raise InputError(f"ids_key: expected {self.ids!r} to name every row differently; its entries {fault}")
        warnings.warn(f"the ids {fault}, so rows are numbered from 0 instead", ShortlistWarning, stacklevel=2)
        return None
