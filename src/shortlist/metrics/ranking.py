"""How well labels and rows are ranked: mean average precision by class and by example, F1 of the top n.

Average precision takes tied scores together, as scikit-learn does: the precision at a positive is that of everything scored
at least as high.
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.streaming import Streaming, ratio
from shortlist.selection import sort_rows
from shortlist.sets import top_k
from shortlist.tensors import (
    BLOCK_ENTRIES,
    Probs,
    Target,
    as_target,
    as_tensor,
    check_target,
    one_hot,
    row_blocks,
    working,
)

Axis: TypeAlias = Literal["class", "example"]


def mean_average_precision(probs: Any, target: Any, *, axis: Axis = "class") -> Tensor:
    """Average precision, averaged over the classes (mAP@y) or over the examples (mAP@x) that have a positive.

    >>> probs = torch.tensor([[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]])
    >>> target = torch.tensor([[True, False], [False, True], [True, False]])
    >>> mean_average_precision(probs, target)
    tensor(0.9167, dtype=torch.float64)
    """
    probs, target = as_tensor(probs), as_target(target)
    check_target(probs, target, "probs")
    if _check_axis(axis) == "example":
        return ratio(_example_sums(probs, target))
    return average_precisions(probs, target).nanmean()


class MeanAveragePrecision(Streaming):
    """Streaming form of :func:`mean_average_precision`, exact; over examples its state is two numbers.

    Over classes exactness needs every score, and they are kept; :class:`BinnedMeanAveragePrecision` is its companion of
    constant size, and says how far off it can be.
    """

    higher_is_better = True

    def __init__(self, axis: Axis = "class", **kwargs: Any):
        super().__init__(gathers=_check_axis(axis) == "class", **kwargs)
        self.axis = axis

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return mean_average_precision(values, target)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        check_target(values, target, "probs")
        return _example_sums(values, target)

    def _finish(self, total: Tensor) -> Tensor:
        return ratio(total)


class BinnedMeanAveragePrecision(Streaming):
    """Mean average precision over classes from a histogram of each class; its state is two numbers a bin and class.

    Probabilities in one bin count as tied. :meth:`bounds` gives the interval in which the exact value lies, whatever the
    order inside the bins. Bins are equally wide in the log-odds from -20 to 20, where multi-label probabilities live.
    """

    higher_is_better = True

    def __init__(self, bins: int = 512, **kwargs: Any):
        super().__init__(**kwargs)
        if bins < 2:
            raise InputError(f"bins: expected a whole number from 2, got {bins}")
        self.bins = bins

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        check_target(values, target, "probs")
        classes = values.shape[1]
        marks = one_hot(target, classes)
        odds = torch.logit(values.double()).clamp(-20, 20)
        place = ((odds + 20) / 40 * self.bins).long().clamp(max=self.bins - 1)
        cell = torch.arange(classes, device=values.device) * self.bins + place
        size = classes * self.bins
        counts = torch.stack([cell[marks].bincount(minlength=size), cell.flatten().bincount(minlength=size)])
        return counts.view(2, classes, self.bins).double()

    def _finish(self, total: Tensor) -> Tensor:
        positives, everything = total.flip(2).unbind()
        before, upto = positives.cumsum(1), everything.cumsum(1)
        precision = before / upto.clamp(min=1)
        return (positives * precision).sum(1).div(positives.sum(1)).nanmean()

    def bounds(self) -> tuple[Tensor, Tensor]:
        """The lowest and highest value that the exact mean average precision can have."""
        positives, everything = self.total.flip(2).unbind()
        before, upto = positives.cumsum(1) - positives, everything.cumsum(1) - everything
        last = _harmonic_part(before, upto + everything - positives, positives)
        first = _harmonic_part(before, upto, positives)
        count = positives.sum(1)
        return last.sum(1).div(count).nanmean(), first.sum(1).div(count).nanmean()


def top_n_f1(probs: Any, target: Any, *, n: int = 4) -> Tensor:
    """F1 of returning the n most probable labels of every row, averaged over the classes present (macro F1).

    >>> top_n_f1(torch.tensor([[0.9, 0.2], [0.3, 0.7]]), torch.tensor([[True, False], [True, True]]), n=1)
    tensor(0.8333, dtype=torch.float64)

    Liao, section IV-C, n = 4.
    """
    return _macro_f1(_top_counts(as_tensor(probs), as_target(target), n))


class TopNF1(Streaming):
    """Streaming form of :func:`top_n_f1`; its state is three numbers a class."""

    higher_is_better = True

    def __init__(self, n: int = 4, **kwargs: Any):
        super().__init__(**kwargs)
        self.n = n

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return _top_counts(values, target, self.n)

    def _finish(self, total: Tensor) -> Tensor:
        return _macro_f1(total)


def average_precisions(probs: Probs, target: Target) -> Tensor:
    """Average precision of each class, float64 (C,), NaN for a class without positives."""
    marks = one_hot(target, probs.shape[1])
    scores = working(probs)
    columns = max(1, BLOCK_ENTRIES // max(1, len(scores)))
    return torch.cat(
        [
            _by_column(scores[:, start : start + columns], marks[:, start : start + columns])
            for start in range(0, scores.shape[1], columns)
        ]
    )


def _by_column(scores: Tensor, marks: Tensor) -> Tensor:
    """Only values are sorted: a positive's precision needs how many values, and how many positives, reach its own."""
    by_label, positive = scores.t().contiguous(), marks.t().contiguous()
    ordered = sort_rows(by_label)
    found = []
    for label in range(len(by_label)):
        own = sort_rows(by_label[label][positive[label]])
        reach = ordered.shape[1] - torch.searchsorted(ordered[label], own)
        right = len(own) - torch.searchsorted(own, own)
        found.append((right.double() / reach).mean())
    return torch.stack(found)


def _example_sums(probs: Probs, target: Target) -> Tensor:
    total = torch.zeros(2, dtype=torch.float64, device=probs.device)
    for rows in row_blocks(*probs.shape):
        precision = rows_average_precision(working(probs[rows]), one_hot(target[rows], probs.shape[1]))
        total += torch.stack([precision.nansum(), (~precision.isnan()).sum()])
    return total


def rows_average_precision(scores: Tensor, marks: Tensor) -> Tensor:
    """Average precision of each row: as by column, for many short rows at once."""
    ordered = sort_rows(scores).contiguous()
    positives = torch.where(marks, scores, torch.inf)  # what is not positive sorts to the end
    own = sort_rows(positives).contiguous()
    count = marks.sum(1, keepdim=True)
    width = int(count.max()) if len(count) else 0
    own = own[:, :width].contiguous()
    reach = scores.shape[1] - torch.searchsorted(ordered, own)
    right = count - torch.searchsorted(own, own)
    precision = torch.where(own < torch.inf, right.double() / reach, 0.0)
    return precision.sum(1) / count.squeeze(1)


def _harmonic_part(before: Tensor, above: Tensor, positives: Tensor) -> Tensor:
    """``Σ_{i=1}^{p} (before + i) / (above + i)``: p positives one after the other, behind ``above`` others."""
    # (before + i)/(above + i) = 1 - (above - before)/(above + i), and Σ 1/(above + i) is a difference of digammas.
    tail = torch.digamma(above + positives + 1) - torch.digamma(above + 1)
    return positives - (above - before) * tail


def _top_counts(probs: Probs, target: Target, n: int) -> Tensor:
    check_target(probs, target, "probs")
    sets = top_k(min(n, probs.shape[1]))(probs)
    marks = one_hot(target, probs.shape[1])
    return torch.stack([(sets & marks).sum(0), sets.sum(0), marks.sum(0)]).double()


def _macro_f1(counts: Tensor) -> Tensor:
    right, returned, present = counts.unbind()
    f1 = 2 * right / (returned + present)
    return f1[present > 0].mean()


def _check_axis(axis: Axis) -> Axis:
    if axis not in ("class", "example"):
        raise InputError(f"axis: expected 'class' or 'example', got {axis!r}")
    return axis
