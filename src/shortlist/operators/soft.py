"""The k-th largest score of a row, smoothed without sampling."""

from functools import partial

import torch
from torch import Tensor

from shortlist.checks import one_of
from shortlist.kernels.choice import fused
from shortlist.operators.arguments import check_level, negligible
from shortlist.operators.kth import kth_value
from shortlist.operators.level import LAWS, Law, Noise, law_of, solve_level
from shortlist.operators.slopes import with_slopes
from shortlist.tensors import Scores, by_device, row_blocks, working

# Entries processed at once: on the CPU a block and its temporaries stay in the cache; on a GPU one block is best.
ENTRIES_AT_ONCE = {"cpu": 2**19, "any": 2**62}


def soft_top_value(scores: Scores, k: int, epsilon: float = 1.0, *, noise: Noise = "normal") -> Tensor:
    r"""The level that k - ½ noised scores are expected to exceed: a k-th largest with a smooth gradient.

    .. math:: τ \text{ such that } \sum_j F\!\left(\frac{scores_j - τ}{epsilon}\right) = k - \tfrac12

    It needs no sampling, has no variance and costs O(C). Its gradient in score j is ``F'_j / Σ F'``: non-negative, with sum 1.
    As epsilon tends to 0 it tends to the k-th largest score (with k instead of k - ½ it would tend to the midpoint between
    that and the next). A row with fewer than k classes above -inf has -inf, without a gradient. It is close to
    :func:`expected_top_value`, but not equal.

    Args:
        scores: (N, C).
        k: 1 to C.
        epsilon: width of the smoothing; 0 gives the k-th largest itself.
        noise: the distribution function F, "normal" or "logistic".

    Shape: (N,).

    >>> soft_top_value(torch.tensor([[2.4, 2.6, 2.3, 0.5]]), 2, 0.1)
    tensor([2.4200])
    """
    k, epsilon = check_level(scores, k, epsilon), float(epsilon)
    if fused("soft", scores) and not negligible(epsilon, torch.float32):
        from shortlist.kernels.soft import soft_level_rows

        return soft_level_rows(scores, k, epsilon, one_of(*LAWS)("noise", noise))
    scores = working(scores)
    if negligible(epsilon, scores.dtype):
        return kth_value(scores, k)
    return _soft_top(scores, k - 0.5, epsilon, law_of(noise))


def _soft_top(scores: Scores, total: float, epsilon: float, law: Law) -> Tensor:
    return with_slopes(scores, partial(_solved, total, epsilon, law), partial(_shares, total, epsilon, law))


def _solved(total: float, epsilon: float, law: Law, scores: Scores, wanted: bool) -> tuple[Tensor, Tensor | None]:
    """The levels, (N,), and the gradient in the scores by the implicit function theorem, if it is wanted."""
    unit = epsilon * law.unit
    level = scores.new_empty(len(scores), 1)
    weights = torch.empty_like(scores) if wanted else None
    work = None
    for rows in row_blocks(len(scores), scores.shape[1], by_device(ENTRIES_AT_ONCE, scores)):
        part = scores[rows]
        work = scores.new_empty(3, *part.shape) if work is None else work[:, : len(part)]
        lost = part.amax(1, keepdim=True).isnan()
        masked = (part == -torch.inf).sum(1, keepdim=True) > part.shape[1] - total  # fewer than k classes are not
        unsolved = lost | masked
        part = torch.div(part, unit, out=work[2]).masked_fill_(unsolved, 0.0)
        found = solve_level(part, total, law, work=work[:2])
        torch.mul(found, unit, out=level[rows]).masked_fill_(masked, -torch.inf).masked_fill_(lost, torch.nan)
        if weights is not None:
            law.shares(part.sub_(found), weights[rows]).masked_fill_(unsolved, 0.0).masked_fill_(lost, torch.nan)
    return level.squeeze(1), weights


def _shares(total: float, epsilon: float, law: Law, scores: Scores) -> Tensor:
    """The same gradient, as a function of the scores with a gradient of its own."""
    level = _soft_top(scores, total, epsilon, law)[:, None]
    masked, ruled_out = level == -torch.inf, scores == -torch.inf
    x = torch.where(masked | ruled_out, 0.0, (scores - level) / (epsilon * law.unit))
    return law.log_slope(x).masked_fill(ruled_out & ~masked, -torch.inf).softmax(1).masked_fill(masked, 0.0)
