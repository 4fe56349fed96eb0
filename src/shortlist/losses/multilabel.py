"""Any number of labels a row: losses that are a mean over labels of one of two partial losses (Cheng; Ridnik et al. 2021).

Shapes: scores (N, C), target bool (N, C), or int64 (N,) where each row has one label. A pair of partial losses, ``ℓ⁺`` for
labels that are there and ``ℓ⁻`` for those that are not, says everything about such a loss; each module gives its pair with
:meth:`partial_losses`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number
from shortlist.links import SPA, FocalRecovery, Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, softplus
from shortlist.tensors import (
    Reduction,
    Scores,
    Target,
    check_label_range,
    check_scores,
    check_target,
    one_hot,
    reduce,
    working,
)


class PartialLoss(Loss):
    """A loss made of two partial losses."""

    partials: ClassVar[Callable[..., tuple[Tensor, Tensor]]]

    def partial_losses(self, scores: Scores) -> tuple[Tensor, Tensor]:
        """``ℓ⁺(scores)`` and ``ℓ⁻(scores)``, of any shape: what a label costs that is there, and one that is not."""
        keywords = {name: value for name, value in self.keywords.items() if name != "reduction"}
        return type(self).partials(working(scores), **keywords)


def _mean_over_labels(scores: Scores, target: Target, partials: Callable[[Scores], Any], reduction: Reduction) -> Tensor:
    marks = label_marks(scores, target)
    present, absent = partials(working(scores))
    return reduce(torch.where(marks, present, absent).sum(1) / max(1, scores.shape[1]), reduction)


def label_marks(scores: Scores, target: Target, name: str = "scores") -> Tensor:
    """The checked target as bool (N, C)."""
    check_scores(scores, name)
    check_target(scores, target, name)
    check_label_range(target, scores.shape[1])
    return one_hot(target, scores.shape[1])


def _bce_partials(scores: Scores) -> tuple[Tensor, Tensor]:
    """``-log σ`` and ``-log(1 - σ)``."""
    return -logsigmoid(scores), -logsigmoid(-scores)


def binary_cross_entropy_loss(scores: Scores, target: Target, *, reduction: Reduction = "mean") -> Tensor:
    r"""Independent sigmoids.

    .. math:: \frac1C \sum_j \begin{cases} -\log σ(scores_j) & j \in target \\ -\log(1 - σ(scores_j)) & \text{else} \end{cases}

    Elicits: probabilities. Link: sigmoid.

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> binary_cross_entropy_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[True, False]]))
    tensor(0.2201)
    """
    return _mean_over_labels(scores, target, _bce_partials, reduction)


class BinaryCrossEntropyLoss(PartialLoss):
    """Module form of :func:`binary_cross_entropy_loss`."""

    function = staticmethod(binary_cross_entropy_loss)
    partials = staticmethod(_bce_partials)
    elicits = "probabilities"

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()


def _asymmetric_focal_partials(
    scores: Scores, *, gamma_pos: float, gamma_neg: float, shift: float, detach_weight: bool
) -> tuple[Tensor, Tensor]:
    """``-(1 - p)^γ⁺ log p`` and ``-u^γ⁻ log(1 - u)``, u = (p - shift)+."""
    log_p, log_rest = logsigmoid(scores), logsigmoid(-scores)
    present = _weighted(log_rest, gamma_pos, -log_p, detach_weight)
    if shift == 0:
        return present, _weighted(log_p, gamma_neg, -log_rest, detach_weight)
    # 1 - (p - m)+ is 1 - p + m where p > m; elsewhere the loss and its gradient are 0.
    excess = log_p.exp() - shift
    above = excess > 0
    excess = torch.where(above, excess, 1.0)
    log_rest = torch.log(torch.where(above, log_rest.exp() + shift, 1.0))
    return present, torch.where(above, _weighted(excess.log(), gamma_neg, -log_rest, detach_weight), 0.0)


def _weighted(log_base: Tensor, gamma: float, loss: Tensor, detach: bool) -> Tensor:
    """``base^gamma · loss`` from the logarithm of the base."""
    if gamma == 0:
        return loss
    weight = (gamma * (log_base.detach() if detach else log_base)).exp()
    return weight * loss


@domains(gamma_pos=number(least=0), gamma_neg=number(least=0), shift=number(least=0, below=1))
def asymmetric_focal_loss(
    scores: Scores,
    target: Target,
    *,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    shift: float = 0.0,
    detach_weight: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Independent sigmoids whose easy labels count less, absent ones by another power than present ones.

    With ``p = σ(scores)`` and ``u = (p - shift)+``, the mean over labels of

    .. math:: ℓ^+ = -(1 - p)^{gamma\_pos} \log p, \qquad ℓ^- = -u^{gamma\_neg} \log(1 - u)

    Focal loss with equal gammas and no shift; ASY with a shift (0.05 in the paper). Gammas 0 and no shift is BCE.

    Elicits: probabilities, not through the sigmoid but through the link :class:`~shortlist.links.FocalRecovery`; with a
    shift, those up to the largest that the link can give (and with ``gamma_neg`` 0, from shift / (1 + shift) on); with
    ``detach_weight`` the order.

    Args:
        scores: (N, C).
        target: bool (N, C).
        gamma_pos: focus on present labels.
        gamma_neg: focus on absent labels.
        shift: absent labels less probable than this cost nothing.
        detach_weight: stop the gradient through the powers, as released code of ASY does.
        reduction: "mean" (over rows and labels), "sum" (over rows) or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> asymmetric_focal_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[True, False]]), shift=0.05)
    tensor(0.0637)

    Ridnik et al., "Asymmetric loss for multi-label classification", 2021; Cheng, eqs. 7 and 8.
    """

    def partials(values: Scores) -> tuple[Tensor, Tensor]:
        return _asymmetric_focal_partials(
            values, gamma_pos=gamma_pos, gamma_neg=gamma_neg, shift=shift, detach_weight=detach_weight
        )

    return _mean_over_labels(scores, target, partials, reduction)


class AsymmetricFocalLoss(PartialLoss):
    """Module form of :func:`asymmetric_focal_loss`."""

    function = staticmethod(asymmetric_focal_loss)
    partials = staticmethod(_asymmetric_focal_partials)
    elicits = "probabilities"
    gamma_pos: float
    gamma_neg: float
    shift: float
    detach_weight: bool

    def link(self) -> Link | None:
        """The map φ from the minimiser back to the probability; none with detached weights."""
        return None if self.detach_weight else FocalRecovery(self.gamma_pos, self.gamma_neg, self.shift)


def _spa_partials(
    scores: Scores, *, zeta_pos: float, k_pos: float, b_pos: float, zeta_neg: float, k_neg: float, b_neg: float
) -> tuple[Tensor, Tensor]:
    """Two softplus, each with its slope, its shift and its weight."""
    return softplus(-k_pos * (scores - b_pos)) / zeta_pos, softplus(k_neg * (scores - b_neg)) / zeta_neg


@domains(
    zeta_pos=number(above=0),
    k_pos=number(above=0),
    b_pos=number(),
    zeta_neg=number(above=0),
    k_neg=number(above=0),
    b_neg=number(),
)
def spa_loss(
    scores: Scores,
    target: Target,
    *,
    zeta_pos: float = 1.0,
    k_pos: float = 1.0,
    b_pos: float = 0.0,
    zeta_neg: float = 5.0,
    k_neg: float = 3.0,
    b_neg: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The strictly proper asymmetric loss: asymmetric, and yet its scores say probabilities.

    The mean over labels of

    .. math:: ℓ^+ = \frac{\log(1 + e^{-k\_pos (scores - b\_pos)})}{zeta\_pos}, \qquad
              ℓ^- = \frac{\log(1 + e^{k\_neg (scores - b\_neg)})}{zeta\_neg}

    With all scales 1 and shifts 0 it is BCE.

    Elicits: probabilities, through the link :class:`~shortlist.links.SPA` of the same six numbers.

    Args:
        scores: (N, C).
        target: bool (N, C).
        zeta_pos: divides the loss of present labels.
        k_pos: its slope.
        b_pos: its shift.
        zeta_neg: divides the loss of absent labels.
        k_neg: its slope.
        b_neg: its shift.
        reduction: "mean" (over rows and labels), "sum" (over rows) or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> spa_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[True, False]]))
    tensor(0.0637)

    Cheng, Vasconcelos, "Towards calibrated multi-label deep neural networks", eq. 16.
    """

    def partials(values: Scores) -> tuple[Tensor, Tensor]:
        return _spa_partials(values, zeta_pos=zeta_pos, k_pos=k_pos, b_pos=b_pos, zeta_neg=zeta_neg, k_neg=k_neg, b_neg=b_neg)

    return _mean_over_labels(scores, target, partials, reduction)


class SpaLoss(PartialLoss):
    """Module form of :func:`spa_loss`."""

    function = staticmethod(spa_loss)
    partials = staticmethod(_spa_partials)
    elicits = "probabilities"

    def link(self) -> Link:
        """SPA with the same six numbers."""
        return SPA(**{name: value for name, value in self.keywords.items() if name != "reduction"})
