"""The soft k-th largest and the hinge above it on a GPU: one program per row, the gradient recomputed from the level."""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.overwriting import room_for_gradient
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import block_of, unit_columns, warps_of

# What forward keeps for each row: value, weight, pivot of the level, offset and inverse sum of the noise's weights, factor of
# the gradient, and the rest of the level, pivot + rest · unit, which a sum of the two would round away beside large scores.
KEPT = 7
MOST_COLUMNS, MOST_WARPS = 512, 4  # of a program: a row is searched in several rounds, which many warps would spend waiting


class _Noise(NamedTuple):
    """A noise distribution as the kernel sees it; both are relative to epsilon."""

    unit: float
    deviation: float  # in units


_NOISES = {"normal": _Noise(math.sqrt(2), math.sqrt(0.5)), "logistic": _Noise(1.0, math.pi / math.sqrt(3))}


def soft_level_rows(scores: Tensor, k: int, epsilon: float, noise: str) -> Tensor:
    """The level that k - ½ noised scores are expected to exceed, float32 (N,)."""
    values, _ = _Soft.apply(scores, None, None, None, k - 0.5, epsilon, noise, 0.0, 1.0, 0)  # type: ignore[no-untyped-call]
    level: Tensor = values
    return level


def soft_hinge_rows(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    epsilon: float,
    margin: float | Tensor,
    scale: float,
    weight: Tensor | None,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:
    """``(scale · (margin_target + t - scores_target))+`` with t the soft (k+1)-th largest, times the weight of the target.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: the hinge is above the (k+1)-th largest.
        epsilon: scale of the normal noise.
        margin: a number, or (C,).
        scale: multiplies the argument of the hinge.
        weight: (C,), or None.
        ignore_index: the label of ignored rows.

    Shape: the values and the weights of the rows, float32 (N,) each; both are 0 for ignored rows.
    """
    margins = margin if isinstance(margin, Tensor) else None
    number = 0.0 if isinstance(margin, Tensor) else float(margin)
    values, shares = _Soft.apply(  # type: ignore[no-untyped-call]
        scores, target, margins, weight, k + 0.5, epsilon, "normal", number, float(scale), ignore_index
    )
    return values, shares


class _Soft(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        target: Tensor | None,
        margins: Tensor | None,
        weight: Tensor | None,
        total: float,
        epsilon: float,
        noise: str,
        margin: float,
        scale: float,
        ignore_index: int,
    ) -> tuple[Tensor, Tensor]:
        rows = _forward(scores, target, margins, weight, total, epsilon, noise, margin, scale, ignore_index)
        ctx.save_for_backward(scores, target, rows)
        ctx.epsilon, ctx.noise = epsilon, noise
        values, shares = rows[0], rows[1]
        ctx.mark_non_differentiable(shares)
        return values, shares

    @staticmethod
    @differentiable_once("the GPU kernel of the soft k-th largest")
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scores, target, rows = ctx.saved_tensors
        return (_backward(gradient, scores, target, rows, ctx.epsilon, ctx.noise), *[None] * 9)


def _forward_shapes(scores: Tensor, *_: Any) -> Tensor:
    return scores.new_empty(KEPT, scores.shape[0], dtype=torch.float32)


@operator(
    "soft_rows(Tensor scores, Tensor? target, Tensor? margins, Tensor? weight, float total, float epsilon, str noise, "
    "float margin, float scale, int ignore_index) -> Tensor",
    _forward_shapes,
)
def _forward(
    scores: Tensor,
    target: Tensor | None,
    margins: Tensor | None,
    weight: Tensor | None,
    total: float,
    epsilon: float,
    noise: str,
    margin: float,
    scale: float,
    ignore_index: int,
) -> Tensor:
    from shortlist.kernels.device import soft as device

    scores, out = unit_columns(scores), _forward_shapes(scores)
    rows, classes = scores.shape
    law = _NOISES[noise]
    unit = epsilon * law.unit
    if rows:
        device.rows_forward[(rows,)](
            scores,
            scores if target is None else target.contiguous(),
            scores if margins is None else margins.contiguous(),
            scores if weight is None else weight.contiguous(),
            out,
            rows,
            classes,
            scores.stride(0),
            total,
            unit,
            1 / unit,
            _reach(noise, classes),
            law.deviation,
            margin,
            scale,
            ignore_index,
            HINGE=target is not None,
            MARGINS=margins is not None,
            WEIGHTED=weight is not None,
            NORMAL=noise == "normal",
            BLOCK=min(MOST_COLUMNS, block_of(classes)),
            num_warps=min(MOST_WARPS, warps_of(classes)),
        )
    return out


def _reach(noise: str, classes: int) -> float:
    """How far above all scores, or below, the level can be, in units: where half a class at most exceeds it."""
    share = 1 / (2 * classes)
    if noise == "normal":
        return -NormalDist().inv_cdf(share) / math.sqrt(2) + 0.01
    return math.log(1 - share) - math.log(share) + 0.01


def _backward_shapes(gradient: Tensor, scores: Tensor, *_: Any) -> Tensor:
    return room_for_gradient(scores)


@operator(
    "soft_rows_backward(Tensor gradient, Tensor scores, Tensor? target, Tensor kept, float epsilon, str noise) -> Tensor",
    _backward_shapes,
)
def _backward(gradient: Tensor, scores: Tensor, target: Tensor | None, kept: Tensor, epsilon: float, noise: str) -> Tensor:
    from shortlist.kernels.device import soft as device

    scores, out = unit_columns(scores), _backward_shapes(gradient, scores)
    rows, classes = scores.shape
    if rows:
        block = min(MOST_COLUMNS, block_of(classes))
        device.rows_backward[(rows, -(-classes // block))](
            gradient,
            scores,
            scores if target is None else target.contiguous(),
            kept,
            out,
            rows,
            classes,
            gradient.stride(0),
            scores.stride(0),
            1 / (epsilon * _NOISES[noise].unit),
            HINGE=target is not None,
            NORMAL=noise == "normal",
            BLOCK=block,
            num_warps=min(MOST_WARPS, warps_of(classes)),
        )
    return out
