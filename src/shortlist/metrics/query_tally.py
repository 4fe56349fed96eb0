"""What the rankings of queries add up to, for each number of labels that must be present and absent."""

from dataclasses import dataclass, field

import numpy as np

from shortlist.metrics.query_ranking import Bools, Floats, Ints, Ranked

BINS = 15
WAITING = 64  # blocks of queries that are counted together


@dataclass
class Kind:
    """Sums over the queries of one kind, those with so many present and so many absent labels.

    Args:
        drawn: how many were looked at, whether or not a row satisfies them.
        satisfied: how many of them some row satisfies; only these are ranked.
        precision: sum, and sum of squares, of their average precisions.
        best: the same of their precisions at 10.
        bins: results among the best 10, their stated probabilities summed, and right ones, by bin of stated probability.
    """

    drawn: int = 0
    satisfied: int = 0
    precision: Floats = field(default_factory=lambda: np.zeros(2))
    best: Floats = field(default_factory=lambda: np.zeros(2))
    bins: Floats = field(default_factory=lambda: np.zeros((3, BINS)))

    def add(self, other: "Kind") -> None:
        """Add what another part of the same queries gave."""
        self.drawn += other.drawn
        self.satisfied += other.satisfied
        self.precision += other.precision
        self.best += other.best
        self.bins += other.bins


class Tally(dict[tuple[int, int], Kind]):
    """The kinds of queries, by (present, absent)."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, list[tuple[Ints, Ranked]]] = {}

    def kind(self, present: int, absent: int) -> Kind:
        """The kind, empty where there was none yet."""
        return self.setdefault((present, absent), Kind())

    def put(self, found: Ranked, present: Ints, length: int) -> None:
        """Add ranked queries of one length; they count once there are enough to be worth it, or at :meth:`settle`."""
        waiting = self._waiting.setdefault(length, [])
        waiting.append((present, found))
        if len(waiting) >= WAITING:
            self._count(length)

    def settle(self) -> "Tally":
        """This, with everything counted that was put."""
        for length in list(self._waiting):
            self._count(length)
        return self

    def _count(self, length: int) -> None:
        numbers, found = zip(*self._waiting.pop(length), strict=True)
        present, precision = np.concatenate(numbers), np.concatenate([one.precision for one in found])
        stated, right = np.concatenate([one.stated for one in found]), np.concatenate([one.right for one in found])
        shares = right.sum(1) / right.shape[1]
        for number in np.unique(present).tolist():
            chosen = present == number
            kind = self.kind(number, length - number)
            kind.satisfied += int(chosen.sum())
            kind.precision += _moments(precision[chosen])
            kind.best += _moments(shares[chosen])
            kind.bins += _bins(stated[chosen], right[chosen])

    def add(self, other: "Tally") -> None:
        """Add what another part of the queries gave."""
        for (present, absent), kind in other.items():
            self.kind(present, absent).add(kind)


def _moments(values: Floats) -> Floats:
    return np.array([values.sum(), (values * values).sum()])


def _bins(stated: Floats, right: Bools) -> Floats:
    """Bins of equal width, [a, b) and the last one closed, as everywhere in the library."""
    place = np.searchsorted(np.arange(1, BINS) / BINS, stated.ravel(), side="right")
    weights = (None, stated.ravel(), right.ravel())
    return np.stack([np.bincount(place, weights=weight, minlength=BINS) for weight in weights])
