"""How unequal classes are: the Lorenz curve and what is read off it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from shortlist.checks import share as checked_share
from shortlist.errors import InputError
from shortlist.tensors import Array

RAREST = 0.8


@dataclass(frozen=True, eq=False)
class LongTail:
    """The inequality of class counts.

    Args:
        counts: pictures (or any weight) of each class, (C,).

    >>> tail = LongTail([70, 10, 10, 10, 0])
    >>> tail.share_of_rarest(0.8), tail.imbalance
    (0.3, 7.0)
    """

    counts: Sequence[float] | Array | Tensor

    @cached_property
    def ascending(self) -> Array:
        """The counts from the rarest class to the commonest, float64 (C,)."""
        try:
            counts = np.asarray(self.counts, dtype=np.float64)
        except (TypeError, ValueError):
            counts = np.empty(0)
        counts = np.sort(counts) if counts.ndim == 1 else np.empty(0)
        if not len(counts) or not np.isfinite(counts).all() or counts[0] < 0 or counts[-1] == 0:
            raise InputError("counts: expected a count of each class, none negative and one above 0")
        return counts

    @cached_property
    def lorenz(self) -> Array:
        """The share of all pictures that the rarest 0, 1, …, C classes hold, float64 (C + 1,)."""
        curve = np.concatenate([[0.0], np.cumsum(self.ascending)])
        curve /= curve[-1]
        return curve

    def share_of_rarest(self, share: float = RAREST) -> float:
        """The share of all pictures that the rarest so many of the classes hold, linear between whole numbers of classes."""
        share = checked_share("share", share)
        return float(np.interp(share * (len(self.lorenz) - 1), np.arange(len(self.lorenz)), self.lorenz))

    @property
    def gini(self) -> float:
        """Twice the area between the Lorenz curve and the diagonal: 0 when all classes are alike, near 1 when one has all.

        >>> LongTail([5, 5, 5]).gini
        0.0
        """
        middle = (self.lorenz[1:] + self.lorenz[:-1]) / 2
        return float(max(0.0, 1 - 2 * middle.mean()))

    @property
    def imbalance(self) -> float:
        """The commonest class over the rarest that has any."""
        there = self.ascending[self.ascending > 0]
        return float(there[-1] / there[0])

    @property
    def median(self) -> float:
        """The count of the class in the middle."""
        return float(np.median(self.ascending))

    def summary(self) -> dict[str, float]:
        """The numbers by name."""
        return {
            "classes": len(self.ascending),
            "pictures": float(self.ascending.sum()),
            "rarest": float(self.ascending[0]),
            "median": self.median,
            "commonest": float(self.ascending[-1]),
            "imbalance": self.imbalance,
            "gini": self.gini,
            "share of the rarest 80 %": self.share_of_rarest(),
        }
