"""One state of an index, open for reading: what happens to the index afterwards does not change it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from shortlist.errors import InputError
from shortlist.retrieval.columns import numbers_of, places
from shortlist.retrieval.manifest import Manifest
from shortlist.retrieval.seals import seal_of_file
from shortlist.retrieval.searched_file import DAMAGE, DamagedError, Floats, check_seal
from shortlist.retrieval.segments import Rows, Segment, odds_of

TRIES = 20  # an index that is compacted between our two looks at it is looked at again


@dataclass(frozen=True)
class Facts:
    """What is known about a few rows, in the order of their numbers.

    Args:
        rows: their numbers, int64 (n,).
        odds: their log odds, float64 (n, C).
        ids: their names.
        extras: paths and small pictures, where the index has them.
    """

    rows: Rows
    odds: Floats
    ids: list[str]
    extras: dict[str, list[object]] = field(default_factory=dict)


class Snapshot:
    """Segments and deleted rows of one state.

    Args:
        folder: of the index.
        hands: how many threads will read at once.
    """

    def __init__(self, folder: Path, hands: int):
        self.folder, self.hands = folder, hands
        for attempt in range(TRIES):
            self.manifest = Manifest.read(folder)
            try:
                self.segments = [Segment(folder, entry, hands, len(self.classes)) for entry in self.manifest.segments]
                self.deleted = _deleted(folder, self.manifest)
                break
            except FileNotFoundError as error:
                if attempt == TRIES - 1 or Manifest.read(folder) == self.manifest:
                    raise InputError(f"{folder}: {error} is missing: build the index again") from None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.manifest.classes

    def deleted_places(self, segment: Segment, group: int, hand: int = 0) -> Rows:
        """Which places of a group of the searched file are deleted, int64 (m,)."""
        if not len(self.deleted):
            return self.deleted
        entry = segment.entry
        here = self.deleted[np.searchsorted(self.deleted, entry.first) : np.searchsorted(self.deleted, entry.last, "right")]
        if not len(here):
            return here
        return np.flatnonzero(np.isin(segment.row_numbers(group, hand), here, assume_unique=True))

    def look_up(self, rows: Rows, damaged: list[str] | None = None) -> Facts:
        """Everything about these rows.

        Args:
            rows: their numbers.
            damaged: a list that damaged groups are named in, whose rows are then left out; without one they raise.
        """
        wanted, labels = np.unique(rows), len(self.classes)
        found: list[tuple[Rows, Floats, list[str], dict[str, list[object]]]] = []
        for segment in self.segments:
            here = wanted[(wanted >= segment.entry.first) & (wanted <= segment.entry.last)]
            for group, asked in _groups_of(segment, here).items():
                try:
                    table = segment.facts(group)
                except DamagedError as error:
                    if damaged is None:
                        raise
                    damaged.append(str(error))
                    continue
                numbers = numbers_of(table.column("row"))
                kept = np.flatnonzero(np.isin(numbers, asked))
                few = table.take(places(kept))
                extras = {name: few.column(name).to_pylist() for name in segment.extras}
                found.append((numbers[kept], odds_of(few, labels).astype(np.float64), few.column("id").to_pylist(), extras))
        return _joined(found, labels)


def _groups_of(segment: Segment, rows: Rows) -> dict[int, Rows]:
    """The groups of the file of answers that hold these rows: by arithmetic, or by the range of each group."""
    if not len(rows):
        return {}
    entry = segment.entry
    if entry.last - entry.first + 1 == entry.rows:
        groups = np.searchsorted(segment.fact_starts, rows - entry.first, "right") - 1
        return {int(group): rows[groups == group] for group in np.unique(groups)}
    low, high = segment.fact_ranges()
    return {
        int(group): inside
        for group in np.flatnonzero((high >= rows[0]) & (low <= rows[-1]))
        if len(inside := rows[(rows >= low[group]) & (rows <= high[group])])
    }


def _joined(found: Sequence[tuple[Rows, Floats, list[str], dict[str, list[object]]]], labels: int) -> Facts:
    if not found:
        return Facts(np.zeros(0, dtype=np.int64), np.zeros((0, labels)), [])
    names = {name for *_, extras in found for name in extras}
    extras = {name: [value for *_, ids, more in found for value in more.get(name, [None] * len(ids))] for name in names}
    rows = np.concatenate([rows for rows, *_ in found])
    return Facts(rows, np.concatenate([odds for _, odds, *_ in found]), [name for *_, ids, _ in found for name in ids], extras)


def _deleted(folder: Path, manifest: Manifest) -> Rows:
    if manifest.deleted is None:
        return np.zeros(0, dtype=np.int64)
    path = folder / manifest.deleted
    check_seal(path, manifest.deleted_seal, seal_of_file)
    try:
        return numbers_of(pq.ParquetFile(path, page_checksum_verification=True).read().column("row"))
    except FileNotFoundError:
        raise FileNotFoundError(path.name) from None
    except DAMAGE as error:
        raise DamagedError(f"{path} cannot be read ({str(error).splitlines()[0]}): build the index again") from error
