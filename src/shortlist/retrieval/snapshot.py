"""One state of an index, open for reading: later changes of the index do not affect it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import InputError
from shortlist.retrieval.columns import Kinds
from shortlist.retrieval.manifest import Manifest, state_stamp
from shortlist.retrieval.parquet import (
    DAMAGE,
    DamagedError,
    Floats,
    RowNumbers,
    as_indices,
    check_seal,
    file_seal,
    numbers_of,
    unreadable,
)
from shortlist.retrieval.segments import Segment, odds_of

ATTEMPTS = 20  # the index may be compacted between reading the manifest and opening its files


@dataclass(frozen=True)
class ExactRows:
    """Exact log odds and ids of a few rows.

    Args:
        rows: row numbers, int64 (n,).
        odds: log odds, float64 (n, C).
        ids: ids of the rows.
    """

    rows: RowNumbers
    odds: Floats
    ids: list[str]


class Snapshot:
    """Segments and deleted rows of one state.

    Args:
        folder: of the index.
        threads: number of threads that will read at the same time.
    """

    def __init__(self, folder: Path, threads: int):
        self.folder, self.threads = folder, threads
        for attempt in range(ATTEMPTS):
            self.stamp = state_stamp(folder)  # before it is read, so that what follows is noticed
            self.manifest = Manifest.read(folder)
            try:
                self.segments = [Segment(folder, entry, threads, len(self.classes)) for entry in self.manifest.segments]
                self.deleted = _deleted(folder, self.manifest)
                break
            except FileNotFoundError as error:
                if attempt == ATTEMPTS - 1 or Manifest.read(folder) == self.manifest:
                    raise InputError(f"{folder}: {error} is missing: build the index again") from None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.manifest.classes

    @property
    def columns(self) -> Kinds:
        """Types of the columns that are kept with the rows, by name; a segment may lack some of them."""
        return {name: kind for segment in self.segments for name, kind in segment.columns.items()}

    @property
    def single(self) -> bool:
        """Whether some rows were given by their probabilities in float32."""
        return any(segment.single for segment in self.segments)

    def deleted_places(self, segment: Segment, group: int, thread: int = 0) -> RowNumbers:
        """Indices of the deleted rows within a group of the searched file, int64 (m,)."""
        if not len(self.deleted):
            return self.deleted
        entry = segment.entry
        here = self.deleted[np.searchsorted(self.deleted, entry.first) : np.searchsorted(self.deleted, entry.last, "right")]
        if not len(here):
            return here
        if entry.is_contiguous:
            first, end = segment.starts[group : group + 2] + entry.first
            return np.asarray(here[np.searchsorted(here, first) : np.searchsorted(here, end)] - first)
        return np.flatnonzero(np.isin(segment.row_numbers(group, thread), here, assume_unique=True))

    def exact(self, rows: RowNumbers, damaged: list[str] | None = None) -> ExactRows:
        """Read the exact log odds of these rows.

        Args:
            rows: row numbers.
            damaged: list to which damaged groups are appended, whose rows are then left out; by default they raise.
        """
        labels = len(self.classes)
        numbers, odds, ids = [np.zeros(0, dtype=np.int64)], [np.zeros((0, labels))], []
        for _, few in self._records(rows, ["row", "id", "odds"], damaged):
            numbers.append(numbers_of(few.column("row")))
            odds.append(odds_of(few, labels).astype(np.float64))
            ids += few.column("id").to_pylist()
        return ExactRows(np.concatenate(numbers), np.concatenate(odds), ids)

    def values(self, rows: RowNumbers, columns: Sequence[str], damaged: list[str] | None = None) -> dict[int, dict[str, Any]]:
        """Read columns of these rows, by row number; rows whose segment lacks a column do not have it."""
        found: dict[int, dict[str, Any]] = {}
        for segment, few in self._records(rows, ["row", *columns], damaged):
            there = [name for name in columns if name in segment.columns]
            lists = [few.column(name).to_pylist() for name in there]
            for place, row in enumerate(few.column("row").to_pylist()):
                found[row] = {name: values[place] for name, values in zip(there, lists, strict=True)}
        return found

    def _records(
        self, rows: RowNumbers, columns: Sequence[str], damaged: list[str] | None
    ) -> Iterator[tuple[Segment, pa.Table]]:
        """These columns of these rows, a few at a time."""
        wanted = np.unique(rows)
        for segment in self.segments:
            own = [name for name in columns if name in ("row", "id", "odds") or name in segment.columns]
            for group, asked in segment.record_groups_of(wanted).items():
                try:
                    table = segment.records(group, own)
                except DamagedError as error:
                    if damaged is None:
                        raise
                    damaged.append(str(error))
                    continue
                kept = np.flatnonzero(np.isin(numbers_of(table.column("row")), asked))
                yield segment, table.take(as_indices(kept))


def _deleted(folder: Path, manifest: Manifest) -> RowNumbers:
    if manifest.deleted is None:
        return np.zeros(0, dtype=np.int64)
    path = folder / manifest.deleted
    check_seal(path, manifest.deleted_seal, file_seal)
    try:
        return numbers_of(pq.ParquetFile(path, page_checksum_verification=True).read().column("row"))
    except FileNotFoundError:
        raise FileNotFoundError(path.name) from None
    except DAMAGE as error:
        raise unreadable(path, error) from error
