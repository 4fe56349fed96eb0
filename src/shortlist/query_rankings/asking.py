"""Rank all queries up to a length, pruning those that no row satisfies, or a given list of queries.

A query is a list of columns: 2j means that label j is present, 2j + 1 that it is absent. Its score is the sum of its columns'
logarithms, added in the order of the labels, so that the score of a query extends that of a shorter one.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import torch

from shortlist.query_rankings.ranking import Bools, Floats, Ints, rank_queries
from shortlist.query_rankings.totals import Totals

Progress: TypeAlias = Callable[[int], None]

# Scores ranked at a time: few enough that they and what is computed from them stay in a core's cache.
BLOCK = 2**16
# Booleans checked at a time for queries that some row satisfies: they are eight times smaller, and most queries end here.
TRUTH_BLOCK = 2**19


@dataclass(frozen=True)
class Table:
    """The rows to rank, by column of a query.

    Args:
        logs: (2C, N), ``log η`` of label j in row 2j, ``log(1 - η)`` in row 2j + 1.
        truths: (2C, N), whether label j is present (row 2j) or absent (row 2j + 1).
    """

    logs: Floats
    truths: Bools

    @property
    def classes(self) -> int:
        """Number of labels."""
        return len(self.logs) // 2

    def at_once(self, entries: int) -> int:
        """Number of queries to process at a time, for about ``entries`` numbers in memory."""
        return max(1, entries // max(1, int(self.logs.shape[1])))


class Batch(NamedTuple):
    """Queries of one length that some row satisfies, with their scores and the rows that satisfy them."""

    scores: Floats
    relevant: Bools
    last: Ints  # last label of each query
    present: Ints  # number of labels each query asks for
    length: int


def count_queries(classes: int, length: int) -> int:
    """Number of queries of this length: any labels, each present or absent, not all of them absent."""
    return int(math.comb(classes, length) * (2**length - 1))


@dataclass(frozen=True)
class Below:
    """All queries that begin with these labels; for an empty head, the queries of one label.

    Args:
        head: the first labels.
        longest: maximum number of labels in a query.
        queries: how many these are.
    """

    head: tuple[int, ...]
    longest: int
    queries: int

    def ask(self, table: Table) -> Totals:
        """Rank them."""
        return _below(table, self.head, self.longest)


@dataclass(frozen=True)
class Given:
    """A list of queries.

    Args:
        columns: (n, length).
        present: number of labels that each asks for.
    """

    columns: Ints
    present: int

    @property
    def queries(self) -> int:
        """How many these are."""
        return len(self.columns)

    def ask(self, table: Table) -> Totals:
        """Rank them."""
        return _ask_part(table, self.columns, self.present)


@dataclass(frozen=True)
class Asking:
    """A job: rank some queries among the rows of a table."""

    table: Table

    def __call__(self, task: Below | Given) -> Totals:
        """The totals of the task."""
        return task.ask(self.table)


Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Across(Protocol):
    """Does a job for each of some tasks."""

    def __call__(self, job: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        """The answers, in the order of the tasks."""
        ...


def on_all_cores(job: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
    """Do a job for each task by threads of this process."""
    with ThreadPoolExecutor(max(1, min(torch.get_num_threads(), len(tasks)))) as pool:
        futures = [pool.submit(job, task) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def ask_all(table: Table, longest: int, progress: Progress | None = None, across: Across = on_all_cores) -> Totals:
    """Rank every query of up to ``longest`` labels that some row satisfies.

    Args:
        table: the rows.
        longest: maximum number of labels in a query.
        progress: callback, called with the number of queries that were just completed.
        across: does the work.
    """
    heads: list[tuple[int, ...]] = [()]
    if longest >= 3:  # many short tasks keep every core busy until the end
        heads += itertools.combinations(range(table.classes), 2)
    elif longest == 2:
        heads += [(label,) for label in range(table.classes - 1)]
    tasks = [Below(head, longest, _count_below(table.classes, head, longest)) for head in heads]
    total = _run(table, tasks, progress, across)
    for length in range(1, longest + 1):
        for present in range(1, length + 1):
            total.kind(present, length - present).drawn = math.comb(table.classes, length) * math.comb(length, present)
    return total


def ask(table: Table, queries: Ints, present: int, progress: Progress | None = None, across: Across = on_all_cores) -> Totals:
    """Rank the queries, (n, length) columns with ``present`` labels asked for each, that some row satisfies."""
    step = table.at_once(TRUTH_BLOCK)
    tasks = [Given(queries[start : start + step], present) for start in range(0, len(queries), step)]
    total = _run(table, tasks, progress, across)
    total.kind(present, queries.shape[1] - present).drawn = len(queries)
    return total


def _run(table: Table, tasks: Sequence[Below | Given], progress: Progress | None, across: Across) -> Totals:
    """Add the totals in task order, so that who does the work, and how many do, does not change a digit."""
    total = Totals()
    for task, found in zip(tasks, across(Asking(table), tasks), strict=True):
        total.add(found)
        if progress is not None:
            progress(task.queries)
    return total


def _count_below(classes: int, head: tuple[int, ...], longest: int) -> int:
    """Number of queries that :func:`_below` visits."""
    if not head:
        return classes
    after, begun = classes - 1 - head[-1], len(head)
    lengths = range(max(2, begun), longest + 1)
    return sum(math.comb(after, length - begun) * (2**length - 1) for length in lengths)


def _below(table: Table, head: tuple[int, ...], longest: int) -> Totals:
    """Rank all queries that begin with these labels; for an empty head, the queries of one label."""
    rows = table.logs.shape[1]
    totals = Totals()
    root = Batch(np.zeros((1, rows)), np.ones((1, rows), dtype=np.bool_), np.array([-1]), np.array([0]), 0)
    if not head:
        for single in _children(table, root, longest):
            _rank(totals, single)
        return totals.settle()
    batches = [root]
    for label in head:
        batches = [child for batch in batches for child in _children(table, batch, longest, label)]
    for batch in batches:
        if len(head) > 1:
            _rank(totals, batch)
        _descend(table, batch, longest, totals)
    return totals.settle()


def _descend(table: Table, batch: Batch, longest: int, totals: Totals) -> None:
    if batch.length < longest:
        for child in _children(table, batch, longest):
            _rank(totals, child)
            _descend(table, child, longest, totals)


def _rank(totals: Totals, batch: Batch) -> None:
    """Rank those that ask for at least one label; the others are only prefixes of queries."""
    asked = batch.present > 0
    if asked.all():
        totals.put(rank_queries(batch.scores, batch.relevant), batch.present, batch.length)
    elif asked.any():
        totals.put(rank_queries(batch.scores[asked], batch.relevant[asked]), batch.present[asked], batch.length)


def _children(table: Table, batch: Batch, longest: int, label: int | None = None) -> Iterator[Batch]:
    """Extend each query by one later label, in blocks; queries that no row satisfies are dropped."""
    parents, columns = _extensions(batch, table.classes, longest, label)
    look, rank = table.at_once(TRUTH_BLOCK), table.at_once(BLOCK)
    for start in range(0, len(parents), look):
        chosen = slice(start, start + look)
        parent, column = parents[chosen], columns[chosen]
        satisfied = np.flatnonzero((batch.relevant[parent] & table.truths[column]).any(1))
        for first in range(0, len(satisfied), rank):
            of, at = parent[satisfied[first : first + rank]], column[satisfied[first : first + rank]]
            scores = batch.scores[of]
            scores += table.logs[at]
            relevant = batch.relevant[of] & table.truths[at]
            yield Batch(scores, relevant, at // 2, batch.present[of] + (at % 2 == 0), batch.length + 1)


def _extensions(batch: Batch, classes: int, longest: int, label: int | None) -> tuple[Ints, Ints]:
    """Pairs of a query of the batch (its index) and a column that extends it."""
    first = 2 * (batch.last + 1) if label is None else np.full(len(batch.last), 2 * label)
    counts = 2 * classes - first if label is None else np.full(len(batch.last), 2)
    parents = np.repeat(np.arange(len(batch.last)), counts)
    columns = np.arange(len(parents)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    if batch.length + 1 == longest:  # the last label must be present where all others are absent
        useful = (batch.present[parents] > 0) | (columns % 2 == 0)
        return parents[useful], columns[useful]
    return parents, columns


def _ask_part(table: Table, queries: Ints, present: int) -> Totals:
    totals = Totals()
    truth = table.truths[queries[:, 0]]
    for place in range(1, queries.shape[1]):
        truth &= table.truths[queries[:, place]]
    satisfied = np.flatnonzero(truth.any(1))
    step = table.at_once(BLOCK)
    for start in range(0, len(satisfied), step):
        chosen = satisfied[start : start + step]
        scores = table.logs[queries[chosen, 0]]
        for place in range(1, queries.shape[1]):
            scores += table.logs[queries[chosen, place]]
        totals.put(rank_queries(scores, truth[chosen]), np.full(len(chosen), present), queries.shape[1])
    return totals.settle()
