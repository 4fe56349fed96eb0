"""A table of rows to answer for, CSV, Parquet or npz: pictures or features, with labels or without.

The readers of datasets leave a row without a label out; here it is kept, see :mod:`shortlist.data.unlabelled`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_labels
from shortlist.data.new_rows import Kind, NewRows
from shortlist.data.pictures import Pictures
from shortlist.data.problems import Problem
from shortlist.data.readers.columns import find_column, find_label_columns, is_row_number
from shortlist.data.readers.feature_arrays import (
    FEATURE_KEYS,
    TARGET_KEYS,
    dtype_and_shape,
    load_arrays,
    names_in,
    pick_array,
    read_target,
)
from shortlist.data.readers.feature_rows import usable_rows
from shortlist.data.readers.feature_table import feature_matrix, feature_types, is_number_type, row_ids
from shortlist.data.readers.label_columns import Labels, read_labels
from shortlist.data.readers.picture_table import pictures_of_column
from shortlist.data.readers.table_file import TableFile
from shortlist.data.readers.table_rows import split_numbers
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable, quoted

ARRAYS = ".npz"


def read_new_table(
    path: str | Path,
    *,
    kind: Kind | None = None,
    split: str | None = None,
    root: str | Path | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    superclass_column: str | None = None,
    separator: str | None = None,
) -> NewRows:
    """Pictures or features of a table, CSV, Parquet or npz, with labels or without.

    Columns are found as :func:`~shortlist.data.read_picture_table` and :func:`~shortlist.data.read_feature_table` find them,
    but that of labels may be missing. Rows without a picture, or with a missing feature, are left out and noted.

    Args:
        path: the table.
        kind: ``"pictures"``, ``"features"``, or by default pictures where there is a column of paths.
        split: only the rows of this split; all by default.
        root: the folder that relative paths start from; that of the table by default.
        path_column: the column of paths, or of pictures.
        label_column: the column of labels, or a pattern with ``*`` for one column of 0 and 1 a class.
        split_column: the split of each row.
        group_column: no feature, but which rows belong together.
        id_column: of features, what a person calls each row; its number where there is none.
        superclass_column: no feature, but the superclass of the class of each row.
        separator: what parts the labels of a row, such as ``"|"``.
    """
    if Path(path).suffix.lower() == ARRAYS:
        if any((root, path_column, label_column, split_column, group_column, id_column, superclass_column, separator)):
            raise InputError(f"{printable(Path(path).name)}: expected no names of columns for an npz file, which has none")
        return _rows_of_arrays(Path(path), kind, split)
    file = TableFile(path)
    pictures = _picture_column(file, kind, path_column, id_column)
    part = find_column(file.names, "split", split_column, file.name)
    names = find_column(file.names, "id", id_column, file.name) if pictures is None else None
    aside = [part, names, pictures]
    if pictures is None:  # columns that must not be taken for features
        aside += [find_column(file.names, "group", group_column, file.name)]
        aside += [find_column(file.names, "superclass", superclass_column, file.name)]
    about = _label_columns(file, label_column, aside)
    table = file.read_text(list(dict.fromkeys([*about, *(name for name in (part, names, pictures) if name)])))
    if not table.num_rows:
        raise InputError(f"{file.name}: expected rows to answer for, got none")
    inputs = _pictures(file, table, pictures, root) if pictures else _features(file, table, names, [*about, *aside])
    wanted = _in_split(file, table, part, split)
    kept = inputs.usable & wanted
    if not kept.any():
        first = f"; the first is {inputs.problems[0]}" if inputs.problems else ""
        raise InputError(
            f"{file.name}: expected rows to answer for, got {int(wanted.sum()):,} and none that can be used{first}"
        )
    labels, reason = _labels(table, about, label_column, separator, file.is_csv)
    return inputs.rows(kept, labels, reason)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """The inputs of every row of a table."""

    inputs: Pictures | Tensor
    ids: Sequence[str]
    usable: Array
    problems: Sequence[Problem]
    columns: Sequence[str] = ()

    def rows(self, kept: Array, labels: Labels | None, reason: str | None) -> NewRows:
        """Only the rows to keep, with their labels if each has one."""
        if labels is not None and not labels.known[kept].all():
            lacking = int((~labels.known[kept]).sum())
            labels, reason = None, f"{lacking:,} of the {int(kept.sum()):,} rows {'has' if lacking == 1 else 'have'} none"
        numbers = torch.from_numpy(np.flatnonzero(kept))
        inputs = self.inputs[numbers] if isinstance(self.inputs, Tensor) else self.inputs.rows(numbers)
        ids = [self.ids[row] for row in numbers.tolist()]
        if labels is None:
            return NewRows(inputs, ids, None, (), reason, self.columns, self.problems)
        return NewRows(inputs, ids, torch.from_numpy(labels.target)[numbers], labels.classes, None, self.columns, self.problems)


def _picture_column(file: TableFile, kind: Kind | None, asked: str | None, ids: str | None) -> str | None:
    found = find_column([name for name in file.names if name != ids], "path", asked, file.name)
    if kind == "pictures" and found is None:
        raise InputError(
            f"{file.name}: expected a table of pictures, with a column of paths (path, file, image, …), got "
            f"{quoted(file.names)}: name it after a comma, path_column=NAME"
        )
    if kind != "features" or found is None:
        return found
    if is_number_type(file.schema.field(found).type):
        return None
    raise InputError(
        f"{file.name}: expected a table of features, got one of pictures, in the column {found!r}: say id_column={found} after "
        "a comma if that only names the rows"
    )


def _label_columns(file: TableFile, asked: str | None, aside: Sequence[str | None]) -> list[str]:
    if asked is not None:
        return find_label_columns(file.names, asked, aside, file.name)
    found = find_column([name for name in file.names if name not in aside], "label", None, file.name)
    return [] if found is None else [found]


def _pictures(file: TableFile, table: Any, column: str, root: str | Path | None) -> _Inputs:
    found = pictures_of_column(table.column(column), column, file.path.parent if root is None else Path(root))
    return _Inputs(found.pictures, found.ids, ~found.absent, found.failures)


def _features(file: TableFile, table: Any, names: str | None, aside: Sequence[str | None]) -> _Inputs:
    columns = [name for name in file.names if name not in aside and not is_row_number(name)]
    features = feature_matrix(file.read_numbers(columns, feature_types(file, columns)), columns)
    ids = row_ids(table, names)
    usable, failures = usable_rows(features, ids, columns, tolerance=1.0)
    return _Inputs(torch.from_numpy(features), ids, usable, failures, columns)


def _in_split(file: TableFile, table: Any, column: str | None, asked: str | None) -> Array:
    """Which rows are in the split that was asked for; all where none was."""
    if asked is None:
        return np.ones(table.num_rows, bool)
    if column is None:
        raise InputError(f"split: expected a column of splits in {file.name}, got {quoted(file.names)}: answer for all rows")
    numbers, names = split_numbers(table.column(column), column, table.num_rows)
    if asked not in names:
        raise InputError(f"split: expected one of the splits of {file.name} ({', '.join(names)}), got {asked!r}")
    chosen: Array = numbers == names.index(asked)
    return chosen


def _labels(
    table: Any, columns: Sequence[str], asked: str | None, separator: str | None, csv: bool
) -> tuple[Labels | None, str | None]:
    """The labels of every row; None, and why, where they cannot be made out: rows can be answered for without them."""
    if not columns:
        return None, None
    try:
        return read_labels(table, columns, asked, separator, empty_is_none=csv), None
    except InputError as error:
        return None, str(error)


def _rows_of_arrays(path: Path, kind: Kind | None, split: str | None) -> NewRows:
    """Features of an npz file, see :func:`~shortlist.data.readers.feature_arrays.read_feature_arrays`, labelled or not."""
    file = printable(path.name)
    if kind == "pictures":
        raise InputError(f"{file}: expected pictures, got an npz file, which holds features")
    if split is not None:
        raise InputError(f"split: expected one dataset or one table with a column of splits, got {file}, which has none")
    arrays = load_arrays(path, file)
    written = pick_array(arrays, FEATURE_KEYS, file)
    if written.ndim != 2 or written.dtype.kind not in "fiub":
        raise InputError(f"{file}: expected features as numbers (N, D), got {dtype_and_shape(written)}")
    ids = names_in(arrays, "ids", file) or [str(row) for row in range(len(written))]
    if len(ids) != len(written) or not ids:
        raise InputError(f"{file}: expected rows to answer for and an id for each, got {len(written):,} rows, {len(ids):,} ids")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and left out
        features = written.astype(np.float32)
    usable, failures = usable_rows(features, ids, [str(column) for column in range(features.shape[1])], tolerance=1.0)
    if not usable.any():
        raise InputError(f"{file}: expected rows to answer for, got {len(ids):,} and none that can be used: {failures[0]}")
    return _Inputs(torch.from_numpy(features), ids, usable, failures).rows(usable, *_array_labels(arrays, len(ids), file))


def _array_labels(arrays: dict[str, Array], rows: int, file: str) -> tuple[Labels | None, str | None]:
    if not any(key in arrays for key in TARGET_KEYS):
        return None, None
    try:
        written = pick_array(arrays, TARGET_KEYS, file)
        if written.ndim not in (1, 2) or len(written) != rows:
            raise InputError(f"expected a label for each of the {rows:,} rows, got {dtype_and_shape(written)}")
        target, classes, _ = read_target(written, names_in(arrays, "classes", file), file)
        check_labels(torch.from_numpy(target), len(classes))
    except InputError as error:
        return None, str(error)
    return Labels(classes, target, np.ones(rows, bool)), None
