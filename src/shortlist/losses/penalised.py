"""A loss plus a weighted penalty: label pairs with any multi-label loss, outlier terms with cross-entropy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import LARGEST_COUNT, number
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.losses.loss import Loss, LossState, RowTerm
from shortlist.losses.rows import global_rows, label_marks, labelled_rows, reduce_coupled, row_shares
from shortlist.processes import processes, total
from shortlist.tensors import Scores, Target, TwoHeadScores, is_single_label

LARGEST_PENALISED_ODDS = 100.0  # log-odds are clamped to ±this: differences of infinite ones are undefined


class PenalisedLoss(Loss):
    """``loss(scores, target) + weight · penalty(…, target)``.

    A penalty on log-odds gets those of the loss's link (the scores themselves if the loss has none, or if the link is the
    sigmoid; also for ASY, whose link has no gradient below its shift). A penalty on rows without a label is a mean over those
    rows, and the loss then is one over the others: two expectations, each over the global batch. What it elicits and its link
    are those of the loss.

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
        if penalty.of_unlabelled_rows and (loss.couples or not hasattr(loss, "function")):
            raise InputError(f"loss: expected one with a value per row beside {type(penalty).__name__}, got {loss}")
        for part in (loss, penalty) if penalty.of_unlabelled_rows else ():
            if getattr(part, "reduction", "mean") != "mean":
                raise InputError(f"reduction: expected 'mean', because the loss is a sum of two means, got {part}")
        self.elicits, self.couples = loss.elicits, loss.couples or penalty.couples or penalty.of_unlabelled_rows
        self.keeps_row_state = loss.keeps_row_state
        self._link = link or (loss.log_odds_link() if penalty.reads == "log-odds" else None)
        if link is None and self._link is not None and self._link.running:
            raise InputError("link: expected the link that the training loop updates, got none")

    def forward(self, scores: Scores, target: Target, **per_call: Any) -> Tensor:
        """The weighted sum; tensors that change with every call are passed to the loss."""
        if self.penalty.of_unlabelled_rows:
            return self._two_means(scores, target)
        value: Tensor = self.loss(scores, target, **per_call) + self.weighted_penalty(scores, target, self._link)
        return value

    def weighted_penalty(self, scores: Scores, target: Target, link: Link | None) -> Tensor:
        """``weight · penalty``, with log-odds from this link."""
        value: Tensor = self.weight * self.penalty(_log_odds(scores, link), target)
        return value

    def _two_means(self, scores: Scores, target: Target) -> Tensor:
        """The mean of the loss over the rows with a label, and of the penalty over the others; 0 where there are none."""
        inside = self.loss.of_rows(scores, target)
        if is_single_label(target):
            shares = self._shares(inside, scores, target)
            outside = others = torch.zeros_like(inside)
        else:
            labelled = label_marks(scores, target).any(1)
            inside, outside = torch.where(labelled, inside, 0.0), self.penalty.of_rows(scores, target)
            shares, others = labelled.to(inside.dtype), (~labelled).to(inside.dtype)
        value = _global_mean(inside, shares) + self.weight * _global_mean(outside, others)
        return reduce_coupled(value, global_rows(scores), "mean", scores)

    def _shares(self, values: Tensor, scores: Scores, target: Target) -> Tensor:
        """How much each row counts in the mean of the loss, which may weight its rows by class and ignore some."""
        weight, ignored = (getattr(self.loss, name, None) for name in ("weight", "ignore_index"))
        labels, _ = labelled_rows(scores, target, -LARGEST_COUNT if ignored is None else ignored)
        return row_shares(values, labels, weight if isinstance(weight, Tensor) else None, scores)

    @property
    def has_row_terms(self) -> bool:
        """Whether both are sums over rows, on one process if the rows are divided into two means."""
        alone = not self.penalty.of_unlabelled_rows or processes() == 1
        return alone and self.loss.has_row_terms and self.penalty.has_row_terms

    def row_terms(self, scores: Scores, target: Target | None) -> list[RowTerm]:
        """The terms of the loss and of the penalty."""
        if self.penalty.of_unlabelled_rows:
            return self._terms_of_two_means(scores, target)
        penalties = self.penalty.row_terms(scores, target)
        return [
            *self.loss.row_terms(scores, target),
            *(RowTerm(partial(self._of_log_odds, term.summed), self.weight * term.share) for term in penalties),
        ]

    def _of_log_odds(self, penalty: Callable[[Scores, Target | None], Tensor], scores: Scores, target: Target | None) -> Tensor:
        return penalty(_log_odds(scores, self._link), target)

    def _terms_of_two_means(self, scores: Scores, target: Target | None) -> list[RowTerm]:
        if target is None or is_single_label(target):
            return self.loss.row_terms(scores, target)
        inside = target.any(1).sum().to(torch.promote_types(scores.dtype, torch.float32))

        def labelled(some: Scores, marks: Target | None) -> Tensor:
            assert marks is not None
            return torch.where(marks.any(1), self.loss.of_rows(some, marks), 0.0).sum()

        (penalty,) = self.penalty.row_terms(scores, target)
        outside = (len(scores) - inside).clamp(min=1)
        return [RowTerm(labelled, 1 / inside.clamp(min=1)), RowTerm(penalty.summed, self.weight / outside)]

    def link(self) -> Link | None:
        """The link of the loss."""
        return self.loss.link()

    def training_state(self, rows: int, classes: int, seed: int) -> "PenalisedState":
        """The state of the loss; a link that it updates also gives the log-odds of the penalty."""
        return PenalisedState(self, self.loss.training_state(rows, classes, seed))


def _log_odds(scores: Scores, link: Link | None) -> Tensor:
    """What the penalty takes: log-odds from this link, or the scores themselves."""
    if link is None:
        return scores
    return link.log_odds(scores).clamp(-LARGEST_PENALISED_ODDS, LARGEST_PENALISED_ODDS)


def _global_mean(values: Tensor, shares: Tensor) -> Tensor:
    """The sum of the values over that of the shares, both over the global batch; 0 where there are no shares."""
    whole = total(shares.sum())
    return total(values.sum()) / torch.where(whole > 0, whole, 1.0)


class PenalisedState(LossState):
    """The training state of the loss, with the penalty added to each micro-batch."""

    def __init__(self, loss: PenalisedLoss, state: LossState):
        super().__init__(loss)
        self.penalised, self.state, self.link = loss, state, state.link

    def forward(self, output: Scores | TwoHeadScores, target: Target, rows: Tensor) -> Tensor:
        """The loss of a micro-batch and its penalty."""
        if self.penalised.penalty.of_unlabelled_rows:
            both: Tensor = self.penalised(output[0] if isinstance(output, tuple) else output, target)
            return both
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
