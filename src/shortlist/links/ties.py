"""Rows that have the same log-odds of a label but for rounding: together they are one knot of a map that is a step there.

For one label a row, the log-odds of a label are computed from all columns of its row. Rows with the same probability of a label
and other probabilities of the rest so have log-odds that differ in their last digits, and a map that took them for different
knots would part rows that tie. A knot is therefore a range: the map is the same from its lower to its upper end, which lie a
tolerance beyond the log-odds it was fitted on. What is compared with a fitted map needs no rounding.

Given probabilities may have been rounded, to decimals or to half precision. Then a row does not sum to 1, and how the other
columns were rounded says nothing about a label: its log-odds are those of its probability by itself (:func:`tied_odds`).
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.tensors import Array, Probs

LARGEST = np.finfo(np.float64).max
# By how much the sum of a row may differ from 1: more than float32 leaves, and less than a unit of six decimals.
SUMS_TO_ONE = 5e-7
UNIT = 1e-7  # to which 1 - p is known where p is float32
HALF_STEP = 2.0**-25  # by which float32 rounds a probability near 1 at most
HALF_GRID = 2.0**13  # half precision, from 1/8 on, is a multiple of one part of so many
DECIMAL_GRID, ON_GRID = 1e9, 2.5e-7  # numbers with up to nine decimals are whole multiples, but for float64's rounding


def tied_odds(probs: Probs, odds: Tensor) -> Tensor:
    """Log-odds that depend on a probability alone where its row may have been rounded.

    By itself, a probability leaves 1 - p for the rest, to as many digits as there are in float32, and no less than a sum can be
    off: so p = 1 in a rounded row is more than any p that was rounded to something else, and less than in a row that has no
    more than that left for others. The log-odds of the whole row are taken where its rest says more than p does.

    Two kinds of rounding differ in what they leave of the rest. Float32 keeps as many digits of small numbers as of large ones:
    near p = 1 the other columns say more than p, and their sum with it is off by less than half a unit of the seventh decimal.
    Decimals are a grid: on it the other columns lose as much as p does, and rows with the same p would have other log-odds for
    each way in which they fail to sum to 1. So the rest of a row is believed

    - where the sum is off by less than that half unit: on a grid of seven decimals or fewer, the rest is then 1 - p;
    - where 1 - p is less than a sum can be off, so that p says nothing more: but no further from 1 - p than float32 rounds, so
      that of two such probabilities in float32 the larger has the larger log-odds.

    A probability with as few digits as half precision has, or up to nine decimals, is taken by itself in any row, since some of
    its rows sum to 1 by chance; but not p = 1, of which the rest may say anything.

    Args:
        probs: float64 (N, C).
        odds: from all probabilities of a row, (N, C); a row of zeros, or with NaN, has these.
    """
    left, logs = 1 - probs, probs.log()
    rest = (left / UNIT).round().mul(UNIT).clamp(min=SUMS_TO_ONE)
    near = left < SUMS_TO_ONE - UNIT / 2  # where that is less than a sum can be off
    total = probs.sum(1, keepdim=True)
    off = torch.where(total > 0, (total - 1).abs(), 0.0)  # also for NaN
    rounded = off > torch.where(near, SUMS_TO_ONE, UNIT / 2)
    most, least = logs - (left - HALF_STEP).clamp(min=1e-300).log(), logs - (left + HALF_STEP).log()
    kept = torch.where(near, odds.clamp(least, most), odds)
    return torch.where(rounded | (_has_few_digits(probs) & (total > 0)), logs - rest.log(), kept)


def _has_few_digits(probs: Probs) -> Tensor:
    """Whether these are numbers of half precision, or with up to nine decimals, that are not 1 if rounded to these."""
    parts, decimals = probs * HALF_GRID, probs * DECIMAL_GRID
    return ((parts == parts.round()) | ((decimals - decimals.round()).abs() < ON_GRID)) & (decimals.round() < DECIMAL_GRID)


class Knots(NamedTuple):
    """The distinct log-odds of some rows, ascending.

    Args:
        low: where each begins, (K,).
        high: where it ends, before the next one begins.
        place: which of them each row has, int (n,).
        counts: how many rows have it, int (K,).
    """

    low: Array
    high: Array
    place: Array
    counts: Array


def knots_of(odds: Array, tolerance: float) -> Knots:
    """The knots of these log-odds, (n,): numbers are the same if no more than the tolerance lies between them.

    It is relative to numbers beyond 1. Numbers that follow one another so closely that they are no ties but dense are cut into
    knots as wide as the tolerance.

    >>> knots_of(np.array([0.6, 0.4, 0.4 + 1e-16]), 0.0).counts, knots_of(np.array([0.6, 0.4, 0.4 + 1e-16]), 1e-12).counts
    (array([1, 1, 1]), array([2, 1]))
    """
    values, place, counts = np.unique(odds, return_inverse=True, return_counts=True)
    if not tolerance:
        return Knots(values, values, place, counts)
    with np.errstate(over="ignore"):  # of the distance between the largest numbers there are
        return _merged(values, place, counts, tolerance * np.maximum(1, np.abs(values)))


def _merged(values: Array, place: Array, counts: Array, width: Array) -> Knots:
    starts = np.r_[True, np.diff(values) > width[1:]]
    first, last = _ends(starts)
    if (values[last] - values[first] > width[first]).any():  # dense numbers
        begin = first[np.cumsum(starts) - 1]
        starts[1:] |= np.diff(np.floor((values - values[begin]) / width[begin])) > 0
        first, last = _ends(starts)
    low, high = values[first], values[last]
    between = (low[1:] - high[:-1]) / 8  # so that ends do not meet, not even by rounding
    return Knots(
        np.maximum(low - np.minimum(width[first], np.r_[np.inf, between]), -LARGEST),
        np.minimum(high + np.minimum(width[last], np.r_[between, np.inf]), LARGEST),
        (np.cumsum(starts) - 1)[place],
        np.add.reduceat(counts, first),
    )


def _ends(starts: Array) -> tuple[Array, Array]:
    """The places of the first and of the last of each run, from where runs start."""
    first = np.flatnonzero(starts)
    return first, np.r_[first[1:], len(starts)] - 1
