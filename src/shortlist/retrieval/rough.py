"""Which rows may be among the best, told before logarithms are computed for them.

Most rows of a search are nowhere near the best ones, and a probability in float32 is enough to see that: products and sums of
exponentials, several times cheaper than logarithms in float64. Nothing is subtracted, so that its relative error is bounded;
where the query is nearly certain of the best rows, rows are told apart by the probability that it is false. Before that
sums of logarithms bound some probabilities: over the labels that must be present or absent, and for *at least* and *at most*
over the largest logarithms (:func:`_reaching`).
"""

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shortlist.retrieval.exclusive import Outcomes
from shortlist.retrieval.plans import Literal, Tally, everything, reversed_bits
from shortlist.retrieval.probability import Columns, Rows, rough_chances
from shortlist.retrieval.query import Query

# Relative error for each label: a logarithm from -88 to 0 is off by 88 · 2⁻²⁴, its exponential by a few units more.
ERROR = 1e-5
MORE = 4  # labels' worth of error for what is not of a label
LARGEST_ERROR = 0.1  # from which nothing is told
BLOCK = 16_384  # rows that are looked at together, which stay in the cache
MOST_ORDERED = 12  # labels of which the largest are found one by one
LEAST = 1e-300  # a smaller probability of being false is as good as none
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
    near = None if floor == -math.inf else _bounded(query, log_yes, log_no, floor)
    if near is not None:
        if len(near) <= n:
            return near
        yes, no = (Rows(columns, near) for columns in (log_yes, log_no))
        return near[_reaching_roughly(query, yes, no, rows=len(near), n=n, floor=floor, error=error)]
    return _reaching_roughly(query, log_yes, log_no, rows=rows, n=n, floor=floor, error=error)


def _bounded(query: Query, log_yes: Columns, log_no: Columns, floor: float) -> RowNumbers | None:
    """Indices of the rows that may reach a score by a bound that is a sum of logarithms; None if there is none."""
    if (least := _at_least(query)) is not None:
        return _reaching(least, log_yes, log_no, floor)
    present, absent = query.required if not query.exclusive else ((), ())
    columns = [*(log_yes[label] for label in present), *(log_no[label] for label in absent)]
    if not columns:
        return None
    near = functools.reduce(np.add, columns) >= floor * _closeness(len(columns)) - TINY
    return np.flatnonzero(near | query.undecided(log_yes) if query.conditions else near)


def _closeness(labels: int) -> float:
    """1 and a share of itself by which a sum of so many logarithms may differ from what is computed of the other columns."""
    return 1 + ERROR * (labels + MORE)


def _reaching_roughly(
    query: Query, log_yes: Columns, log_no: Columns, *, rows: int, n: int, floor: float, error: float
) -> RowNumbers:
    """The same by products and sums with this relative error."""
    sides = _sides(query)
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


def _at_least(query: Query) -> tuple[int, tuple[Literal, ...]] | None:
    """k and literals, if the query asks that at least k of these are true, or what is the same; otherwise None.

    >>> _at_least(Query.parse("at most 1 of (a, b, c)", ["a", "b", "c"]))[0]  # at least two are absent
    2
    """
    plan = None if query.exclusive else query.plan
    if not isinstance(plan, Tally):
        return None
    parts = tuple(part for part in plan.parts if isinstance(part, Literal))
    size = len(parts)
    allowed, least = plan.allowed, (plan.allowed & -plan.allowed).bit_length() - 1
    if allowed & 1:  # so many at most: more of the opposites
        allowed = reversed_bits(allowed, size)
        least = (allowed & -allowed).bit_length() - 1
        parts = tuple(Literal(part.position, not part.present) for part in parts)
    upward = everything(size) & ~(everything(least) >> 1)  # the counts from this one on
    return (least, parts) if len(parts) == len(plan.parts) and allowed == upward and size <= MOST_ORDERED else None


def _reaching(least: tuple[int, tuple[Literal, ...]], log_yes: Columns, log_no: Columns, floor: float) -> RowNumbers:
    """Indices of the rows where the probability that k of m labels are true may reach a score, told by sums of logarithms.

    For independent labels, that k of them are true is at most as probable as the sum over all choices of k,

        P(k or more) ≤ (m choose k) · the k largest p,

    and if all but the k - 1 most probable are absent it is false: P(fewer than k) ≥ the m - k + 1 largest q = 1 - p.
    """
    number, parts = least
    likely = floor > LIKELY
    columns = [(log_yes if part.present != likely else log_no)[part.position] for part in parts]
    close = _closeness(len(parts))
    size, limit = len(parts) - number + 1, math.log(max(-math.expm1(floor), LEAST)) / close
    if not likely:
        size, limit = number, (floor - math.log(math.comb(len(parts), number))) * close
    found = []
    for start in range(0, len(columns[0]), BLOCK):
        sums = _largest([column[start : start + BLOCK] for column in columns], size)
        found.append(start + np.flatnonzero(sums <= limit if likely else sums >= limit))
    return np.concatenate(found)


def _largest(columns: Sequence[NDArray[Any]], number: int) -> NDArray[Any]:
    """The sum of the largest values of each row, so many of them.

    >>> _largest([np.array([1.0, 2.0]), np.array([5.0, -np.inf]), np.array([3.0, 0.0])], 2)
    array([8., 2.])
    """
    if number <= len(columns) - number:
        kept = [np.full_like(columns[0], -np.inf) for _ in range(number)]
        for column in columns:
            for place, before in enumerate(kept):
                kept[place], column = np.maximum(before, column), np.minimum(before, column)
        return np.asarray(functools.reduce(np.add, kept))
    total = np.zeros_like(columns[0])
    smallest = [np.full_like(columns[0], np.inf) for _ in range(len(columns) - number)]
    for index, column in enumerate(columns):
        for place, before in enumerate(smallest):
            smallest[place], column = np.minimum(before, column), np.maximum(before, column)
        if index >= len(smallest):
            total += column
    return total


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
