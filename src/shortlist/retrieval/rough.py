"""Which rows may be among the best, told before logarithms are computed for them.

Most rows of a search are nowhere near the best ones, and a probability in float32 is enough to see that: products and sums of
exponentials, several times cheaper than logarithms in float64. Nothing is subtracted, so that its relative error is bounded;
where the query is nearly certain of the best rows, rows are told apart by the probability that it is false.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shortlist.retrieval.exclusive import Outcomes
from shortlist.retrieval.probability import Columns, rough_chances
from shortlist.retrieval.query import Query

# Relative error for each label: a logarithm from -88 to 0 is off by 88 · 2⁻²⁴, its exponential by a few units more.
ERROR = 1e-5
MORE = 4  # labels' worth of error for what is not of a label
LARGEST_ERROR = 0.1  # from which nothing is told
TINY = 1e-30  # below which float32 has fewer digits
LIKELY = math.log(0.5)

RowNumbers: TypeAlias = NDArray[np.int64]
Chances: TypeAlias = Callable[[bool], NDArray[Any]]  # of being true, or of being false


def promising(query: Query, log_yes: Columns, log_no: Columns, *, rows: int, n: int, floor: float) -> RowNumbers:
    """Indices of the rows that may reach a score, or without one of those that may be among the n best; int64 (m,).

    Args:
        query: what is asked.
        log_yes: log η of the labels of the query, by position, float32 (rows,); only those that are needed are looked up.
        log_no: log(1 - η), likewise.
        rows: their number.
        n: the number of rows asked for.
        floor: the score to reach; with -inf the n best of these rows are looked for.

    >>> query = Query.parse("a or b", ["a", "b"])
    >>> probs = np.array([0.1, 0.8, 0.3], np.float32)
    >>> yes, no = {0: np.log(probs), 1: np.log(probs)}, {0: np.log(1 - probs), 1: np.log(1 - probs)}
    >>> promising(query, yes, no, rows=3, n=1, floor=-math.inf), promising(query, yes, no, rows=3, n=1, floor=math.log(0.25))
    (array([1]), array([1, 2]))
    """
    error = 3 * ERROR * (len(query.labels) + MORE)  # of what is compared, on either side, and of the comparison
    sides = _sides(query)
    if not sides or error > LARGEST_ERROR or (floor == -math.inf and rows <= n):
        return np.arange(rows)
    undecided = query.undecided(log_yes) if query.conditions else np.zeros(rows, np.bool_)
    chances = _chances(query, log_yes, log_no, rows)
    side = floor <= LIKELY if len(sides) == 2 else sides[0]
    chance = chances(side)
    if floor > -math.inf:
        limit = math.exp(floor) if side else -math.expm1(floor)
    else:
        limit = _nth(chance, undecided, n, side)
        if side and limit > 0.5 and len(sides) == 2:
            side, chance = False, chances(False)
            limit = _nth(chance, undecided, n, side)
    near = chance >= limit * (1 - error) - TINY if side else chance <= limit * (1 + error) + TINY
    return np.flatnonzero(near | undecided)


def _sides(query: Query) -> tuple[bool, ...]:
    """Which of the two chances can be had without a difference: that of being true, of being false, or both."""
    if not query.exclusive:
        return True, False
    outcomes: Outcomes = query.outcomes
    return () if outcomes.open or outcomes.another is None else (not outcomes.another,)


def _chances(query: Query, log_yes: Columns, log_no: Columns, rows: int) -> Chances:
    if not query.exclusive:
        return partial(rough_chances, query.plan, log_yes, log_no, rows)

    def added(side: bool) -> NDArray[Any]:
        total = np.zeros(rows, np.float32)
        for label in query.outcomes.true if side else query.outcomes.false:
            total += np.exp(log_yes[label])
        return total

    return added


def _nth(chance: NDArray[Any], undecided: NDArray[np.bool_], n: int, side: bool) -> float:
    """The n-th largest chance of being true, or the n-th smallest of being false, of the rows that are decided."""
    decided = chance[~undecided] if undecided.any() else chance
    if len(decided) < n:
        return 0.0 if side else 1.0
    place = len(decided) - n if side else n - 1
    return float(np.partition(decided, place)[place])
