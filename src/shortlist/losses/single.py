"""Losses for one label per row: cross-entropy and its relatives.

Shapes: scores (N, C), target integers (N,). Cross-entropy also takes bool (N, C): the labels of a row share it equally, and a
row without labels has loss 0. Cross-entropy and focal also take the shares of the labels of each row, floating point (N, C).
Papers: Lin et al. 2017 (focal), Cao et al. 2019 (LDAM).
"""

from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_each_class, number
from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.kernels.cross_entropy import fused_cross_entropy, takes_cross_entropy
from shortlist.links import LDAM, Link, Softmax, SoftmaxFocalRecovery
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import (
    WEIGHTING,
    check_no_weight,
    class_weight,
    counted_rows,
    expected_of_labels,
    integer_target,
    reduce_labels,
    reduce_rows,
    single_labels,
    soft_target,
)
from shortlist.tensors import Reduction, Scores, Target, as_tensor, is_single_label, shape_of, working


@domains(**WEIGHTING)
def cross_entropy_loss(
    scores: Scores,
    target: Target,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Negative log-likelihood of the label under the softmax.

    .. math:: -\log \mathrm{softmax}_{target}(scores)

    With a bool target, the mean of that over the row's labels; 0 for a row without labels. With shares, its
    expectation under them.

    Elicits: probabilities; with several labels per row, the expected share of each among the row's labels. Link: softmax.

    Args:
        scores: (N, C).
        target: integers (N,), bool (N, C), or shares (N, C) that sum to 1 in each row.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum. Only
            with one label per row.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) or (N, C) → scalar, or (N,) with ``reduction="none"``.

    >>> cross_entropy_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.4076)
    """
    if (shares := soft_target(scores, target, one_label=True)) is not None:
        check_no_weight(weight, target)
        costs = -torch.log_softmax(working(scores), dim=1)
        return reduce_labels(expected_of_labels(shares, costs), reduction, scores)
    target = integer_target(scores, target)
    if not is_single_label(target):
        check_no_weight(weight, target)
        counted = torch.where(target.any(1, keepdim=True), working(scores), 0.0)
        log_probs = torch.log_softmax(counted, dim=1)
        return reduce_labels(-torch.where(target, log_probs, 0.0).sum(1) / target.sum(1).clamp(min=1), reduction, scores)
    target = single_labels(scores, target, ignore_index)
    if takes_cross_entropy(scores):
        weight = class_weight(weight, scores)
        return fused_cross_entropy(scores, target, weight=weight, ignore_index=ignore_index, reduction=reduction)
    labels, scores = counted_rows(scores, target, ignore_index)
    return reduce_rows(_cross_entropy(scores, labels.target), labels, weight, reduction, scores)


def _cross_entropy(scores: Scores, target: Target) -> Tensor:
    """The cross-entropy of each row, (N,)."""
    return torch.nn.functional.cross_entropy(scores, target, reduction="none")


class CrossEntropyLoss(Loss):
    """Module form of :func:`cross_entropy_loss`."""

    function = staticmethod(cross_entropy_loss)
    elicits = "probabilities"

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean"):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)

    def link(self) -> Link:
        """Softmax."""
        return Softmax()


@domains(**SoftmaxFocalRecovery.domains, **WEIGHTING)
def focal_loss(
    scores: Scores,
    target: Target,
    *,
    gamma: float = 2.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cross-entropy that gives less weight to rows that are already classified well.

    .. math:: (1 - p)^{gamma} \cdot (-\log p), \quad p = \mathrm{softmax}_{target}(scores)

    Elicits: probabilities, not through the softmax but through the link :class:`~shortlist.links.SoftmaxFocalRecovery`.

    Args:
        scores: (N, C).
        target: integers (N,), or shares (N, C) that sum to 1 in each row: the expectation under them.
        gamma: exponent of the down-weighting; 0 is cross-entropy.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum. Only
            with one label per row.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) or (N, C) → scalar, or (N,) with ``reduction="none"``.

    >>> focal_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), gamma=2.0)
    tensor(0.8029)

    Lin, Goyal, Girshick, He, Dollár, "Focal loss for dense object detection", 2017.
    """
    if (shares := soft_target(scores, target, one_label=True)) is not None:
        check_no_weight(weight, target)
        costs = -torch.log_softmax(working(scores), dim=1)
        costs = _focal(torch.where(shares == 0, 0.0, costs), gamma)
        return reduce_labels(expected_of_labels(shares, costs), reduction, scores)
    target = single_labels(scores, target, ignore_index)
    if takes_cross_entropy(scores, gamma=gamma):
        weight = class_weight(weight, scores)
        return fused_cross_entropy(scores, target, gamma=gamma, weight=weight, ignore_index=ignore_index, reduction=reduction)
    labels, scores = counted_rows(scores, target, ignore_index)
    return reduce_rows(_focal(_cross_entropy(scores, labels.target), gamma), labels, weight, reduction, scores)


def _focal(loss: Tensor, gamma: float) -> Tensor:
    """``(1 - p)^γ · loss`` of a loss ``-log p``, of any shape."""
    if gamma == 0:
        return loss
    # (1 - p)^γ has an infinite slope at p = 1 for γ < 1; the slope of the product there is 0.
    certain, impossible = loss <= 0, loss == torch.inf
    doubt = -torch.expm1(-torch.where(certain | impossible, 1.0, loss))
    # At p = 0 the slope of (1 - p)^γ is 0, beside a loss that is infinite.
    return torch.where(certain, 0.0, torch.where(impossible, 1.0, doubt) ** gamma * loss)


class FocalLoss(Loss):
    """Module form of :func:`focal_loss`."""

    function = staticmethod(focal_loss)
    elicits = "probabilities"
    gamma: float

    def __init__(
        self,
        *,
        gamma: float = 2.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(gamma=gamma, weight=weight, ignore_index=ignore_index, reduction=reduction)

    def link(self) -> Link:
        """The map from the minimiser back to the probabilities."""
        return SoftmaxFocalRecovery(self.gamma)


@domains(**LDAM.domains, **WEIGHTING)
def ldam_loss(
    scores: Scores,
    target: Target,
    *,
    margins: Tensor,
    scale: float = 30.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cross-entropy of scaled scores, the true one lowered by the margin of its class.

    .. math:: \mathrm{CE}(scale \cdot (scores - margins_{target} e_{target}), target)

    Meant for a cosine head and :func:`class_margins`, which are larger for rarer classes.

    Elicits: probabilities, through the link :class:`~shortlist.links.LDAM`. A softmax would be overconfident, and would favour
    the rarer of labels that are about equally likely.

    Args:
        scores: (N, C), cosines.
        target: integers (N,).
        margins: (C,), one for each class.
        scale: multiplies scores and margins; without it, probabilities from cosines would be too flat.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> ldam_loss(torch.tensor([[0.2, 0.1]]), torch.tensor([1]), margins=torch.tensor([0.1, 0.5]), scale=10.0)
    tensor(6.0025)

    Cao, Wei, Gaidon, Arechiga, Ma, "Learning imbalanced datasets with label-distribution-aware margin loss", 2019.
    """
    target = single_labels(scores, target, ignore_index)
    margins = check_each_class(margins, scores, "margins")
    if takes_cross_entropy(scores, scale=scale, margins=margins):
        return fused_cross_entropy(
            scores,
            target,
            scale=scale,
            margins=margins,
            weight=class_weight(weight, scores),
            ignore_index=ignore_index,
            reduction=reduction,
        )
    labels, scores = counted_rows(scores, target, ignore_index)
    own = margins[labels.target]
    lowered = scores.scatter_add(1, labels.target[:, None], -own[:, None])
    # The softmax ignores a constant of a row. Without it, huge scores overflow only where the loss itself does.
    top = lowered.detach().amax(1, keepdim=True)
    huge = top.abs() > torch.finfo(scores.dtype).max / (4 * scale)
    scaled = scale * (lowered - torch.where(huge, top, 0.0))
    return reduce_rows(_cross_entropy(scaled, labels.target), labels, weight, reduction, scores)


class LdamLoss(Loss):
    """Module form of :func:`ldam_loss`."""

    function = staticmethod(ldam_loss)
    elicits = "probabilities"
    margins: Tensor
    scale: float

    def __init__(
        self,
        *,
        margins: Tensor,
        scale: float = 30.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(margins=margins, scale=scale, weight=weight, ignore_index=ignore_index, reduction=reduction)

    def link(self) -> Link:
        """The map from the minimiser back to the probabilities."""
        return LDAM(self.margins, self.scale)


def class_margins(counts: Any, max_margin: float = 0.5) -> Tensor:
    r"""Margins that grow as classes get rarer, the largest being ``max_margin``.

    .. math:: max\_margin \cdot \frac{counts_j^{-1/4}}{\max_i counts_i^{-1/4}}

    Args:
        counts: training examples of each class, (C,), all at least 1.
        max_margin: the margin of the rarest class.

    Shape: float64 (C,); losses convert them to the precision of their scores.

    >>> class_margins([16, 1], max_margin=0.5)
    tensor([0.2500, 0.5000], dtype=torch.float64)

    Cao et al. 2019.
    """
    number(least=0)("max_margin", max_margin)
    numbers = as_tensor(by_class("counts", counts), "counts").double()
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"counts: expected one number for each class, (C,), got {shape_of(numbers)}")
    wrong = ~((numbers >= 1) & numbers.isfinite())
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise InputError(
            f"counts: expected at least 1 example of each class, got {numbers[first].item():g} of class {first}: "
            "remove that class, or merge it with another"
        )
    return max_margin * (numbers / numbers.min()) ** -0.25
