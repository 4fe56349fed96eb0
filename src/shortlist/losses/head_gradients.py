"""A linear head whose scores are computed for some rows at a time, and a loss whose gradients are known with its value."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from shortlist.kernels.derivatives import differentiable_once
from shortlist.tensors import DEVICE_BLOCK_ENTRIES, Scores, row_blocks

# Products of half-precision matrices that are added to a float32 matrix, without an intermediate result (torch 2.8, CUDA).
ADDS_TO_FLOAT32 = "dtype_out" in torch.ops.aten.addmm.overloads()
# Rows of which torch sums the columns at once: on a GPU it splits more of them among blocks, whose sums take more memory than
# the scores themselves, 154 MB for 1,024 rows of 43,000 classes.
SUMMED_AT_ONCE = 512
ROWS_OF_ONES = 8  # of a product whose rows are all the same sum: matrix products are made for several


class Features:
    """The inputs of one or several heads, and the gradient in them.

    Args:
        inputs: (N, F).
        kind: the dtype in which the scores are computed.
        trains: whether there are gradients at all.
    """

    def __init__(self, inputs: Tensor, kind: torch.dtype, *, trains: bool):
        self.inputs, self.kind, self.trains = inputs.to(kind), kind, trains
        self.gradient = torch.empty_like(self.inputs) if trains and inputs.requires_grad else None


class ChunkedHead:
    """A linear head, and the sums of its gradients over the rows that were added.

    The gradient of the weight is summed in float32, or in float64: in bfloat16 every chunk would cost it digits.

    Args:
        features: its inputs.
        weight: (C, F).
        bias: (C,); None without one.
    """

    def __init__(self, features: Features, weight: Tensor, bias: Tensor | None):
        self.features, self._stored_dtype, summed = features, weight.dtype, torch.promote_types(features.kind, torch.float32)
        self.weight, self.bias = weight.to(features.kind), None if bias is None else bias.to(features.kind)
        make = weight.new_empty if len(features.inputs) else weight.new_zeros  # without rows nothing is added
        trained = [features.trains and part is not None and part.requires_grad for part in (weight, bias)]
        self.weight_gradient = make(weight.shape, dtype=summed) if trained[0] else None
        self.bias_gradient = weight.new_zeros(len(weight), dtype=summed) if trained[1] else None
        self._added = False

    @property
    def trains(self) -> bool:
        """Whether any gradient is wanted."""
        return any(part is not None for part in (self.features.gradient, self.weight_gradient, self.bias_gradient))

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Those of the weight and of the bias; of a bfloat16 weight in bfloat16, which has the range, unlike float16."""
        of_weight = self.weight_gradient
        if of_weight is not None and self._stored_dtype == torch.bfloat16:
            of_weight = of_weight.to(torch.bfloat16)
        return of_weight, self.bias_gradient

    def scores(self, rows: slice) -> Scores:
        """The scores of these rows."""
        return linear(self.features.inputs[rows], self.weight, self.bias)

    def add(self, rows: slice, gradient: Tensor, *, further: bool = False) -> None:
        """Turn the gradient in the scores of these rows, (n, C), into those of the head and its inputs.

        Args:
            rows: the rows.
            gradient: in the dtype of the scores.
            further: whether another head of the same inputs has added these rows before.
        """
        of_inputs = self.features.gradient
        if of_inputs is not None:
            if further:
                of_inputs[rows].addmm_(gradient, self.weight)
            else:
                torch.mm(gradient, self.weight, out=of_inputs[rows])
        if self.weight_gradient is not None:
            _add_product(self.weight_gradient, gradient.T, self.features.inputs[rows], first=not self._added)
        if self.bias_gradient is not None:
            _add_columns(self.bias_gradient, gradient)
        self._added = True


def _add_product(total: Tensor, left: Tensor, right: Tensor, *, first: bool) -> None:
    """``total += left @ right``, or ``total = left @ right`` the first time."""
    beta = 0 if first else 1
    if total.dtype == left.dtype:
        total.addmm_(left, right, beta=beta)
    elif total.is_cuda and ADDS_TO_FLOAT32:
        torch.addmm(total, left, right, out_dtype=total.dtype, beta=beta, out=total)
    elif first:
        total.copy_(left @ right)
    else:
        total += left @ right


def _add_columns(total: Tensor, values: Tensor) -> None:
    """``total += values.sum(0)``; of half precision on a GPU by a product with ones (H200: .6 of the time)."""
    if total.is_cuda and ADDS_TO_FLOAT32 and total.dtype != values.dtype and len(values):
        total += torch.mm(values.new_ones(ROWS_OF_ONES, len(values)), values, out_dtype=total.dtype)[0]
        return
    for part in values.split(SUMMED_AT_ONCE):
        total += part.sum(0, dtype=total.dtype)


class _KnownGradients(torch.autograd.Function):
    """A value whose gradients are known when it is computed; the backward pass only scales them."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, scale: float, gradients: list[Tensor | None], *leaves: Tensor | None) -> Tensor:
        ctx.save_for_backward(*gradients, *leaves)
        ctx.scale, ctx.dtypes = scale, [None if leaf is None else leaf.dtype for leaf in leaves]
        return value.clone()

    @staticmethod
    @differentiable_once("loss_of_linear", "compute the scores of the head first, and then their loss")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        factor = upstream if ctx.scale == 1 else upstream * ctx.scale
        pairs = zip(ctx.saved_tensors[: len(ctx.dtypes)], ctx.dtypes, strict=True)
        return None, None, None, *(None if part is None else _scaled(part, factor, dtype) for part, dtype in pairs)


def with_gradients(value: Tensor, scale: float, gradients: list[Tensor | None], leaves: list[Tensor | None]) -> Tensor:
    """The value as a function of the leaves with these gradients, each times ``scale``."""
    if all(part is None for part in gradients):
        return value
    known: Tensor = _KnownGradients.apply(value, scale, gradients, *leaves)  # type: ignore[no-untyped-call]
    return known


def _scaled(values: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """``values · factor``; for half precision in float32, a block at a time, since torch would round the factor first."""
    if torch.finfo(values.dtype).bits > 16:
        return (values * factor).to(dtype)
    found = torch.empty_like(values, dtype=dtype)
    for rows in row_blocks(len(values), values[0].numel() if len(values) else 1, DEVICE_BLOCK_ENTRIES):
        found[rows] = values[rows].float() * factor
    return found
