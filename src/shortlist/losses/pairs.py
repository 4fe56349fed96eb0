"""Losses that compare present with absent labels: two-way (Kobayashi 2023), label pairs (Cheng).

Shapes: scores (N, C), target bool (N, C), or integers (N,) if each row has one label.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import number
from shortlist.kernels.choice import fused
from shortlist.kernels.pairs import pair_sums
from shortlist.links import Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, softplus
from shortlist.losses.rows import any_labels, global_rows, label_marks, reduce_coupled, reduce_labels
from shortlist.operators.slopes import with_slopes
from shortlist.processes import total, total_logsumexp
from shortlist.tensors import Reduction, Scores, Target, by_device, one_hot, reduce, working


@domains(positive_temperature=number(above=0), negative_temperature=number(above=0))
def two_way_loss(
    scores: Scores,
    target: Target,
    *,
    positive_temperature: float = 4.0,
    negative_temperature: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Softplus of a smooth maximum of absent labels minus a smooth minimum of present ones, for each row and each class.

    .. math:: \log\big(1 + e^{T_n \log \sum_{absent} e^{scores / T_n} + T_p \log \sum_{present} e^{-scores / T_p}}\big)

    over the labels of each row that has a present one, averaged, plus the same over the rows of each class that has one,
    averaged; a row or class without absent labels counts 0. Couples the rows of the batch, which on several processes is the
    global batch.

    Elicits: nothing in general. For a single input with independent labels it elicits their order, but the class term sets the
    rows of a batch against each other (``tests/losses/test_elicits_order.py`` shows two inputs for one of which it reverses
    the order). Link: none.

    Args:
        scores: (N, C).
        target: bool (N, C), or integers (N,).
        positive_temperature: T_p, 4 in the paper.
        negative_temperature: T_n, 1 in the paper.
        reduction: "mean", or "sum", which is the mean times N.

    Shape: (N, C), (N, C) or (N,) → scalar.

    >>> two_way_loss(torch.tensor([[2.0, -1.0], [0.0, 1.0]]), torch.tensor([[True, False], [False, True]]))
    tensor(0.3079)

    Kobayashi, "Two-way multi-label loss", 2023.
    """
    marks = label_marks(scores, target)
    scores = working(scores)
    absent = (scores / negative_temperature).masked_fill(marks, -torch.inf)
    present = (-scores / positive_temperature).masked_fill(~marks, -torch.inf)
    temperatures = negative_temperature, positive_temperature
    rows = _contrast(_logsumexp(absent), _logsumexp(present), temperatures)
    classes = _contrast(total_logsumexp(absent), total_logsumexp(present), temperatures)
    row_mean = total(rows.sum()) / total(marks.any(1).sum().to(scores.dtype)).clamp(min=1)
    class_mean = classes.sum() / (total(marks.to(scores.dtype).sum(0)) > 0).sum().clamp(min=1)
    return reduce_coupled(row_mean + class_mean, global_rows(scores), reduction, scores)


def _logsumexp(values: Tensor) -> Tensor:
    """``logsumexp`` of each row; -inf for a row of -inf, with gradient 0."""
    empty = (values == -torch.inf).all(1, keepdim=True)
    return torch.where(empty.squeeze(1), -torch.inf, torch.where(empty, 0.0, values).logsumexp(1))


def _contrast(absent: Tensor, present: Tensor, temperatures: tuple[float, float]) -> Tensor:
    """Softplus of the two, 0 if either side is empty."""
    both = (absent != -torch.inf) & (present != -torch.inf)  # NaN is not empty: it must show in the loss
    absent, present = torch.where(both, absent, 0.0), torch.where(both, present, 0.0)
    return torch.where(both, softplus(temperatures[0] * absent + temperatures[1] * present), 0.0)


class TwoWayLoss(Loss):
    """Module form of :func:`two_way_loss`."""

    function = staticmethod(two_way_loss)
    couples = True

    def __init__(
        self,
        *,
        positive_temperature: float = 4.0,
        negative_temperature: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(
            positive_temperature=positive_temperature, negative_temperature=negative_temperature, reduction=reduction
        )


def label_pair_penalty(log_odds: Tensor, target: Target, *, reduction: Reduction = "mean") -> Tensor:
    r"""Penalty for absent labels with larger odds than present ones, to be added to any multi-label loss.

    .. math:: \frac{2}{C(C-1)} \sum_{t \in target,\ u \notin target} \log(1 + e^{log\_odds_u - log\_odds_t})

    Pass it ``link.log_odds(scores)`` (the scores themselves if the link is the sigmoid); :class:`PenalisedLoss` does both. A
    row without present or without absent labels has penalty 0. Absent labels at -inf cost nothing; a present one at -inf costs
    infinitely much, unless all absent ones are there too. It costs |present| · C operations, not C².

    Elicits: the order, and all ratios of odds, if labels are independent given the input. Link: sigmoid, of log-odds.

    Args:
        log_odds: (N, C).
        target: bool (N, C), or integers (N,).
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> label_pair_penalty(torch.tensor([[2.0, -1.0, 0.0]]), torch.tensor([[True, False, False]]))
    tensor(0.0585)

    Cheng, Vasconcelos, section 3.4.
    """
    target = any_labels(log_odds, target, "log_odds")
    classes = log_odds.shape[1]
    if classes == 1:
        return reduce_labels((0 * working(log_odds)).sum(1), reduction, log_odds)
    scale = 2 / (classes * (classes - 1))
    if fused("pairs", log_odds):
        return reduce(pair_sums(log_odds, target, scale), reduction)
    marks = one_hot(target, classes)
    rows = with_slopes(working(log_odds), partial(_sums_and_slopes, marks), lambda odds: _gaps(odds, marks).gradient)
    return reduce_labels(rows * scale, reduction, log_odds)


class LabelPairPenalty(Loss):
    """Module form of :func:`label_pair_penalty`."""

    function = staticmethod(label_pair_penalty)
    elicits = "order"
    reads = "log-odds"

    def __init__(self, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)

    def link(self) -> Link:
        """Sigmoid, because it takes log-odds."""
        return Sigmoid()


class _Gaps(NamedTuple):
    """The pairs of present and absent labels.

    Args:
        row: the row of each present label, int64 (P,).
        gaps: odds of each label minus those of the present one, (P, C); -inf for labels that are present.
        slopes: the logistic function of that.
        gradient: of Σ softplus(gaps) in the odds, (N, C).
    """

    row: Tensor
    gaps: Tensor
    slopes: Tensor
    gradient: Tensor


def _gaps(odds: Tensor, marks: Tensor) -> _Gaps:
    row, label = by_device(PLACES, marks)(marks)
    own = odds[row, label]
    # Present labels at -inf: they are compared with absent ones only.
    rivals = odds.index_put((row, label), odds.new_tensor(-torch.inf))
    gaps = rivals.index_select(0, row).sub_(own.unsqueeze(1))
    ruled_out = own == -torch.inf
    if ruled_out.any():  # rivals at -inf cost nothing, even beside a present label that is there too
        gaps.masked_fill_(ruled_out.unsqueeze(1) & (rivals.index_select(0, row) == -torch.inf), -torch.inf)
    slopes = torch.sigmoid(gaps)
    gradient = torch.zeros_like(odds).index_add_(0, row, slopes)
    gradient[row, label] = -slopes.sum(1)
    return _Gaps(row, gaps, slopes, gradient)


def _sums_and_slopes(marks: Tensor, odds: Tensor, _: bool) -> tuple[Tensor, Tensor]:
    """Σ over (present, absent) pairs of softplus(odds_absent - odds_present), per row, with its gradient in one go."""
    row, gaps, slopes, gradient = _gaps(odds, marks)
    return odds.new_zeros(len(odds)).index_add_(0, row, _sum_of_softplus(gaps, slopes)), gradient


def _places_torch(marks: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and labels of the marks."""
    row, label = marks.nonzero(as_tuple=True)
    return row, label


def _places_numpy(marks: Tensor) -> tuple[Tensor, Tensor]:
    """The same, several times faster on the CPU."""
    rows, labels = np.divmod(np.flatnonzero(marks.numpy()), marks.shape[1])
    return torch.from_numpy(rows), torch.from_numpy(labels)


PLACES = {"cpu": _places_numpy, "any": _places_torch}


def _sum_of_softplus(x: Tensor, work: Tensor) -> Tensor:
    """``Σ_j log(1 + exp(x_j))`` of each row; both arguments are overwritten.

    With softplus(x) = x+ + log(1 + e^-|x|), the logarithm is taken of products of the brackets, which lie between 1 and 2.
    """
    found = torch.clamp(x, min=0, out=work).sum(1)
    brackets = x.abs_().mul_(-1 / math.log(2)).exp2_().add_(1)
    for some in brackets.split(100, dim=1):
        found += some.prod(1).log_()
    return found
