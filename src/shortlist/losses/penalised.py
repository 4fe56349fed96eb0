"""A loss and a term added to it with a weight: label pairs to any multi-label loss, outlier terms to cross-entropy."""

from typing import Any

from torch import Tensor, nn

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.links import Link, Quasibinary
from shortlist.losses.loss import Elicits, Loss
from shortlist.tensors import Scores, Target

WIDEST_LOG_ODDS = 100.0


class PenalisedLoss(nn.Module):
    """``loss(scores, target) + weight · penalty(…, target)``.

    A penalty on log-odds is given those of the loss's link (the scores themselves where it has none, or where the link is
    the sigmoid). What it elicits and its link are the loss's.

    >>> import torch
    >>> from shortlist.losses import LabelPairPenalty, SpaLoss
    >>> loss = PenalisedLoss(SpaLoss(), LabelPairPenalty(), weight=0.5)
    >>> loss(torch.tensor([[2.0, -1.0, 0.0]]), torch.tensor([[True, False, False]]))
    tensor(0.0478)

    Args:
        loss: the loss.
        penalty: what is added to it.
        weight: how much of it.
        link: what gives the log-odds, in place of the loss's own; a running link (quasibinary) must be given, the very one that
            the training loop updates.
    """

    def __init__(self, loss: Loss, penalty: Loss, weight: float = 1.0, *, link: Link | None = None):
        super().__init__()
        for name, part in (("loss", loss), ("penalty", penalty)):
            if not isinstance(part, Loss):
                raise InputError(f"{name}: expected a loss module of shortlist.losses, got {type(part).__name__}")
        number(least=0)("weight", weight)
        self.loss, self.penalty, self.weight = loss, penalty, weight
        own = loss.link() if penalty.reads == "log-odds" else None
        if link is None and isinstance(own, Quasibinary):
            raise InputError("link: expected the Quasibinary link that the training loop updates, got none")
        self._reader = link or own

    @property
    def elicits(self) -> Elicits:
        """The loss's."""
        return self.loss.elicits

    @property
    def couples(self) -> bool:
        """Whether either couples the rows of a batch."""
        return self.loss.couples or self.penalty.couples

    def forward(self, scores: Scores, target: Target, **per_call: Any) -> Tensor:
        """The weighted sum; per-call tensors are the loss's."""
        # Links that give a probability of exactly 0 or 1 have infinite odds, of which there are no differences.
        read = scores if self._reader is None else self._reader.log_odds(scores).clamp(-WIDEST_LOG_ODDS, WIDEST_LOG_ODDS)
        value: Tensor = self.loss(scores, target, **per_call) + self.weight * self.penalty(read, target)
        return value

    def link(self) -> Link | None:
        """The loss's."""
        return self.loss.link()
