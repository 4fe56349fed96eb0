"""Losses for any number of labels per row, means over labels of one of two partial losses (Cheng; Ridnik et al. 2021).

Shapes: scores (N, C), target bool (N, C), or integers (N,) if each row has one label. Such a loss is defined by a pair of
partial losses, ``ℓ⁺`` for present and ``ℓ⁻`` for absent labels; each module returns its pair from :meth:`partial_losses`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.kernels.choice import fused
from shortlist.kernels.partials import asymmetric_focal_means, spa_means
from shortlist.links import SPA, FocalRecovery, Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, softplus
from shortlist.losses.rows import any_labels, expected_of_labels, reduce_labels, soft_target
from shortlist.tensors import Reduction, Scores, Target, one_hot, reduce, working


class PartialLoss(Loss):
    """A loss that consists of two partial losses."""

    partials: ClassVar[Callable[..., tuple[Tensor, Tensor]]]

    def partial_losses(self, scores: Scores) -> tuple[Tensor, Tensor]:
        """``ℓ⁺(scores)`` and ``ℓ⁻(scores)``, the cost of a present and of an absent label; scores may have any shape."""
        keywords = {name: value for name, value in self.keywords.items() if name != "reduction"}
        return type(self).partials(working(scores), **keywords)


def _mean_over_labels(
    scores: Scores,
    target: Target,
    partials: Callable[..., tuple[Tensor, Tensor]],
    fused_means: Callable[..., Tensor],
    reduction: Reduction,
    **keywords: Any,
) -> Tensor:
    """The mean over labels of the two partial losses, or the kernel that computes it, with the keywords of both."""
    if (shares := soft_target(scores, target, one_label=False)) is not None:
        present, absent = partials(working(scores), **keywords)
        sums = expected_of_labels(shares, present) + expected_of_labels(1 - shares, absent)
        return reduce_labels(sums / scores.shape[1], reduction, scores)
    target = any_labels(scores, target)
    if fused("partials", scores):
        return reduce(fused_means(scores, target, **keywords), reduction)
    present, absent = partials(working(scores), **keywords)
    marks = one_hot(target, scores.shape[1])
    return reduce_labels(torch.where(marks, present, absent).sum(1) / scores.shape[1], reduction, scores)


def _bce_partials(scores: Scores) -> tuple[Tensor, Tensor]:
    """``-log σ`` and ``-log(1 - σ)``."""
    return -logsigmoid(scores), -logsigmoid(-scores)


def binary_cross_entropy_loss(scores: Scores, target: Target, *, reduction: Reduction = "mean") -> Tensor:
    r"""Binary cross-entropy: an independent sigmoid for each label.

    .. math:: \frac1C \sum_j \begin{cases} -\log σ(scores_j) & j \in target \\ -\log(1 - σ(scores_j)) & \text{else} \end{cases}

    Elicits: probabilities. Link: sigmoid.

    Args:
        scores: (N, C).
        target: bool (N, C), integers (N,), or shares (N, C): how probable each label is, and the loss its expectation.
        reduction: "mean" (over rows and labels), "sum" (over rows) or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> binary_cross_entropy_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[True, False]]))
    tensor(0.2201)
    """
    return _mean_over_labels(scores, target, _bce_partials, spa_means, reduction)


class BinaryCrossEntropyLoss(PartialLoss):
    """Module form of :func:`binary_cross_entropy_loss`."""

    function = staticmethod(binary_cross_entropy_loss)
    partials = staticmethod(_bce_partials)
    elicits = "probabilities"

    def __init__(self, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()


def _asymmetric_focal_partials(
    scores: Scores, *, gamma_pos: float, gamma_neg: float, shift: float, detach_weight: bool
) -> tuple[Tensor, Tensor]:
    """``-(1 - p)^γ⁺ log p`` and ``-u^γ⁻ log(1 - u)``, u = (p - shift)+."""
    # An infinite loss times a gradient of 0 would be NaN, even of a partial loss that does not count.
    most = torch.finfo(scores.dtype).max
    scores = scores.clamp(-most, most)
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


@domains(**FocalRecovery.domains)
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
    r"""Binary cross-entropy with less weight for easy labels, by different powers for present and absent ones.

    With ``p = σ(scores)`` and ``u = (p - shift)+``, the mean over labels of

    .. math:: ℓ^+ = -(1 - p)^{gamma\_pos} \log p, \qquad ℓ^- = -u^{gamma\_neg} \log(1 - u)

    Equal gammas without shift give the focal loss, a shift gives ASY (0.05 in the paper), gammas 0 without shift give BCE.

    Elicits: probabilities, not through the sigmoid but through the link :class:`~shortlist.links.FocalRecovery`; with a
    shift, only probabilities up to the largest value of the link (and with ``gamma_neg`` 0, only from shift / (1 + shift)
    on); with ``detach_weight`` the order.

    Args:
        scores: (N, C).
        target: bool (N, C), integers (N,), or shares (N, C): how probable each label is, and the loss its expectation.
        gamma_pos: exponent for present labels; default 0.
        gamma_neg: exponent for absent labels; default 4.
        shift: absent labels with a smaller sigmoid cost nothing; default 0.
        detach_weight: stop the gradient through the powers, as the released code of ASY does.
        reduction: "mean" (over rows and labels), "sum" (over rows) or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> asymmetric_focal_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[True, False]]), shift=0.05)
    tensor(0.0637)

    Ridnik et al., "Asymmetric loss for multi-label classification", 2021; Cheng, eqs. 7 and 8.
    """
    return _mean_over_labels(
        scores,
        target,
        _asymmetric_focal_partials,
        asymmetric_focal_means,
        reduction,
        gamma_pos=gamma_pos,
        gamma_neg=gamma_neg,
        shift=shift,
        detach_weight=detach_weight,
    )


class AsymmetricFocalLoss(PartialLoss):
    """Module form of :func:`asymmetric_focal_loss`."""

    function = staticmethod(asymmetric_focal_loss)
    partials = staticmethod(_asymmetric_focal_partials)
    elicits = "probabilities"
    gamma_pos: float
    gamma_neg: float
    shift: float
    detach_weight: bool

    def __init__(
        self,
        *,
        gamma_pos: float = 0.0,
        gamma_neg: float = 4.0,
        shift: float = 0.0,
        detach_weight: bool = False,
        reduction: Reduction = "mean",
    ):
        super().__init__(
            gamma_pos=gamma_pos, gamma_neg=gamma_neg, shift=shift, detach_weight=detach_weight, reduction=reduction
        )

    def link(self) -> Link | None:
        """The map φ from the minimiser back to the probability; none with detached weights."""
        return None if self.detach_weight else FocalRecovery(self.gamma_pos, self.gamma_neg, self.shift)

    def log_odds_link(self) -> Link | None:
        """Sigmoid with a shift, below which φ is 0 and its log-odds have no gradient (Cheng, Table 4); otherwise φ."""
        return Sigmoid() if self.shift > 0 else self.link()


def _spa_partials(
    scores: Scores, *, zeta_pos: float, k_pos: float, b_pos: float, zeta_neg: float, k_neg: float, b_neg: float
) -> tuple[Tensor, Tensor]:
    """Two softplus functions, each with its slope, shift and weight."""
    return softplus(-k_pos * (scores - b_pos)) / zeta_pos, softplus(k_neg * (scores - b_neg)) / zeta_neg


@domains(**SPA.domains)
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
    r"""The strictly proper asymmetric loss: asymmetric, yet its scores determine the probabilities.

    The mean over labels of

    .. math:: ℓ^+ = \frac{\log(1 + e^{-k\_pos (scores - b\_pos)})}{zeta\_pos}, \qquad
              ℓ^- = \frac{\log(1 + e^{k\_neg (scores - b\_neg)})}{zeta\_neg}

    With all scales 1 and shifts 0 it is BCE.

    Elicits: probabilities, through the link :class:`~shortlist.links.SPA` of the same six numbers.

    Args:
        scores: (N, C).
        target: bool (N, C), integers (N,), or shares (N, C): how probable each label is, and the loss its expectation.
        zeta_pos: divides the loss of present labels.
        k_pos: slope of that loss.
        b_pos: shift of that loss.
        zeta_neg: divides the loss of absent labels.
        k_neg: slope of that loss.
        b_neg: shift of that loss.
        reduction: "mean" (over rows and labels), "sum" (over rows) or "none".

    Shape: (N, C), (N, C) or (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> spa_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[True, False]]))
    tensor(0.0637)

    Cheng, Vasconcelos, "Towards calibrated multi-label deep neural networks", eq. 16.
    """
    shape = {"zeta_pos": zeta_pos, "k_pos": k_pos, "b_pos": b_pos, "zeta_neg": zeta_neg, "k_neg": k_neg, "b_neg": b_neg}
    return _mean_over_labels(scores, target, _spa_partials, spa_means, reduction, **shape)


class SpaLoss(PartialLoss):
    """Module form of :func:`spa_loss`."""

    function = staticmethod(spa_loss)
    partials = staticmethod(_spa_partials)
    elicits = "probabilities"

    def __init__(
        self,
        *,
        zeta_pos: float = 1.0,
        k_pos: float = 1.0,
        b_pos: float = 0.0,
        zeta_neg: float = 5.0,
        k_neg: float = 3.0,
        b_neg: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(
            zeta_pos=zeta_pos, k_pos=k_pos, b_pos=b_pos, zeta_neg=zeta_neg, k_neg=k_neg, b_neg=b_neg, reduction=reduction
        )

    def link(self) -> Link:
        """SPA with the same six numbers."""
        return SPA(**{name: value for name, value in self.keywords.items() if name != "reduction"})
