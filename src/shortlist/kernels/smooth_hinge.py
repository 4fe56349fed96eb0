"""The smooth top-k hinge on a GPU: a program for each row finds the value, another pass the gradient.

Plain form: ``losses/smooth_hinge.py``; the method: ``device/smooth_hinge.py``.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.choice import fused
from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.overwriting import room_for_gradient
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import block_of, unit_columns, warps_of
from shortlist.tensors import Reduction, Scores, Target

# Half the points L of the Fourier transform, for k up to the key: P(L - 1) stays below 3e-8, even for a Poisson number.
POINTS = {10: 16, 30: 32, 75: 64}
EXTREME = 1e30  # temperatures beyond this, or below its inverse, could overflow
KEPT = 4  # numbers that the forward pass keeps for each row


def takes_smooth_hinge(scores: Scores, k: int, temperature: float) -> bool:
    """Whether the kernel takes these scores, (N, C) with more than k classes, and these parameters."""
    return fused("smooth-hinge", scores) and k <= max(POINTS) and 1 / EXTREME <= temperature <= EXTREME / k


class Hinges(NamedTuple):
    """What the forward pass finds.

    Args:
        values: the hinge of each row, float32 (N,); weighted if they are not reduced.
        kept: what the gradient of each row needs, float32 (KEPT, N).
        probs: probabilities of counts, float32 (N, 2 · points).
        reduced: the weighted sum or mean of the values, float32 ().
        divisor: what the sum was divided by, float32 ().
    """

    values: Tensor
    kept: Tensor
    probs: Tensor
    reduced: Tensor
    divisor: Tensor


def smooth_hinge_loss(
    scores: Scores,
    target: Target,
    *,
    k: int,
    temperature: float,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
) -> Tensor:
    """The smooth top-k hinge, reduced over the rows.

    Args:
        scores: (N, C), C above k.
        target: int64 (N,); rows with a label that is no class are NaN.
        k: size of the sets.
        temperature: of the smooth maximum.
        weight: float32 (C,), or None.
        ignore_index: the label of ignored rows.
        reduction: "mean", "sum" or "none".
    """
    loss: Tensor = _SmoothHinge.apply(scores, target, weight, k, temperature, ignore_index, reduction)  # type: ignore[no-untyped-call]
    return loss


class _SmoothHinge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Scores,
        target: Target,
        weight: Tensor | None,
        k: int,
        temperature: float,
        ignore_index: int,
        reduction: Reduction,
    ) -> Tensor:
        values, kept, probs, reduced, divisor = _forward(scores, target, weight, k, temperature, ignore_index, reduction)
        each = reduction == "none"
        ctx.save_for_backward(scores, target, weight, None if each else divisor, kept, probs)
        ctx.k, ctx.temperature = k, temperature
        return values if each else reduced

    @staticmethod
    @differentiable_once("the GPU kernel of the smooth hinge")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scores, target, weight, divisor, kept, probs = ctx.saved_tensors
        return (_backward(upstream, scores, target, weight, divisor, kept, probs, ctx.k, ctx.temperature), *(None,) * 6)


def _points(k: int) -> int:
    return next(points for most, points in POINTS.items() if k <= most)


def _forward_shapes(
    scores: Scores, target: Target, weight: Tensor | None, k: int, temperature: float, ignore_index: int, reduction: str
) -> Hinges:
    rows = len(scores)
    values = scores.new_empty(rows, dtype=torch.float32)
    kept, probs = values.new_empty(KEPT, rows), values.new_empty(rows, 2 * _points(k))
    return Hinges(values, kept, probs, values.new_empty(()), values.new_empty(()))


@operator(
    "smooth_hinge(Tensor scores, Tensor target, Tensor? weight, int k, float temperature, int ignore_index, str reduction) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward_shapes,
)
def _forward(
    scores: Scores, target: Target, weight: Tensor | None, k: int, temperature: float, ignore_index: int, reduction: str
) -> Hinges:
    from shortlist.kernels.device import smooth_hinge as device

    found = _forward_shapes(scores, target, weight, k, temperature, ignore_index, reduction)
    rows, classes = scores.shape
    if not rows:
        found.reduced.zero_()
        found.divisor.fill_(1.0)
        return found
    scores = unit_columns(scores)
    each, unit = reduction == "none", k * temperature
    points = _points(k)
    block, warps = block_of(classes), max(warps_of(classes), points // 16)
    tile = 256 * warps // points  # 8 products for each thread
    device.hinge_rows[(rows,)](
        scores,
        target.contiguous(),
        weight,
        found.values,
        found.kept,
        found.probs,
        None if each else scores.new_zeros(1, dtype=torch.int32),
        found.reduced,
        found.divisor,
        rows,
        classes,
        scores.stride(0),
        temperature,
        1 / temperature,
        unit,
        1 / unit,
        1 / k,
        math.log(2 * classes) + 1,  # this many units from all scores, all of them together count less than ½
        ignore_index,
        K=k,
        WEIGHTED=weight is not None,
        MEAN=reduction == "mean",
        EACH=each,
        POINTS=points,
        BLOCK=block,
        TILE=min(block, tile),
        AT_ONCE=min(2 * points, tile),
        num_warps=warps,
    )
    return found


def _backward_shapes(upstream: Tensor, scores: Scores, *_: Any) -> Tensor:
    return room_for_gradient(scores)


@operator(
    "smooth_hinge_backward(Tensor upstream, Tensor scores, Tensor target, Tensor? weight, Tensor? divisor, Tensor kept, "
    "Tensor probs, int k, float temperature) -> Tensor",
    _backward_shapes,
)
def _backward(
    upstream: Tensor,
    scores: Scores,
    target: Target,
    weight: Tensor | None,
    divisor: Tensor | None,
    kept: Tensor,
    probs: Tensor,
    k: int,
    temperature: float,
) -> Tensor:
    from shortlist.kernels.device import smooth_hinge as device

    scores, out = unit_columns(scores), _backward_shapes(upstream, scores)
    rows, classes = scores.shape
    if rows:
        block = block_of(classes)
        device.hinge_gradient[(rows, -(-classes // block))](
            upstream,
            scores,
            target.contiguous(),
            weight,
            divisor,
            kept,
            probs,
            out,
            rows,
            classes,
            upstream.stride(0) if upstream.ndim else 0,
            scores.stride(0),
            1 / (k * temperature),
            probs.shape[1],
            K=k,
            WEIGHTED=weight is not None,
            DIVIDED=divisor is not None,
            BLOCK=block,
            num_warps=warps_of(classes),
        )
    return out
