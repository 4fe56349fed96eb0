"""A loss plus a weighted penalty: label pairs with any multi-label loss, outlier terms with cross-entropy."""

from typing import Any

from torch import Tensor

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.losses.loss import Loss, LossState
from shortlist.tensors import Scores, Target, TwoHeadScores

LARGEST_PENALISED_ODDS = 100.0  # log-odds are clamped to ±this: differences of infinite ones are undefined


class PenalisedLoss(Loss):
    """``loss(scores, target) + weight · penalty(…, target)``.

    A penalty on log-odds gets those of the loss's link (the scores themselves if the loss has none, or if the link is the
    sigmoid). What it elicits and its link are those of the loss.

    >>> import torch
    >>> from shortlist.losses import LabelPairPenalty, SpaLoss
    >>> loss = PenalisedLoss(SpaLoss(), LabelPairPenalty(), weight=0.5)
    >>> loss(torch.tensor([[2.0, -1.0, 0.0]]), torch.tensor([[True, False, False]]))
    tensor(0.0478)

    Args:
        loss: the loss.
        penalty: the penalty added to it.
        weight: weight of the penalty; default 1.
        link: link that gives the log-odds, instead of the loss's own. For a loss whose link is updated during training
            (quasibinary) it is required: the very link that your training loop updates.
    """

    weight: float

    def __init__(self, loss: Loss, penalty: Loss, weight: float = 1.0, *, link: Link | None = None):
        super().__init__(weight=number(least=0)("weight", weight))
        for name, part in (("loss", loss), ("penalty", penalty)):
            if not isinstance(part, Loss):
                raise InputError(f"{name}: expected a loss module of shortlist.losses, got {type(part).__name__}")
        self.loss, self.penalty = loss, penalty
        self.elicits, self.couples = loss.elicits, loss.couples or penalty.couples
        self.keeps_row_state = loss.keeps_row_state
        self._link = link or (loss.link() if penalty.reads == "log-odds" else None)
        if link is None and self._link is not None and self._link.running:
            raise InputError("link: expected the link that the training loop updates, got none")

    def forward(self, scores: Scores, target: Target, **per_call: Any) -> Tensor:
        """The weighted sum; tensors that change with every call are passed to the loss."""
        value: Tensor = self.loss(scores, target, **per_call) + self.weighted_penalty(scores, target, self._link)
        return value

    def weighted_penalty(self, scores: Scores, target: Target, link: Link | None) -> Tensor:
        """``weight · penalty``, with log-odds from this link."""
        if link is not None:
            scores = link.log_odds(scores).clamp(-LARGEST_PENALISED_ODDS, LARGEST_PENALISED_ODDS)
        value: Tensor = self.weight * self.penalty(scores, target)
        return value

    def link(self) -> Link | None:
        """The link of the loss."""
        return self.loss.link()

    def training_state(self, rows: int, classes: int, seed: int) -> "PenalisedState":
        """The state of the loss; a link that it updates also gives the log-odds of the penalty."""
        return PenalisedState(self, self.loss.training_state(rows, classes, seed))


class PenalisedState(LossState):
    """The training state of the loss, with the penalty added to each micro-batch."""

    def __init__(self, loss: PenalisedLoss, state: LossState):
        super().__init__(loss)
        self.penalised, self.state, self.link = loss, state, state.link

    def forward(self, output: Scores | TwoHeadScores, target: Target, rows: Tensor) -> Tensor:
        """The loss of a micro-batch and its penalty."""
        value: Tensor = self.state(output, target, rows)
        given = self.penalised._link
        link = self.link if given is not None and given.running else given
        if link is not None and not link.fitted:  # no batch has had a label yet, so there is nothing to penalise
            return value
        return value + self.penalised.weighted_penalty(output[0] if isinstance(output, tuple) else output, target, link)

    def stepped(self, rate: float) -> None:
        """Pass the step on to the state of the loss."""
        self.state.stepped(rate)

    def skipped(self) -> None:
        """Pass the dropped step on to the state of the loss."""
        self.state.skipped()
