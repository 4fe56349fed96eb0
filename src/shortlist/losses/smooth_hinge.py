"""The smooth top-k hinge (Berrada et al. 2018), exact and in O(k C).

The sums over all sets of k classes are elementary symmetric polynomials. Divided by suitable constants they are
probabilities of counts of independent events (Poisson-binomial), none of them small, so that nothing under- or overflows:
with ``x_j = scores_j / (k τ)`` and ``p_j = σ(x_j - ρ)``, for *any* ρ,

    log e_k(others) - log e_{k-1}(others) = ρ + log P(k events among the others) - log P(k - 1),

and ρ is chosen such that about k - ½ events are expected.
"""

import torch
from torch import Tensor

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, softplus
from shortlist.operators.counts import count_probs
from shortlist.operators.level import LAWS, solve_level
from shortlist.tensors import Reduction, Scores, Target, check_single_label, pick, reduce, working


@domains(k=whole(1), temperature=number(above=0))
def smooth_topk_hinge_loss(
    scores: Scores, target: Target, *, k: int, temperature: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    r"""Smooth maximum over all sets of k classes, less that over the sets that hold the true one.

    .. math:: τ \log \sum_{|A| = k} \exp\frac{1[target \notin A] + \overline{scores}_A}{τ}
              - τ \log \sum_{|A| = k,\ target \in A} \exp\frac{\overline{scores}_A}{τ}

    with τ the temperature and the bar a mean over A. k = C gives 0.

    Elicits: the top-k set; with k up to 2, the order. (Beyond, several labels may be as good as certain at any score that is
    large enough.) Link: none.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: 1 to C.
        temperature: above 0; towards 0 it becomes a hinge. The paper takes 1.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> smooth_topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2)
    tensor(0.7909)

    Berrada, Zisserman, Kumar, "Smooth loss functions for deep top-k classification", 2018; the second sum runs over
    the sets that hold the true class (Garcin 2022, Table 1, drops that).
    """
    check_single_label(scores, target)
    classes = scores.shape[1]
    if k > classes:
        raise InputError(f"k: expected at most the {classes} classes of scores, got {k}")
    scores = working(scores)
    if k == classes:
        return reduce((0 * scores).sum(1), reduction)
    scaled = scores / (k * temperature)
    ratio = _log_ratio(scaled, target, k)
    return reduce(temperature * softplus(1 / temperature + ratio - pick(scaled, target)), reduction)


def _log_ratio(scaled: Scores, target: Target, k: int) -> Tensor:
    """``log e_k - log e_{k-1}`` of the exponentials of all scores but the target's, (N,)."""
    own = target[:, None]
    # The target takes the lowest score while the shift is looked for: any shift is right, this one is good.
    lowered = scaled.detach().scatter(1, own, scaled.detach().amin(1, keepdim=True))
    shift: Tensor = solve_level(lowered, k - 0.5, LAWS["logistic"], tolerance=0.1)
    shift = torch.where(shift.isfinite(), shift, 0.0)  # fewer than k are left unmasked
    centred = (scaled - shift).scatter(1, own, -torch.inf)
    happens, fails = torch.sigmoid(centred), torch.sigmoid(-centred)
    others = scaled.shape[1] - 1
    if 2 * k <= others + 1:
        counts = count_probs(happens, fails, k)
        more, fewer = counts[k], counts[k - 1]
    else:  # k of the others happen where others - k fail; the target, which never happens, is one that always fails
        counts = count_probs(fails, happens, others - k + 2)
        more, fewer = counts[others - k + 1], counts[others - k + 2]
    return _or_hard(shift.squeeze(1), more, fewer, scaled, own, k)


def _or_hard(shift: Tensor, more: Tensor, fewer: Tensor, scaled: Scores, own: Target, k: int) -> Tensor:
    """``shift + log more - log fewer``; where a count cannot happen, as of masked classes, its limit, the k-th other."""
    lost = (more == 0) | (fewer == 0)
    ratio = shift + torch.where(lost, 1.0, more).log() - torch.where(lost, 1.0, fewer).log()
    if torch.compiler.is_compiling() or not lost.any():
        return ratio
    return torch.where(lost, scaled.scatter(1, own, -torch.inf).topk(k, dim=1).values[:, -1], ratio)


class SmoothTopkHingeLoss(Loss):
    """Module form of :func:`smooth_topk_hinge_loss`."""

    function = staticmethod(smooth_topk_hinge_loss)
    elicits = "top-k set"
