"""Accuracy against size, for all sizes at once and in constant memory."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.streaming import Streaming
from shortlist.sets.orderings import ranks
from shortlist.tensors import Probs, Target, check_target, is_single_label, pick, row_blocks

# The leading 16 bits of a float32 from 0 to 1 run from 0 to those of 1.0.
KEYS = 0x3F80 + 1


class Curve(NamedTuple):
    """Points of (mean set size, accuracy), by increasing size."""

    sizes: Tensor
    accuracies: Tensor

    def at(self, size: float) -> float:
        """The accuracy at this mean size, linear between the points."""
        place = int(torch.searchsorted(self.sizes, size).clamp(1, len(self.sizes) - 1))
        (x0, x1), (y0, y1) = self.sizes[place - 1 : place + 1].tolist(), self.accuracies[place - 1 : place + 1].tolist()
        along = 1.0 if x1 == x0 else min(max((size - x0) / (x1 - x0), 0.0), 1.0)
        return float(y0 + (y1 - y0) * along)


class SizeAccuracyCurve(Streaming):
    """Accuracy against mean size for sets above one threshold (average-k), at every threshold of a fine grid.

    ``compute`` gives a :class:`Curve` whose points are exact: the grid is the float32 numbers with 16 leading bits, 129
    thresholds for each halving of the probability. Between two points accuracy lies between theirs.
    The state is 16,257 × 2 numbers, whatever the number of rows and classes.
    """

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        check_target(values, target, "probs")
        total = torch.zeros(2, KEYS + 1, dtype=torch.float64, device=values.device)
        for rows in row_blocks(*values.shape):
            block, labels = values[rows], target[rows]
            right = pick(block, labels) if is_single_label(labels) else block[labels]
            total[0, :KEYS] += _histogram(block)
            total[1, :KEYS] += _histogram(right)
        total[:, KEYS] = torch.tensor([len(values), 0.0])
        return total

    def _finish(self, total: Tensor) -> Curve:
        rows = total[0, KEYS]
        counts = total[:, :KEYS].flip(1).cumsum(1)
        used = torch.cat([counts.new_ones(1, dtype=torch.bool), counts[0].diff() > 0])
        sizes, accuracies = counts[0, used] / rows, counts[1, used] / counts[1, -1]
        zero = sizes.new_zeros(1)
        return Curve(torch.cat([zero, sizes]), torch.cat([zero, accuracies]))


class RankCurve(Streaming):
    """Accuracy of the top k for every k; its state is one number a class. One label a row."""

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return rank_counts(values, target)

    def _finish(self, total: Tensor) -> Curve:
        accuracies = total.cumsum(0) / total.sum()
        sizes = torch.arange(len(total) + 1, dtype=torch.float64, device=total.device)
        return Curve(sizes, torch.cat([accuracies.new_zeros(1), accuracies]))


def rank_counts(probs: Probs, target: Target) -> Tensor:
    """How many rows have their label at rank 1, 2, …, C: float64 (C,)."""
    check_target(probs, target, "probs")
    if not is_single_label(target):
        raise InputError("target: expected one label a row, int64 (N,), got many labels")
    return (ranks(probs, target).squeeze(1) - 1).bincount(minlength=probs.shape[1]).double()


def _histogram(probs: Tensor) -> Tensor:
    keys = probs.float().clamp(0, 1).contiguous().view(torch.int32).flatten() >> 16
    return keys.bincount(minlength=KEYS).double()
