"""Projection onto the top-k simplex, ``{q : 0 ≤ q ≤ 1, Σ q = k}`` (thesis, section 6.2)."""

from typing import Any

import torch
from torch import Tensor

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.kernels.choice import fused
from shortlist.tensors import Scores, check_scores, shape_of, uncompiled, working

# Selecting this many entries of a row costs less than secant steps in a wider bracket.
FEW = 8
MOST_STEPS = 200


def sparse_top(scores: Scores, k: float | Tensor) -> Tensor:
    r"""The nearest point to the scores whose entries are between 0 and 1 and sum to k.

    .. math:: q_j = \mathrm{clip}(scores_j - λ, 0, 1), \quad \sum_j q_j = k

    For k = 1 it is sparsemax. Its Jacobian is ``Diag(m) - m mᵀ / |m|``, where m is the indicator of ``0 < q < 1``.

    Args:
        scores: (N, C).
        k: 0 to C, any real number; or one for each row, (N,), such as the number of its labels.

    Shape: (N, C).

    >>> sparse_top(torch.tensor([[1.0, 0.5, -3.0]]), 1)
    tensor([[0.7500, 0.2500, 0.0000]])

    Garcin, thesis, section 6.2.
    """
    check_scores(scores)
    total = _checked_totals(scores, k) if isinstance(k, Tensor) else _checked_total(scores, k)
    if fused("sparse-top", scores):
        from shortlist.kernels.sparse_top import project_rows

        return project_rows(scores, total)
    scores = working(scores)
    if isinstance(total, Tensor):
        return onto_own_totals(scores, total)
    rounded = float(torch.tensor(total, dtype=scores.dtype))
    if rounded in (0, scores.shape[1]):
        return torch.full_like(scores, float(rounded > 0)) + (scores - scores).nan_to_num()
    projected: Tensor = _SparseTop.apply(scores, scores.new_full((len(scores), 1), rounded))  # type: ignore[no-untyped-call]
    return projected


def onto_own_totals(scores: Scores, totals: Tensor) -> Tensor:
    """The projection of each row onto its own total, (N, 1) from 0 to C."""
    none, everything = totals == 0, totals == scores.shape[1]
    inside = torch.where(none | everything, scores.shape[1] / 2, totals)
    projected: Tensor = _SparseTop.apply(scores, inside)  # type: ignore[no-untyped-call]
    return torch.where(none, 0.0, torch.where(everything, 1.0, projected))


def _checked_total(scores: Scores, k: float) -> float:
    number(least=0)("k", k)
    if k > scores.shape[1]:
        raise InputError(f"k: expected a number from 0 to the {scores.shape[1]} classes of scores, got {k}")
    return float(k)


def _checked_totals(scores: Scores, k: Tensor) -> Tensor:
    """What each row has to sum to, (N, 1), in the precision of the projection."""
    rows, classes = scores.shape
    if k.shape not in ((rows,), (rows, 1)):
        raise InputError(f"k: expected one number, or one for each of the {rows} rows, got {shape_of(k)}")
    totals = k.detach().reshape(rows, 1).to(scores.device, torch.promote_types(scores.dtype, torch.float32))
    if fused("sparse-top", scores) and totals.device.type != "cpu":
        return totals  # looking at them would wait for the device: the kernel gives NaN where they are out of range
    wrong = ~((totals >= 0) & (totals <= classes))
    if wrong.any():
        raise InputError(f"k: expected numbers from 0 to the {classes} classes of scores, got {totals[wrong][0]:g}")
    return totals


class _SparseTop(torch.autograd.Function):
    @staticmethod
    def forward(scores: Scores, totals: Tensor) -> Tensor:
        projected: Tensor = project(scores, totals)[0]
        return projected

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (projected,) = ctx.saved_tensors
        moving = ((projected > 0) & (projected < 1)).to(gradient.dtype)
        share = (gradient * moving).sum(1, keepdim=True) / moving.sum(1, keepdim=True).clamp(min=1)
        return moving * (gradient - share), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], scores: Scores, totals: Tensor) -> tuple[Tensor, int]:
        """Rows do not depend on each other, so those of a batch are rows among others."""
        parts = [
            part.unsqueeze(0).expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((scores, totals), in_dims, strict=True)
        ]
        projected: Tensor = _SparseTop.apply(*(part.flatten(0, 1) for part in parts))  # type: ignore[no-untyped-call]
        return projected.unflatten(0, parts[0].shape[:2]), 0


@uncompiled
@torch.no_grad()
def project(scores: Scores, totals: Tensor) -> tuple[Tensor, Tensor]:
    """The projection of each row onto its own total, (N, 1) strictly between 0 and C, and ``scores - λ``, (N, C).

    ``Σ clip(s - λ, 0, 1)`` is decreasing and piecewise linear in λ. Secant steps that keep λ bracketed (the Illinois method)
    find the right piece in a few steps, and the next step is exact.
    """
    work = torch.empty_like(scores)
    low, high = _bracket(scores, totals, work)
    # λ is computed relative to this pivot: a large number common to all scores would cost its digits.
    pivot = high
    # Beside scores beyond 1e7 the bracket's width of 1 is lost.
    scores, low, high = scores - pivot, torch.where(low < high, low - pivot, -1.0), high - pivot
    over, under = _excess(scores, low, totals, work), _excess(scores, high, totals, work)
    # If all scores are within 1 of each other, none is clipped and this is the solution.
    level = (scores.mean(1, keepdim=True) - totals / scores.shape[1]).clamp_(low, high)
    small, was_above = 4 * torch.finfo(scores.dtype).eps, None
    for _ in range(MOST_STEPS):
        excess = _excess(scores, level, totals, work)
        if (excess.abs() <= small * (totals + level.abs())).all():
            break
        above = excess > 0
        low, high = torch.where(above, level, low), torch.where(above, high, level)
        # The value at an end that is kept twice in a row is halved, so that it does not stay for ever.
        twice = 1.0 if was_above is None else torch.where(above == was_above, 0.5, 1.0)
        over, under = torch.where(above, excess, over * twice), torch.where(above, under * twice, excess)
        was_above = above
        # 0/0 if both ends are the solution.
        level = low + (high - low) * (over / (over - under)).nan_to_num_(0.0).clamp_(0, 1)
    shifted = scores.sub_(level)
    return torch.clamp(shifted, 0, 1, out=work), shifted


def _excess(scores: Scores, level: Tensor, totals: Tensor, work: Tensor) -> Tensor:
    return torch.sub(scores, level, out=work).clamp_(0, 1).sum(1, keepdim=True).sub_(totals)


def _bracket(scores: Scores, totals: Tensor, work: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds of λ, (N, 1)."""
    if not len(scores):
        return totals, totals
    ranks = totals.ceil().long().clamp(min=1)
    most = int(ranks.max())
    if most <= FEW:  # λ is at most 1 below the ceil(total)-th largest score
        high = scores.amax(1, keepdim=True) if most == 1 else scores.topk(most, dim=1).values.gather(1, ranks - 1)
        return high - 1, high
    low, high = scores.amin(1, keepdim=True) - 1, scores.amax(1, keepdim=True)
    mean = scores.mean(1, keepdim=True)
    deviation = torch.linalg.vector_norm(torch.sub(scores, mean, out=work), dim=1, keepdim=True) / scores.shape[1] ** 0.5
    guess = mean - deviation * torch.special.ndtri(totals / scores.shape[1]) - 0.5  # exact for normal scores
    for end in (guess - 0.5, guess + 0.5):
        end = end.nan_to_num().clamp(low, high)
        above = _excess(scores, end, totals, work) > 0
        low, high = torch.where(above, end, low), torch.where(above, high, end)
    wide = (~(high - low <= 2)).squeeze(1).nonzero().squeeze(1)  # scores in distant clusters
    if len(wide):
        high[wide] = scores[wide].topk(most, dim=1).values.gather(1, ranks[wide] - 1)
        low[wide] = high[wide] - 1
    return low, high
