"""(row, label) pairs in bins of equal width, counted by row or by class, and intervals of the frequencies in the bins.

The pairs of one row are not independent of each other. Counts by row keep them together: a test of calibration and the
intervals of a reliability diagram treat rows, not pairs, as the independent observations.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from shortlist.metrics.calibration import Over, bin_of, pairs
from shortlist.tensors import Probs, Target, is_single_label, one_hot, pick, working

NORMAL_95 = 1.959963984540054


class Bands(NamedTuple):
    """Lower and upper end of an interval for each bin, float64 (bins,); NaN for an empty bin."""

    low: Tensor
    high: Tensor


def bins_by(group: Literal["row", "class"], probs: Probs, target: Target, bins: int) -> Tensor:
    """For every row or class, and every bin: pairs, Σ p, right pairs and Σ p (1 - p), float64 (4, N or C, bins).

    >>> probs, target = torch.tensor([[0.75, 0.25]], dtype=torch.float64), torch.tensor([0])
    >>> bins_by("class", probs, target, 2)[2].tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    probs = working(probs)
    axis = 0 if group == "row" else 1
    cells = (probs.shape[axis], bins)

    def total(place: Tensor, values: Tensor, weights: Tensor | None = None) -> Tensor:
        cell = place * bins + bin_of(values, bins)
        return cell.bincount(weights, minlength=math.prod(cells)).double().view(cells)

    # With many classes nearly all pairs lie in the first bin: it is the total less what the other bins hold.
    first = 1 / bins if bins > 1 else torch.inf
    above = (probs > first * (1 - 1e-3)).nonzero()  # a few pairs of the first bin among them do no harm
    place, upper = above[:, axis], probs[above[:, 0], above[:, 1]].double()
    weights = (None, upper, upper * (1 - upper))
    found = torch.stack([total(place, upper, weight) for weight in weights])
    sums = probs.sum(1 - axis, dtype=torch.float64)
    squares = probs.double().square().sum(1 - axis)
    whole = torch.stack([torch.full_like(sums, probs.shape[1 - axis]), sums, sums - squares])
    rest = whole - found[:, :, 1:].sum(2)
    found[:, :, 0] = torch.where(rest[0] > 0, rest.clamp(min=0), 0.0)
    return torch.stack([found[0], found[1], _right(probs, target, axis, total), found[2]])


def _right(probs: Probs, target: Target, axis: int, total: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    if is_single_label(target):
        rows = torch.arange(len(target), device=target.device)
        return total(target if axis else rows, pick(probs, target))
    marked = target.nonzero()
    return total(marked[:, axis], probs[marked[:, 0], marked[:, 1]])


def rows_in_bins(probs: Probs, target: Target, bins: int, over: Over) -> Tensor:
    """:func:`bins_by` row, of the pairs that count: float64 (4, N, bins)."""
    return bins_by("row", *_counted(probs, target, over), bins)


def row_residuals(probs: Probs, target: Target, bins: int, over: Over) -> Tensor:
    """Right pairs less their expected number for each row and bin, float64 (N, bins); infinite in a row that is impossible.

    A row is impossible if a label of probability 0 is right, or one of probability 1 is wrong.
    """
    probs, target = _counted(probs, target, over)
    _, expected, right, _ = bins_by("row", probs, target, bins)
    marks = one_hot(target, probs.shape[1])
    impossible = (((probs == 0) & marks) | ((probs == 1) & ~marks)).any(1)
    return torch.where(impossible[:, None], torch.inf, right - expected)


def _counted(probs: Probs, target: Target, over: Over) -> tuple[Tensor, Tensor]:
    """The pairs that count, as probabilities and a target of as many columns."""
    if over == "all":
        return probs, target
    shape = len(probs), 1 if over == "top" else min(int(over), probs.shape[1])
    confidence, outcome = pairs(probs, target, over)
    return confidence.view(shape), outcome.view(shape)


def row_moments(rows: Tensor) -> Tensor:
    """Σ right², Σ right · pairs, Σ pairs² and the number of rows with a pair, for each bin: float64 (4, bins).

    Args:
        rows: (4, N, bins) of :func:`rows_in_bins`.
    """
    pairs_of, _, right, _ = rows
    return torch.stack([(right * right).sum(0), (right * pairs_of).sum(0), (pairs_of * pairs_of).sum(0), (pairs_of > 0).sum(0)])


def frequency_bands(table: Tensor, moments: Tensor | None = None) -> Bands:
    """95 % Wilson intervals of the frequency of right pairs in each bin.

    With ``moments`` the pairs of a row may depend on each other: the number of pairs is divided by the design effect, the
    ratio of the variance estimated from whole rows to that of independent pairs, if it is above 1. Where that variance
    cannot be estimated (all pairs right, all wrong, or of a single row) the number of rows replaces the number of pairs.

    Args:
        table: (3, bins) of pairs, summed confidence and right pairs.
        moments: of :func:`row_moments`; None if every row has at most one pair.

    >>> low, high = frequency_bands(torch.tensor([[10.0], [8.0], [5.0]], dtype=torch.float64))
    >>> round(low.item(), 3), round(high.item(), 3)
    (0.237, 0.763)

    Wilson, "Probable inference, the law of succession, and statistical inference", 1927; Korn, Graubard, "Confidence
    intervals for proportions with small expected number of positive counts estimated from survey data", 1998.
    """
    count, _, right = table
    share = right / count
    n = count if moments is None else count / _design_effect(count, share, moments)
    square = NORMAL_95**2 / n
    centre = (share + square / 2) / (1 + square)
    half = (share * (1 - share) * square + square * square / 4).sqrt() / (1 + square)
    # The interval holds the frequency: a sum that is rounded may end just below a frequency of 1.
    return Bands((centre - half).clamp(min=0), (centre + half).clamp(max=1).maximum(share))


def _design_effect(count: Tensor, share: Tensor, moments: Tensor) -> Tensor:
    right_squares, products, pair_squares, rows = moments
    squares = (right_squares - 2 * share * products + share * share * pair_squares).clamp(min=0)
    by_rows = squares * rows / (rows - 1)
    by_pairs = count * share * (1 - share)
    known = (by_pairs > 0) & (rows > 1)
    return torch.where(known, by_rows / by_pairs, count / rows).clamp(min=1)
