"""What tables of pictures and tables of features have in common: everything but the inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shortlist.data.dataset import Dataset, Split, classes_without_rows
from shortlist.data.names import check_separators, superclasses_of
from shortlist.data.pictures import Pictures
from shortlist.data.problems import BLANKS, LABELS_NOT_USED, Problem, first_of
from shortlist.data.readers.columns import find_column, find_label_columns
from shortlist.data.readers.label_columns import Labels, read_labels, read_marks
from shortlist.data.readers.table_file import TableFile
from shortlist.data.readers.table_rows import group_names, in_splits, split_numbers, superclass_names
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import counted, listed, quoted


@dataclass(frozen=True)
class Asked:
    """The options of a caller about columns and labels; a column that is None is looked up by its usual names."""

    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    superclass_column: str | None = None
    superclass: str | None = None
    separator: str | None = None
    split: str | None = None
    require_labels: bool = True
    valid_column: str | None = None
    keep_invalid: bool = False
    exact_labels: bool = False  # blanks around a label belong to it, as in files that shortlist wrote
    feature_names: Sequence[str] = ()  # columns that are not looked up by their usual names: they are known to be features

    def __post_init__(self) -> None:
        if self.superclass is not None and self.superclass_column is not None:
            raise InputError("superclass and superclass_column: expected one of them, got both")

    @property
    def names_columns(self) -> bool:
        """Whether any option refers to a column."""
        named = (self.label_column, self.split_column, self.group_column, self.superclass_column, self.valid_column)
        return any((*named, self.separator))

    def free(self, names: Sequence[str]) -> list[str]:
        """The columns that are not known to be features."""
        known = set(self.feature_names)
        return [name for name in names if name not in known]

    def find_column(self, file: TableFile, role: str, named: str | None) -> str | None:
        """The column for one purpose, by the name that was given or by its usual names; None if there is none."""
        return find_column(self.free(file.names) if named is None else file.names, role, named, file.name)


@dataclass(frozen=True)
class Roles:
    """Which column is which."""

    labels: list[str]
    split: str | None
    group: str | None
    superclass: str | None
    valid: str | None

    @property
    def columns(self) -> list[str]:
        """All of them, each once."""
        others = (self.split, self.group, self.superclass, self.valid)
        return list(dict.fromkeys([*self.labels, *(name for name in others if name)]))


def find_roles(file: TableFile, asked: Asked, taken: Sequence[str | None] = (), *, features: bool) -> Roles:
    """Find the columns of labels, splits, groups and superclasses, and the one that says which labels are valid.

    Args:
        file: the table.
        asked: the caller's options.
        taken: columns that have another purpose.
        features: whether all other columns are features, so that every column with a purpose must be found.
    """
    split = asked.find_column(file, "split", asked.split_column)
    group, above = asked.group_column, asked.superclass_column
    if features or asked.require_labels:
        group = asked.find_column(file, "group", group)
        above = None if asked.superclass else asked.find_column(file, "superclass", above)
    valid = _find_valid(file, asked)
    rest = (*taken, split, group, above, valid)
    if asked.require_labels or asked.label_column is not None:
        return Roles(find_label_columns(file.names, asked.label_column, rest, file.name), split, group, above, valid)
    label = find_column([name for name in asked.free(file.names) if name not in rest], "label", None, file.name)
    return Roles([] if label is None else [label], split, group, above, valid)


def _find_valid(file: TableFile, asked: Asked) -> str | None:
    """The column that says which labels are valid: one that was named, or one of booleans called ``valid``."""
    found = asked.find_column(file, "valid", asked.valid_column)
    if found is None or asked.valid_column is not None or pa.types.is_boolean(file.schema.field(found).type):
        return found
    return None


@dataclass(frozen=True, eq=False)
class TableInputs:
    """The inputs of a table, row by row.

    Args:
        inputs: pictures or features.
        ids: the name of each row.
        usable: bool (N,): False where the input is missing.
        problems: what is wrong with them.
        feature_names: the name of each feature.
    """

    inputs: Pictures | Tensor
    ids: Sequence[str]
    usable: Array
    problems: Sequence[Problem]
    feature_names: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class DescribedTable:
    """A table with the columns that describe its rows: labels, splits, groups and superclasses.

    Args:
        file: where it is.
        table: the columns, as an Arrow table.
        roles: which column is which.
        asked: the caller's options.
        credits: columns that say whose each picture is, which splits keep.
    """

    file: TableFile
    table: Any
    roles: Roles
    asked: Asked
    credits: Sequence[str] = ()

    def credits_of_rows(self) -> dict[str, list[str]]:
        """The columns of credits by name, empty where a cell is."""
        return {name: [str(cell or "") for cell in self.table.column(name).to_pylist()] for name in self.credits}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str | None) -> Any | None:
        """A column, unless it is not there or every cell of it is empty."""
        column = None if name is None else self.table.column(name)
        return None if column is None or column.null_count == len(column) else column

    def labels(self) -> tuple[Labels | None, list[Problem]]:
        """The labels of every row; None, where they are not required, if there are none or a problem if they cannot be read."""
        if not self.roles.labels:
            return None, []
        try:
            csv, valid = self.file.is_csv, self.valid()
            table = self.table if valid.all() else self.table.filter(pa.array(valid))  # other labels name no class
            asked, exact = self.asked, self.asked.exact_labels
            labels = read_labels(table, self.roles.labels, asked.label_column, asked.separator, csv, exact=exact)
            return labels.at_rows(valid), []
        except InputError as error:
            if self.asked.require_labels:
                raise
            return None, [Problem(LABELS_NOT_USED, self.file.name, str(error))]

    def groups(self, ids: Sequence[str]) -> list[str] | None:
        """The group of every row."""
        return group_names(self.column(self.roles.group), self.roles.group or "", ids)

    def split_of_rows(self) -> tuple[Array, list[str]]:
        """The number of the split of every row, -1 for rows in no split that is wanted, and the names of the splits."""
        asked, name = self.asked.split, self.roles.split
        if asked is None and (name is None or not self.asked.require_labels):
            return split_numbers(None, "", len(self))
        if name is None:
            raise InputError(f"split: expected a split column in {self.file.name}, got {quoted(self.file.names)}")
        numbers, names = split_numbers(self.table.column(name), name, len(self))
        if asked is None:
            return numbers, names
        if asked not in names:
            raise InputError(f"split: expected one of the splits of {self.file.name} ({listed(names)}), got {asked!r}")
        return np.where(numbers == names.index(asked), 0, -1), [asked]

    def valid(self) -> Array:
        """Whether the label of every row is valid, bool (N,): not where the column says so, unless such labels are wanted."""
        column = self.column(self.roles.valid)
        if column is None or self.asked.keep_invalid:
            return np.ones(len(self), bool)
        marked = read_marks(column, self.roles.valid or "")
        return marked.yes | ~marked.known

    def superclasses(self, labels: Labels) -> tuple[list[str] | None, list[Problem]]:
        """The superclass of every class."""
        name = self.roles.superclass
        column = self.column(name)
        if name is None or column is None:
            return superclasses_of(labels.classes, self.asked.superclass), []
        if labels.target.ndim == 1:
            return superclass_names(column, name, labels)
        what = "a row with several labels cannot say the superclass of each"
        if self.asked.superclass_column is not None:
            raise InputError(f"superclass_column: {what}")
        return None, [Problem("column not used", name, what)]


def labelled_dataset(described: DescribedTable, labels: Labels, rows: TableInputs) -> Dataset:
    """Inputs and labels in their splits; rows without an input, a label or a split are left out, with a problem each."""
    file, (numbers, split_names) = described.file, described.split_of_rows()
    problems = [*rows.problems, *labels.problems]
    valid, known = described.valid(), labels.known
    problems += _left_out(rows.ids, rows.usable & valid & ~known, "row without a label", "has no label")
    problems += _left_out(rows.ids, rows.usable & ~valid, "label not valid", "its label is not valid")
    if described.asked.split is None:
        problems += _left_out(rows.ids, rows.usable & known & (numbers < 0), "row without a split", "is in no split")
    kept = np.flatnonzero(rows.usable & known & (numbers >= 0))
    if not len(kept):
        raise InputError(f"{file.name}: expected inputs with labels, got {len(described):,} rows and none that can be used")
    target, groups = torch.from_numpy(labels.target), described.groups(rows.ids)
    whole = Split(rows.inputs, target, rows.ids, groups, columns=described.credits_of_rows())
    splits = in_splits(whole.rows(torch.from_numpy(kept)), numbers[kept], split_names)
    above, more = described.superclasses(labels)
    problems += [*more, *classes_without_rows(splits, labels.classes)]
    problems += check_separators(labels.classes) if labels.target.ndim == 1 else []
    return Dataset(
        file.path.stem,
        labels.classes,
        splits,
        above,
        problems=problems,
        feature_names=rows.feature_names,
        open_classes=not labels.by_column,
    )


def dataset_to_classify(
    described: DescribedTable, labels: Labels | None, label_problems: Sequence[Problem], rows: TableInputs
) -> Dataset:
    """Every row with an input, in one split; with labels only if all of these rows have one."""
    file, (numbers, (name, *_)) = described.file, described.split_of_rows()
    wanted = numbers >= 0
    kept = rows.usable & wanted
    if not kept.any():
        none = f" and none that can be used{first_of(rows.problems)}" if wanted.any() else ""
        raise InputError(f"{file.name}: expected rows to classify, got {int(wanted.sum()):,}{none}")
    problems = [*rows.problems, *label_problems]
    lacking = 0 if labels is None else int((~labels.known[kept]).sum())
    if lacking:
        label = "label" if described.roles.valid is None else "valid label"
        what = f"{counted(lacking, 'row has', 'rows have')} no {label}, of {int(kept.sum()):,}"
        labels, problems = None, [*problems, Problem(LABELS_NOT_USED, file.name, what)]
    problems += [] if labels is None else [problem for problem in labels.problems if problem.kind == BLANKS]
    target = None if labels is None else torch.from_numpy(labels.target)
    split = Split(rows.inputs, target, rows.ids, described.groups(rows.ids)).rows(torch.from_numpy(np.flatnonzero(kept)))
    classes = [] if labels is None else labels.classes
    above = None if labels is None else described.superclasses(labels)[0]
    return Dataset(
        file.path.stem,
        classes,
        {name: split},
        above,
        problems=problems,
        feature_names=rows.feature_names,
        open_classes=labels is not None and not labels.by_column,
    )


def dataset_of_table(described: DescribedTable, labels: tuple[Labels | None, list[Problem]], rows: TableInputs) -> Dataset:
    """The dataset of a table, with labels required or not."""
    if not described.asked.require_labels:
        return dataset_to_classify(described, *labels, rows)
    assert labels[0] is not None  # or reading them has failed
    return labelled_dataset(described, labels[0], rows)


def _left_out(ids: Sequence[str], which: Array, kind: str, what: str) -> list[Problem]:
    return [Problem(kind, ids[row], f"{what}: left out") for row in np.flatnonzero(which).tolist()]
