"""Accuracy against set size, for all sizes at once and in constant memory."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.sets.prefixes import ranks
from shortlist.tensors import Probs, Target, is_single_label, pick, row_blocks

# The leading 16 bits of a float32 from 0 to 1 run from 0 to those of 1.0.
KEYS = 0x3F80 + 1


class Curve(NamedTuple):
    """Points of (mean set size, accuracy), by increasing size: tensors, or arrays if the curve was made of arrays."""

    sizes: Tensor
    accuracies: Tensor

    def at(self, size: float) -> float:
        """The accuracy at this mean size, linear between the points; NaN for the curve of no rows, whose only point is 0."""
        sizes = torch.as_tensor(self.sizes)
        if sizes.numel() < 2:
            return math.nan
        place = int(torch.searchsorted(sizes, size).clamp(1, len(sizes) - 1))
        (x0, x1), (y0, y1) = sizes[place - 1 : place + 1].tolist(), self.accuracies[place - 1 : place + 1].tolist()
        along = 1.0 if x1 == x0 else min(max((size - x0) / (x1 - x0), 0.0), 1.0)
        return float(y0 + (y1 - y0) * along)


@like_input
def size_accuracy_curve(probs: Any, target: Any) -> Answer:
    """Average-k accuracy against mean set size, as a :class:`Curve` over a fine grid of thresholds.

    The points are exact: the thresholds are the float32 numbers with 16 leading bits, 128 for each halving of the
    probability (float64 is rounded to float32 first). Between two points accuracy lies between theirs.

    >>> curve = size_accuracy_curve(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]))
    >>> curve.accuracies
    tensor([0.0000, 0.5000, 0.5000, 1.0000, 1.0000], dtype=torch.float64)
    """
    return curve_of_sizes(size_histograms(*checked(probs, target, "probabilities")))


@like_input
def rank_curve(probs: Any, target: Any) -> Answer:
    """Top-k accuracy for every k, as a :class:`Curve`. One label a row.

    >>> rank_curve(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])).accuracies
    tensor([0.0000, 0.5000, 1.0000], dtype=torch.float64)
    """
    return curve_of_ranks(rank_counts(*checked(probs, target, "scores")))


def size_histograms(probs: Probs, target: Target) -> Tensor:
    """Histograms of all pairs and of the true ones by the leading bits of their probability; last comes the number of rows."""
    total = torch.zeros(2, KEYS + 1, dtype=torch.float64, device=probs.device)
    for rows in row_blocks(*probs.shape):
        block, labels = probs[rows], target[rows]
        total[0, :KEYS] += _histogram(block)
        total[1, :KEYS] += _histogram(pick(block, labels) if is_single_label(labels) else block[labels])
    total[0, KEYS] = len(probs)
    return total


def curve_of_sizes(histograms: Tensor) -> Curve:
    """The curve of such histograms: counted from the top, how many pairs, and how many true ones, are above each threshold."""
    counts = histograms[:, :KEYS].flip(1).cumsum(1)
    zero = counts.new_zeros(1)
    used = counts[0].diff(prepend=zero) > 0
    sizes, accuracies = counts[0, used] / histograms[0, KEYS], counts[1, used] / counts[1, -1]
    return Curve(torch.cat([zero, sizes]), torch.cat([zero, accuracies]))


def curve_of_ranks(counts: Tensor) -> Curve:
    """The curve of the counts of labels at each rank."""
    accuracies = counts.cumsum(0) / counts.sum()
    sizes = torch.arange(len(counts) + 1, dtype=torch.float64, device=counts.device)
    return Curve(sizes, torch.cat([accuracies.new_zeros(1), accuracies]))


def rank_counts(probs: Probs, target: Target) -> Tensor:
    """How many rows have their label at rank 1, 2, …, C: float64 (C,)."""
    if not is_single_label(target):
        raise InputError("target: expected one label a row, int64 (N,), got several labels")
    return (ranks(probs, target).squeeze(1) - 1).bincount(minlength=probs.shape[1]).double()


def _histogram(probs: Tensor) -> Tensor:
    # Adding 0 turns -0 into 0, whose bits are not negative.
    keys = probs.float().clamp(0, 1).add(0.0).contiguous().view(torch.int32).flatten() >> 16
    return keys.bincount(minlength=KEYS).double()
