"""The quasibinary loss, for zero, one or many labels per row with comparable probabilities (Liao)."""

import math

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.kernels.choice import fused
from shortlist.kernels.quasibinary import quasibinary_cost, with_gradient
from shortlist.links import Link, Quasibinary
from shortlist.links.quasibinary import BatchSums, batch_log_normalizer
from shortlist.losses.loss import Loss, LossState
from shortlist.losses.rows import any_labels, check_reduction, global_rows, reduce_coupled
from shortlist.processes import total
from shortlist.tensors import Reduction, Scores, Target, TwoHeadScores, one_hot, shape_of, working


def quasibinary_loss(
    scores: Scores, target: Target, *, log_normalizer: Tensor | float | None = None, reduction: Reduction = "mean"
) -> Tensor:
    r"""Likelihood of the labels under one normaliser for the whole batch, with a penalty above probability 1.

    With ``log q = scores - log_normalizer``,

    .. math:: \frac1N \sum_{ij} -target_{ij} \log q_{ij} + (\log q_{ij})_+, \quad
              log\_normalizer = \log \sum_{ij} e^{scores_{ij}} - \log \#labels

    so that the q of a batch sum to its number of labels. The gradient flows through the normaliser. For one row with one label
    it is softmax cross-entropy. Couples the rows of the batch, which on several processes is the global batch.

    A batch without labels has no normaliser of its own: pass the link's running one as ``log_normalizer``, a constant, and
    only the penalty remains; otherwise the loss is 0. Call ``link.update(scores, target)`` at each training step.

    Elicits: probabilities, exactly if batches contain the labels in proportion; in batches of few rows the penalty biases them
    towards each other. Link: :class:`~shortlist.links.Quasibinary`.

    Args:
        scores: (N, C).
        target: bool (N, C), or integers (N,).
        log_normalizer: a constant instead of the batch's own normaliser; default None.
        reduction: "mean", or "sum", which is the mean times N.

    Shape: (N, C), (N, C) or (N,) → scalar.

    >>> quasibinary_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.4076)

    Liao, Gavves, Oh, Snoek, "Quasibinary classifier for images with zero and multiple labels", eqs. 10 to 12.
    """
    target = any_labels(scores, target)
    if log_normalizer is not None:
        return _loss(scores, target, None, _constant(log_normalizer, scores), reduction)
    return _loss(scores, target, batch_log_normalizer(scores, target), None, reduction)


def _loss(scores: Scores, target: Target, batch: BatchSums | None, constant: Tensor | None, reduction: Reduction) -> Tensor:
    """The loss with the normaliser of the batch; without one, or for a batch without labels, with a constant."""
    rows = global_rows(scores)
    if fused("quasibinary", scores):
        check_reduction(reduction, couples=True)
        summed = _fused_cost(scores, target, batch, constant)
        return summed if reduction == "sum" else summed / rows
    scores = working(scores)
    # Without labels and without a constant the normaliser is infinite, and every q is 0 and costs nothing.
    unlabelled = math.inf if constant is None else constant
    log_q = scores - (unlabelled if batch is None else batch.log_normalizer(unlabelled))
    costs = torch.where(one_hot(target, scores.shape[1]), -log_q, 0.0) + log_q.relu()
    return reduce_coupled(total(costs.sum()) / rows, rows, reduction, scores)


def _fused_cost(scores: Scores, target: Target, batch: BatchSums | None, constant: Tensor | None) -> Tensor:
    """The cost of the global batch by kernels."""
    sums = None if batch is None else batch.kernel
    cost, above = quasibinary_cost(scores, target, sums, constant)
    return total(with_gradient(cost, total(above), scores, target, sums, constant))


def _constant(log_normalizer: Tensor | float, scores: Scores) -> Tensor:
    """The number without gradient, in the precision in which the scores are worked on."""
    exact = log_normalizer.dtype if isinstance(log_normalizer, Tensor) else torch.float64
    constant = torch.as_tensor(log_normalizer, dtype=exact, device=scores.device)
    if constant.numel() != 1:
        raise InputError(f"log_normalizer: expected one number, got {shape_of(constant)}")
    return constant.detach().reshape(()).to(torch.promote_types(scores.dtype, torch.float32))


class QuasibinaryLoss(Loss):
    """Module form of :func:`quasibinary_loss`."""

    function = staticmethod(quasibinary_loss)
    elicits = "probabilities"
    couples = True

    def __init__(self, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)

    def forward(self, scores: Scores, target: Target, *, log_normalizer: Tensor | float | None = None) -> Tensor:
        """The loss of these scores, with the batch's own normaliser or with a constant one."""
        return quasibinary_loss(scores, target, log_normalizer=log_normalizer, **self.keywords)

    def link(self) -> Link:
        """A running normaliser, to be updated at each training step."""
        return Quasibinary()

    def training_state(self, rows: int, classes: int, seed: int) -> "QuasibinaryState":
        """The link, whose normaliser follows the batches."""
        return QuasibinaryState(self)


class QuasibinaryState(LossState):
    """The link with its running normaliser.

    It is updated with every micro-batch: with gradient accumulation several times per step, each time by fewer rows.
    """

    def forward(self, output: Scores | TwoHeadScores, target: Target, rows: Tensor) -> Tensor:
        """Update the normaliser, unless the batch has no label: then the loss takes the running normaliser as it is."""
        link = self.link
        assert isinstance(link, Quasibinary)
        assert isinstance(output, Tensor)
        target = any_labels(output, target)
        batch = batch_log_normalizer(output, target)
        link.follow(batch)
        # A copy, because the next update changes the tensor in place, perhaps before this batch's backward pass.
        running = None if link.log_normalizer is None else _constant(link.log_normalizer, output).clone()
        return _loss(output, target, batch, running, self.loss.keywords["reduction"])
