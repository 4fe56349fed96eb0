"""Functions with one value for each row of scores, whose slopes in the scores are found together with the value."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiates_again
from shortlist.tensors import Scores, uncompiled

Compute = Callable[[Scores, bool], tuple[Tensor, Tensor | None]]


@uncompiled
def with_slopes(scores: Scores, compute: Compute, slopes: Callable[[Scores], Tensor]) -> Tensor:
    """The values of the rows, (N,), as a function of the scores that can be differentiated as often as wanted.

    Args:
        scores: (N, C).
        compute: scores, and whether slopes are wanted → values (N,) and slopes (N, C), or None.
        slopes: scores → the same slopes, by operations that torch differentiates; called only if the gradient is itself to be
            differentiated (``create_graph=True``), for which the numbers that ``compute`` found would be constants.
    """
    wanted = torch.is_grad_enabled() and scores.requires_grad
    values: Tensor = _WithSlopes.apply(scores, compute, slopes, wanted)[0]  # type: ignore[no-untyped-call]
    return values


class _WithSlopes(torch.autograd.Function):
    """In the form that ``torch.func`` takes too: what is kept for the backward pass is among the results."""

    @staticmethod
    def forward(
        scores: Scores, compute: Compute, slopes: Callable[[Scores], Tensor], wanted: bool
    ) -> tuple[Tensor, Tensor | None]:
        return compute(scores, wanted)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> None:
        scores, _, ctx.slopes, wanted = inputs
        ctx.set_materialize_grads(False)  # zeros for the slopes, to which none flows, would cost memory
        if wanted:
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(scores, output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Tensor | None, None, None, None]:
        if gradient is None:
            return None, None, None, None
        scores, found = ctx.saved_tensors
        if differentiates_again():
            found = ctx.slopes(scores)
        return found * gradient[:, None], None, None, None
