"""The sparse-top loss, for one label or k labels per row (thesis, section 6.2)."""

from functools import partial

import torch
from torch import Tensor

from shortlist.kernels.choice import fused
from shortlist.links import Link, SparseTop
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import (
    WEIGHTING,
    Labels,
    check_no_weight,
    class_weight,
    expected_of_labels,
    integer_target,
    labelled_rows,
    reduce_labels,
    reduce_rows,
    reduce_weighted,
    single_labels,
    soft_target,
)
from shortlist.operators.slopes import with_slopes
from shortlist.operators.sparse_top import onto_own_totals, project
from shortlist.tensors import Reduction, Scores, Target, is_single_label, one_hot, pick, working


@domains(**WEIGHTING)
def sparse_top_loss(
    scores: Scores,
    target: Target,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The Fenchel–Young loss of the projection onto the top-k simplex, where k is the number of labels of the row.

    With ``q`` the projection of the scores onto ``{0 ≤ q ≤ 1, Σ q = |target|}`` and λ its shift,

    .. math:: \sum_{q = 1} (scores - \tfrac12) + \tfrac12 \sum_{0 < q < 1} (scores^2 - λ^2) + \tfrac{|target|}2
              - \sum_{target} scores

    Convex, at least 0, and 0 exactly where the projection is the target; its gradient is ``q - target``. With one label it
    is the sparsemax loss. Without labels, or with all, it is 0.

    Elicits: probabilities, if every row has the same number k of labels. Link: :class:`~shortlist.links.SparseTop` of k.

    Args:
        scores: (N, C).
        target: integers (N,), bool (N, C), or shares (N, C) that sum to 1 in each row: the expectation under them.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum. Only
            with one label per row.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> sparse_top_loss(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([1]))
    tensor(0.5625)

    Garcin, thesis, section 6.2; Martins, Astudillo, 2016.
    """
    if (shares := soft_target(scores, target, one_label=True)) is not None:
        check_no_weight(weight, target)
        return reduce_labels(_soft_row_losses(working(scores), shares), reduction, scores)
    target = integer_target(scores, target)
    if not is_single_label(target):
        check_no_weight(weight, target)
    if fused("sparse-top", scores):
        return _fused(scores, target, weight, ignore_index, reduction)
    if is_single_label(target):
        labels, scores = labelled_rows(scores, target, ignore_index)
    else:
        labels, scores = Labels(target, None), working(scores)
    values = _row_losses(scores, one_hot(labels.target, scores.shape[1]))
    return reduce_rows(values, labels, weight, reduction, scores)


def _fused(scores: Scores, target: Target, weight: Tensor | None, ignore_index: int, reduction: Reduction) -> Tensor:
    from shortlist.kernels.sparse_top import sparse_top_loss_rows

    if is_single_label(target):
        target = single_labels(scores, target, ignore_index)
    weight = class_weight(weight, scores)
    return reduce_weighted(*sparse_top_loss_rows(scores, target, weight, ignore_index), reduction)


def _soft_row_losses(scores: Scores, shares: Tensor) -> Tensor:
    """The loss of the largest score, and how far below it the scores are that share the row: no term is below 0."""
    top = scores.detach().argmax(1)
    behind = pick(scores, top)[:, None] - scores
    return _row_losses(scores, one_hot(top, scores.shape[1])) + expected_of_labels(shares, behind)


def _row_losses(scores: Scores, marks: Tensor) -> Tensor:
    """The loss of each row, (N,)."""
    if scores.shape[1] == 1:
        return (0 * scores).sum(1)
    return with_slopes(scores, partial(_terms_and_gap, marks), partial(_gap, marks))


def _terms_and_gap(marks: Tensor, scores: Scores, _: bool) -> tuple[Tensor, Tensor]:
    """The loss of each row, (N,), and its gradient ``q - target``: q and λ are constants, by the envelope theorem."""
    number = marks.sum(1, keepdim=True)
    trivial = (number == 0) | (number == scores.shape[1])
    target_probs = marks.to(scores.dtype)
    probs, shifted = project(scores, torch.where(trivial, 1, number).to(scores.dtype))
    probs = torch.where(trivial, target_probs, probs)
    gap = probs - target_probs
    # In this form each term is at least 0, so nothing cancels. Without a gap the cost is 0 however low the score, even at -inf.
    terms = torch.where(gap == 0, 0.0, gap * (shifted - (probs + target_probs) / 2))
    return terms.sum(1), gap


def _gap(marks: Tensor, scores: Scores) -> Tensor:
    """The same gradient, as a function of the scores with a gradient of its own."""
    return onto_own_totals(scores, marks.sum(1, keepdim=True).to(scores.dtype)) - marks.to(scores.dtype)


class SparseTopLoss(Loss):
    """Module form of :func:`sparse_top_loss`."""

    function = staticmethod(sparse_top_loss)
    elicits = "probabilities"

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean"):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)

    def link(self) -> Link:
        """Sparsemax, the projection for one label per row; with k labels per row use ``SparseTop(k)``, and with any number a
        link that is fitted (training does).
        """
        return SparseTop()
