"""Columns of votes from CSV and Parquet files, names kept as they are written."""

from pathlib import Path
from typing import Any

from shortlist.data.votes.encoding import one_piece
from shortlist.errors import InputError
from shortlist.tensors import Array

AUTHOR = "author"
YES, NO = ("true", "1", "yes"), ("false", "0", "no")
# Whole numbers as one writes them: 7, not 007 or +7, which may be names of something else.
WRITTEN_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"


def read_columns(path: Path, *, user: str, item: str, label: str, author: str | None) -> dict[str, Any]:
    """The columns that :meth:`Votes.from_arrays` takes, by its names for them."""
    import pyarrow as pa

    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path.name}: expected a .csv or .parquet file of votes")
    wanted = {"user": user, "item": item, "label": label, AUTHOR: author}
    try:
        columns = readers[path.suffix.lower()](path, wanted)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path.name}: cannot be read as {path.suffix[1:].lower()}: {str(error).splitlines()[0]}") from error
    if AUTHOR in columns:
        columns[AUTHOR] = _author_flags(columns[AUTHOR])
    return columns


def _find(names: list[str], wanted: dict[str, str | None], file: str) -> dict[str, str]:
    """Which column is which; the author's may be missing unless it was asked for by name."""
    found = {}
    for name, column in wanted.items():
        if column is None and AUTHOR not in names:
            continue
        column = column or AUTHOR
        if column not in names:
            raise InputError(f"{file}: expected a column {column!r} ({name}), got {', '.join(names)}: name the column")
        if names.count(column) > 1:
            raise InputError(f"{file}: expected one column {column!r}, got {names.count(column)}")
        found[name] = column
    return found


def _read_csv(path: Path, wanted: dict[str, str | None]) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.csv as csv

    with csv.open_csv(path) as head:
        found = _find(head.schema.names, wanted, path.name)
    options = csv.ConvertOptions(
        include_columns=list(dict.fromkeys(found.values())),
        column_types=dict.fromkeys(found.values(), pa.string()),
        null_values=[""],  # an empty field is missing; what is called NA or null is a name
        strings_can_be_null=True,
    )
    table = csv.read_csv(path, convert_options=options)
    return {name: _numbers_if_written_so(one_piece(table.column(column))) for name, column in found.items()}


def _read_parquet(path: Path, wanted: dict[str, str | None]) -> dict[str, Any]:
    """A column at a time, so that the text of only one is in memory."""
    import pyarrow.parquet as pq

    found = _find(pq.read_schema(path).names, wanted, path.name)
    return {name: one_piece(pq.read_table(path, columns=[column]).column(column)) for name, column in found.items()}


def _numbers_if_written_so(column: Any) -> Any:
    """Integers instead of text, if every name is a whole number as one writes it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return column  # no row at all
    if not pc.all(pc.match_substring_regex(column.dictionary, WRITTEN_NUMBER)).as_py():
        return column
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.int64()))


def _author_flags(column: Any) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = int(pc.index(column.is_null(), True).as_py())
        raise InputError(
            f"author: expected true or false in every row, got {column.null_count:,} empty, the first in row {row}"
        )
    if not pa.types.is_dictionary(column.type):
        flags: Array = column.to_numpy(zero_copy_only=False)
        return flags
    words = [str(word).strip().lower() for word in column.dictionary.to_pylist()]
    strange = [word for word in words if word not in YES + NO]
    if strange:
        raise InputError(f"author: expected true or false (or 1 and 0) in every row, got {strange[0]!r}")
    chosen: Array = pa.array([word in YES for word in words], pa.bool_()).take(column.indices).to_numpy(zero_copy_only=False)
    return chosen
