"""Anybody's table, as CSV or Parquet: its columns by name, and what is wrong with it in a sentence."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from shortlist.data.problems import printable
from shortlist.errors import InputError

COMMA_SUFFIXES, PARQUET_SUFFIXES = (".csv", ".tsv"), (".parquet", ".pq")
UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff")
HEADER_BYTES = 2**20
MISSING_NUMBERS = [*csv.ConvertOptions().null_values, "?"]


class TableFile:
    """A table on disk: the names of its columns at once, the columns themselves when they are read.

    A CSV file is UTF-8 with a line of names first; what parts its columns (comma, tab or semicolon) is seen in that line.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        suffix = self.path.suffix.lower()
        if suffix not in COMMA_SUFFIXES + PARQUET_SUFFIXES:
            raise InputError(f"{self.name}: expected a .csv, .tsv or .parquet table")
        if not self.path.is_file():
            raise InputError(
                f"{printable(str(self.path))}: expected a table, got {'a folder' if self.path.is_dir() else 'nothing'}"
            )
        self.is_csv = suffix in COMMA_SUFFIXES
        twice = next((name for name, count in Counter(self.names).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"{self.name}: expected columns with different names, got {twice!r} more than once")

    @property
    def name(self) -> str:
        """The file without its folder, for messages."""
        return printable(self.path.name)

    @cached_property
    def schema(self) -> Any:
        """Names and types; of a CSV file the types that its beginning suggests."""
        with self._said_plainly():
            if not self.is_csv:
                return pq.read_schema(self.path)
            guessed = csv.ConvertOptions(null_values=MISSING_NUMBERS)
            with csv.open_csv(self.path, parse_options=self._parse_options, convert_options=guessed) as head:
                return head.schema

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the file."""
        with self._said_plainly():
            return list(self.schema.names)

    def read_text(self, columns: Sequence[str]) -> Any:
        """These columns as an Arrow table: text from a CSV file, where only an empty cell is missing and NA is a name like any
        other; from Parquet whatever they are."""
        return self._read(columns, dict.fromkeys(columns, pa.string()), [""])

    def read_numbers(self, columns: Sequence[str], kinds: Mapping[str, Any]) -> Any:
        """These columns as an Arrow table, of these types from a CSV file; from Parquet whatever they are."""
        return self._read(columns, kinds, MISSING_NUMBERS)

    def _read(self, columns: Sequence[str], kinds: Mapping[str, Any], missing: list[str]) -> Any:
        with self._said_plainly():
            if not self.is_csv:
                return pq.read_table(self.path, columns=list(columns))
            options = csv.ConvertOptions(
                include_columns=list(columns), column_types=dict(kinds), null_values=missing, strings_can_be_null=True
            )
            return csv.read_csv(self.path, convert_options=options, parse_options=self._parse_options)

    @cached_property
    def _parse_options(self) -> Any:
        with self.path.open("rb") as file:
            header = file.read(HEADER_BYTES).lstrip(b"\r\n").split(b"\n")[0]
        if header.startswith(UTF16_STARTS):
            raise InputError(f"{self.name}: expected UTF-8 text, got UTF-16: save the table as UTF-8")
        counts = {mark: header.count(mark.encode()) for mark in (",", "\t", ";")}
        first = "\t" if self.path.suffix.lower() == ".tsv" else ","
        return csv.ParseOptions(delimiter=first if counts[first] else max(counts, key=lambda mark: counts[mark]))

    @contextmanager
    def _said_plainly(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}: expected UTF-8 text in the names of the columns: save it as UTF-8") from error
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.name}: {_reason(str(error))}") from error


def _reason(message: str) -> str:
    if "invalid UTF8" in message:
        return "expected UTF-8 text, got other bytes: save the table as UTF-8"
    if "Empty CSV" in message:
        return "expected a line with the names of the columns, got an empty file"
    return f"cannot be read as a table: {(message.splitlines() or ['no reason given'])[0].removesuffix(os.linesep)[:160]}"
