"""Losses for rows without a label, which a softmax classifier should be unsure about (Lee et al. 2018, Hein et al. 2019).

Shapes: scores (N, C); target bool (N, C), whose rows with a label have loss 0; or integers (N,), all of which have a label; or
None if no row has one.
"""

import math

import torch
from torch import Tensor

from shortlist.links import Link, Softmax
from shortlist.losses.loss import Loss
from shortlist.losses.rows import label_marks, reduce_labels
from shortlist.tensors import Reduction, Scores, Target, check_scores, working


def uniform_outlier_loss(scores: Scores, target: Target | None = None, *, reduction: Reduction = "mean") -> Tensor:
    r"""Divergence of the softmax from the uniform distribution, on rows without a label.

    .. math:: -\log C - \frac1C \sum_j \log \mathrm{softmax}_j(scores)

    Added with weight 1 to the cross-entropy of the rows with a label. The mean here is over all rows;
    :class:`PenalisedLoss` takes two means, one over the rows with a label and one over those without.

    Elicits: nothing (it favours no label). Link: softmax.

    Args:
        scores: (N, C).
        target: bool (N, C), or integers (N,); default None, no row has a label.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N, C) → scalar, or (N,) with ``reduction="none"``.

    >>> uniform_outlier_loss(torch.tensor([[2.0, 1.0, 0.0]]))
    tensor(0.3090)

    Lee, Lee, Lee, Shin, "Training confidence-calibrated classifiers for detecting out-of-distribution samples", 2018.
    """
    counted, inlier = _outliers(scores, target)
    divergence = -math.log(scores.shape[1]) - torch.log_softmax(counted, 1).mean(1)
    return reduce_labels(_without(inlier, divergence), reduction, scores)


class OutlierLoss(Loss):
    """A loss for rows without a label, with a softmax link."""

    of_unlabelled_rows = True

    def __init__(self, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)

    def forward(self, scores: Scores, target: Target | None = None) -> Tensor:
        """The loss of the rows without a label; of all rows if there is no target."""
        return type(self).function(scores, target, **self.keywords)

    def link(self) -> Link:
        """Softmax."""
        return Softmax()


class UniformOutlierLoss(OutlierLoss):
    """Module form of :func:`uniform_outlier_loss`."""

    function = staticmethod(uniform_outlier_loss)


def confidence_outlier_loss(scores: Scores, target: Target | None = None, *, reduction: Reduction = "mean") -> Tensor:
    r"""Logarithm of the largest probability of the softmax, on rows without a label.

    .. math:: \max_j \log \mathrm{softmax}_j(scores)

    Never above 0. Added with weight 1 to the cross-entropy of the rows with a label. The mean here is over all rows;
    :class:`PenalisedLoss` takes two means, one over the rows with a label and one over those without.

    Elicits: nothing (it favours no label). Link: softmax.

    Args:
        scores: (N, C).
        target: bool (N, C), or integers (N,); default None, no row has a label.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N, C) → scalar, or (N,) with ``reduction="none"``.

    >>> confidence_outlier_loss(torch.tensor([[2.0, 1.0, 0.0]]))
    tensor(-0.4076)

    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away from the training data",
    2019.
    """
    counted, inlier = _outliers(scores, target)
    return reduce_labels(_without(inlier, torch.log_softmax(counted, 1).max(1).values), reduction, scores)


class ConfidenceOutlierLoss(OutlierLoss):
    """Module form of :func:`confidence_outlier_loss`."""

    function = staticmethod(confidence_outlier_loss)


def _outliers(scores: Scores, target: Target | None) -> tuple[Scores, Tensor | None]:
    """The scores, those of rows with a label at 0, and which rows have one; None if none has."""
    check_scores(scores)
    if target is None:
        return working(scores), None
    inlier = label_marks(scores, target).any(1)
    return torch.where(inlier[:, None], 0.0, working(scores)), inlier


def _without(inlier: Tensor | None, values: Tensor) -> Tensor:
    return values if inlier is None else torch.where(inlier, 0.0, values)
