"""The smooth top-k hinge loss (Berrada et al. 2018), exact and in O(k C).

The sums over all sets of k classes are elementary symmetric polynomials. Divided by suitable constants they become
probabilities of counts of independent events (Poisson-binomial), none of them small, so that nothing under- or overflows:
with ``x_j = scores_j / (k τ)`` and ``p_j = σ(x_j - ρ)``, for *any* ρ,

    log e_k(others) - log e_{k-1}(others) = ρ + log P(k events among the others) - log P(k - 1),

and ρ is chosen so that about k - ½ events are expected.
"""

import torch
from torch import Tensor

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.kernels.smooth_hinge import smooth_hinge_loss, takes_smooth_hinge
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, softplus
from shortlist.losses.rows import WEIGHTING, class_weight, counted_rows, excess, reduce_rows, single_labels
from shortlist.operators.counts import count_probs
from shortlist.operators.level import LAWS, solve_level
from shortlist.tensors import Reduction, Scores, Target, pick


@domains(k=whole(1), temperature=number(above=0), **WEIGHTING)
def smooth_topk_hinge_loss(
    scores: Scores,
    target: Target,
    *,
    k: int,
    temperature: float = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Smooth maximum over all sets of k classes, minus that over the sets that contain the true class.

    .. math:: τ \log \sum_{|A| = k} \exp\frac{1[target \notin A] + \overline{scores}_A}{τ}
              - τ \log \sum_{|A| = k,\ target \in A} \exp\frac{\overline{scores}_A}{τ}

    where τ is the temperature and the bar is a mean over A. It is 0 for k = C.

    Elicits: the top-k set; for k up to 2, the order. (For larger k, several near-certain labels cost nothing at any scores that
    are large enough.) Link: none.

    Args:
        scores: (N, C).
        target: integers (N,).
        k: 1 to C.
        temperature: above 0; the loss tends to a hinge as it tends to 0. The paper uses 1.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> smooth_topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2)
    tensor(0.7909)

    Berrada, Zisserman, Kumar, "Smooth loss functions for deep top-k classification", 2018; the second sum runs over
    the sets that contain the true class (Garcin 2022, Table 1, omits that).
    """
    target = single_labels(scores, target, ignore_index)
    classes = scores.shape[1]
    if k > classes:
        raise InputError(f"k: expected at most the {classes} classes of scores, got {k}")
    if k < classes and takes_smooth_hinge(scores, k, temperature):
        weight = class_weight(weight, scores)
        return smooth_hinge_loss(
            scores, target, k=k, temperature=temperature, weight=weight, ignore_index=ignore_index, reduction=reduction
        )
    labels, scores = counted_rows(scores, target, ignore_index)
    if k == classes:
        return reduce_rows((0 * scores).sum(1), labels, weight, reduction, scores)
    scaled = scores / (k * temperature)
    ratio = _log_ratio(scaled, labels.target, k)
    values = temperature * softplus(1 / temperature + excess(ratio, pick(scaled, labels.target)))
    return reduce_rows(values, labels, weight, reduction, scores)


def _log_ratio(scaled: Scores, target: Target, k: int) -> Tensor:
    """``log e_k - log e_{k-1}`` of the exponentials of all scores but the target's, (N,)."""
    own = target[:, None]
    # The target gets the lowest score while the shift is computed: any shift is correct, this one is well conditioned.
    lowered = scaled.detach().scatter(1, own, scaled.detach().amin(1, keepdim=True))
    shift: Tensor = solve_level(lowered, k - 0.5, LAWS["logistic"], tolerance=0.1)
    shift = torch.where(shift.isfinite(), shift, 0.0)  # where fewer than k classes are unmasked
    centred = (scaled - shift).scatter(1, own, -torch.inf)
    happens, fails = torch.sigmoid(centred), torch.sigmoid(-centred)
    others = scaled.shape[1] - 1
    if 2 * k <= others + 1:
        counts = count_probs(happens, fails, k)
        more, fewer = counts[k], counts[k - 1]
    else:  # k of the others happen where others - k fail; the target never happens, so it always counts as failed
        counts = count_probs(fails, happens, others - k + 2)
        more, fewer = counts[others - k + 1], counts[others - k + 2]
    return _or_hard(shift.squeeze(1), more, fewer, scaled, own, k)


def _or_hard(shift: Tensor, more: Tensor, fewer: Tensor, scaled: Scores, own: Target, k: int) -> Tensor:
    """``shift + log more - log fewer``; its limit, the k-th other score, where a count is impossible (masked classes)."""
    lost = (more == 0) | (fewer == 0)
    ratio = shift + torch.where(lost, 1.0, more).log() - torch.where(lost, 1.0, fewer).log()
    if torch.compiler.is_compiling() or not lost.any():
        return ratio
    return torch.where(lost, scaled.scatter(1, own, -torch.inf).topk(k, dim=1).values[:, -1], ratio)


class SmoothTopkHingeLoss(Loss):
    """Module form of :func:`smooth_topk_hinge_loss`."""

    function = staticmethod(smooth_topk_hinge_loss)
    elicits = "top-k set"

    def __init__(
        self,
        *,
        k: int,
        temperature: float = 1.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(k=k, temperature=temperature, weight=weight, ignore_index=ignore_index, reduction=reduction)
