"""The files of a segment: how they are written, and read a group of rows at a time.

The same rows are stored in two layouts, because a search reads a few columns of all rows, and its results all columns of a few
rows:

- ``logs-NAME.parquet`` is searched: ``row``, ``id``, and for each label ``yes_J`` = log η and ``no_J`` = log(1 - η), float32,
  where J is its position. Row groups are large, and the footer has the maximum of each column in each group, and from which
  value on equal logarithms are those of equal log odds (:mod:`shortlist.retrieval.ties`).
- ``rows-NAME.parquet`` holds the records of the rows: ``row``, ``id``, the columns that were given with the rows (such as
  ``path`` and ``thumbnail``), and ``odds``, the exact log odds of all labels, little-endian float32 or float64 by their number
  of bytes. Row groups are small. Its schema notes if rows were given by their probabilities in float32.

Pages carry checksums, which are verified when a page is read for the first time, so that damage is noticed.
"""

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.retrieval.columns import OWN, Kinds
from shortlist.retrieval.manifest import SegmentEntry
from shortlist.retrieval.parquet import (
    DAMAGE,
    DamagedError,
    FloatColumns,
    Floats,
    RowNumbers,
    check_seal,
    numbers_of,
    open_parquet,
    parquet_seal,
)
from shortlist.retrieval.ties import FOOTER, SettledColumns, footer_text, starts_of

SEARCHED_GROUP = 131_072  # rows in a group of the searched file
MOST_ENTRIES = 2**24  # in such a group: with many labels it has fewer rows
RECORD_GROUP = 1_024  # rows in a group of the records
RECORD_BYTES = 2**18  # log odds in such a group, all of which are read for one row: with many labels it has fewer rows
RECORD_GROUP_WITH_BYTES = 64  # the fewest, and those if a column holds bytes, such as thumbnails
SINGLE = {b"probabilities": b"float32"}  # in the schema, at the column of log odds
STORED = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
# One page for each column of a group, so that its floats can be read at once; older versions of Arrow do so anyway.
ONE_PAGE = {"max_rows_per_page": SEARCHED_GROUP} if "max_rows_per_page" in inspect.signature(pq.write_table).parameters else {}


def group_rows(labels: int) -> int:
    """Number of rows in a group of the searched file.

    >>> group_rows(80), group_rows(1_081)
    (131072, 15520)
    """
    return max(RECORD_GROUP, min(SEARCHED_GROUP, MOST_ENTRIES // labels))


def record_rows(labels: int, exact: "np.dtype[Any]", columns: Kinds) -> int:
    """Number of rows in a group of the records.

    >>> [record_rows(labels, np.dtype(np.float32), {}) for labels in (20, 80, 1_081)]
    [1024, 819, 64]
    """
    fewest = min(RECORD_GROUP_WITH_BYTES, RECORD_GROUP)
    if pa.binary() in columns.values():
        return fewest
    return max(fewest, min(RECORD_GROUP, RECORD_BYTES // (labels * exact.itemsize)))


def yes(label: int) -> str:
    """Name of the column of log η."""
    return f"yes_{label}"


def no(label: int) -> str:
    """Name of the column of log(1 - η)."""
    return f"no_{label}"


def logs_of_odds(odds: Floats) -> tuple[Floats, Floats]:
    """Compute ``log η`` and ``log(1 - η)`` from log odds, ``-softplus(∓odds)``, each to full precision.

    >>> [round(float(value), 4) for value in logs_of_odds(np.array(2.0))]
    [-0.1269, -2.1269]
    """
    rest = np.log1p(np.exp(-np.abs(odds)))
    with np.errstate(over="ignore"):
        return np.minimum(odds, 0) - rest, np.minimum(-odds, 0) - rest


def searched_logs(logs: Floats) -> Floats:
    """Round logarithms of probabilities to float32, where 0 stays reserved for a probability of exactly 1.

    The logarithm of a probability within 1e-46 of 1 would round to 0, and its row would be taken for certain. It becomes the
    smallest negative float32 instead, so that the row is ranked by its exact value.

    >>> searched_logs(np.array([-1e-60, 0.0, -2.0])).tolist()
    [-1.401298464324817e-45, 0.0, -2.0]
    """
    rounded = logs.astype(np.float32)
    rounded[(rounded == 0) & (logs < 0)] = -np.finfo(np.float32).smallest_subnormal
    return rounded


class SegmentWriter:
    """Writes both files of a segment, block by block.

    Args:
        folder: where to write.
        name: of the segment.
        labels: number of labels.
        columns: types of the columns that are kept with the rows, by name.
        exact: type of the exact log odds, float32 or float64.
        single: whether rows were given by their probabilities in float32.
    """

    def __init__(self, folder: Path, name: str, labels: int, *, columns: Kinds, exact: np.dtype[Any], single: bool = False):
        numbers = [pa.field(column(label), pa.float32(), nullable=False) for column in (yes, no) for label in range(labels)]
        keys = [pa.field("row", pa.int64(), nullable=False), pa.field("id", pa.string(), nullable=False)]
        odds = pa.field("odds", pa.binary(exact.itemsize * labels), nullable=False, metadata=SINGLE if single else None)
        self.logs_schema = pa.schema([*keys, *numbers])
        self.record_schema = pa.schema([*keys, *(pa.field(*column) for column in columns.items()), odds])
        self.folder, self.name, self.labels, self.exact, self.columns = folder, name, labels, exact, columns
        self.first: int | None = None
        self.last, self.rows = -1, 0
        self._settled = SettledColumns(labels)
        entry = SegmentEntry(name, 0, 0, 0)
        statistics = [field.name for field in numbers]
        options = STORED | ONE_PAGE
        self._logs = pq.ParquetWriter(folder / entry.logs, self.logs_schema, write_statistics=["row", *statistics], **options)
        self._records = pq.ParquetWriter(folder / entry.records, self.record_schema, write_statistics=["row"], **STORED)

    def write(self, rows: RowNumbers, ids: pa.Array, odds: Floats, columns: Mapping[str, pa.Array]) -> None:
        """Write a block of at most :func:`group_rows` rows, which becomes one group of the searched file.

        Args:
            rows: row numbers, ascending, int64 (n,).
            ids: ids of the rows.
            odds: log odds, (n, C); ±inf for probabilities of 0 and 1.
            columns: values of the columns of the segment.
        """
        by_label = np.ascontiguousarray(odds.T, dtype=np.float64)
        logs = [searched_logs(part) for part in logs_of_odds(by_label)]
        self._settled.add(by_label.astype(self.exact, copy=False), *logs)
        numbers = [pa.array(column) for part in logs for column in part]
        keys = [pa.array(rows), ids]
        self._logs.write_table(pa.Table.from_arrays([*keys, *numbers], schema=self.logs_schema), SEARCHED_GROUP)
        kept = [columns[name] for name in self.columns]
        packed = packed_odds(odds, self.exact)
        records = pa.Table.from_arrays([*keys, *kept, packed], schema=self.record_schema)
        self._records.write_table(records, record_rows(self.labels, self.exact, self.columns))
        self.first = int(rows[0]) if self.first is None else self.first
        self.last, self.rows = int(rows[-1]), self.rows + len(rows)

    def entry(self) -> SegmentEntry:
        """The entry of the manifest, once both files are closed."""
        assert self.first is not None
        plain = SegmentEntry(self.name, self.rows, self.first, self.last)
        seals = tuple(tuple(parquet_seal(self.folder / name)) for name in (plain.logs, plain.records))
        return replace(plain, seals=seals)

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        starts = self._settled.starts
        if (starts < np.inf).any() and hasattr(self._logs, "add_key_value_metadata"):  # Arrow 17
            self._logs.add_key_value_metadata({FOOTER: footer_text(starts)})
        self._logs.close()
        self._records.close()


class Segment:
    """The open files of a segment, which stay readable even if another process deletes them.

    Args:
        folder: of the index.
        entry: of the segment in the manifest.
        threads: number of threads that will read at the same time.
        labels: number of labels.
    """

    def __init__(self, folder: Path, entry: SegmentEntry, threads: int, labels: int):
        self.folder, self.entry, self.labels = folder, entry, labels
        self.paths = (folder / entry.logs, folder / entry.records)
        for path, seal in zip(self.paths, entry.seals, strict=True):
            check_seal(path, seal)
        self._logs = FloatColumns(self.paths[0], threads)
        self._records = open_parquet(self.paths[1], 1)[0]
        for file, path in zip((self._logs, self._records), self.paths, strict=True):
            if file.metadata.num_rows != entry.rows:
                raise DamagedError(f"{path}: expected {entry.rows:,} rows, got {file.metadata.num_rows:,}")
        self.starts = _starts(self._logs.metadata)
        self.record_starts = _starts(self._records.metadata)
        schema = self._records.schema_arrow
        self.columns: Kinds = {name: schema.field(name).type for name in schema.names if name not in OWN}
        settled = starts_of(self._logs.metadata.metadata, labels)
        self._settled_from = {
            name(label): float(start)
            for name, side in zip((yes, no), settled, strict=True)
            for label, start in enumerate(side)
            if start < np.inf
        }
        self._maxima: dict[str, Floats] = {}
        self._ranges: tuple[RowNumbers, RowNumbers] | None = None

    def searched_path(self) -> Path:
        """A path by which this process can open the searched file: on Linux by its handle, which outlives the file's name."""
        held = None if self._logs.handle is None else Path(f"/proc/self/fd/{self._logs.handle}")
        return held if held is not None and held.exists() else self.paths[0]

    @property
    def groups(self) -> int:
        """Number of row groups of the searched file."""
        return len(self.starts) - 1

    @property
    def record_groups(self) -> int:
        """Number of row groups of the records."""
        return len(self.record_starts) - 1

    @property
    def odds_type(self) -> "np.dtype[Any]":
        """The type of the exact log odds."""
        return _odds_type(self._records.schema_arrow.field("odds").type, self.labels)

    @property
    def single(self) -> bool:
        """Whether some of its rows were given by their probabilities in float32."""
        return SINGLE.items() <= (self._records.schema_arrow.field("odds").metadata or {}).items()

    def maxima(self, column: str) -> Floats:
        """The largest value of a column in each group, (groups,)."""
        if column not in self._maxima:
            metadata, place = self._logs.metadata, self._logs.places[column]
            found = [metadata.row_group(group).column(place).statistics for group in range(self.groups)]
            known = [each.max if each is not None and each.has_min_max else math.inf for each in found]
            self._maxima[column] = np.array(known, dtype=np.float64)
        return self._maxima[column]

    def settled_from(self, column: str) -> float:
        """The value from which on equal values of a column are those of rows with equal log odds; inf if there is none."""
        return self._settled_from.get(column, math.inf)

    def log(self, group: int, column: str, thread: int = 0, place: int = 0) -> Floats:
        """A column of a group of the searched file, float32 (n,), in an array that the next one at this place overwrites."""
        with self._naming_damage(self.entry.logs, group, self.starts):
            return self._logs.column(group, column, thread, place)

    def summed_logs(self, group: int, columns: Sequence[str], thread: int = 0) -> Floats:
        """Their sum, float32 (n,), in a buffer that the next sum of this thread overwrites."""
        with self._naming_damage(self.entry.logs, group, self.starts):
            return self._logs.summed(group, columns, thread)

    def searched(self, group: int, columns: Sequence[str] | None = None, thread: int = 0) -> pa.Table:
        """A group of the searched file, verified; the named columns, or all of them."""
        with self._naming_damage(self.entry.logs, group, self.starts):
            return self._logs.table(group, columns, thread)

    def ids(self, group: int) -> pa.Array:
        """Ids of the rows of a group of the searched file."""
        return self.searched(group, ["id"]).column("id").combine_chunks()

    def row_numbers(self, group: int, thread: int = 0, places: RowNumbers | None = None) -> RowNumbers:
        """Numbers of the rows of a group of the searched file, or of those at some places."""
        if self.entry.is_contiguous:
            start, end = self.starts[group : group + 2] + self.entry.first
            return np.arange(start, end) if places is None else places + start
        numbers = numbers_of(self.searched(group, ["row"], thread).column("row"))
        return numbers if places is None else numbers[places]

    def records(self, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A group of the records; the named columns, or all of them."""
        with self._naming_damage(self.entry.records, group, self.record_starts):
            return self._records.read_row_group(group, columns=columns and list(columns), use_threads=False)

    def record_groups_of(self, rows: RowNumbers) -> dict[int, RowNumbers]:
        """The groups of the records that may hold these rows, ascending, and which of the rows."""
        entry = self.entry
        rows = rows[(rows >= entry.first) & (rows <= entry.last)]
        if not len(rows):
            return {}
        if entry.is_contiguous:
            groups = np.searchsorted(self.record_starts, rows - entry.first, "right") - 1
            return {int(group): rows[groups == group] for group in np.unique(groups)}
        low, high = self._record_ranges()
        return {
            int(group): inside
            for group in np.flatnonzero((high >= rows[0]) & (low <= rows[-1]))
            if len(inside := rows[(rows >= low[group]) & (rows <= high[group])])
        }

    def _record_ranges(self) -> tuple[RowNumbers, RowNumbers]:
        """First and last row number of each group of the records."""
        if self._ranges is None:
            metadata = self._records.metadata
            each = [metadata.row_group(group).column(0).statistics for group in range(metadata.num_row_groups)]
            self._ranges = (
                np.array([one.min for one in each], dtype=np.int64),
                np.array([one.max for one in each], dtype=np.int64),
            )
        return self._ranges

    @contextmanager
    def _naming_damage(self, name: str, group: int, starts: RowNumbers) -> Iterator[None]:
        """Turn errors of reading into a :class:`DamagedError` that names the file and the group."""
        try:
            yield
        except DAMAGE as error:
            first, last = int(starts[group]), int(starts[group + 1]) - 1
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            place = f"{self.folder / name}: row group {group}, places {first:,} to {last:,}"
            raise DamagedError(f"{place}, is damaged ({reason})") from error


def packed_odds(odds: Floats, kind: "np.dtype[Any]") -> pa.Array:
    """Log odds (n, C) as a column of n byte strings, which are read much faster than lists."""
    content = np.ascontiguousarray(odds, dtype=kind.newbyteorder("<"))
    width = pa.binary(content.shape[1] * kind.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(width, len(content), [None, pa.py_buffer(content)])


def odds_of(table: pa.Table, labels: int) -> Floats:
    """The log odds of a group of records, (n, C)."""
    column = table.column("odds").combine_chunks()
    kind = _odds_type(column.type, labels)
    start, size = column.offset * column.type.byte_width, len(column) * column.type.byte_width
    content = np.frombuffer(column.buffers()[1], np.uint8)[start : start + size]
    return content.view(kind.newbyteorder("<")).reshape(-1, labels)


def _odds_type(packed: pa.DataType, labels: int) -> "np.dtype[Any]":
    return np.dtype(np.float64 if packed.byte_width == 8 * labels else np.float32)


def _starts(metadata: pq.FileMetaData) -> RowNumbers:
    """Where each group begins, and where the last one ends."""
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
