"""Ladders: sums of weights, in whole numbers, up to each value; a weighted quantile is a place on one.

Weights are counted in whole multiples of 2⁻⁴⁰ of the largest, so that sums are exact, and equal weights are equal.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shortlist.tensors import Array

BITS = 40


class Scale(NamedTuple):
    """How weights become whole numbers.

    Args:
        exponent: a weight is multiplied by two to this power, and rounded.
    """

    exponent: int

    @staticmethod
    def of(largest: float, count: int) -> "Scale":
        """The scale at which the sum of so many weights fits into 63 bits."""
        return Scale(min(BITS, 62 - max(1, count).bit_length()) - math.frexp(largest)[1])

    def whole(self, weights: Array) -> Array:
        """The weights as whole numbers."""
        found: Array = np.rint(np.ldexp(weights, self.exponent)).astype(np.int64)
        return found

    def one(self, weight: float) -> int:
        """One weight, however large."""
        exact = Fraction(weight) * Fraction(2) ** self.exponent
        return math.floor(exact + Fraction(1, 2))


class Ladder(NamedTuple):
    """Values from the most plausible on, each once, and the weight up to each.

    Args:
        values: float64 (n,).
        sums: int64 (n,).
    """

    values: Array
    sums: Array

    @staticmethod
    def of(values: Array, weights: Array, descending: bool) -> "Ladder":
        """The ladder of values with whole weights."""
        distinct, where = np.unique(values, return_inverse=True)
        totals = np.zeros(len(distinct), np.int64)
        np.add.at(totals, where, weights)
        ordered, totals = (distinct[::-1], totals[::-1]) if descending else (distinct, totals)
        return Ladder(ordered.astype(np.float64), totals.cumsum())

    @property
    def total(self) -> int:
        """The weight of all values."""
        return int(self.sums[-1]) if len(self.sums) else 0

    def quantiles(self, level: Fraction, new: list[int], worst: float) -> Array:
        """The first value up to which there is a share 1 - level of all weight, the new row's included, for each of these.

        ``Σ_{i ≤ place} w_i ≥ (1 - α) (Σ_i w_i + w)``; the worst value where even all rows fall short.
        """
        needed = [math.ceil((1 - level) * (self.total + weight)) for weight in new]
        reached = np.array([min(one, self.total + 1) for one in needed], np.int64)
        places = np.searchsorted(self.sums, reached)
        found: Array = np.append(self.values, worst)[places]
        return found
