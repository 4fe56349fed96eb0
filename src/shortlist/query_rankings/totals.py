"""Sums over ranked queries, by kind: the number of labels that must be present and the number that must be absent."""

from dataclasses import dataclass, field

import numpy as np

from shortlist.query_rankings.ranking import Bools, Floats, Ints, Ranked

BINS = 15
BUFFERED = 64  # blocks of queries that are summed together


@dataclass
class KindTotals:
    """Sums over the queries of one kind.

    Args:
        drawn: number of queries that were asked, whether or not some row satisfies them.
        satisfied: how many of those some row satisfies; only these are ranked.
        precision: sum, and sum of squares, of their average precisions.
        best: the same for their precision at 10.
        bins: (3, 15), by bin of stated probability: number of top-10 results, sum of their stated probabilities, right results.
    """

    drawn: int = 0
    satisfied: int = 0
    precision: Floats = field(default_factory=lambda: np.zeros(2))
    best: Floats = field(default_factory=lambda: np.zeros(2))
    bins: Floats = field(default_factory=lambda: np.zeros((3, BINS)))

    def add(self, other: "KindTotals") -> None:
        """Add the totals of other queries of this kind."""
        self.drawn += other.drawn
        self.satisfied += other.satisfied
        self.precision += other.precision
        self.best += other.best
        self.bins += other.bins


class Totals(dict[tuple[int, int], KindTotals]):
    """Totals by kind of query, (present, absent)."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer: dict[int, list[tuple[Ints, Ranked]]] = {}

    def kind(self, present: int, absent: int) -> KindTotals:
        """Totals of a kind, created if it is new."""
        return self.setdefault((present, absent), KindTotals())

    def put(self, ranked: Ranked, present: Ints, length: int) -> None:
        """Add ranked queries of one length. They are buffered; :meth:`settle` sums what is left."""
        buffer = self._buffer.setdefault(length, [])
        buffer.append((present, ranked))
        if len(buffer) >= BUFFERED:
            self._sum(length)

    def settle(self) -> "Totals":
        """Sum everything that is still buffered, and return self."""
        for length in list(self._buffer):
            self._sum(length)
        return self

    def _sum(self, length: int) -> None:
        numbers, ranked = zip(*self._buffer.pop(length), strict=True)
        present, precision = np.concatenate(numbers), np.concatenate([one.precision for one in ranked])
        stated, right = np.concatenate([one.stated for one in ranked]), np.concatenate([one.right for one in ranked])
        shares = right.sum(1) / right.shape[1]
        for number in np.unique(present).tolist():
            chosen = present == number
            kind = self.kind(number, length - number)
            kind.satisfied += int(chosen.sum())
            kind.precision += _moments(precision[chosen])
            kind.best += _moments(shares[chosen])
            kind.bins += _bins(stated[chosen], right[chosen])

    def add(self, other: "Totals") -> None:
        """Add the totals of other queries."""
        for (present, absent), kind in other.items():
            self.kind(present, absent).add(kind)


def _moments(values: Floats) -> Floats:
    return np.array([values.sum(), (values * values).sum()])


def _bins(stated: Floats, right: Bools) -> Floats:
    """Sums over bins of equal width, [a, b) with the last one closed, as in ``calibration_error``."""
    place = np.searchsorted(np.arange(1, BINS) / BINS, stated.ravel(), side="right")
    weights = (None, stated.ravel(), right.ravel())
    return np.stack([np.bincount(place, weights=weight, minlength=BINS) for weight in weights])
