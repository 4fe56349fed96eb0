"""The k-th largest score of a row, smoothed without sampling."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from shortlist.checks import one_of
from shortlist.kernels.choice import fused
from shortlist.operators.arguments import check_level, negligible
from shortlist.operators.level import LAWS, Law, Noise, law_of, solve_level
from shortlist.tensors import Scores, by_device, row_blocks, uncompiled, working

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
        return scores.topk(k, dim=1).values[:, -1]
    value: Tensor = _soft_top(scores, k - 0.5, epsilon, law_of(noise))
    return value


@uncompiled
def _soft_top(scores: Scores, total: float, epsilon: float, law: Law) -> Tensor:
    value: Tensor = _SoftTop.apply(scores, total, epsilon, law)  # type: ignore[no-untyped-call]
    return value


class _SoftTop(torch.autograd.Function):
    """Forward solves for the level; backward uses the implicit function theorem."""

    @staticmethod
    def forward(ctx: FunctionCtx, scores: Scores, total: float, epsilon: float, law: Law) -> Tensor:
        unit = epsilon * law.unit
        level = scores.new_empty(len(scores), 1)
        weights = torch.empty_like(scores) if ctx.needs_input_grad[0] else None  # type: ignore[attr-defined]
        work = None
        for rows in row_blocks(len(scores), scores.shape[1], by_device(ENTRIES_AT_ONCE, scores)):
            part = scores[rows]
            work = scores.new_empty(3, *part.shape) if work is None else work[:, : len(part)]
            masked = (part == -torch.inf).sum(1, keepdim=True) > part.shape[1] - total  # fewer than k classes are not
            part = torch.div(part, unit, out=work[2]).masked_fill_(masked, 0.0)
            found = solve_level(part, total, law, work=work[:2])
            torch.mul(found, unit, out=level[rows]).masked_fill_(masked, -torch.inf)
            if weights is not None:
                law.shares(part.sub_(found), weights[rows]).masked_fill_(masked, 0.0)
        if weights is not None:
            ctx.save_for_backward(weights)
        return level.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (weights,) = ctx.saved_tensors
        return weights * gradient[:, None], None, None, None
