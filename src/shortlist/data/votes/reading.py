"""Columns of votes from CSV and Parquet files, names kept as they are written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.readers.table_file import TableFile
from shortlist.data.votes.encoding import one_piece
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import listed

AUTHOR = "author"
YES, NO = ("true", "1", "yes"), ("false", "0", "no")
# Whole numbers in their usual form: 7, but not 007 or +7, which may be codes.
WRITTEN_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"


def read_columns(path: Path, wanted: Mapping[str, str | None], missing: str) -> tuple[dict[str, Any], int]:
    """The columns that :meth:`Votes.from_arrays` takes, by its names for them, and how many rows were dropped.

    Args:
        path: the table.
        wanted: the name of the column of each; None for the author's: ``author``, if there is one.
        missing: ``"refuse"`` or ``"drop"``.
    """
    if missing not in ("refuse", "drop"):
        raise InputError(f"missing: expected 'refuse' or 'drop', got {missing!r}")
    file = TableFile(path)
    found = _find(file, wanted)
    columns = _read(file, found)
    dropped = 0
    if any(column.null_count for column in columns.values()):
        whole = _whole_rows(columns)
        if missing == "refuse":
            raise InputError(_empty_cells(file, found, columns, whole))
        columns = {name: column.filter(whole) for name, column in columns.items()}
        dropped = int((~whole).sum())
    if file.is_csv:
        columns = {name: _numbers_if_written_so(column) for name, column in columns.items()}
    if AUTHOR in columns:
        columns[AUTHOR] = _author_flags(columns[AUTHOR])
    return columns, dropped


def _find(file: TableFile, wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Which column is which; the author's may be missing unless it was asked for by name."""
    found = {}
    for name, column in wanted.items():
        if column is None and AUTHOR not in file.names:
            continue
        column = column or AUTHOR
        if column not in file.names:
            raise InputError(
                f"{file.name}: expected a column {column!r} ({name}), got {listed(file.names)}: give its name as {name}"
            )
        found[name] = column
    return found


def _read(file: TableFile, found: Mapping[str, str]) -> dict[str, Any]:
    """From Parquet a column at a time, so that the text of only one is in memory; a CSV file is gone through once."""
    if not file.is_csv:
        return {name: one_piece(file.read_text([column]).column(0)) for name, column in found.items()}
    table = file.read_text(list(dict.fromkeys(found.values())))
    return {name: one_piece(table.column(column)) for name, column in found.items()}


def _whole_rows(columns: Mapping[str, Any]) -> Array:
    """Which rows have a value in every column, bool (V,)."""
    given = [column.is_valid().to_numpy(zero_copy_only=False) for column in columns.values()]
    whole: Array = np.logical_and.reduce(given)
    return whole


def _empty_cells(file: TableFile, found: Mapping[str, str], columns: Mapping[str, Any], whole: Array) -> str:
    """A sentence that counts them in every column and says where the first is."""
    counts = [f"{column.null_count:,} empty in {found[name]!r}" for name, column in columns.items() if column.null_count]
    row = int(whole.argmin())
    place = f"line {file.line_of(row)}" if file.is_csv else f"row {row} (counted from 0)"
    return (
        f"{file.name}: expected a value in every row, got {', '.join(counts)}, the first in {place}: fill them, "
        'or leave such rows out with missing="drop"'
    )


def _numbers_if_written_so(column: Any) -> Any:
    """Integers instead of text, if every name is a whole number in its usual form."""
    if not pa.types.is_dictionary(column.type):
        return column  # no row at all
    if not pc.all(pc.match_substring_regex(column.dictionary, WRITTEN_NUMBER)).as_py():
        return column
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.int64()))


def _author_flags(column: Any) -> Array:
    if not pa.types.is_dictionary(column.type):
        flags: Array = column.to_numpy(zero_copy_only=False)
        return flags
    words = [str(word).strip().lower() for word in column.dictionary.to_pylist()]
    strange = [word for word in words if word not in YES + NO]
    if strange:
        raise InputError(f"author: expected true or false (or 1 and 0) in every row, got {strange[0]!r}")
    chosen: Array = pa.array([word in YES for word in words], pa.bool_()).take(column.indices).to_numpy(zero_copy_only=False)
    return chosen
