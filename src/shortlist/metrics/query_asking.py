"""Queries asked in turn: all of them, pruned where no row is left, or some of them, drawn kind by kind.

A query is written as columns: 2j asks for label j, 2j + 1 against it. Its score is the sum of its columns' logarithms, added
up in the order of the labels, so that a query begins with the score of a shorter one.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from shortlist.metrics.query_ranking import Bools, Floats, Ints, rank_queries
from shortlist.metrics.query_tally import Tally

Tell: TypeAlias = Callable[[int], None]

# Scores ranked at once: few enough to stay in a core's cache with what is made of them.
BLOCK = 2**16
# Truths looked at at once for queries that some row satisfies: booleans are eight times smaller, and most end here.
TRUTH_BLOCK = 2**19


@dataclass(frozen=True)
class Table:
    """The rows of all queries.

    Args:
        logs: (2C, N), row 2j ``log η`` of label j, row 2j + 1 ``log(1 - η)``.
        truths: (2C, N), whether it is so.
    """

    logs: Floats
    truths: Bools

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return len(self.logs) // 2

    def at_once(self, entries: int) -> int:
        """How many queries are worked on at once, for about so many entries."""
        return max(1, entries // max(1, int(self.logs.shape[1])))


class Node(NamedTuple):
    """Queries of one length with their scores and the rows that satisfy them, of which there are some."""

    scores: Floats
    relevant: Bools
    last: Ints  # the last label of each
    present: Ints  # how many labels each asks for
    length: int


def count_queries(classes: int, length: int) -> int:
    """How many queries of this length there are: any labels, each present or absent, not all of them absent."""
    return int(math.comb(classes, length) * (2**length - 1))


def ask_all(table: Table, longest: int, tell: Tell | None = None) -> Tally:
    """Rank every query of up to ``longest`` labels that some row satisfies.

    Args:
        table: the rows.
        longest: the most labels of a query.
        tell: told how many queries more are done, again and again.
    """
    heads: list[tuple[int, ...]] = [()]
    if longest >= 3:  # short and many, so that every core has something to do until the end
        heads += itertools.combinations(range(table.classes), 2)
    elif longest == 2:
        heads += [(label,) for label in range(table.classes - 1)]
    tasks = [(partial(_below, table, head, longest), _count_below(table.classes, head, longest)) for head in heads]
    total = _run(tasks, tell)
    for length in range(1, longest + 1):
        for present in range(1, length + 1):
            total.kind(present, length - present).drawn = math.comb(table.classes, length) * math.comb(length, present)
    return total


def ask(table: Table, queries: Ints, present: int, tell: Tell | None = None) -> Tally:
    """Rank those of the queries, (n, length) columns with so many labels present, that some row satisfies."""
    step = table.at_once(TRUTH_BLOCK)
    parts = [queries[start : start + step] for start in range(0, len(queries), step)]
    total = _run([(partial(_ask_part, table, part, present), len(part)) for part in parts], tell)
    total.kind(present, queries.shape[1] - present).drawn = len(queries)
    return total


def _run(tasks: Sequence[tuple[Callable[[], Tally], int]], tell: Tell | None) -> Tally:
    """On all cores, numpy holding no lock where it works long; added up in turn, so that their number changes no digit."""
    total = Tally()
    with ThreadPoolExecutor(max(1, min(torch.get_num_threads(), len(tasks)))) as pool:
        futures = [pool.submit(task) for task, _ in tasks]
        try:
            for future, (_, queries) in zip(futures, tasks, strict=True):
                total.add(future.result())
                if tell is not None:
                    tell(queries)
        finally:
            for future in futures:
                future.cancel()
    return total


def _count_below(classes: int, head: tuple[int, ...], longest: int) -> int:
    """How many queries :func:`_below` looks at."""
    if not head:
        return classes
    after, begun = classes - 1 - head[-1], len(head)
    lengths = range(max(2, begun), longest + 1)
    return sum(math.comb(after, length - begun) * (2**length - 1) for length in lengths)


def _below(table: Table, head: tuple[int, ...], longest: int) -> Tally:
    """All queries that begin with these labels: the single ones of an empty head, else those that are longer."""
    rows = table.logs.shape[1]
    tally = Tally()
    root = Node(np.zeros((1, rows)), np.ones((1, rows), dtype=np.bool_), np.array([-1]), np.array([0]), 0)
    if not head:
        for single in _children(table, root, longest):
            _rank(tally, single)
        return tally.settle()
    nodes = [root]
    for label in head:
        nodes = [child for node in nodes for child in _children(table, node, longest, label)]
    for node in nodes:
        if len(head) > 1:
            _rank(tally, node)
        _descend(table, node, longest, tally)
    return tally.settle()


def _descend(table: Table, node: Node, longest: int, tally: Tally) -> None:
    if node.length < longest:
        for child in _children(table, node, longest):
            _rank(tally, child)
            _descend(table, child, longest, tally)


def _rank(tally: Tally, node: Node) -> None:
    """Rank what is a query: something must be asked for."""
    asked = node.present > 0
    if asked.all():
        tally.put(rank_queries(node.scores, node.relevant), node.present, node.length)
    elif asked.any():
        tally.put(rank_queries(node.scores[asked], node.relevant[asked]), node.present[asked], node.length)


def _children(table: Table, node: Node, longest: int, label: int | None = None) -> Iterator[Node]:
    """One label more than the node's, of those after its last, in blocks; none where no row is left."""
    parents, columns = _continued(node, table.classes, longest, label)
    look, rank = table.at_once(TRUTH_BLOCK), table.at_once(BLOCK)
    for start in range(0, len(parents), look):
        chosen = slice(start, start + look)
        parent, column = parents[chosen], columns[chosen]
        satisfied = np.flatnonzero((node.relevant[parent] & table.truths[column]).any(1))
        for first in range(0, len(satisfied), rank):
            of, at = parent[satisfied[first : first + rank]], column[satisfied[first : first + rank]]
            scores = node.scores[of]
            scores += table.logs[at]
            relevant = node.relevant[of] & table.truths[at]
            yield Node(scores, relevant, at // 2, node.present[of] + (at % 2 == 0), node.length + 1)


def _continued(node: Node, classes: int, longest: int, label: int | None) -> tuple[Ints, Ints]:
    """Which of the node's queries, continued by which columns."""
    first = 2 * (node.last + 1) if label is None else np.full(len(node.last), 2 * label)
    counts = 2 * classes - first if label is None else np.full(len(node.last), 2)
    parents = np.repeat(np.arange(len(node.last)), counts)
    columns = np.arange(len(parents)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    if node.length + 1 == longest:  # the last label cannot be absent where all others are
        useful = (node.present[parents] > 0) | (columns % 2 == 0)
        return parents[useful], columns[useful]
    return parents, columns


def _ask_part(table: Table, queries: Ints, present: int) -> Tally:
    tally = Tally()
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
        tally.put(rank_queries(scores, truth[chosen]), np.full(len(chosen), present), queries.shape[1])
    return tally.settle()
