"""A CSV or Parquet table: its columns by name, with clear messages if it cannot be read."""

import csv as plain_csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from shortlist.checks import check_distinct
from shortlist.csv_files import cells_advice, csv_decimal_point, csv_delimiter, csv_header, csv_start
from shortlist.data.readers.columns import describes_rows
from shortlist.data.readers.file_kinds import CSV_SUFFIXES, TABLE_SUFFIXES
from shortlist.errors import InputError
from shortlist.files import contains
from shortlist.words import printable

# Arrow reads blocks, and a row must end in the block after the one where it began: several long rows must fit into one.
BLOCK, MOST_BLOCK, HEADERS_IN_BLOCK = 2**20, 2**30, 16
MOST_COLUMNS = 2**19  # Arrow needs about 9 kB for each while parsing, and aborts the process when memory runs out
MISSING_NUMBERS = [*csv.ConvertOptions().null_values, "?"]


class TableFile:
    """A table on disk: column names are read at once, columns when they are needed.

    A CSV file is UTF-8 with a line of names first; the delimiter (comma, tab or semicolon) is detected in that line.
    Blanks around its names are ignored.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        suffix = self.path.suffix.lower()
        if suffix not in TABLE_SUFFIXES:
            raise InputError(f"{self.name}: expected a .csv, .tsv or .parquet table")
        if not self.path.is_file():
            raise InputError(
                f"{printable(str(self.path))}: expected a table, got {'a folder' if self.path.is_dir() else 'nothing'}"
            )
        self.is_csv = suffix in CSV_SUFFIXES
        names = self.names
        try:
            check_distinct(names)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    @property
    def name(self) -> str:
        """The name of the file without its folder, for messages."""
        return printable(self.path.name)

    @cached_property
    def schema(self) -> Any:
        """Names and types of the columns; for a CSV file the types are guessed from its beginning."""
        if not self.is_csv:
            with self._clear_errors():
                return pq.read_schema(self.path)
        with self._clear_errors():
            return pa.schema([field.with_name(field.name.strip()) for field in self._written_schema])

    @cached_property
    def _written_schema(self) -> Any:
        """The schema of a CSV file, with the blanks around its names."""
        return self._parsed(_schema, csv.ConvertOptions(null_values=MISSING_NUMBERS, decimal_point=self._decimal_point))

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the file."""
        with self._clear_errors():
            return list(self.schema.names)

    def read_text(self, columns: Sequence[str]) -> Any:
        """These columns as an Arrow table: text from a CSV file, where only an empty cell is missing and NA is a name like any
        other; from Parquet whatever they are."""
        return self._read(columns, dict.fromkeys(columns, pa.string()), [""])

    def read_numbers(self, columns: Sequence[str], kinds: Mapping[str, Any]) -> Any:
        """These columns as an Arrow table, of these types from a CSV file; from Parquet whatever they are."""
        return self._read(columns, kinds, MISSING_NUMBERS)

    def line_of(self, row: int) -> int:
        """The line of a CSV file in which this row begins: the header is in line 1, empty lines and those in quotes count."""
        # Arrow has read the file, so bad bytes or long cells must not stop this.
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
            lines = plain_csv.reader(text, delimiter=self._delimiter)
            line, records = 1, -1  # the header is the first record
            try:
                for cells in lines:
                    records += bool(cells)
                    if cells and records == row + 1:
                        return line
                    line = lines.line_num + 1
            except plain_csv.Error:
                pass
        return row + 2

    def _read(self, columns: Sequence[str], kinds: Mapping[str, Any], missing: list[str]) -> Any:
        if not self.is_csv:
            with self._clear_errors():
                return pq.read_table(self.path, columns=list(columns), page_checksum_verification=True)
        written = {name.strip(): name for name in self._written_schema.names}
        options = csv.ConvertOptions(
            include_columns=[written[name] for name in columns],
            column_types={written[name]: kind for name, kind in kinds.items()},
            null_values=missing,
            strings_can_be_null=True,
            decimal_point=self._decimal_point,
        )
        table = self._parsed(_table, options)
        return table.rename_columns([name.strip() for name in table.column_names])

    def _parsed(self, read: Callable[..., Any], options: Any) -> Any:
        """Parse the file with Arrow; rows longer than a block are tried again with larger blocks."""
        columns = 1 + self._header.count(self._delimiter.encode())
        if columns > MOST_COLUMNS:
            raise InputError(
                f"{self.name}: expected at most {MOST_COLUMNS:,} columns in a CSV file, got {columns:,}: save it as npz"
            )
        size = self.path.stat().st_size
        block = min(max(BLOCK, HEADERS_IN_BLOCK * len(self._header)), max(BLOCK, size), MOST_BLOCK)
        parsing = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=self._may_break_lines)
        with self._clear_errors():
            try:
                return read(self.path, csv.ReadOptions(block_size=block), parsing, options)
            except pa.ArrowInvalid:
                return read(self.path, csv.ReadOptions(block_size=min(max(block, size), MOST_BLOCK)), parsing, options)

    @cached_property
    def _may_break_lines(self) -> bool:
        """Whether cells may contain line breaks: only those in quotes may.

        Arrow cuts the file into blocks at line breaks. Unless told that some are inside cells, it cuts there too, and may
        return wrong rows without an error.
        """
        with self._clear_errors():
            return contains(self.path, b'"')

    @cached_property
    def _header(self) -> bytes:
        """The first line that is not empty."""
        return self._begun(csv_header)

    @cached_property
    def _delimiter(self) -> str:
        return csv_delimiter(self._begun(csv_start), "\t" if self.path.suffix.lower() == ".tsv" else ",")

    def _begun(self, read: Callable[[Path], bytes]) -> bytes:
        """What this function reads at the start of the file; its errors name the table."""
        with self._clear_errors():
            try:
                return read(self.path)
            except InputError as error:
                raise InputError(f"{self.name}: {error}") from None

    @cached_property
    def _decimal_point(self) -> str:
        with self._clear_errors():
            return csv_decimal_point(self.path, self._delimiter, lambda name: not describes_rows(name, ()))

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}: expected UTF-8 text in the names of the columns: save it as UTF-8") from error
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.name}: {self._reason(str(error))}") from error

    def _reason(self, message: str) -> str:
        if "invalid UTF8" in message:
            return "expected UTF-8 text, got other bytes: save the table as UTF-8"
        if "Empty CSV" in message and not self._header.strip():
            return "expected a line with the names of the columns, got an empty file"
        if self.is_csv and (advice := cells_advice(message, self._delimiter)):
            return advice
        return f"cannot be read as a table: {(message.splitlines() or ['no reason given'])[0].removesuffix(os.linesep)[:160]}"


def _schema(path: Path, reading: Any, parsing: Any, converting: Any) -> Any:
    with csv.open_csv(path, reading, parsing, converting) as head:
        return head.schema


def _table(path: Path, reading: Any, parsing: Any, converting: Any) -> Any:
    return csv.read_csv(path, reading, parsing, converting)
