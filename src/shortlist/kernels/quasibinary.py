"""The quasibinary loss in three passes over the scores: sums of the batch, cost, gradient.

Plain form: ``losses/quasibinary.py`` and ``links/quasibinary.py``. With L the log normaliser of the batch, its M labels and
the number A of scores above L, the derivative of the cost ``Σ -target (scores - L) + (scores - L)+`` with respect to L is
M - A, and that of L is the softmax over the whole batch; so the gradient is elementwise once L and A are known. On several
processes the caller sums what the first two passes find.
"""

from typing import Any

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.labels import readable
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import blocks, unit_columns
from shortlist.tensors import Scores, Target, is_single_label

_SUMMING = {"BLOCK": 1024, "num_warps": 8}


@operator(
    "quasibinary_sums(Tensor scores, Tensor target) -> Tensor",
    lambda scores, target: scores.new_empty(4, dtype=torch.float32),
)
def quasibinary_sums(scores: Scores, target: Target) -> Tensor:
    """``(log Σ exp(scores), labels, largest, Σ exp(scores - largest))`` of the batch, float32 (4,), without gradient."""
    from shortlist.kernels.device import quasibinary

    rows, classes = scores.shape
    of_rows, out = scores.new_empty((3, rows), dtype=torch.float32), scores.new_empty(4, dtype=torch.float32)
    scores, marks = unit_columns(scores), readable(target)
    if rows:
        quasibinary.row_sums[(rows,)](
            scores,
            marks,
            of_rows,
            rows,
            scores.stride(0),
            marks.stride(0),
            classes,
            SINGLE=is_single_label(target),
            **blocks(classes),
        )
    quasibinary.batch_sums[(1,)](of_rows, out, rows, **_SUMMING)
    return out


@operator(
    "quasibinary_cost(Tensor scores, Tensor target, Tensor? sums, Tensor? constant) -> Tensor",
    lambda scores, target, sums, constant: scores.new_empty(2, dtype=torch.float32),
)
def _cost(scores: Scores, target: Target, sums: Tensor | None, constant: Tensor | None) -> Tensor:
    """The cost and the number of scores above the log normaliser, float32 (2,)."""
    from shortlist.kernels.device import quasibinary

    rows, classes = scores.shape
    costs = scores.new_empty((2, rows), dtype=torch.float32)
    scores, marks = unit_columns(scores), readable(target)
    if rows:
        quasibinary.row_costs[(rows,)](
            scores,
            marks,
            costs if sums is None else sums,
            costs if constant is None else constant,
            costs,
            rows,
            scores.stride(0),
            marks.stride(0),
            classes,
            SINGLE=is_single_label(target),
            OWN=sums is not None,
            HAS_CONSTANT=constant is not None,
            **blocks(classes),
        )
    return costs.sum(1)


@operator(
    "quasibinary_gradient(Tensor scores, Tensor target, Tensor? sums, Tensor? constant, Tensor above, Tensor gradient) "
    "-> Tensor",
    lambda scores, *_: scores.new_empty(scores.shape),
)
def _gradient(
    scores: Scores, target: Target, sums: Tensor | None, constant: Tensor | None, above: Tensor, gradient: Tensor
) -> Tensor:
    from shortlist.kernels.device import quasibinary

    out = scores.new_empty(scores.shape)
    if not len(scores):
        return out
    scores, marks, classes = unit_columns(scores), readable(target), scores.shape[1]
    block = blocks(classes)
    quasibinary.gradient_of_cost[(len(scores), -(-classes // block["BLOCK"]))](
        scores,
        marks,
        above if sums is None else sums,
        above if constant is None else constant,
        above,
        gradient,
        out,
        scores.stride(0),
        marks.stride(0),
        classes,
        SINGLE=is_single_label(target),
        OWN=sums is not None,
        HAS_CONSTANT=constant is not None,
        **block,
    )
    return out


class _Cost(torch.autograd.Function):
    """The cost, which has been computed, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Scores,
        target: Target,
        sums: Tensor | None,
        constant: Tensor | None,
        cost: Tensor,
        above: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(scores, target, sums, constant, above)
        return cost.clone()

    @staticmethod
    @differentiable_once("the GPU kernel of the quasibinary loss")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scores, target, sums, constant, above = ctx.saved_tensors
        return _gradient(scores, target, sums, constant, above, gradient), None, None, None, None, None


def quasibinary_cost(scores: Scores, target: Target, sums: Tensor | None, constant: Tensor | None) -> tuple[Tensor, Tensor]:
    """The cost of these scores and the number of them above the log normaliser, without gradient.

    Args:
        scores: (N, C).
        target: bool (N, C), or integers (N,).
        sums: of the batch, from :func:`quasibinary_sums`; None for a constant normaliser.
        constant: log normaliser of a batch without labels, or of any batch if there are no sums.
    """
    cost, above = _cost(scores.detach(), target, sums, constant).unbind()
    return cost, above


def with_gradient(
    cost: Tensor, above: Tensor, scores: Scores, target: Target, sums: Tensor | None, constant: Tensor | None
) -> Tensor:
    """The cost as a function of the scores; ``above`` counts the scores of all processes that are above the normaliser."""
    found: Tensor = _Cost.apply(scores, target, sums, constant, cost, above)  # type: ignore[no-untyped-call]
    return found
