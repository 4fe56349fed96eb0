"""Cross-entropy of one label per row, its focal form and LDAM's on a GPU: one read of the scores forward, one backward.

Plain forms: ``losses/single.py``.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.choice import fused
from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.overwriting import room_for_gradient
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import block_of, unit_columns, warps_of
from shortlist.tensors import Reduction, Scores, Target

EXTREME = 1e30  # scales and exponents beyond this, or scales below its inverse, could overflow
KEPT = 3  # numbers that the forward pass keeps for each row


def takes_cross_entropy(scores: Scores, *, scale: float = 1.0, gamma: float = 0.0, margins: Tensor | None = None) -> bool:
    """Whether the kernel takes these scores, (N, C), and these parameters; it has no gradient in the margins."""
    fixed = margins is None or not margins.requires_grad
    return fused("cross-entropy", scores) and fixed and 1 / EXTREME <= scale <= EXTREME and gamma <= EXTREME


def fused_cross_entropy(
    scores: Scores,
    target: Target,
    *,
    scale: float = 1.0,
    gamma: float = 0.0,
    margins: Tensor | None = None,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
) -> Tensor:
    """``(1 - p)^gamma · (-log p)``, p the softmax at the target of ``scale · (scores - margins_target e_target)``, reduced.

    Args:
        scores: (N, C).
        target: int64 (N,); rows with a label that is no class are NaN.
        scale: multiplies the scores.
        gamma: exponent of the focal loss.
        margins: float32 (C,), or None.
        weight: float32 (C,), or None.
        ignore_index: the label of ignored rows.
        reduction: "mean", "sum" or "none".
    """
    numbers = float(scale), float(gamma), ignore_index
    loss: Tensor = _CrossEntropy.apply(scores, target, margins, weight, *numbers, reduction)  # type: ignore[no-untyped-call]
    return loss


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Scores,
        target: Target,
        margins: Tensor | None,
        weight: Tensor | None,
        scale: float,
        gamma: float,
        ignore_index: int,
        reduction: Reduction,
    ) -> Tensor:
        values, kept, reduced, divisor = _forward(scores, target, margins, weight, scale, gamma, ignore_index, reduction)
        each = reduction == "none"
        ctx.save_for_backward(scores, target, weight, None if each else divisor, kept)
        ctx.scale = scale
        return values if each else reduced

    @staticmethod
    @differentiable_once("the GPU kernel of cross-entropy, focal and LDAM")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scores, target, weight, divisor, kept = ctx.saved_tensors
        return (_backward(upstream, scores, target, weight, divisor, kept, ctx.scale), *(None,) * 7)


class Losses(NamedTuple):
    """What the forward pass finds.

    Args:
        values: the loss of each row, float32 (N,); weighted if they are not reduced.
        kept: what the gradient of each row needs, float32 (KEPT, N).
        reduced: the weighted sum or mean of the values, float32 ().
        divisor: what the sum was divided by, float32 ().
    """

    values: Tensor
    kept: Tensor
    reduced: Tensor
    divisor: Tensor


def _forward_shapes(scores: Scores, *_: Any) -> Losses:
    values = scores.new_empty(len(scores), dtype=torch.float32)
    return Losses(values, values.new_empty(KEPT, len(scores)), values.new_empty(()), values.new_empty(()))


@operator(
    "cross_entropy(Tensor scores, Tensor target, Tensor? margins, Tensor? weight, float scale, float gamma, "
    "int ignore_index, str reduction) -> (Tensor, Tensor, Tensor, Tensor)",
    _forward_shapes,
)
def _forward(
    scores: Scores,
    target: Target,
    margins: Tensor | None,
    weight: Tensor | None,
    scale: float,
    gamma: float,
    ignore_index: int,
    reduction: str,
) -> Losses:
    from shortlist.kernels.device import cross_entropy as device

    found = _forward_shapes(scores)
    rows, classes = scores.shape
    if not rows:
        found.reduced.zero_()
        found.divisor.fill_(1.0)
        return found
    scores, each = unit_columns(scores), reduction == "none"
    device.loss_rows[(rows,)](
        scores,
        target.contiguous(),
        margins,
        weight,
        found.values,
        found.kept,
        None if each else scores.new_zeros(1, dtype=torch.int32),
        found.reduced,
        found.divisor,
        rows,
        classes,
        scores.stride(0),
        scale,
        gamma,
        ignore_index,
        MARGINS=margins is not None,
        FOCAL=gamma != 0,
        WEIGHTED=weight is not None,
        MEAN=reduction == "mean",
        EACH=each,
        BLOCK=block_of(classes),
        num_warps=warps_of(classes),
    )
    return found


def _backward_shapes(upstream: Tensor, scores: Scores, *_: Any) -> Tensor:
    return room_for_gradient(scores)


@operator(
    "cross_entropy_backward(Tensor upstream, Tensor scores, Tensor target, Tensor? weight, Tensor? divisor, Tensor kept, "
    "float scale) -> Tensor",
    _backward_shapes,
)
def _backward(
    upstream: Tensor,
    scores: Scores,
    target: Target,
    weight: Tensor | None,
    divisor: Tensor | None,
    kept: Tensor,
    scale: float,
) -> Tensor:
    from shortlist.kernels.device import cross_entropy as device

    scores, out = unit_columns(scores), _backward_shapes(upstream, scores)
    rows, classes = scores.shape
    if rows:
        block = block_of(classes)
        device.loss_gradient[(rows, -(-classes // block))](
            upstream,
            scores,
            target.contiguous(),
            weight,
            divisor,
            kept,
            out,
            rows,
            classes,
            upstream.stride(0) if upstream.ndim else 0,
            scores.stride(0),
            scale,
            WEIGHTED=weight is not None,
            DIVIDED=divisor is not None,
            BLOCK=block,
            num_warps=warps_of(classes),
        )
    return out
