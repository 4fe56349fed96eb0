"""The level that a given number of noised scores are expected to exceed, by Halley's method.

Score j with noise exceeds the level τ with probability ``F((score_j - τ) / epsilon)``. The expected number of exceedances
falls from C to 0 as τ rises; ``solve_level`` finds the τ at which it equals ``total``, for each row.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import one_of
from shortlist.tensors import Scores, uncompiled

Noise: TypeAlias = Literal["normal", "logistic"]

# Convergence is cubic, so steps this small, in units of the noise, leave an error of a few units in the last place.
TOLERANCE = {torch.float32: 1.5e-2, torch.float64: 1e-5}
FREE_STEPS, BRACKETED_STEPS = 5, 128
OUT_OF_REACH = 100.0


class Law(NamedTuple):
    """A noise distribution, in the unit in which its distribution function F is cheapest to compute."""

    unit: float  # relative to the standard form
    deviation: float  # standard deviation, in this unit
    quantile: Callable[[float], float]
    shares: Callable[[Tensor, Tensor], Tensor]  # (x, out) → F'(x) / Σ F' of each row, even if all of them underflow
    sums: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]  # (x, work), both overwritten → ΣF, ΣF', ΣF'' of each row
    log_slope: Callable[[Tensor], Tensor]  # log F'(x), up to a constant, by operations that torch differentiates


# exp2 is torch's fastest exponential on the CPU.
_LOG2_E = 1 / math.log(2)


def _normal_shares(x: Tensor, out: Tensor) -> Tensor:
    squares = torch.mul(x, x, out=out)
    weights = squares.sub_(squares.amin(1, keepdim=True)).mul_(-_LOG2_E).exp2_()
    return weights.div_(weights.sum(1, keepdim=True))


def _normal_sums(x: Tensor, work: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With F(x) = (1 + erf x) / 2, F' = exp(-x²) / √π, F'' = -2x F'."""
    weights = torch.mul(x, x, out=work).mul_(-_LOG2_E).exp2_()
    slope = weights.sum(1, keepdim=True).mul_(1 / math.sqrt(math.pi))
    bend = weights.mul_(x).sum(1, keepdim=True).mul_(-2 / math.sqrt(math.pi))
    # 1 is added before the sum: afterwards, a small count would be the difference of two large numbers.
    return x.erf_().add_(1).sum(1, keepdim=True).mul_(0.5), slope, bend


def _logistic_shares(x: Tensor, out: Tensor) -> Tensor:
    """σ(x) σ(-x) = e^-|x| / (1 + e^-|x|)²."""
    size = torch.abs(x, out=out)
    tail = (-size).exp_().add_(1).square_()
    weights = size.sub_(size.amin(1, keepdim=True)).neg_().exp_().div_(tail)
    return weights.div_(weights.sum(1, keepdim=True))


def _logistic_sums(x: Tensor, work: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With F = σ, F' = σ(1 - σ), F'' = F' (1 - 2σ)."""
    p = x.sigmoid_()
    weights = torch.addcmul(p, p, p, value=-1, out=work)
    count, slope = p.sum(1, keepdim=True), weights.sum(1, keepdim=True)
    return count, slope, slope - 2 * weights.mul_(p).sum(1, keepdim=True)


def _normal_log_slope(x: Tensor) -> Tensor:
    return -x * x


def _logistic_log_slope(x: Tensor) -> Tensor:
    return logsigmoid(x) + logsigmoid(-x)


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


LAWS = {
    "normal": Law(
        math.sqrt(2),
        math.sqrt(0.5),
        lambda p: NormalDist().inv_cdf(p) / math.sqrt(2),
        _normal_shares,
        _normal_sums,
        _normal_log_slope,
    ),
    "logistic": Law(1.0, math.pi / math.sqrt(3), _logit, _logistic_shares, _logistic_sums, _logistic_log_slope),
}


def law_of(noise: str) -> Law:
    """The noise distribution of this name."""
    return LAWS[one_of(*LAWS)("noise", noise)]


@uncompiled
@torch.no_grad()
def solve_level(
    scores: Scores, total: float, law: Law, *, tolerance: float | None = None, work: Tensor | None = None
) -> Tensor:
    """τ with ``Σ_j F(scores_j - τ) = total`` in each row, (N, 1); ``0 < total < C``, scores in units of the law.

    Halley's method on the logarithm of the number of exceedances (or of the others, if those are fewer), from a guess that is
    exact for normal scores. Rows that have not converged after a few steps, such as scores in distant clusters, continue
    inside a bracket.

    Args:
        scores: (N, C).
        total: the expected number of exceedances.
        law: the noise distribution.
        tolerance: a row has converged when its Newton step is smaller than this.
        work: scratch memory, (2, N, C): allocating it would cost as much as the arithmetic.
    """
    nearly = TOLERANCE[scores.dtype] if tolerance is None else tolerance
    work = scores.new_empty(2, *scores.shape) if work is None else work
    return _refine(scores, guess_level(scores, total, law, work), total, law, nearly, work, FREE_STEPS)


def _refine(scores: Scores, level: Tensor, total: float, law: Law, nearly: float, work: Tensor, steps: int) -> Tensor:
    """Unbracketed steps, soon only on the rows that need more; rows that still have not converged are bracketed."""
    for left in reversed(range(steps)):
        step, gap, _ = _step(scores, level, total, law, work)
        level = level + step
        away = (~(gap.abs() <= nearly)).squeeze(1).nonzero().squeeze(1)  # NaN has not converged
        if not len(away):
            return level
        if 2 * len(away) < len(level):
            rest = _refine(scores[away], level[away], total, law, nearly, work[:, : len(away)], left)
            return level.index_copy(0, away, rest)
    return _solve_bracketed(scores, total, law, nearly, work)


def _solve_bracketed(scores: Scores, total: float, law: Law, nearly: float, work: Tensor) -> Tensor:
    """Steps inside a bracket, by bisection whenever Halley's step would leave it or does not shrink."""
    # At one end the m largest scores alone give the total; at the other, all scores together give at most the total.
    classes = scores.shape[1]
    below, above_m = math.floor(total) + 1, math.ceil(total)
    largest = scores.topk(below, dim=1).values
    low = largest[:, below - 1 : below] - law.quantile(total / below)
    high = largest[:, above_m - 1 : above_m] - law.quantile((total - above_m + 1) / (classes - above_m + 1))
    # Masked classes (-inf, or very low scores) are moved just out of reach of the noise: infinities would give NaN.
    scores = torch.maximum(scores, low - OUT_OF_REACH)
    level, reach, finest = low + (high - low) / 2, high - low, 2 * torch.finfo(scores.dtype).eps
    for _ in range(BRACKETED_STEPS):
        step, gap, above = _step(scores, level, total, law, work)
        low, high = torch.where(above, level, low), torch.where(above, high, level)
        # If no score is near the level, slopes underflow and steps become tiny: they must at least halve as well.
        good = (level + step >= low) & (level + step <= high) & (2 * step.abs() <= reach)
        arrived = (gap.abs() <= nearly) & good
        step = torch.where(good, step, low + (high - low) / 2 - level)
        level, reach = level + step, step.abs()
        if (arrived | (high - low <= finest * level.abs())).all():
            break
    return level


def _step(scores: Scores, level: Tensor, total: float, law: Law, work: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Halley's step from this level, Newton's step, and whether too many scores exceed the level.

    Newton's step is large, or NaN, wherever the level is far from the solution; Halley's need not be.
    """
    count, slope, bend = law.sums(torch.sub(scores, level, out=work[0]), work[1])
    above = count > total
    classes = scores.shape[1]
    if 2 * total > classes:
        count, slope, bend, total = classes - count, -slope, -bend, classes - total
    # With h = log(count / total), h' = -slope / count and h'' = bend / count - h'² along τ.
    gap = (count / total).log_()
    first = slope / count
    return 2 * gap / ((2 + gap) * first - gap * (bend / slope)), gap / first, above


def guess_level(scores: Scores, total: float, law: Law, work: Tensor) -> Tensor:
    """The level if scores and noise were both normal: exact if they are, and a starting point otherwise."""
    classes = scores.shape[1]
    mean = scores.mean(1, keepdim=True)
    apart = torch.sub(scores, mean, out=work[0])
    variance: Tensor = torch.linalg.vector_norm(apart, dim=1, keepdim=True).square_() / classes
    return variance.add_(law.deviation**2).sqrt_().mul_(NormalDist().inv_cdf(1 - total / classes)).add_(mean)
