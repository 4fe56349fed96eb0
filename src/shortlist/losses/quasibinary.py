"""The quasibinary loss, for zero, one or many labels per row with comparable probabilities (Liao)."""

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.links import Link, Quasibinary
from shortlist.links.quasibinary import batch_log_normalizer
from shortlist.losses.loss import Loss, LossState
from shortlist.losses.rows import global_rows, label_marks, reduce_coupled
from shortlist.processes import total
from shortlist.tensors import Reduction, Scores, Target, TwoHeadScores, is_single_label, shape_of, working


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
    marks = label_marks(scores, target)
    scores = working(scores)
    if log_normalizer is None:
        log_sum, labels = batch_log_normalizer(scores, marks)
        # Without labels the normaliser is infinite, and every q is 0 and costs nothing.
        log_q = scores - torch.where(labels > 0, log_sum - labels.clamp(min=1).log(), torch.inf)
    else:
        log_q = scores - _constant(log_normalizer, scores)
    costs = torch.where(marks, -log_q, 0.0) + log_q.relu()
    rows = global_rows(scores)
    return reduce_coupled(total(costs.sum()) / rows, rows, reduction, scores)


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
        labels = total(torch.as_tensor(float(len(target))) if is_single_label(target) else target.sum().float())
        if labels > 0:
            link.update(output.detach(), target)
        value: Tensor = self.loss(output, target, log_normalizer=None if labels > 0 else link.log_normalizer)
        return value
