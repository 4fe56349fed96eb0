"""The label pair penalty of each row, and its gradient, without a list of the present labels.

Plain form: ``losses/pairs.py``. A list would need their number, for which the CPU would have to wait for the device.
"""

from typing import Any

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.labels import readable
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import blocks, unit_columns
from shortlist.tensors import Target, is_single_label


@operator(
    "pair_rows(Tensor log_odds, Tensor target, float scale) -> Tensor",
    lambda log_odds, target, scale: log_odds.new_empty(len(log_odds), dtype=torch.float32),
)
def _pair_rows(log_odds: Tensor, target: Target, scale: float) -> Tensor:
    from shortlist.kernels.device import pairs

    values = log_odds.new_empty(len(log_odds), dtype=torch.float32)
    if not len(log_odds):
        return values
    log_odds, marks, classes = unit_columns(log_odds), readable(target), log_odds.shape[1]
    pairs.pair_rows[(len(log_odds),)](
        log_odds,
        marks,
        values,
        log_odds.stride(0),
        marks.stride(0),
        classes,
        scale,
        SINGLE=is_single_label(target),
        **blocks(classes),
    )
    return values


@operator(
    "pair_gradient(Tensor log_odds, Tensor target, Tensor gradient, float scale) -> Tensor",
    lambda log_odds, target, gradient, scale: log_odds.new_empty(log_odds.shape),
)
def _pair_gradient(log_odds: Tensor, target: Target, gradient: Tensor, scale: float) -> Tensor:
    from shortlist.kernels.device import pairs

    out = log_odds.new_empty(log_odds.shape)
    if not len(log_odds):
        return out
    log_odds, marks, classes = unit_columns(log_odds), readable(target), log_odds.shape[1]
    block = blocks(classes)
    pairs.pair_gradient[(len(log_odds), -(-classes // block["BLOCK"]))](
        log_odds,
        marks,
        gradient,
        out,
        log_odds.stride(0),
        marks.stride(0),
        gradient.stride(0),
        classes,
        scale,
        SINGLE=is_single_label(target),
        **block,
    )
    return out


class _PairSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_odds: Tensor, target: Target, scale: float) -> Tensor:
        ctx.save_for_backward(log_odds, target)
        ctx.scale = scale
        return _pair_rows(log_odds, target, scale)

    @staticmethod
    @differentiable_once("the GPU kernel of the label pair penalty")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        log_odds, target = ctx.saved_tensors
        return _pair_gradient(log_odds, target, gradient, ctx.scale), None, None


def pair_sums(log_odds: Tensor, target: Target, scale: float) -> Tensor:
    """``scale · Σ softplus(log-odds of absent - log-odds of present)`` over the pairs of each row, float32 (N,)."""
    sums: Tensor = _PairSums.apply(log_odds, target, scale)  # type: ignore[no-untyped-call]
    return sums
