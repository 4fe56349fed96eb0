"""Predictions read from CSV files, which are read only: one column a class, commas, semicolons or tabs between."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from shortlist.csv_files import (
    csv_decimal_point,
    csv_delimiter,
    csv_start,
    first_no_number,
    number_advice,
    rows_of_one_length,
)
from shortlist.errors import InputError
from shortlist.files import contains
from shortlist.predictions.columns import as_names
from shortlist.predictions.csv_codes import is_code, spelt_as_groups
from shortlist.predictions.numbered import Numbered
from shortlist.predictions.stored import Keys, Stored
from shortlist.predictions.tables import is_text, read_table, spelt
from shortlist.tensors import Array
from shortlist.words import shown

EMPTY_CELLS = pyarrow.csv.ConvertOptions().null_values  # "", "NA", "null", …


def read_csv(path: Path, keys: Keys) -> Stored:
    """A table with one column per class and commas, semicolons or tabs between, and a decimal point or a decimal comma.

    Blanks around names of columns are ignored.
    """
    parsing, written = _columns(path)
    delimiter, names = parsing.delimiter, [name.strip() for name in written]
    ids = keys.ids or "id"
    as_text = set() if ids == keys.scores else {ids}  # 007 is not 7
    target = keys.find_target(names)
    if target is not None:
        as_text.add(target)  # so that a class may be called True, NA or 2024-05-01
    kinds = {column: pa.string() for column, name in zip(written, names, strict=True) if name in as_text}
    point = decimal_point(path, delimiter, names, keys)
    converting = pyarrow.csv.ConvertOptions(column_types=kinds, decimal_point=point)
    with rows_of_one_length(delimiter):
        table = pyarrow.csv.read_csv(path, parse_options=parsing, convert_options=converting).rename_columns(names)
    _check_numbers(table, keys.find_scores(names))
    typed = {*keys.numbers, *as_text, keys.find_quality(names)}
    maybe_codes = [name for name in keys.columns if name not in typed and names.count(name) == 1]
    table = _with_codes(table, path, parsing, {name: written[names.index(name)] for name in maybe_codes}, point)
    if target is not None and names.count(target) == 1:
        classes = keys.class_names(keys.find_scores(names))
        labels = _without_empty(table.column(target), classes, keys.no_label)
        if keys.no_label is None and Numbered.of(classes) is None:
            labels = spelt(labels, classes)
        table = table.set_column(names.index(target), target, labels)
    return read_table(table.schema, table.num_rows, {}, keys, lambda names: table.select(names).to_batches(2**16))


def decimal_point(path: Path, delimiter: str, names: Sequence[str], keys: Keys) -> str:
    """That of the scores and the quality: what else is in the file may look like numbers.

    Args:
        path: the file.
        delimiter: of its cells.
        names: of its columns.
        keys: the names of what is read.
    """
    numbers = [*keys.find_scores(names), keys.find_quality(names)]
    return csv_decimal_point(path, delimiter, numbers.__contains__)


def csv_names(path: Path) -> list[str]:
    """The names of the columns."""
    return [name.strip() for name in _columns(path)[1]]


def as_groups(path: Path, name: str, column: Array, known: Container[str], keys: Keys) -> Array:
    """A column of a file that was read before, its entries as groups that are texts are called.

    Args:
        path: the file.
        name: of the column.
        column: as it was read: numbers, where the file by itself holds no codes.
        known: the groups.
        keys: how the file was read.
    """
    parsing, written = _columns(path)
    names = [one.strip() for one in written]
    if names.count(name) != 1:
        return column
    place = written[names.index(name)]
    cells = _as_written(path, parsing, [place]).column(place).to_pylist()
    point = decimal_point(path, parsing.delimiter, names, keys)
    return np.array(spelt_as_groups(cells, as_names(column), known, point), dtype=str)


def _columns(path: Path) -> tuple[pyarrow.csv.ParseOptions, list[str]]:
    """How the table is parsed, and the names of its columns as they are written."""
    delimiter = csv_delimiter(csv_start(path))
    # Without newlines_in_values Arrow may cut cells in quotes without an error.
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=contains(path, b'"'))
    with rows_of_one_length(delimiter), pyarrow.csv.open_csv(path, parse_options=parsing) as file:
        return parsing, list(file.schema.names)


def _with_codes(
    table: pa.Table, path: Path, parsing: pyarrow.csv.ParseOptions, columns: Mapping[str, str], point: str
) -> pa.Table:
    """The table with those columns as text whose cells are codes; the columns by name, as they are written in the file."""
    if not columns:
        return table
    texts = _as_written(path, parsing, list(columns.values()))
    for name, written in columns.items():
        if is_code(texts.column(written), table.column(name), point):
            table = table.set_column(table.column_names.index(name), name, texts.column(written))
    return table


def _as_written(path: Path, parsing: pyarrow.csv.ParseOptions, columns: Sequence[str]) -> pa.Table:
    """These columns as text, empty cells as nulls."""
    kinds = dict.fromkeys(columns, pa.string())
    converting = pyarrow.csv.ConvertOptions(
        column_types=kinds, include_columns=list(kinds), strings_can_be_null=True, null_values=[""]
    )
    return pyarrow.csv.read_csv(path, parse_options=parsing, convert_options=converting)


def _check_numbers(table: pa.Table, columns: Sequence[str]) -> None:
    """Raise an error that names the first cell of these columns that is no number."""
    for place, name in enumerate(table.column_names):
        if name in columns and is_text(table.schema.field(place).type):
            wrong = first_no_number(table.column(place).to_pylist())
            if wrong is not None:
                row, cell = wrong
                raise InputError(f"expected numbers in {name!r}, got {shown(cell)} in row {row}{number_advice(cell)}")


def _without_empty(texts: pa.ChunkedArray, classes: Sequence[str], no_label: str | None) -> pa.ChunkedArray:
    """Cells of a CSV file that were read as text, those that stand for no value as nulls, unless a class is called so."""
    empty = [cell for cell in EMPTY_CELLS if cell not in classes and cell != no_label]
    return pc.if_else(pc.is_in(texts, value_set=pa.array(empty, pa.string())), pa.scalar(None, pa.string()), texts)
