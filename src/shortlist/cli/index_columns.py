"""The further columns of an index, read from a table: ``--columns FILE``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from shortlist.checks import check_distinct
from shortlist.cli.console import warn
from shortlist.csv_files import csv_decimal_point, csv_delimiter, csv_first_row, csv_header
from shortlist.errors import InputError
from shortlist.files import contains
from shortlist.predictions import Predictions
from shortlist.retrieval.columns import KINDS
from shortlist.words import counted, listed, quoted

ID = "id"
LEADING_ZERO = r"^\s*[+-]?0[0-9xX]"  # 0017 and 0xFF, which Arrow reads as 17 and 255
TRAILING_ZERO = r"\.[0-9]+0\s*([eE]|$)"  # 1.10, but not 1.0, the usual form of a whole number among others
TOO_LONG = r"^\s*[+-]?[0-9]{16}"  # more digits than a double holds
POINT_OR_SIGN, EXPONENT = r"[.+-]", r"[eE]"  # 1e5 beside 23 may be the end of a hash; programs write 1e+05 and 1.0e5
NOT_ZERO, NOT_INFINITE = r"^[^eE]*[1-9]", r"[0-9]"  # 1E-400 is no 0, and 1E400 not infinite
NO_NUMBER = ("nan", "NaN", "-nan", "-NaN", "null", "NULL")  # how programs write a missing number


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
    delimiter = csv_delimiter(csv_header(path), row=csv_first_row(path))
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
        words = written.drop_null()
        return known is not None or bool(pc.all(pc.is_in(words, pa.array(NO_NUMBER)), min_count=0).as_py())
    if guessed.type == pa.bool_():  # 1 beside true: Arrow takes both for the same
        return known is not None or not pc.any(pc.is_in(written, pa.array(["0", "1"]))).as_py()
    if guessed.type not in (pa.int64(), pa.float64()):
        return False
    present = guessed.is_valid()
    return not _holds_codes(written.filter(present), guessed.filter(present), known_as_numbers=known is not None)


def _holds_codes(written: pa.ChunkedArray, numbers: pa.ChunkedArray, known_as_numbers: bool) -> bool:
    """Whether a column is more than its numbers: 0017 has a zero that they lack, 1.1 and 1.10 are one number, 1E-400 is none.

    In a column that is known to hold numbers, 0.50 is one of them, and so is 1e5.
    """
    lossy = [LEADING_ZERO] if known_as_numbers else [LEADING_ZERO, TRAILING_ZERO]
    if numbers.type == pa.float64():
        lossy.append(TOO_LONG)
        if not known_as_numbers and not _any(written, POINT_OR_SIGN):
            lossy.append(EXPONENT)
        if _any(written.filter(pc.equal(numbers, 0)), NOT_ZERO) or _any(written.filter(pc.is_inf(numbers)), NOT_INFINITE):
            return True
    if any(_any(written, pattern) for pattern in lossy):
        return True
    return bool(pc.count_distinct(pc.utf8_trim_whitespace(written)).as_py() > pc.count_distinct(numbers).as_py())


def _any(written: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(written, pattern)).as_py())


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
