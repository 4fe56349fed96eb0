"""What a table of pictures and a table of features share: everything about their rows but the inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data.dataset import Dataset, Split, classes_without_rows
from shortlist.data.names import check_separators, superclasses_of
from shortlist.data.pictures import Pictures
from shortlist.data.problems import Problem
from shortlist.data.readers.columns import find_column, find_label_columns
from shortlist.data.readers.label_columns import Labels, read_labels
from shortlist.data.readers.table_file import TableFile
from shortlist.data.readers.table_rows import group_names, in_splits, split_numbers, superclass_names
from shortlist.errors import InputError
from shortlist.tensors import Array


@dataclass(frozen=True)
class Asked:
    """What a caller said about the columns; None: look for the usual names."""

    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    superclass_column: str | None = None
    superclass: str | None = None
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.superclass is not None and self.superclass_column is not None:
            raise InputError("superclass and superclass_column: expected one of them, got both")


@dataclass(frozen=True)
class Roles:
    """Which column is which."""

    labels: list[str]
    split: str | None
    group: str | None
    superclass: str | None

    @property
    def columns(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.labels, *(name for name in (self.split, self.group, self.superclass) if name)]))


def find_roles(file: TableFile, asked: Asked, taken: Sequence[str | None] = ()) -> Roles:
    """The columns by name; ``taken`` have a purpose already."""
    split = find_column(file.names, "split", asked.split_column, file.name)
    group = find_column(file.names, "group", asked.group_column, file.name)
    above = None
    if asked.superclass is None:
        above = find_column(file.names, "superclass", asked.superclass_column, file.name)
    labels = find_label_columns(file.names, asked.label_column, (*taken, split, group, above), file.name)
    return Roles(labels, split, group, above)


def labels_of(file: TableFile, table: Any, roles: Roles, asked: Asked) -> Labels:
    """The labels of every row of the table."""
    return read_labels(table, roles.labels, asked.label_column, asked.separator, empty_is_none=file.is_csv)


@dataclass(frozen=True, eq=False)
class Rows:
    """The inputs of a table, row by row.

    Args:
        inputs: pictures or features.
        ids: what a person calls each row.
        usable: bool (N,): False where the input is absent.
        problems: what was odd about them.
    """

    inputs: Pictures | Tensor
    ids: Sequence[str]
    usable: Array
    problems: Sequence[Problem]


def assemble(file: TableFile, table: Any, roles: Roles, asked: Asked, labels: Labels, rows: Rows) -> Dataset:
    """Inputs and labels in their splits, without the rows that lack something, each of which is named."""
    numbers, split_names = split_numbers(_column(table, roles.split), roles.split or "", table.num_rows)
    problems = [*rows.problems, *labels.problems]
    problems += _left_out(rows.ids, rows.usable & ~labels.known, "row without a label", "has no label")
    problems += _left_out(rows.ids, rows.usable & labels.known & (numbers < 0), "row without a split", "is in no split")
    kept = np.flatnonzero(rows.usable & labels.known & (numbers >= 0))
    if not len(kept):
        raise InputError(f"{file.name}: expected inputs with labels, got {table.num_rows:,} rows and none that can be used")
    groups = group_names(_filled(table, roles.group), roles.group or "", rows.ids)
    whole = Split(rows.inputs, torch.from_numpy(labels.target), rows.ids, groups).rows(torch.from_numpy(kept))
    splits = in_splits(whole, numbers[kept], split_names)
    above, more = _superclasses(table, roles, asked, labels)
    problems += [*more, *classes_without_rows(splits, labels.classes)]
    problems += check_separators(labels.classes) if labels.target.ndim == 1 else []
    return Dataset(file.path.stem, labels.classes, splits, above, problems=problems)


def _filled(table: Any, name: str | None) -> Any | None:
    """The column, unless every cell of it is empty."""
    column = _column(table, name)
    return None if column is None or column.null_count == len(column) else column


def _superclasses(table: Any, roles: Roles, asked: Asked, labels: Labels) -> tuple[list[str] | None, list[Problem]]:
    if _filled(table, roles.superclass) is None or roles.superclass is None:
        return superclasses_of(labels.classes, asked.superclass), []
    if labels.target.ndim == 1:
        return superclass_names(table.column(roles.superclass), roles.superclass, labels)
    what = "a row with several labels cannot say the superclass of each"
    if asked.superclass_column is not None:
        raise InputError(f"superclass_column: {what}")
    return None, [Problem("column not used", roles.superclass, what)]


def _left_out(ids: Sequence[str], which: Array, kind: str, what: str) -> list[Problem]:
    return [Problem(kind, ids[row], f"{what}: left out") for row in np.flatnonzero(which).tolist()]


def _column(table: Any, name: str | None) -> Any | None:
    return None if name is None else table.column(name)
