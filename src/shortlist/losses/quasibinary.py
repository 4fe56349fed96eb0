"""The quasibinary loss: zero, one or many labels with comparable probabilities (Liao)."""

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.links import Link, Quasibinary
from shortlist.links.quasibinary import batch_log_normalizer
from shortlist.losses.loss import Loss, global_rows, reduce_coupled
from shortlist.losses.multilabel import label_marks
from shortlist.processes import total
from shortlist.tensors import Reduction, Scores, Target, shape_of, working


def quasibinary_loss(
    scores: Scores, target: Target, *, log_normalizer: Tensor | float | None = None, reduction: Reduction = "mean"
) -> Tensor:
    r"""Likelihood of the labels under one normaliser for the whole batch, with a penalty above probability 1.

    With ``log q = scores - log_normalizer``,

    .. math:: \frac1N \sum_{ij} -target_{ij} \log q_{ij} + (\log q_{ij})_+, \quad
              log\_normalizer = \log \sum_{ij} e^{scores_{ij}} - \log \#labels

    so that the q of a batch sum to its labels. The gradient flows through the normaliser. One row with one label is
    softmax cross-entropy. Couples the batch: on several processes it is the global one.

    A batch without any label has no normaliser of its own: pass the link's running one as ``log_normalizer``, a constant,
    and only the penalty remains; without it the loss is 0. Call ``link.update(scores, target)`` at each training step.

    Elicits: probabilities, exactly so in batches that hold the labels in proportion; in batches of few rows the penalty
    biases them towards each other. Link: :class:`~shortlist.links.Quasibinary`.

    Args:
        scores: (N, C).
        target: bool (N, C), or int64 (N,).
        log_normalizer: a constant in place of the batch's own.
        reduction: "mean", or "sum", that times N.

    Shape: (N, C), (N, C) or (N,) → scalar.

    >>> quasibinary_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.4076)

    Liao, Gavves, Oh, Snoek, "Quasibinary classifier for images with zero and multiple labels", eqs. 10 to 12.
    """
    marks = label_marks(scores, target)
    scores = working(scores)
    if log_normalizer is None:
        log_sum, labels = batch_log_normalizer(scores, marks)
        # Without labels the normaliser is infinite and every q is 0, which costs nothing.
        log_q = scores - torch.where(labels > 0, log_sum - labels.clamp(min=1).log(), torch.inf)
    else:
        log_q = scores - _constant(log_normalizer, scores)
    costs = torch.where(marks, -log_q, 0.0) + log_q.relu()
    rows = global_rows(scores)
    return reduce_coupled(total(costs.sum()) / rows, rows, reduction)


def _constant(log_normalizer: Tensor | float, scores: Scores) -> Tensor:
    exact = log_normalizer.dtype if isinstance(log_normalizer, Tensor) else torch.float64
    constant = torch.as_tensor(log_normalizer, dtype=exact, device=scores.device)
    if constant.numel() != 1:
        raise InputError(f"log_normalizer: expected one number, got {shape_of(constant)}")
    return constant.detach().reshape(()).to(scores.dtype)


class QuasibinaryLoss(Loss):
    """Module form of :func:`quasibinary_loss`."""

    function = staticmethod(quasibinary_loss)
    elicits = "probabilities"
    couples = True

    def link(self) -> Link:
        """A running normaliser, to be updated at each training step."""
        return Quasibinary()
