"""One label a row: cross-entropy and its relatives.

Shapes: scores (N, C), target int64 (N,). Cross-entropy also takes bool (N, C): a row's labels share its weight equally and a
row without labels has loss 0. Papers: Lin et al. 2017 (focal), Cao et al. 2019 (LDAM).
"""

from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_each_class, number, per_class
from shortlist.errors import InputError
from shortlist.links import LDAM, Link, Softmax, SoftmaxFocalRecovery
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.tensors import (
    Reduction,
    Scores,
    Target,
    as_tensor,
    check_label_range,
    check_single_label,
    check_target,
    is_single_label,
    reduce,
    shape_of,
    working,
)


def cross_entropy_loss(scores: Scores, target: Target, *, reduction: Reduction = "mean") -> Tensor:
    r"""Negative log-likelihood of the label under the softmax.

    .. math:: -\log \mathrm{softmax}_{target}(scores)

    With a bool target, the mean of that over the row's labels; 0 for a row without labels.

    Elicits: probabilities; with several labels a row, the expected share of each among the row's labels. Link: softmax.

    Shape: (N, C), (N,) or (N, C) → scalar, or (N,) with ``reduction="none"``.

    >>> cross_entropy_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.4076)
    """
    check_target(scores, target)
    return reduce(_cross_entropy(working(scores), target), reduction)


def _cross_entropy(scores: Scores, target: Target) -> Tensor:
    """Per row; the labels of a row share it equally."""
    if is_single_label(target):
        check_label_range(target, scores.shape[1])
        return torch.nn.functional.cross_entropy(scores, target, reduction="none")
    log_probs = torch.log_softmax(scores, dim=1)
    return -torch.where(target, log_probs, 0.0).sum(1) / target.sum(1).clamp(min=1)


class CrossEntropyLoss(Loss):
    """Module form of :func:`cross_entropy_loss`."""

    function = staticmethod(cross_entropy_loss)
    elicits = "probabilities"

    def link(self) -> Link:
        """Softmax."""
        return Softmax()


@domains(gamma=number(least=0))
def focal_loss(scores: Scores, target: Target, *, gamma: float = 2.0, reduction: Reduction = "mean") -> Tensor:
    r"""Cross-entropy that cares less about what is already right.

    .. math:: (1 - p)^{gamma} \cdot (-\log p), \quad p = \mathrm{softmax}_{target}(scores)

    Elicits: probabilities, not through the softmax but through the link :class:`~shortlist.links.SoftmaxFocalRecovery`.

    Args:
        scores: (N, C).
        target: int64 (N,).
        gamma: 0 is cross-entropy.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> focal_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), gamma=2.0)
    tensor(0.8029)

    Lin, Goyal, Girshick, He, Dollár, "Focal loss for dense object detection", 2017.
    """
    check_single_label(scores, target)
    scores = working(scores)
    loss = _cross_entropy(scores, target)
    if gamma == 0:
        return reduce(loss, reduction)
    # (1 - p)^γ has an infinite slope at p = 1 for γ < 1; the product's slope there is 0.
    sure = loss <= 0
    doubt = -torch.expm1(-torch.where(sure, 1.0, loss))
    return reduce(torch.where(sure, 0.0, doubt**gamma * loss), reduction)


class FocalLoss(Loss):
    """Module form of :func:`focal_loss`."""

    function = staticmethod(focal_loss)
    elicits = "probabilities"
    gamma: float

    def link(self) -> Link:
        """The map from the minimiser back to the probabilities."""
        return SoftmaxFocalRecovery(self.gamma)


@domains(margins=per_class(), scale=number(above=0))
def ldam_loss(scores: Scores, target: Target, *, margins: Tensor, scale: float = 30.0, reduction: Reduction = "mean") -> Tensor:
    r"""Cross-entropy of scaled scores, the true one lowered by its class's margin.

    .. math:: \mathrm{CE}(scale \cdot (scores - margins_{target} e_{target}), target)

    Made for a cosine head, with :func:`class_margins`, which are larger for rarer classes.

    Elicits: probabilities, through the link :class:`~shortlist.links.LDAM`; read by a softmax they are too sure, and where
    labels are about equally likely they favour the rarer.

    Args:
        scores: (N, C), cosines.
        target: int64 (N,).
        margins: (C,), one for each class.
        scale: multiplies scores and margins; the paper's 30, where cosines would be too flat.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> ldam_loss(torch.tensor([[0.2, 0.1]]), torch.tensor([1]), margins=torch.tensor([0.1, 0.5]), scale=10.0)
    tensor(6.0025)

    Cao, Wei, Gaidon, Arechiga, Ma, "Learning imbalanced datasets with label-distribution-aware margin loss", 2019.
    """
    check_single_label(scores, target)
    scores = working(scores)
    own = check_each_class(margins, scores, "margins")[target]
    lowered = scores.scatter_add(1, target[:, None], -own[:, None])
    return reduce(_cross_entropy(scale * lowered, target), reduction)


class LdamLoss(Loss):
    """Module form of :func:`ldam_loss`."""

    function = staticmethod(ldam_loss)
    elicits = "probabilities"
    margins: Tensor
    scale: float

    def link(self) -> Link:
        """The map from the minimiser back to the probabilities."""
        return LDAM(self.margins, self.scale)


def class_margins(counts: Any, max_margin: float = 0.5) -> Tensor:
    r"""Margins that grow as classes get rarer, the largest being ``max_margin``.

    .. math:: max\_margin \cdot \frac{counts_j^{-1/4}}{\max_i counts_i^{-1/4}}

    Args:
        counts: training examples of each class, (C,), all at least 1.
        max_margin: the margin of the rarest class.

    Shape: float64 (C,); the losses take them in the precision of their scores.

    >>> class_margins([16, 1], max_margin=0.5)
    tensor([0.2500, 0.5000], dtype=torch.float64)

    Cao et al. 2019.
    """
    number(least=0)("max_margin", max_margin)
    numbers = as_tensor(counts, "counts").double()
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"counts: expected one number for each class, (C,), got {shape_of(numbers)}")
    wrong = ~((numbers >= 1) & numbers.isfinite())
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise InputError(
            f"counts: expected at least 1 example of each class, got {numbers[first].item():g} of class {first}: "
            "leave that class out, or merge it with another"
        )
    return max_margin * (numbers / numbers.min()) ** -0.25
