"""The projection onto the top-k simplex and its loss on a GPU: one program per row, the gradient recomputed from λ."""

from typing import Any

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiable_once, differentiates_again
from shortlist.kernels.overwriting import room_for_gradient
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import block_of, unit_columns, warps_of

# What forward keeps for each row: its weighted loss, its weight, λ as pivot and shift, and the weight of its gradient.
KEPT = 5


def project_rows(scores: Tensor, total: float | Tensor) -> Tensor:
    """The projection of each row onto the total, a number or (N, 1), float32 (N, C)."""
    own = total.reshape(-1).float() if isinstance(total, Tensor) else None
    number = 0.0 if isinstance(total, Tensor) else total
    projected: Tensor = _Projection.apply(scores, own, number)  # type: ignore[no-untyped-call]
    return projected


def sparse_top_loss_rows(scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> tuple[Tensor, Tensor]:
    """The weighted loss of each row and its weight, (N,) each; both are 0 for ignored rows.

    Args:
        scores: (N, C).
        target: int64 (N,) or bool (N, C).
        weight: (C,), or None.
        ignore_index: the label of ignored rows.
    """
    values, shares = _Loss.apply(scores, target, weight, ignore_index)  # type: ignore[no-untyped-call]
    return values, shares


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, totals: Tensor | None, total: float) -> Tensor:
        projected: Tensor = _project(scores, totals, total)
        ctx.save_for_backward(projected)
        ctx.dtype = scores.dtype
        return projected

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        arguments = gradient, ctx.saved_tensors[0], ctx.dtype
        found = _AlongFace.apply(*arguments) if differentiates_again() else _project_backward(*arguments)  # type: ignore[no-untyped-call]
        return found, None, None


class _AlongFace(torch.autograd.Function):
    """The Jacobian of the projection, which is symmetric and constant on each face of the simplex, times a gradient."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, projected: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(projected)
        ctx.dtype = gradient.dtype
        found: Tensor = _project_backward(gradient, projected, dtype)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        found: Tensor = _AlongFace.apply(gradient, ctx.saved_tensors[0].detach(), ctx.dtype)  # type: ignore[no-untyped-call]
        return found, None, None


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> tuple[Tensor, Tensor]:
        rows = _loss(scores, target, weight, ignore_index)
        ctx.save_for_backward(scores, target, rows)
        values, shares = rows[0], rows[1]
        ctx.mark_non_differentiable(shares)
        return values, shares

    @staticmethod
    @differentiable_once("the GPU kernel of the sparse-top loss")
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        return _loss_backward(gradient, *ctx.saved_tensors), None, None, None


def _project_shapes(scores: Tensor, totals: Tensor | None, total: float) -> Tensor:
    return scores.new_empty(scores.shape, dtype=torch.float32)


@operator("sparse_top(Tensor scores, Tensor? totals, float total) -> Tensor", _project_shapes)
def _project(scores: Tensor, totals: Tensor | None, total: float) -> Tensor:
    from shortlist.kernels.device import sparse_top as device

    scores, out = unit_columns(scores), _project_shapes(scores, totals, total)
    rows, classes = scores.shape
    if rows:
        own = scores if totals is None else totals.contiguous()
        device.project[(rows,)](
            scores,
            own,
            out,
            classes,
            scores.stride(0),
            total,
            OWN=totals is not None,
            BLOCK=block_of(classes),
            num_warps=warps_of(classes),
        )
    return out


def _project_backward_shapes(gradient: Tensor, projected: Tensor, dtype: torch.dtype) -> Tensor:
    return projected.new_empty(projected.shape, dtype=dtype)


@operator(
    "sparse_top_backward(Tensor gradient, Tensor projected, ScalarType dtype) -> Tensor",
    _project_backward_shapes,
)
def _project_backward(gradient: Tensor, projected: Tensor, dtype: torch.dtype) -> Tensor:
    from shortlist.kernels.device import sparse_top as device

    out = _project_backward_shapes(gradient, projected, dtype)
    rows, classes = projected.shape
    if rows:
        device.project_backward[(rows,)](
            gradient,
            projected,
            out,
            classes,
            gradient.stride(0),
            gradient.stride(1),
            BLOCK=block_of(classes),
            num_warps=warps_of(classes),
        )
    return out


def _loss_shapes(scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    return scores.new_empty(KEPT, scores.shape[0], dtype=torch.float32)


@operator("sparse_top_loss(Tensor scores, Tensor target, Tensor? weight, int ignore_index) -> Tensor", _loss_shapes)
def _loss(scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    from shortlist.kernels.device import sparse_top as device

    scores, marks, out = unit_columns(scores), _marks(target), _loss_shapes(scores, target, weight, ignore_index)
    rows, classes = scores.shape
    if rows:
        device.loss_rows[(rows,)](
            scores,
            marks,
            scores if weight is None else weight,
            out,
            classes,
            scores.stride(0),
            marks.stride(0),
            ignore_index,
            rows,
            MARKED=target.ndim == 2,
            WEIGHTED=weight is not None,
            BLOCK=block_of(classes),
            num_warps=warps_of(classes),
        )
    return out


def _loss_backward_shapes(gradient: Tensor, scores: Tensor, target: Tensor, kept: Tensor) -> Tensor:
    return room_for_gradient(scores)


@operator(
    "sparse_top_loss_backward(Tensor gradient, Tensor scores, Tensor target, Tensor kept) -> Tensor", _loss_backward_shapes
)
def _loss_backward(gradient: Tensor, scores: Tensor, target: Tensor, kept: Tensor) -> Tensor:
    from shortlist.kernels.device import sparse_top as device

    scores, marks, out = unit_columns(scores), _marks(target), _loss_backward_shapes(gradient, scores, target, kept)
    rows, classes = scores.shape
    if rows:
        block = block_of(classes)
        device.loss_backward[(rows, -(-classes // block))](
            gradient,
            scores,
            marks,
            kept,
            out,
            classes,
            gradient.stride(0),
            scores.stride(0),
            marks.stride(0),
            rows,
            MARKED=target.ndim == 2,
            BLOCK=block,
            num_warps=warps_of(classes),
        )
    return out


def _marks(target: Tensor) -> Tensor:
    """The target as the kernels read it: int64 (N,), or uint8 (N, C) with neighbouring columns."""
    return target if target.ndim == 1 else unit_columns(target).view(torch.uint8)
