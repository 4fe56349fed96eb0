"""A table of features and labels: CSV, Parquet or npz, one row an example."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from shortlist.column_names import is_row_number, original
from shortlist.csv_files import first_no_number, number_advice
from shortlist.data.dataset import Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.columns import describes_rows
from shortlist.data.readers.feature_arrays import read_feature_arrays
from shortlist.data.readers.feature_rows import usable_rows
from shortlist.data.readers.table_dataset import Asked, DescribedTable, TableInputs, dataset_of_table, find_roles
from shortlist.data.readers.table_file import TableFile
from shortlist.data.readers.table_rows import row_ids
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable, quoted, shown


def read_feature_table(
    path: str | Path,
    *,
    label_column: str | None = None,
    split_column: str | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    superclass_column: str | None = None,
    superclass: str | None = None,
    separator: str | None = None,
    valid_column: str | None = None,
    keep_invalid: bool = False,
    tolerance: float = 0.01,
    split: str | None = None,
    require_labels: bool = True,
    feature_names: Sequence[str] = (),
) -> Dataset:
    """Features ``float32 (N, D)`` and labels from a table, or from the arrays of an npz file.

    Every column is a feature but those of labels, splits, groups, ids and superclasses, found by their usual names (label,
    class, species, …; split; group, observer, plant, …; id; superclass, genus) unless they are named here, and row numbers that
    pandas wrote. A further column with one of these names, such as ``class`` beside ``label_column="label"``, or with that of
    labels in another form or of ids (``label_id``, ``speciesKey``, ``class_code``, ``true_label``, ``image_id``, ``index``,
    ``y`` without ``x``), is no feature either: it is noted. Labels are written as for
    :func:`~shortlist.data.readers.picture_table.read_picture_table`. A row with a missing or infinite feature is left out and
    noted.

    The arrays of an npz file are those of :func:`~shortlist.data.readers.feature_arrays.read_feature_arrays`.

    Args:
        path: the table.
        label_column: the column of labels, or a pattern with ``*`` for one column of 0 and 1 a class.
        split_column: the split of each row; without such a column there is one split, called all.
        group_column: which rows belong together.
        id_column: the name of each row; by default its number.
        superclass_column: the superclass of the class of each row.
        superclass: how class names give their superclass: ``"first-word"``, ``"last-word"`` or None.
        separator: the text between two labels of a row, such as ``"|"``.
        valid_column: says which labels are valid (1 or 0, true or false); by default a column of booleans called ``valid``,
            which aggregated votes have. Rows whose label is not valid are left out and noted.
        keep_invalid: keep them.
        tolerance: the share of rows with missing features above which this fails.
        split: read only the rows of this split.
        require_labels: if False, rows without a label are kept, the label column may be missing, and labels are used only if
            every row has one; without ``split`` all rows are in one split.
        feature_names: columns that are features whatever their names usually mean, such as those that a classifier reads.
    """
    asked = Asked(
        label_column,
        split_column,
        group_column,
        superclass_column,
        superclass,
        separator,
        split,
        require_labels,
        valid_column,
        keep_invalid,
        feature_names=feature_names,
    )
    if Path(path).suffix.lower() == ".npz":
        return _arrays(Path(path), asked, id_column, tolerance)
    file = TableFile(path)
    names = asked.find_column(file, "id", id_column)
    roles = find_roles(file, asked, taken=(names,), features=True)
    aside = [*roles.columns, *([names] if names is not None and names not in roles.columns else [])]
    rest = [name for name in file.names if name not in aside and not is_row_number(name)]
    unused = [name for name in rest if name not in feature_names and _is_no_feature(file, name, roles.labels)]
    columns = [name for name in rest if name not in unused]
    kinds = feature_types(file, columns, unused)
    described = DescribedTable(file, file.read_text(aside), roles, asked)
    labels = described.labels()
    features = feature_matrix(file.read_numbers(columns, kinds), columns)
    ids = row_ids(described.column(names), [str(row) for row in range(len(described))])
    usable, failures = usable_rows(features, ids, columns, tolerance)
    problems = [*(_unused(file, unused) if require_labels else []), *failures]
    return dataset_of_table(described, labels, TableInputs(torch.from_numpy(features), ids, usable, problems, columns))


def _is_no_feature(file: TableFile, name: str, labels: Sequence[str]) -> bool:
    """Whether a column without a purpose has the name of one that describes rows, such as a second column of labels.

    Columns of numbers called ``valid`` or ``image`` may be anything, so they are features.
    """
    if len(labels) == 1 and original(name) == original(labels[0]):  # what pandas makes of one name
        return True
    but = ("path",) if pa.types.is_boolean(file.schema.field(name).type) else ("path", "valid")
    return describes_rows(name, file.names, but)


def _unused(file: TableFile, columns: Sequence[str]) -> list[Problem]:
    """One problem that names the columns that are neither features nor used otherwise."""
    return [Problem("column not used", file.name, _why_unused(columns))] if columns else []


def _why_unused(columns: Sequence[str]) -> str:
    """Why these columns are no features, and how to use them; all of them are named, so that none is missed."""
    what = "usually holds labels, ids or the like, so it is no feature: rename it to use it as one"
    if len(columns) > 1:
        what = "usually hold labels, ids or the like, so they are no features: rename them to use them as such"
    return f"{quoted(columns, len(columns))} {what}"


def _arrays(path: Path, asked: Asked, id_column: str | None, tolerance: float) -> Dataset:
    name = printable(path.name)
    if asked.names_columns or id_column is not None:
        raise InputError(f"{name}: expected no column names for an npz file, which has no columns")
    if asked.split is not None:
        raise InputError(f"split: expected a dataset or a table with a split column, got {name}, which has none")
    return read_feature_arrays(path, superclass=asked.superclass, tolerance=tolerance, require_labels=asked.require_labels)


def feature_types(file: TableFile, columns: Sequence[str], unused: Sequence[str] = ()) -> dict[str, Any]:
    """The type to read each feature as; columns that are not numbers are refused, all in one message.

    Args:
        file: the table.
        columns: the features.
        unused: columns that are no features because of their names, for the message that there are none.
    """
    kinds = {name: file.schema.field(name).type for name in columns}
    strange = [name for name, kind in kinds.items() if not is_number_type(kind)]
    if strange:
        cell, advice = _first_strange(file, strange[0])
        raise InputError(
            f"{file.name}: expected numbers in every column of features, got {cell or kinds[strange[0]]} in {quoted(strange)}"
            f"{advice or ': leave such columns out or turn them into numbers'}"
        )
    if not columns:
        why = f"; {_why_unused(unused)}" if unused else ""
        raise InputError(f"{file.name}: expected columns of features beside {quoted(file.names)}{why}")
    return {name: kind if pa.types.is_boolean(kind) else pa.float32() for name, kind in kinds.items()}


def _first_strange(file: TableFile, column: str) -> tuple[str, str]:
    """The first cell of a column of a CSV file that is no number, and what to do about it; nothing where that is not known."""
    wrong = first_no_number(file.read_text([column]).column(column).to_pylist()) if file.is_csv else None
    advice = "" if wrong is None else number_advice(wrong[1])
    return (shown(wrong[1]), advice) if wrong is not None and advice else ("", "")


def is_number_type(kind: Any) -> bool:
    """Whether a column of this Arrow type can be a feature: numbers, booleans, or empty cells only.

    >>> is_number_type(pa.int8()), is_number_type(pa.string())
    (True, False)
    """
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
        or pa.types.is_decimal(kind)
    )


def feature_matrix(table: Any, columns: Sequence[str]) -> Array:
    """The columns of an Arrow table as a matrix; missing values are NaN.

    Args:
        table: with these columns, of the types given by :func:`feature_types`.
        columns: D names.

    Shape: float32 (N, D).

    >>> feature_matrix(pa.table({"width": [1, None], "wet": [True, False]}), ["width", "wet"])
    array([[ 1.,  1.],
           [nan,  0.]], dtype=float32)
    """
    features = np.empty((table.num_rows, len(columns)), np.float32)
    for place, name in enumerate(columns):
        column = table.column(name)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and left out with its row
            features[:, place] = pc.fill_null(column.cast(pa.float64()), float("nan")).to_numpy()
    return features
