"""An interval for coverage, or for recall, that holds at every moment, however often one looks."""

import math
from collections.abc import Callable

from shortlist.checks import number, whole


def coverage_interval(missed: float, rows: int, level: float = 0.05) -> tuple[float, float]:
    """The probabilities of coverage that a bet against each of them has not refuted, for rows that come one by one.

    The bet on the k-th row is the mean of the share of missed labels so far, (m + 1) / (k + 1), so that the capital against a
    true error p is ``B(m + 1, n - m + 1) / (p^m (1 - p)^(n - m))``; the interval holds the p where it has not reached
    1 / level. If every row is missed with the same probability, it is inside at all moments with probability 1 - level.

    Rows with several labels miss a share x of them, from 0 to 1. The same interval holds for its mean: ``a^x b^(1 - x)`` is
    convex in x, so at most ``x a + (1 - x) b``, and no bet gains on average. It is wider than it need be where few shares are
    0 or 1.

    Args:
        missed: how many labels their sets lacked; for rows with several labels, the sum of the shares that were missed.
        rows: how many labelled rows there were.
        level: 0.05 for 95 %.

    >>> low, high = coverage_interval(100, 1000)
    >>> round(low, 3), round(high, 3)
    (0.862, 0.931)

    Robbins, "Statistical methods related to the law of the iterated logarithm", 1970; Ville's inequality.
    """
    rows, level = whole(0)("rows", rows), float(number(above=0, below=1)("level", level))
    missed = float(number(least=0, most=rows)("missed", missed))
    prior = math.lgamma(missed + 1) + math.lgamma(rows - missed + 1) - math.lgamma(rows + 2)

    def refuted(error: float) -> bool:
        own = (missed * math.log(error) if missed else 0.0) + ((rows - missed) * math.log1p(-error) if rows > missed else 0.0)
        return prior - own >= -math.log(level)

    mean = missed / rows if rows else 0.5
    low = _edge(refuted, mean, 0.0) if missed else 0.0
    high = _edge(refuted, mean, 1.0) if missed < rows else 1.0
    return 1 - high, 1 - low


def _edge(refuted: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where the interval ends on the way from a number inside to one outside, by bisection."""
    for _ in range(100):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        inside, outside = (inside, middle) if refuted(middle) else (middle, outside)
    return outside
