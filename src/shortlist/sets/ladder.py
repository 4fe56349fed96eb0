"""Ladders: sums of weights, in whole numbers, up to each value; a weighted quantile is a place on one.

Weights are counted in whole multiples of 2⁻⁴⁰ of the largest, so that sums are exact, and equal weights are equal. Where a
label counts by its share of a row (of the votes for it, or of its labels), the shares of a row make up the weight of the row
exactly, so that a bound that is reached exactly is reached: weights that are written with no more than these 40 bits, such as
whole numbers, are counted in multiples of one over the common denominator of the shares, as far as there is room for it.
"""

import math
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shortlist.tensors import Array

BITS = 40
EXACT = 53  # bits of a whole number that is a float as well, by which p-values are told
LARGEST_DENOMINATOR = 2**16  # of shares that are taken for fractions: of up to 65,536 votes, or with four decimals
MOST_DISTINCT = 2**14  # shares that are looked at; those of more kinds would have no common denominator that is small enough
SAME = 2.0**-48  # fractions with these denominators are further apart, and the rounding of a share is far less


class Scale(NamedTuple):
    """How weights become whole numbers.

    Args:
        exponent: a weight is multiplied by two to this power, and rounded.
        parts: the result is multiplied by this, a common denominator of the shares of rows.
    """

    exponent: int
    parts: int = 1

    @staticmethod
    def of(largest: float, count: int) -> "Scale":
        """The scale at which the sum of so many weights fits into 63 bits."""
        return Scale(min(BITS, _room(count)) - math.frexp(largest)[1])

    @staticmethod
    def of_shares(largest: float, weights: Array, shares: Array) -> "Scale":
        """The same for shares of these weights: those with the most frequent denominators are exact, as far as there is room.

        Args:
            largest: of the weights, and of those of new rows.
            weights: of the row of each share; where it is 0, its denominator does not matter.
            shares: from 0 to 1.
        """
        weights, shares = weights[weights > 0], shares[weights > 0]
        room, plain = _room(len(shares)), Scale.of(largest, len(shares))
        needed = math.frexp(largest)[1] - _lowest_bit(np.append(weights, largest))
        if needed > min(BITS, room) or bool((shares == 1).all()):
            return plain
        distinct, counts = np.unique(shares, return_counts=True)
        most = np.argsort(-counts, kind="stable")[:MOST_DISTINCT]
        distinct, counts = distinct[most], counts[most]
        frequent: Counter[int] = Counter()
        for denominator, count in zip(fractions_of(distinct)[1].tolist(), counts.tolist(), strict=True):
            frequent[denominator] += count
        parts = 1
        for denominator, _ in frequent.most_common():
            common = math.lcm(parts, denominator) if denominator else parts  # 0 of a share that is no such fraction
            parts = common if common.bit_length() <= room - (62 - EXACT) - needed else parts
        if parts == 1:
            return plain
        return Scale(min(BITS, room - parts.bit_length()) - math.frexp(largest)[1], parts)

    def whole(self, weights: Array) -> Array:
        """The weights as whole numbers."""
        found: Array = np.rint(np.ldexp(weights, self.exponent)).astype(np.int64) * self.parts
        return found

    def shared(self, weights: Array, shares: Array, rows: Array) -> Array:
        """Shares of the weights as whole numbers; those of a row that sum to 1 have the weight of the row as their sum.

        Args:
            weights: of the row of each share.
            shares: from 0 to 1.
            rows: the number of the row of each.
        """
        weights = self.whole(weights)
        if bool((shares == 1).all()):
            return weights
        found = np.floor(weights * shares).astype(np.int64)
        if self.parts > 1:
            distinct, where = np.unique(shares, return_inverse=True)
            numerators, denominators = fractions_of(distinct)
            exact = (denominators > 0) & (self.parts % np.maximum(denominators, 1) == 0)
            times = np.where(exact, numerators * (self.parts // np.maximum(denominators, 1)), 0)
            found = np.where(exact[where], weights // self.parts * times[where], found)
        return _made_up(found, weights, shares, rows)

    def one(self, weight: float) -> int:
        """One weight, however large."""
        exact = Fraction(weight) * Fraction(2) ** self.exponent * self.parts
        return math.floor(exact + Fraction(1, 2))


def _room(count: int) -> int:
    """The bits of each of so many numbers whose sum fits into 63 bits."""
    return 62 - max(1, count).bit_length()


def _lowest_bit(weights: Array) -> int:
    """The exponent of the lowest bit that is set in any of these numbers, however small."""
    mantissas, exponents = np.frexp(weights[weights > 0])
    digits = np.ldexp(mantissas, 53).astype(np.int64)
    places = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return int((exponents - 53 + places).min())


def fractions_of(shares: Array) -> tuple[Array, Array]:
    """The fraction that each share was before it was rounded, by its continued fraction: numerators and denominators, int64.

    A denominator of 0 stands for a share that is no fraction with a denominator that is small enough.

    >>> fractions_of(np.array([0.25, 1 / 3, 2 / 7, 1.0, 0.5**0.5]))
    (array([1, 1, 2, 1, 0]), array([4, 3, 7, 1, 0]))
    """
    found = np.zeros((2, len(shares)), np.int64)
    places, rest = np.arange(len(shares)), shares.astype(np.float64)
    last, before = np.array([[1], [0]]).repeat(len(shares), 1), np.array([[0], [1]]).repeat(len(shares), 1)
    while len(places):
        whole = np.minimum(np.floor(rest), 2 * LARGEST_DENOMINATOR)  # above it, the denominator is too large in any case
        last, before = whole.astype(np.int64) * last + before, last
        fits = last[1] <= LARGEST_DENOMINATOR
        same = fits & (np.abs(last[0] / last[1] - shares[places]) <= SAME)
        found[:, places[same]] = last[:, same]
        on = fits & ~same
        places, rest, last, before = places[on], 1 / (rest - whole)[on], last[:, on], before[:, on]
    return found[0], found[1]


def _made_up(found: Array, weights: Array, shares: Array, rows: Array) -> Array:
    """These whole shares after the largest of each row has what is missing to the weight of the row, if they sum to 1."""
    distinct, row = np.unique(rows, return_inverse=True)
    missing = np.zeros(len(distinct), np.int64)
    missing[row] = weights
    np.subtract.at(missing, row, found)
    missing[np.abs(np.bincount(row, shares) - 1) > 1e-9] = 0
    order, largest = np.argsort(shares, kind="stable"), np.empty(len(distinct), np.int64)
    largest[row[order]] = order
    found[largest] += missing
    return found


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
        """The ladder of values with whole weights; a value without weight is no rung, as if its row were not there."""
        weighs = weights > 0
        values, weights = (values, weights) if weighs.all() else (values[weighs], weights[weighs])
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
