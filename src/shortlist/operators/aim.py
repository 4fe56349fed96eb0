"""A level for each row that slightly more than k noised scores exceed, and a bound on the chance of each class to do so.

Both only save work: draws that use them have the same distribution whatever the level is (``lazy_draws.py``). So the level is a
guess, corrected where it is far off, and the bound is the cheapest function that lies closely above the normal distribution
function: its logarithm is concave, so a tangent of the logarithm bounds it everywhere, and one exponential a class replaces an
error function that takes five times as long.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.operators.level import LAWS, solve_level
from shortlist.tensors import Array, Scores

DIGITS = 256
NORMAL = NormalDist()
FEW = 16
WIDEST = 20.0  # beyond this many deviations of the noise, hardly a class is let through that does not exceed the level


class Aim(NamedTuple):
    """What is known about a block of rows before anything is drawn.

    Args:
        level: (N, 1).
        last_digits: uint8 (N · C,), the largest leading digit of its uniform number with which a class can exceed the level.
        hard: int64, the rows without a good level, in which almost nothing is said to exceed it.
    """

    level: Array
    last_digits: Array
    hard: Array


def aim(scores: Scores, k: int, epsilon: float) -> Aim:
    """The levels of these rows, with about ``k + 3 √k + 2`` expected to exceed them: fewer than k then do so very rarely."""
    rows, classes = scores.shape
    wanted = k + 3 * math.sqrt(k) + 2
    if wanted > 0.9 * classes:
        everything = np.full(rows * classes, DIGITS - 1, np.uint8)
        lost = np.flatnonzero(scores.amax(1).isnan().numpy())
        return Aim(np.full((rows, 1), -np.inf, scores.numpy().dtype), everything, lost)
    with np.errstate(over="ignore", invalid="ignore"):  # such rows are among the hard ones
        level, digits, hard = aimed(scores, wanted, k + 2 * math.sqrt(k) + 1, epsilon)
    digits[hard], level[hard] = 0.0, np.inf
    last_digits = np.empty(digits.shape, np.uint8)
    np.copyto(last_digits, digits, casting="unsafe")
    return Aim(level, last_digits.reshape(-1), hard)


def aimed(scores: Scores, wanted: float, fewest: float, epsilon: float) -> tuple[Array, Array, Array]:
    """The levels (N, 1), 256 times the bounds (N, C), at most 255, and the rows without a good level.

    Those are rows whose noise is below the resolution of their scores, or that have fewer unmasked classes than wanted.
    """
    guess = _guess(scores, wanted, epsilon)
    tangent, level = guess.tangent, guess.level
    digits = torch.empty_like(scores)
    count = tangent.digits(scores, level, digits) / guess.excess
    off = _outside(count, fewest, 2 * wanted)
    if len(off) * FEW < len(count):  # a draw or two that must be completed cost less than another round
        off = off[_outside(count[off], fewest / 2, 4 * wanted)]
    if len(off):
        # The level at which normal scores would have given this count tells how far to go, but not beyond one class.
        share = np.clip(count[off] / scores.shape[1], 1 / scores.shape[1], 1 - 1 / scores.shape[1])
        level[off] += guess.spread[off] * (guess.reach + torch.special.ndtri(torch.from_numpy(share)).numpy())
        count = _again(tangent, scores, level, digits, off) / guess.excess
        off = off[_outside(count, 0.9 * fewest, 3 * wanted)]
    if len(off):
        # Clustered scores are far from normal: with a level between clusters, too few would exceed it in every draw.
        unit = epsilon * LAWS["normal"].unit
        level[off] = unit * solve_level(scores[off] / unit, wanted, LAWS["normal"], tolerance=0.2).numpy()
        count = _again(tangent, scores, level, digits, off)
        expected = _expected(scores[off], torch.from_numpy(level[off]), epsilon).numpy()
        off = off[_outside(np.where(np.isnan(count), count, expected), 0.7 * wanted, 3 * wanted)]
    return level, digits.numpy(), off


def _again(tangent: "Tangent", scores: Scores, level: Array, digits: Tensor, rows: Array) -> Array:
    """Replace the digits of these rows; the expected number of their classes that are let through."""
    some = scores[rows]
    found = torch.empty_like(some)
    count = tangent.digits(some, level[rows], found)
    digits[rows] = found
    return count


def _outside(count: Array, least: float, most: float) -> Array:
    """The rows whose count is not in this range, or not a number."""
    return np.flatnonzero(~((count >= least) & (count <= most)))


def _expected(scores: Scores, level: Tensor, epsilon: float) -> Tensor:
    """How many noised scores of each row are expected to exceed its level, (N, 1)."""
    chance: Tensor = torch.special.ndtr((scores - level) / epsilon)
    return chance.sum(1, keepdim=True)


class Tangent:
    """An exponential function above Φ that touches it at one point: ``Φ(at) · exp(hazard · (x - at)) ≥ Φ(x)``.

    Args:
        at: where it touches Φ.
        epsilon: the scale of the noise.
    """

    def __init__(self, at: float, epsilon: float):
        below = _cdf(at)
        self.hazard = NORMAL.pdf(at) / below
        self.one = at - math.log(below) / self.hazard  # where it is 1
        self.slope = self.hazard / (epsilon * math.log(2))  # of its base-2 logarithm, along the scores
        self.epsilon = epsilon

    def digits(self, scores: Scores, level: Array, out: Tensor) -> Array:
        """Write 256 times the bound of each class, at most 255, and return the sums of the bounds, (N, 1)."""
        rest = math.log2(DIGITS) - self.slope * (level + self.epsilon * self.one)
        # Rounded up by more than the rounding errors of the line below, so that no class is left out.
        rest += 1e-5 + 4 * torch.finfo(scores.dtype).eps * np.abs(rest)
        torch.add(torch.from_numpy(rest), scores, alpha=self.slope, out=out).exp2_().clamp_(max=DIGITS - 1)
        sums: Array = out.sum(1, keepdim=True).numpy() / DIGITS
        return sums

    def mean(self, distance: float, deviation: float) -> float:
        """The mean of the bound, at most 1, over normal numbers with this mean distance from where it is 1."""
        steep, far = self.hazard * deviation, distance / deviation
        return _cdf(far) + math.exp(steep * far + steep**2 / 2) * _cdf(-far - steep)


def _cdf(x: float) -> float:
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


class _Guess(NamedTuple):
    """The levels of rows of normal scores, and what is expected of them.

    Args:
        level: (N, 1).
        spread: standard deviation of scores and noise together, (N, 1).
        reach: how far the level is above the mean, in spreads.
        tangent: the bound, which touches Φ where scores of classes at the level are.
        excess: how many classes the bound is expected to let through for each that exceeds the level.
    """

    level: Array
    spread: Array
    reach: float
    tangent: Tangent
    excess: float


def _guess(scores: Scores, wanted: float, epsilon: float) -> _Guess:
    classes = scores.shape[1]
    reach = NORMAL.inv_cdf(1 - wanted / classes)
    mean = scores.mean(1, keepdim=True).numpy()
    square = torch.linalg.vector_norm(scores, dim=1, keepdim=True).numpy() ** 2 / classes
    spread = np.sqrt(np.maximum(square - mean * mean, 0) + epsilon**2)
    half = len(spread) // 2
    usual = float(np.partition(spread.reshape(-1), half)[half]) / epsilon
    usual = 1.0 if math.isnan(usual) else min(max(1.0, usual), WIDEST)
    # Where the sum of a score and its noise is at the level, the score alone is on average this far above it.
    tangent = Tangent(-reach / usual, epsilon)
    excess = classes * tangent.mean(-reach * usual - tangent.one, max(math.sqrt(usual**2 - 1), 1e-3)) / wanted
    return _Guess(mean + reach * spread, spread, reach, tangent, excess)
