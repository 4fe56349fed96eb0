"""Means over labels of two partial losses, in one pass over the scores, and their gradient in another.

Plain form: ``losses/multilabel.py``. The target is read as it is, labels (N,) or marks (N, C).
"""

from typing import Any

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.labels import readable
from shortlist.kernels.overwriting import room_for_gradient
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import blocks, unit_columns
from shortlist.tensors import Scores, Target, is_single_label


def _row_values(scores: Scores, *_: Any) -> Tensor:
    return scores.new_empty(len(scores), dtype=torch.float32)


def _like_scores(scores: Scores, *_: Any) -> Tensor:
    return room_for_gradient(scores)


@operator("spa_rows(Tensor scores, Tensor target, float[] shape) -> Tensor", _row_values)
def _spa_rows(scores: Scores, target: Target, shape: list[float]) -> Tensor:
    from shortlist.kernels.device import partials

    return _values(partials.spa_rows, scores, target, shape)


@operator("spa_gradient(Tensor scores, Tensor target, Tensor gradient, float[] shape) -> Tensor", _like_scores)
def _spa_gradient(scores: Scores, target: Target, gradient: Tensor, shape: list[float]) -> Tensor:
    from shortlist.kernels.device import partials

    return _gradient(partials.spa_gradient, scores, target, gradient, shape)


@operator("focal_rows(Tensor scores, Tensor target, float[] shape) -> Tensor", _row_values)
def _focal_rows(scores: Scores, target: Target, shape: list[float]) -> Tensor:
    from shortlist.kernels.device import partials

    return _values(partials.focal_rows, scores, target, shape, SHIFTED=shape[2] > 0)


@operator(
    "focal_gradient(Tensor scores, Tensor target, Tensor gradient, float[] shape, bool detach_weight) -> Tensor", _like_scores
)
def _focal_gradient(scores: Scores, target: Target, gradient: Tensor, shape: list[float], detach_weight: bool) -> Tensor:
    from shortlist.kernels.device import partials

    return _gradient(partials.focal_gradient, scores, target, gradient, shape, SHIFTED=shape[2] > 0, DETACH=detach_weight)


def _values(kernel: Any, scores: Scores, target: Target, shape: list[float], **choices: bool) -> Tensor:
    """Launch a program for each row."""
    values = _row_values(scores)
    if not len(scores):
        return values
    scores, marks, classes = unit_columns(scores), readable(target), scores.shape[1]
    kernel[(len(scores),)](
        scores,
        marks,
        values,
        scores.stride(0),
        marks.stride(0),
        classes,
        *shape,
        SINGLE=is_single_label(target),
        **choices,
        **blocks(classes),
    )
    return values


def _gradient(kernel: Any, scores: Scores, target: Target, gradient: Tensor, shape: list[float], **choices: bool) -> Tensor:
    """Launch a program for each row and block of columns."""
    out = _like_scores(scores)
    if not len(scores):
        return out
    scores, marks, classes = unit_columns(scores), readable(target), scores.shape[1]
    block = blocks(classes)
    kernel[(len(scores), -(-classes // block["BLOCK"]))](
        scores,
        marks,
        gradient,
        out,
        scores.stride(0),
        marks.stride(0),
        gradient.stride(0),
        classes,
        *shape,
        SINGLE=is_single_label(target),
        **choices,
        **block,
    )
    return out


class _SpaMeans(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Scores, target: Target, shape: list[float]) -> Tensor:
        ctx.save_for_backward(scores, target)
        ctx.shape = shape
        return _spa_rows(scores, target, shape)

    @staticmethod
    @differentiable_once("the GPU kernel of BCE and SPA")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        scores, target = ctx.saved_tensors
        return _spa_gradient(scores, target, gradient, ctx.shape), None, None


class _FocalMeans(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Scores, target: Target, shape: list[float], detach_weight: bool) -> Tensor:
        ctx.save_for_backward(scores, target)
        ctx.shape, ctx.detach_weight = shape, detach_weight
        return _focal_rows(scores, target, shape)

    @staticmethod
    @differentiable_once("the GPU kernel of the asymmetric focal loss")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        scores, target = ctx.saved_tensors
        return _focal_gradient(scores, target, gradient, ctx.shape, ctx.detach_weight), None, None, None


def spa_means(
    scores: Scores,
    target: Target,
    *,
    zeta_pos: float = 1.0,
    k_pos: float = 1.0,
    b_pos: float = 0.0,
    zeta_neg: float = 1.0,
    k_neg: float = 1.0,
    b_neg: float = 0.0,
) -> Tensor:
    """The SPA loss of each row, float32 (N,); with the defaults, binary cross-entropy."""
    shape = [1 / zeta_pos, k_pos, b_pos, 1 / zeta_neg, k_neg, b_neg]
    means: Tensor = _SpaMeans.apply(scores, target, shape)  # type: ignore[no-untyped-call]
    return means


def asymmetric_focal_means(
    scores: Scores, target: Target, *, gamma_pos: float, gamma_neg: float, shift: float, detach_weight: bool
) -> Tensor:
    """The asymmetric focal loss of each row, float32 (N,)."""
    shape = [gamma_pos, gamma_neg, shift]
    means: Tensor = _FocalMeans.apply(scores, target, shape, detach_weight)  # type: ignore[no-untyped-call]
    return means
