"""The embedded engine: reads the searched files with Arrow, a group of rows at a time, the most promising groups first.

A group whose columns' maxima add up to less than the n-th best row so far cannot hold a better one and is not read, and all
groups after it are no better.
"""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from shortlist.retrieval.engines import Candidates, margin
from shortlist.retrieval.query import Query
from shortlist.retrieval.searched_file import DamagedError, Floats
from shortlist.retrieval.segments import Rows, Segment, no, yes
from shortlist.retrieval.snapshot import Snapshot


class ArrowEngine:
    """Arrow and numpy, on as many threads as the snapshot has hands."""

    name = "arrow"

    def candidates(self, snapshot: Snapshot, query: Query, n: int, *, skip_damaged: bool = False) -> Candidates:
        """All rows that may be among the n most probable ones."""
        search = _Search(snapshot, query, n, skip_damaged)
        hands = min(snapshot.hands, len(search.tasks))
        if hands <= 1:
            search.work(0)
        else:
            with ThreadPoolExecutor(hands) as pool:
                list(pool.map(search.work, range(hands)))  # raises what they raise
        return search.found()


class _Search:
    """One search: what is left to read, shared by the threads, and the best rows so far."""

    def __init__(self, snapshot: Snapshot, query: Query, n: int, skip_damaged: bool):
        self.snapshot, self.query, self.skip_damaged = snapshot, query, skip_damaged
        present, absent = query.required
        self.sure = [*map(yes, present), *map(no, absent)]  # what the whole query cannot be more probable than
        self.best = _Best(query, n)
        self.tasks = sorted(self._bounded(), key=lambda task: -task[0])
        self.read = 0
        self.damaged: list[str] = []
        self._left: Iterator[tuple[float, Segment, int]] = iter(self.tasks)
        self._lock = threading.Lock()

    def _bounded(self) -> Iterator[tuple[float, Segment, int]]:
        """Every group of rows with what no row of it can exceed."""
        for segment in self.snapshot.segments:
            bounds = sum((segment.maxima(column) for column in self.sure), np.zeros(segment.groups))
            yield from ((float(bound), segment, group) for group, bound in enumerate(bounds))

    def work(self, hand: int) -> None:
        """Take groups until nothing better can come."""
        while (task := self._next()) is not None:
            segment, group = task
            try:
                self._search(segment, group, hand)
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

    def _search(self, segment: Segment, group: int, hand: int) -> None:
        scores = self._scores(segment, group, hand)
        keep = self.best.choose(scores)
        gone = self.snapshot.deleted_places(segment, group, hand) if len(keep) else keep
        if len(gone):
            scores[gone] = -math.inf
            keep = self.best.choose(scores)
        if len(keep):
            self.best.add(scores[keep], segment.row_numbers(group, hand)[keep])

    def _scores(self, segment: Segment, group: int, hand: int) -> Floats:
        """What the rows of a group score, by the rounded logarithms; a row that cannot be told to fail, +∞."""
        if self.query.conjunction is not None:
            return segment.summed_logs(group, self.sure, hand)
        labels = self.query.labels
        columns = segment.logs(group, [*map(yes, labels), *map(no, labels)], hand)
        log_yes = dict(zip(labels, columns, strict=False))
        log_no = dict(zip(labels, columns[len(labels) :], strict=True))
        scores = self.query.log_probability(log_yes, log_no)
        scores[self.query.undecided(log_yes)] = math.inf
        return scores

    def found(self) -> Candidates:
        """What the index looks at again."""
        return Candidates(self.best.rows(), len(self.tasks), self.read, self.damaged)


class _Best:
    """The rows that may be among the n best, as the threads find them."""

    def __init__(self, query: Query, n: int):
        self.query, self.n = query, n
        self.floor = -math.inf  # no row below is among the n best
        self._scores: list[Floats] = []
        self._rows: list[Rows] = []
        self._held = 0
        self._lock = threading.Lock()

    def choose(self, scores: Floats) -> Rows:
        """The places of the scores that may be among the n best."""
        floor = self.floor
        kept = np.flatnonzero(scores >= floor) if floor > -math.inf else np.flatnonzero(scores > -math.inf)
        if len(kept) <= 4 * self.n:
            return kept
        return kept[scores[kept] >= self._floor_of(scores[kept])]

    def add(self, scores: Floats, rows: Rows) -> None:
        """Keep these, and forget those that they leave behind."""
        with self._lock:
            self._scores.append(scores.astype(np.float64))
            self._rows.append(rows)
            self._held += len(rows)
            if self._held > self.n:
                every, numbers = np.concatenate(self._scores), np.concatenate(self._rows)
                self.floor = max(self.floor, self._floor_of(every))
                kept = (every >= self.floor) & self._first_of_certain(every, numbers)
                self._scores, self._rows, self._held = [every[kept]], [numbers[kept]], int(kept.sum())

    def _first_of_certain(self, scores: Floats, rows: Rows) -> npt.NDArray[np.bool_]:
        """All but those rows of which the query is certain and that come after n others like them."""
        certain = scores == 0
        if int(certain.sum()) <= self.n:
            return np.ones(len(scores), dtype=np.bool_)
        last = np.partition(rows[certain], self.n - 1)[self.n - 1]
        return np.asarray(~certain | (rows <= last))

    def _floor_of(self, scores: Floats) -> float:
        """What the n-th best of these leaves no hope below."""
        if len(scores) < self.n:
            return -math.inf
        decided = scores[scores < math.inf]
        if len(decided) < self.n:
            return -math.inf
        worst = float(np.partition(decided, len(decided) - self.n)[len(decided) - self.n])
        return worst - margin(self.query, worst)

    def rows(self) -> Rows:
        """Their numbers."""
        return np.concatenate(self._rows) if self._rows else np.zeros(0, dtype=np.int64)
