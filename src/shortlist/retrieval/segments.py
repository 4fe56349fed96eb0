"""The files of a segment: how they are written, and read a group of rows at a time.

Two layouts of the same rows, because a search reads a few columns of all rows and an answer all columns of a few rows:

- ``logs-NAME.parquet`` is searched: ``row``, ``id``, and for each label ``yes_J`` = log η and ``no_J`` = log(1 - η), float32,
  J being its position. Groups are large, and each knows the maxima of its columns.
- ``rows-NAME.parquet`` is looked up: ``row``, ``id``, ``path``, ``thumbnail``, and ``odds``, the exact log odds of all labels,
  float32 or float64 by their number of bytes, little-endian. Groups are small.

Pages carry checksums, which are verified when a page is read for the first time: damage is noticed, not ranked.
"""

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.retrieval.columns import numbers_of
from shortlist.retrieval.manifest import SegmentEntry
from shortlist.retrieval.seals import seal_of_parquet
from shortlist.retrieval.searched_file import DAMAGE, DamagedError, Floats, SearchedFile, check_seal, open_parquet

Rows = npt.NDArray[np.int64]
SEARCHED_TOGETHER = 131_072  # rows of a group of the file that is searched
MOST_ENTRIES = 2**24  # of a group, where there are so many labels that fewer rows make one
LOOKED_UP_TOGETHER = 1_024
PICTURES_TOGETHER = 64  # the same where each row has a small picture
STORED = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
# A page for each column of a group, whose floats can be read in one go; older versions of Arrow make such pages anyway.
ONE_PAGE = (
    {"max_rows_per_page": SEARCHED_TOGETHER} if "max_rows_per_page" in inspect.signature(pq.write_table).parameters else {}
)


def group_rows(labels: int) -> int:
    """How many rows make a group of the file that is searched.

    >>> group_rows(80), group_rows(1_081)
    (131072, 15520)
    """
    return max(LOOKED_UP_TOGETHER, min(SEARCHED_TOGETHER, MOST_ENTRIES // labels))


def yes(label: int) -> str:
    """The column of log η."""
    return f"yes_{label}"


def no(label: int) -> str:
    """The column of log(1 - η)."""
    return f"no_{label}"


def logs_of_odds(odds: Floats) -> tuple[Floats, Floats]:
    """``log η`` and ``log(1 - η)`` of log odds, each with all its digits: ``-softplus(∓odds)``.

    >>> [round(float(value), 4) for value in logs_of_odds(np.array(2.0))]
    [-0.1269, -2.1269]
    """
    rest = np.log1p(np.exp(-np.abs(odds)))
    with np.errstate(over="ignore"):
        return np.minimum(odds, 0) - rest, np.minimum(-odds, 0) - rest


def searched_logs(logs: Floats) -> Floats:
    """Logarithms of probabilities in float32, where 0 stays reserved for a probability of exactly 1.

    The logarithm of a probability within 1e-46 of 1 would round to 0, and its row would be taken for certain. It becomes the
    smallest negative float32 instead, so that the row is ranked by its exact value.

    >>> searched_logs(np.array([-1e-60, 0.0, -2.0])).tolist()
    [-1.401298464324817e-45, 0.0, -2.0]
    """
    rounded = logs.astype(np.float32)
    rounded[(rounded == 0) & (logs < 0)] = -np.finfo(np.float32).smallest_subnormal
    return rounded


class SegmentWriter:
    """Writes both files of a segment, a block of rows after the other."""

    def __init__(self, folder: Path, name: str, labels: int, *, extras: Sequence[str] = (), exact: np.dtype[Any]):
        numbers = [pa.field(column(label), pa.float32(), nullable=False) for column in (yes, no) for label in range(labels)]
        keys = [pa.field("row", pa.int64(), nullable=False), pa.field("id", pa.string(), nullable=False)]
        kinds = {"path": pa.string(), "thumbnail": pa.binary()}
        odds = pa.field("odds", pa.binary(exact.itemsize * labels), nullable=False)
        self.logs_schema = pa.schema([*keys, *numbers])
        self.facts_schema = pa.schema([*keys, *(pa.field(extra, kinds[extra]) for extra in extras), odds])
        self.folder, self.name, self.labels, self.exact, self.extras = folder, name, labels, exact, extras
        self.first: int | None = None
        self.last, self.rows = -1, 0
        entry = SegmentEntry(name, 0, 0, 0)
        statistics = [field.name for field in numbers]
        options = STORED | ONE_PAGE
        self._logs = pq.ParquetWriter(folder / entry.logs, self.logs_schema, write_statistics=["row", *statistics], **options)
        self._facts = pq.ParquetWriter(folder / entry.facts, self.facts_schema, write_statistics=["row"], **STORED)

    def write(self, rows: Rows, ids: pa.Array, odds: Floats, extras: dict[str, pa.Array] | None = None) -> None:
        """A block of at most :func:`group_rows` rows, which becomes one group.

        Args:
            rows: their numbers, ascending, int64 (n,).
            ids: their names.
            odds: their log odds, (n, C); ±∞ for what is certain.
            extras: paths and small pictures, where the segment has them.
        """
        columns = np.ascontiguousarray(odds.T, dtype=np.float64)
        logs = [searched_logs(part) for part in logs_of_odds(columns)]
        numbers = [pa.array(column) for part in logs for column in part]
        keys = [pa.array(rows), ids]
        self._logs.write_table(pa.Table.from_arrays([*keys, *numbers], schema=self.logs_schema), SEARCHED_TOGETHER)
        packed = packed_odds(odds, self.exact)
        together = min(LOOKED_UP_TOGETHER, PICTURES_TOGETHER) if "thumbnail" in self.extras else LOOKED_UP_TOGETHER
        more = [(extras or {})[extra] for extra in self.extras]
        self._facts.write_table(pa.Table.from_arrays([*keys, *more, packed], schema=self.facts_schema), together)
        self.first = int(rows[0]) if self.first is None else self.first
        self.last, self.rows = int(rows[-1]), self.rows + len(rows)

    def entry(self) -> SegmentEntry:
        """What the manifest says of it, once both files are closed."""
        assert self.first is not None
        plain = SegmentEntry(self.name, self.rows, self.first, self.last)
        seals = tuple(tuple(seal_of_parquet(self.folder / name)) for name in (plain.logs, plain.facts))
        return replace(plain, seals=seals)

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._logs.close()
        self._facts.close()


class Segment:
    """The files of a segment, open: they can be read until this is forgotten, even if somebody removes them.

    Args:
        folder: of the index.
        entry: which segment.
        hands: how many threads will read it at once.
        labels: how many there are.
    """

    def __init__(self, folder: Path, entry: SegmentEntry, hands: int, labels: int):
        self.folder, self.entry, self.hands, self.labels = folder, entry, hands, labels
        for name, seal in zip((entry.logs, entry.facts), entry.seals, strict=True):
            check_seal(folder / name, seal)
        self._logs = SearchedFile(folder / entry.logs, hands)
        self._facts = open_parquet(folder / entry.facts, 1)[0]
        self.paths = (folder / entry.logs, folder / entry.facts)
        for file, name in ((self._logs, entry.logs), (self._facts, entry.facts)):
            if file.metadata.num_rows != entry.rows:
                raise DamagedError(f"{folder / name}: expected {entry.rows:,} rows, got {file.metadata.num_rows:,}")
        self.starts = _starts(self._logs.metadata)
        self.fact_starts = _starts(self._facts.metadata)
        self._maxima: dict[str, Floats] = {}
        self._ranges: tuple[Rows, Rows] | None = None

    @property
    def groups(self) -> int:
        """Groups of rows of the file that is searched."""
        return len(self.starts) - 1

    @property
    def extras(self) -> list[str]:
        """Paths and small pictures, if it has them."""
        return [name for name in ("path", "thumbnail") if name in self._facts.schema_arrow.names]

    @property
    def odds_type(self) -> "np.dtype[Any]":
        """How the log odds are kept."""
        return _odds_type(self._facts.schema_arrow.field("odds").type, self.labels)

    def size(self, group: int) -> int:
        """Rows of a group."""
        return int(self.starts[group + 1] - self.starts[group])

    def maxima(self, column: str) -> Floats:
        """The largest value of a column in each group, (groups,): nothing in a group can exceed it."""
        if column not in self._maxima:
            metadata, place = self._logs.metadata, self._logs.places[column]
            found = [metadata.row_group(group).column(place).statistics for group in range(self.groups)]
            known = [each.max if each is not None and each.has_min_max else math.inf for each in found]
            self._maxima[column] = np.array(known, dtype=np.float64)
        return self._maxima[column]

    def logs(self, group: int, columns: Sequence[str], hand: int = 0) -> list[Floats]:
        """Columns of a group of the file that is searched, float32 (n,) each."""
        with self._naming(self.entry.logs, group, self.starts):
            return self._logs.floats(group, columns, hand)

    def summed_logs(self, group: int, columns: Sequence[str], hand: int = 0) -> Floats:
        """Their sum, float32 (n,), in memory that the hand's next sum takes again."""
        with self._naming(self.entry.logs, group, self.starts):
            return self._logs.summed(group, columns, hand)

    def searched(self, group: int, columns: Sequence[str] | None = None, hand: int = 0) -> pa.Table:
        """A group of the file that is searched, verified; all of it unless columns are named."""
        with self._naming(self.entry.logs, group, self.starts):
            return self._logs.table(group, columns, hand)

    def ids(self, group: int) -> pa.Array:
        """The names of the rows of a group of the file that is searched."""
        return self.searched(group, ["id"]).column("id").combine_chunks()

    def row_numbers(self, group: int, hand: int = 0) -> Rows:
        """The numbers of the rows of a group of the file that is searched."""
        if self.entry.last - self.entry.first + 1 == self.entry.rows:  # none is missing: no need to look
            return np.arange(self.starts[group], self.starts[group + 1]) + self.entry.first
        return numbers_of(self.searched(group, ["row"], hand).column("row"))

    def fact_ranges(self) -> tuple[Rows, Rows]:
        """The first and the last row number of each group of the file that answers are read from."""
        if self._ranges is None:
            metadata = self._facts.metadata
            each = [metadata.row_group(group).column(0).statistics for group in range(metadata.num_row_groups)]
            self._ranges = (
                np.array([one.min for one in each], dtype=np.int64),
                np.array([one.max for one in each], dtype=np.int64),
            )
        return self._ranges

    def facts(self, group: int) -> pa.Table:
        """A group of the file that answers are read from."""
        with self._naming(self.entry.facts, group, self.fact_starts):
            return self._facts.read_row_group(group, use_threads=False)

    @contextmanager
    def _naming(self, name: str, group: int, starts: Rows) -> Iterator[None]:
        """What cannot be read inside, named."""
        try:
            yield
        except DAMAGE as error:
            first, last = int(starts[group]), int(starts[group + 1]) - 1
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            place = f"{self.folder / name}: row group {group}, places {first:,} to {last:,}"
            raise DamagedError(f"{place}, is damaged ({reason})") from error


def packed_odds(odds: Floats, kind: "np.dtype[Any]") -> pa.Array:
    """Log odds (n, C) as a column of n strings of bytes: read as fast as it can be copied, where lists are taken apart."""
    content = np.ascontiguousarray(odds, dtype=kind.newbyteorder("<"))
    width = pa.binary(content.shape[1] * kind.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(width, len(content), [None, pa.py_buffer(content)])


def odds_of(table: pa.Table, labels: int) -> Floats:
    """The log odds of a group, (n, C)."""
    column = table.column("odds").combine_chunks()
    kind = _odds_type(column.type, labels)
    start, size = column.offset * column.type.byte_width, len(column) * column.type.byte_width
    content = np.frombuffer(column.buffers()[1], np.uint8)[start : start + size]
    return content.view(kind.newbyteorder("<")).reshape(-1, labels)


def _odds_type(packed: pa.DataType, labels: int) -> "np.dtype[Any]":
    return np.dtype(np.float64 if packed.byte_width == 8 * labels else np.float32)


def _starts(metadata: pq.FileMetaData) -> Rows:
    """Where each group begins, and where the last one ends."""
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
