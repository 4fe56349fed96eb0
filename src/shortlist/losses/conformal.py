"""Conformal training: the calibration of a rule as part of the loss (Stutz et al. 2022)."""

import math
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number
from shortlist.links import Link, Softmax
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import IGNORING, check_reduction, global_rows, labelled_rows, reduce_coupled
from shortlist.processes import all_rows, gathered, rank, total, total_logsumexp
from shortlist.tensors import Reduction, Scores, Target, pick

FINEST_SHARE = 10**6  # the finest fraction that alpha is taken as, so that ranks fit in 64 bits


@domains(
    alpha=number(above=0, below=1),
    temperature=number(above=0),
    size_weight=number(least=0),
    target_size=number(least=0),
    spread=number(least=0),
    **IGNORING,
)
def conformal_training_loss(
    scores: Scores,
    target: Target,
    *,
    alpha: float = 0.01,
    temperature: float = 1.0,
    size_weight: float = 1.0,
    target_size: float = 1.0,
    spread: float = 1.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Error and size of the sets of one half of the batch, whose threshold is calibrated on the other half.

    The rows at even places calibrate, the n rows at odd places are predicted. With ``p = softmax(scores)``, the threshold τ is
    the ``⌈(m + 1)(1 - alpha)⌉``-th largest ``log p`` of the labels of the m calibrating rows, or the smallest of them if that
    is more than m, and ``C = σ((log p - τ) / temperature)`` says how far each label is in the set:

    .. math:: \log \frac1n \sum_{i\ odd} \big(1 - C_{i, target_i}\big)
              + size\_weight \cdot \big(\textstyle\sum_j C_{ij} - target\_size\big)_+

    So that the gradient of τ reaches more than one row, τ is a mean of the ordered values around that rank, weighted by a
    normal density of standard deviation ``spread``, in ranks. (The paper sorts by a network of smooth comparisons.) A batch of
    fewer than two rows has loss 0. Couples the rows of the batch, which on several processes is the global batch.

    Elicits: nothing. Where the error that is allowed takes every label into the set, it is least where all scores tie
    (``tests/losses/test_elicits_nothing.py``). Link: softmax, whose probabilities need a calibration.

    Args:
        scores: (N, C).
        target: integers (N,).
        alpha: the error that the sets are trained for, between 0 and 1; 0.01 in the paper.
        temperature: how soft the sets are; 0.1 to 1 in the paper.
        size_weight: weight of the size.
        target_size: sets up to this size cost nothing.
        spread: standard deviation of the weights around the rank; 0 takes the value at the rank alone.
        ignore_index: rows with this label are left out of the batch.
        reduction: "mean", or "sum", which is the mean times N.

    Shape: (N, C), (N,) → scalar.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    >>> conformal_training_loss(scores, torch.tensor([0, 1]), alpha=0.1, temperature=0.5)
    tensor(-0.5596)

    Stutz, Dvijotham, Cemgil, Doucet, "Learning optimal conformal classifiers", 2022, section 3.
    """
    check_reduction(reduction, couples=True)
    (target, kept), scores = labelled_rows(scores, target, ignore_index)
    log_probs = torch.log_softmax(scores, dim=1)
    # A class that is ruled out: differences of infinite numbers are undefined.
    log_probs = torch.where(log_probs == -torch.inf, torch.finfo(log_probs.dtype).min, log_probs)
    even = _places(scores, kept) % 2 == 0
    calibrates, predicted = (even, ~even) if kept is None else (even & kept, ~even & kept)
    threshold = _threshold(pick(log_probs, target), calibrates, alpha, spread)
    away = (log_probs - threshold) / temperature
    costs = [logsigmoid(-pick(away, target))]
    if size_weight > 0:
        costs.append(math.log(size_weight) + _log_excess(away, target_size))
    rows = total(predicted.sum().to(scores.dtype))
    summed = total_logsumexp(torch.stack(costs).masked_fill(~predicted, -torch.inf).flatten())
    loss = torch.where(rows > 0, torch.where(rows > 0, summed, 0.0) - rows.clamp(min=1).log(), 0.0)
    return reduce_coupled(loss, global_rows(scores, kept), reduction, scores)


def _places(scores: Scores, kept: Tensor | None) -> Tensor:
    """The place of each row among the rows of the global batch that count, from 0."""
    counts = torch.ones(len(scores), dtype=torch.int64, device=scores.device) if kept is None else kept.long()
    return counts.cumsum(0) - 1 + gathered(counts.sum())[: rank()].sum()


def _threshold(values: Tensor, calibrates: Tensor, alpha: float, spread: float) -> Tensor:
    """The smoothed conformal quantile of the values of the calibrating rows of all processes; 0 if there are none."""
    ordered = all_rows(torch.where(calibrates, values, -torch.inf), -torch.inf).sort(descending=True).values
    m = total(calibrates.sum())
    share = Fraction(str(float(alpha))).limit_denominator(FINEST_SHARE)
    wanted = torch.minimum(m + 1 - (m + 1) * share.numerator // share.denominator, m)
    place = torch.arange(1, len(ordered) + 1, device=values.device)
    if spread == 0:
        weights = (place == wanted).to(values.dtype)
    else:
        logits = -(((place - wanted) / spread) ** 2).to(values.dtype) / 2
        weights = logits.masked_fill(place > m.clamp(min=1), -torch.inf).softmax(0)
    return (torch.where(place <= m, ordered, 0.0) * weights).sum()


def _log_excess(away: Tensor, target_size: float) -> Tensor:
    """``log (Σ_j σ(away_j) - target_size)+`` of each row.

    The largest enters as 1 less its complement, so that with a target of 1 nothing cancels.
    """
    top = away.argmax(1, keepdim=True)
    rest = torch.sigmoid(away).scatter(1, top, -torch.sigmoid(-away.gather(1, top)))
    excess = rest.sum(1) - (target_size - 1)
    above = excess > 0
    return torch.where(above, torch.where(above, excess, 1.0).log(), -torch.inf)


class ConformalTrainingLoss(Loss):
    """Module form of :func:`conformal_training_loss`."""

    function = staticmethod(conformal_training_loss)
    couples = True

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        temperature: float = 1.0,
        size_weight: float = 1.0,
        target_size: float = 1.0,
        spread: float = 1.0,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(
            alpha=alpha,
            temperature=temperature,
            size_weight=size_weight,
            target_size=target_size,
            spread=spread,
            ignore_index=ignore_index,
            reduction=reduction,
        )

    def link(self) -> Link:
        """Softmax."""
        return Softmax()
