"""The further columns of an index, read from a table: ``--columns FILE``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from shortlist.checks import check_distinct
from shortlist.cli.console import warn
from shortlist.csv_files import csv_decimal_point, csv_delimiter, csv_start
from shortlist.errors import InputError
from shortlist.files import contains
from shortlist.predictions import Predictions
from shortlist.predictions.csv_codes import are_missing_numbers, has_digits_for_truths, holds_codes
from shortlist.retrieval.columns import KINDS
from shortlist.words import counted, listed, quoted

ID = "id"


def table_columns(predictions: Predictions, path: Path, known: Mapping[str, str]) -> dict[str, list[Any]]:
    """The columns of a table, in the order of the rows of the predictions, which are matched by id.

    Args:
        predictions: the rows, with ids.
        path: a CSV or Parquet file with a column ``id``.
        known: what the columns of the index hold, by name, so that those of a CSV file are read as the same.
    """
    if predictions.ids is None:
        raise InputError("--columns: expected scores whose rows have ids, to match those of the table, got none")
    try:
        is_parquet = path.suffix == ".parquet"
        table = parquet.read_table(path, page_checksum_verification=True) if is_parquet else _read_csv(path, known)
        check_distinct(table.column_names)
        if ID not in table.column_names:
            raise InputError(f"expected a column {ID}, got {quoted(table.column_names)}")
        values = {name: _values(table.column(name), name) for name in table.column_names}
        place_of = _places_by_id(_values(table.column(ID), ID, pa.string()))
    except InputError as error:
        raise InputError(f"--columns: {path}: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"--columns: cannot read {path} ({str(error).splitlines()[0]})") from error
    places = [place_of.get(name) for name in predictions.ids]
    if all(place is None for place in places):
        raise InputError(f"--columns: expected rows with the ids of the scores, such as {predictions.ids[0]!r}, got none")
    if missing := sum(place is None for place in places):
        warn(f"{counted(missing, 'row')} without values in {path}")
    if unknown := sorted(place_of.keys() - set(predictions.ids), key=place_of.__getitem__):
        warn(f"{counted(len(unknown), 'id')} of {path} not among the scores: {quoted(unknown, most=5)}")
    others = {name: column for name, column in values.items() if name != ID}
    return {name: [None if place is None else column[place] for place in places] for name, column in others.items()}


def _read_csv(path: Path, known: Mapping[str, str]) -> pa.Table:
    """The table of a CSV file: numbers and booleans where that changes nothing, else text as written; empty is missing."""
    delimiter = csv_delimiter(csv_start(path))
    # Without newlines_in_values Arrow may cut cells in quotes without an error.
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=contains(path, b'"'))

    point = csv_decimal_point(path, delimiter, lambda name: name != ID)

    def read(**options: Any) -> pa.Table:
        converting = csv.ConvertOptions(decimal_point=point, **options)
        return csv.read_csv(path, parse_options=parsing, convert_options=converting)

    guessed = read(column_types={ID: pa.string()})
    check_distinct(guessed.column_names)
    as_text = dict.fromkeys(guessed.column_names, pa.string())
    written = read(column_types=as_text, strings_can_be_null=True, null_values=[""])
    for place, name in enumerate(guessed.column_names):
        text = written.column(name)
        if not _keeps_what_is_written(text, guessed.column(name), known.get(name)):
            guessed = guessed.set_column(place, name, text)
    return guessed


def _keeps_what_is_written(written: pa.ChunkedArray, guessed: pa.ChunkedArray, known: str | None) -> bool:
    """Whether a column can be kept as the type that Arrow guesses, rather than as text.

    Args:
        written: the cells as text, without the empty ones.
        guessed: as Arrow reads them.
        known: what the index holds under this name, if it has it.
    """
    if known == KINDS[pa.string()]:
        return False
    if guessed.type == pa.null():  # cells such as NA: missing numbers, but words of a text
        return known is not None or are_missing_numbers(written)
    if guessed.type == pa.bool_():
        return known is not None or not has_digits_for_truths(written)
    if guessed.type not in (pa.int64(), pa.float64()):
        return False
    present = guessed.is_valid()
    return not holds_codes(written.filter(present), guessed.filter(present), known_as_numbers=known is not None)


def _values(column: Any, name: str, kind: Any = None) -> list[Any]:
    """The values of a column, as one of the kinds that an index holds; dates, for example, as text."""
    kind = kind or (column.type if column.type in KINDS else _nearest_kind(column.type))
    try:
        found: list[Any] = column.cast(kind).to_pylist()
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r}: {str(error).splitlines()[0]}: store it as text") from error
    except pa.ArrowNotImplementedError:
        raise InputError(f"column {name!r}: expected {listed(list(KINDS.values()))}, got {column.type}") from None
    return found


def _nearest_kind(kind: Any) -> Any:
    """The type of a column of an index that holds values of another type."""
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else pa.string()


def _places_by_id(ids: list[str | None]) -> dict[str, int]:
    """The row of each id; rows without an id are left out."""
    found: dict[str, int] = {}
    for place, name in enumerate(ids):
        if name is None:
            continue
        if name in found:
            raise InputError(f"expected each id once, got {name!r} in rows {found[name]} and {place}")
        found[name] = place
    return found
