"""The sparse-top loss for one label or a set of them (thesis, section 6.2)."""

import torch
from torch import Tensor

from shortlist.links import Link, SparseTop
from shortlist.losses.loss import Loss
from shortlist.losses.multilabel import label_marks
from shortlist.operators.sparse_top import project
from shortlist.tensors import Reduction, Scores, Target, reduce, working


def sparse_top_loss(scores: Scores, target: Target, *, reduction: Reduction = "mean") -> Tensor:
    r"""The Fenchel–Young loss of the projection onto the top-k simplex, k the number of the row's labels.

    With ``q`` the projection of the scores onto ``{0 ≤ q ≤ 1, Σ q = |target|}`` and λ its shift,

    .. math:: \sum_{q = 1} (scores - \tfrac12) + \tfrac12 \sum_{0 < q < 1} (scores^2 - λ^2) + \tfrac{|target|}2
              - \sum_{target} scores

    Convex, at least 0, and 0 exactly where the projection is the target; its gradient is ``q - target``. With one label it
    is the sparsemax loss. Without labels, or with all, it is 0.

    Elicits: probabilities, where every row has the same number k of labels. Link: :class:`~shortlist.links.SparseTop` of k.

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> sparse_top_loss(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([1]))
    tensor(0.5625)

    Garcin, thesis, section 6.2; Martins, Astudillo, 2016.
    """
    marks = label_marks(scores, target)
    scores = working(scores)
    labels = marks.sum(1, keepdim=True)
    trivial = (labels == 0) | (labels == scores.shape[1])
    if scores.shape[1] == 1:
        return reduce((0 * scores).sum(1), reduction)
    target_probs = marks.to(scores.dtype)
    with torch.no_grad():
        probs, shifted = project(scores, torch.where(trivial, 1, labels).to(scores.dtype))
        probs = torch.where(trivial, target_probs, probs)
    # Each term of this form is at least 0, so that nothing cancels; q and λ are held still, as the envelope theorem allows,
    # and what is added to the shifted scores is 0 with their gradient.
    shifted = shifted + (scores - scores.detach())
    gap = probs - target_probs
    # Where there is no gap there is no cost, however low the score, -inf included.
    terms = torch.where(gap == 0, 0.0, gap * (shifted - (probs + target_probs) / 2))
    return reduce(terms.sum(1), reduction)


class SparseTopLoss(Loss):
    """Module form of :func:`sparse_top_loss`."""

    function = staticmethod(sparse_top_loss)
    elicits = "probabilities"

    def link(self) -> Link:
        """Sparsemax, the projection for one label a row; for k labels a row take ``SparseTop(k)``."""
        return SparseTop()
