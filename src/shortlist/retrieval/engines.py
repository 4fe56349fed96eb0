"""Search engines: an engine names the rows that may be among the best, and the index ranks those few again, exactly.

The searched file holds logarithms rounded to float32, so that sums of them may order close rows wrongly. The error is bounded:
each logarithm is off by at most 2⁻²⁴ of itself, and all are ≤ 0, so a sum of k is off by at most k + 1 times that. An engine
returns every row within :func:`margin` of the n-th best, which is n rows and seldom one more.

The built-in engine reads the searched files with Arrow, one row group at a time, the most promising groups first. A group
whose columns' maxima add up to less than the n-th best row so far cannot hold a better one and is not read, nor are the groups
after it.
"""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shortlist.errors import InputError
from shortlist.retrieval.exclusive import named
from shortlist.retrieval.parquet import DamagedError, Floats, RowNumbers
from shortlist.retrieval.probability import Columns
from shortlist.retrieval.query import Query
from shortlist.retrieval.rough import promising
from shortlist.retrieval.segments import Segment, no, yes
from shortlist.retrieval.snapshot import Snapshot
from shortlist.retrieval.ties import UNKNOWN, Alike, first_of_alike
from shortlist.words import did_you_mean

UNIT = 2.0**-24  # relative rounding error of float32
TINY = 1e-37  # below which float32 has fewer digits
FIRST = 4_096  # rows of a group whose best ones tell which others are not worth a logarithm
LEAST = -700.0  # the logarithm of a probability that is as good as 0, where float64 still has its exponential
SAFETY = 2  # two rows may err in opposite directions


@dataclass
class Candidates:
    """Rows that may be among the best.

    Args:
        rows: row numbers, int64 (m,), in no particular order.
        groups: number of row groups of the index.
        read: number of groups that were read; the others could not hold a better row.
        damaged: what could not be read and was skipped.
        alike: for each row a number that it shares with rows of the same exact probability, or -1, int64 (m,); by default
            nothing is known. Of rows that share one, all may be left out but the n first.
    """

    rows: RowNumbers
    groups: int = 0
    read: int = 0
    damaged: list[str] = field(default_factory=list)
    alike: RowNumbers | None = None


class Engine(Protocol):
    """A way to find the best rows of a snapshot."""

    name: str

    def candidates(self, snapshot: Snapshot, query: Query, n: int, *, skip_damaged: bool) -> Candidates:
        """All rows that may be among the n most probable ones and whose probability is not 0."""


def find_engine(name: str) -> Engine:
    """The engine of this name: ``arrow`` reads the files itself, ``duckdb`` sends SQL to DuckDB."""
    if name == "arrow":
        return ArrowEngine()
    if name == "duckdb":
        from shortlist.retrieval.duckdb_engine import DuckDBEngine

        return DuckDBEngine()
    raise InputError(f"engine: {did_you_mean(name, ['arrow', 'duckdb'])}expected arrow or duckdb, got {name!r}")


def margin(query: Query, score: float) -> float:
    """How far below this score another row may be by float32 and still be the better one.

    The probability of a query is a sum over the ways to satisfy it, each a product of η or 1 - η of its labels, of which there
    are at most 2ᵐ for m labels. Ways that are e⁻⁴⁰ / 2ᵐ times less probable than the sum are negligible; the logarithm of any
    other is in absolute value at most that of the sum plus 40 + m log 2, and has a relative error. A conjunction can be
    satisfied in one way. Where the query is nearly certain, the same holds for the probability that it is false, which then
    determines the score.
    """
    labels, size = len(query.labels), abs(score)
    if query.conjunction is not None:
        return SAFETY * (labels + 2) * UNIT * size + TINY
    if _is_difference(query, score):
        # An absolute error of at most η |log η| of each label: relative to the probability it grows.
        return SAFETY * (labels + 2) * UNIT * math.exp(min(size, -LEAST)) + TINY
    if size == 0:
        return TINY
    rest = labels * math.log(2) + 40
    certain = (max(size, -math.log(size)) + rest) * 2 * size
    return SAFETY * (labels + 2) * UNIT * min(size + rest, certain) + TINY


def _is_difference(query: Query, score: float) -> bool:
    """Whether a score comes from 1 - Σ η, the probability of labels that an exclusive query does not name, and its rounding.

    The smaller side is computed, the probability that the query is true or that it is false; such labels are on one of them.
    """
    if not query.exclusive:
        return False
    another = query.outcomes.another
    return another is not False if score < -math.log(2) else another is not True


class ArrowEngine:
    """The built-in engine: Arrow and numpy, on several threads."""

    name = "arrow"

    def candidates(self, snapshot: Snapshot, query: Query, n: int, *, skip_damaged: bool = False) -> Candidates:
        """All rows that may be among the n most probable ones."""
        search = _Search(snapshot, query, n, skip_damaged)
        threads = min(snapshot.threads, len(search.tasks))
        if threads <= 1:
            search.work(0)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(search.work, range(threads)))  # raises what they raise
        return search.found()


class _Search:
    """One search: the groups that are left to read, shared by the threads, and the best rows so far."""

    def __init__(self, snapshot: Snapshot, query: Query, n: int, skip_damaged: bool):
        self.snapshot, self.query, self.skip_damaged = snapshot, query, skip_damaged
        present, absent = query.required
        self.required = [*map(yes, present), *map(no, absent)]  # their sum bounds the score
        self.best = _Best(query, n)
        self._alike = Alike()
        self._columns = None if skip_damaged else _deciding(query)  # a row that cannot be looked up may not stand for others
        self.tasks = sorted(self._bounded(), key=lambda task: -task[0])
        self.read = 0
        self.damaged: list[str] = []
        self._left: Iterator[tuple[float, Segment, int]] = iter(self.tasks)
        self._lock = threading.Lock()

    def _bounded(self) -> Iterator[tuple[float, Segment, int]]:
        """Every row group with an upper bound of the scores of its rows."""
        for segment in self.snapshot.segments:
            bounds = sum((segment.maxima(column) for column in self.required), np.zeros(segment.groups))
            yield from ((float(bound), segment, group) for group, bound in enumerate(bounds))

    def work(self, thread: int) -> None:
        """Search groups until no other group can hold a better row."""
        while (task := self._next()) is not None:
            segment, group = task
            try:
                self._search(segment, group, thread)
            except DamagedError as error:
                if not self.skip_damaged:
                    raise
                with self._lock:
                    self.damaged.append(str(error))

    def _next(self) -> tuple[Segment, int] | None:
        with self._lock:
            bound, segment, group = next(self._left, (-math.inf, None, 0))
            if segment is None or bound == -math.inf or bound < self.best.floor:
                return None
            self.read += 1
            return segment, group

    def _search(self, segment: Segment, group: int, thread: int) -> None:
        places, scores = self._scores(segment, group, thread)
        keep = self.best.choose(scores)
        deleted = self.snapshot.deleted_places(segment, group, thread) if len(keep) else keep
        if len(deleted):
            scores[deleted if places is None else np.isin(places, deleted)] = -math.inf
            keep = self.best.choose(scores)
        if len(keep):
            places = keep if places is None else places[keep]
            alike = self._numbers(segment, group, places, thread)
            self.best.add(scores[keep], segment.row_numbers(group, thread, places), alike)

    def _numbers(self, segment: Segment, group: int, places: RowNumbers, thread: int) -> RowNumbers:
        """Numbers that tell which of these rows have the same exact probability, as far as that is known."""
        starts = [[(name, segment.settled_from(name)) for name in one] for one in self._columns or ()]
        if not starts or any(min(start for _, start in one) == math.inf for one in starts):
            return np.full(len(places), UNKNOWN, np.int64)
        read = [[(segment.log(group, name, thread, 1)[places], start) for name, start in one] for one in starts]
        return self._alike.numbers(segment.entry.name, read)

    def _scores(self, segment: Segment, group: int, thread: int) -> tuple[RowNumbers | None, Floats]:
        """Places in a group of rows that may be among the best, or None for all, and their scores by the rounded logarithms.

        +inf for rows that float32 cannot decide a condition for.
        """
        if self.query.conjunction is not None:
            return None, segment.summed_logs(group, self.required, thread)
        log_yes, log_no = (_GroupColumns(segment, group, self.query.labels, side, thread) for side in (True, False))
        rows = int(segment.starts[group + 1] - segment.starts[group])
        floor, n = self.best.floor, self.best.n
        if floor == -math.inf:  # the best of a few rows are a beginning, without deleted ones
            deleted = self.snapshot.deleted_places(segment, group, thread)
            few = np.setdiff1d(np.arange(min(rows, FIRST)), deleted)
            floor = self.best.floor_of(self._scores_of(log_yes, log_no, few))
            n += len(deleted)
        places = promising(self.query, log_yes, log_no, rows=rows, n=n, floor=floor)
        if not len(places):
            return places, np.zeros(0)
        return places, self._scores_of(log_yes, log_no, places)

    def _scores_of(self, all_yes: Columns, all_no: Columns, places: RowNumbers) -> Floats:
        log_yes, log_no = ({label: part[label][places] for label in self.query.labels} for part in (all_yes, all_no))
        scores = self.query.log_probability(log_yes, log_no)
        if _is_difference(self.query, LEAST):
            np.maximum(scores, LEAST, out=scores)  # a difference that rounding made 0 need not be
        scores[self.query.undecided(log_yes)] = math.inf
        return scores

    def found(self) -> Candidates:
        """The rows that the index ranks again."""
        rows, alike = self.best.rows()
        return Candidates(rows, len(self.tasks), self.read, self.damaged, alike)


def _deciding(query: Query) -> list[list[str]] | None:
    """Columns that decide the exact probability, for each label one or two; None if further labels count.

    A conjunction is searched in one column of each label; of other queries one of the two columns of each has to be settled.
    """
    if query.conjunction is not None:
        present, absent = query.conjunction
        return [[name] for name in (*map(yes, present), *map(no, absent))]
    if query.exclusive and len(named(query.tree)) != 1:
        return None
    return [[yes(label), no(label)] for label in query.labels]


class _GroupColumns(Mapping[int, Floats]):
    """log η, or log(1 - η), of labels in a group, each read when it is first asked for."""

    def __init__(self, segment: Segment, group: int, labels: Sequence[int], present: bool, thread: int):
        self._segment, self._group, self._thread = segment, group, thread
        self._name, first = (yes, 0) if present else (no, len(labels))
        self._places = {label: first + place for place, label in enumerate(labels)}
        self._read: dict[int, Floats] = {}

    def __getitem__(self, label: int) -> Floats:
        if label not in self._read:
            place = self._places[label]
            self._read[label] = self._segment.log(self._group, self._name(label), self._thread, place)
        return self._read[label]

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Best:
    """The rows that may be among the n best, as the threads find them."""

    def __init__(self, query: Query, n: int):
        self.query, self.n = query, n
        self.floor = -math.inf  # no row below it is among the n best
        self._scores: list[Floats] = []
        self._rows: list[RowNumbers] = []
        self._alike: list[RowNumbers] = []
        self._held = 0
        self._lock = threading.Lock()

    def choose(self, scores: Floats) -> RowNumbers:
        """Indices of the scores that may be among the n best."""
        floor = self.floor if self.floor > -math.inf else self.floor_of(scores)
        kept = np.flatnonzero(scores >= floor) if floor > -math.inf else np.flatnonzero(scores > -math.inf)
        if len(kept) <= 4 * self.n:
            return kept
        return kept[scores[kept] >= self.floor_of(scores[kept])]

    def add(self, scores: Floats, rows: RowNumbers, alike: RowNumbers) -> None:
        """Add rows, and drop those that can no longer be among the n best."""
        with self._lock:
            self._scores.append(scores.astype(np.float64))
            self._rows.append(rows)
            self._alike.append(alike)
            self._held += len(rows)
            if self._held > self.n:
                every, (numbers, same) = np.concatenate(self._scores), self.rows()
                self.floor = max(self.floor, self.floor_of(every))
                kept = (every >= self.floor) & self._first_of_certain(every, numbers) & first_of_alike(same, numbers, self.n)
                self._scores, self._rows, self._alike = [every[kept]], [numbers[kept]], [same[kept]]
                self._held = int(kept.sum())

    def _first_of_certain(self, scores: Floats, rows: RowNumbers) -> npt.NDArray[np.bool_]:
        """All rows but those with probability 1 that come after n other rows with probability 1."""
        certain = scores == 0
        if _is_difference(self.query, 0.0) or int(certain.sum()) <= self.n:
            return np.ones(len(scores), dtype=np.bool_)
        last = np.partition(rows[certain], self.n - 1)[self.n - 1]
        return np.asarray(~certain | (rows <= last))

    def floor_of(self, scores: Floats) -> float:
        """The score below which no row can be among the n best, given these scores."""
        if len(scores) < self.n:
            return -math.inf
        undecided = scores == math.inf
        decided = scores[~undecided] if undecided.any() else scores
        if len(decided) < self.n:
            return -math.inf
        worst = float(np.partition(decided, len(decided) - self.n)[len(decided) - self.n])
        return worst - margin(self.query, worst)

    def rows(self) -> tuple[RowNumbers, RowNumbers]:
        """Their row numbers, and the numbers that rows with the same exact probability share."""
        none = np.zeros(0, dtype=np.int64)
        return np.concatenate([none, *self._rows]), np.concatenate([none, *self._alike])
