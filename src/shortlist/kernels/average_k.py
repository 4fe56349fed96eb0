"""The two-head loss for average-k sets, fused: ``losses/average_k.py`` has the plain form."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.registry import operator

PROGRAMS = 1024
MOST_COLUMNS = 2048  # of a row at once: more would leave a processor room for one program only
COPIES = 2  # of the counts of a further digit
STATE, FIRST, SECOND, THIRD, END = 8, 16, 272, 272 + 2048 * COPIES, 272 + 4096 * COPIES  # places in the workspace


class Found(NamedTuple):
    """What the forward pass leaves for the backward pass.

    Args:
        loss: float32 ().
        statistics: the largest proposal score of each row and the total of its exponentials, float32 (N, 2).
        ties: the entries of each row that are at the cut, and how many of them are chosen, int32 (2, N).
        workspace: int64; holds the cut.
        shares: what a row, a pseudo-positive and a negative entry count in the loss, float32 (3,).
    """

    loss: Tensor
    statistics: Tensor
    ties: Tensor
    workspace: Tensor
    shares: Tensor


def _allocated(scores: Tensor) -> Found:
    rows, device = len(scores), scores.device
    return Found(
        torch.empty((), device=device),
        torch.empty(rows, 2, device=device),
        torch.empty(2, rows, dtype=torch.int32, device=device),
        torch.zeros(END, dtype=torch.int64, device=device),
        torch.empty(3, device=device),
    )


def _forward_shapes(scores: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(_allocated(scores))


@operator(
    "average_k_forward(Tensor scores, Tensor proposals, Tensor target, int ignore_index, int numerator, int denominator, "
    "float alpha, bool summed) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward_shapes,
)
def average_k_forward(
    scores: Tensor,
    proposals: Tensor,
    target: Tensor,
    ignore_index: int,
    numerator: int,
    denominator: int,
    alpha: float,
    summed: bool,
) -> tuple[Tensor, ...]:
    """Launch the passes over the proposal scores that find the cut, and those that sum the terms."""
    from shortlist.kernels.device.average_k import count_first, count_further, row_terms, total_loss

    rows, classes = scores.shape
    found = _allocated(scores)
    if not rows:
        found.loss.zero_()
        return tuple(found)
    terms = torch.empty(rows, 6, device=scores.device)
    work, statistics = found.workspace, found.statistics
    state = work[STATE:]
    block, warps = _sizes(classes)
    rows_each = -(-rows // PROGRAMS)
    grid = (-(-rows // rows_each),)
    of_rows = rows, classes, proposals.stride(0), ignore_index
    cut = numerator, denominator
    count_first[grid](proposals, target, statistics, terms, work, work[FIRST:], *of_rows, rows_each, block, num_warps=warps)
    for round, earlier, counts, digit, copies in ((1, FIRST, SECOND, 8, 1), (2, SECOND, THIRD, 11, COPIES)):
        count_further[grid](
            *(proposals, target, statistics, work, state, work[earlier:], work[counts:], *of_rows, *cut, rows_each),
            *(round, digit, copies, COPIES, block),
            num_warps=warps,
        )
    row_terms[grid](
        *(scores, proposals, target, statistics, terms, found.ties[0], state, work[THIRD:], rows, classes),
        *(scores.stride(0), proposals.stride(0), ignore_index, rows_each, COPIES, block),
        num_warps=warps,
    )
    total_loss[(1,)](
        *(scores, proposals, target, statistics, terms, found.ties[0], found.ties[1], work, state, found.loss, found.shares),
        *(rows, classes, scores.stride(0), proposals.stride(0), *cut, alpha, summed, 1024, block),
        num_warps=8,
    )
    return tuple(found)


def _gradient_shapes(upstream: Tensor, scores: Tensor, proposals: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return (
        torch.empty(scores.shape, dtype=scores.dtype, device=scores.device),
        torch.empty(proposals.shape, dtype=proposals.dtype, device=proposals.device),
    )


@operator(
    "average_k_backward(Tensor upstream, Tensor scores, Tensor proposals, Tensor target, Tensor statistics, Tensor ties, "
    "Tensor workspace, Tensor shares, int ignore_index) -> (Tensor, Tensor)",
    _gradient_shapes,
)
def average_k_backward(
    upstream: Tensor,
    scores: Tensor,
    proposals: Tensor,
    target: Tensor,
    statistics: Tensor,
    ties: Tensor,
    workspace: Tensor,
    shares: Tensor,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:
    """Launch the pass that reads the scores of both heads and writes both gradients."""
    from shortlist.kernels.device.average_k import gradients

    rows, classes = scores.shape
    of_scores, of_proposals = _gradient_shapes(upstream, scores, proposals)
    if rows:
        block, warps = _sizes(classes)
        gradients[(rows,)](
            *(scores, proposals, target, statistics, ties[0], ties[1], workspace[STATE:], shares, upstream),
            *(of_scores, of_proposals, classes, scores.stride(0), proposals.stride(0), ignore_index, block),
            num_warps=warps,
        )
    return of_scores, of_proposals


def _sizes(classes: int) -> tuple[int, int]:
    """The number of columns that a program takes at once, and of its warps."""
    block = min(MOST_COLUMNS, max(32, 1 << (classes - 1).bit_length()))
    return block, 8 if block > 1024 else 4


class _AverageK(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        proposals: Tensor,
        target: Tensor,
        ignore_index: int,
        numerator: int,
        denominator: int,
        alpha: float,
        summed: bool,
    ) -> Tensor:
        loss, *kept = average_k_forward(scores, proposals, target, ignore_index, numerator, denominator, alpha, summed)
        ctx.save_for_backward(scores, proposals, target, *kept)
        ctx.ignore_index = ignore_index
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scores, proposals, target, statistics, ties, workspace, shares = ctx.saved_tensors
        kept = statistics, ties, workspace, shares
        found = average_k_backward(upstream, scores, proposals, target, *kept, ctx.ignore_index)
        return *found, None, None, None, None, None, None


def fused_average_k(
    scores: Tensor, proposals: Tensor, target: Tensor, ignore_index: int, more: tuple[int, int], alpha: float, *, summed: bool
) -> Tensor:
    """The loss of one process, float32 ().

    Args:
        scores: (N, C), from the multi-label head.
        proposals: (N, C), from the proposal head.
        target: int64 (N,); a label out of range makes the loss NaN.
        ignore_index: rows with this label are left out.
        more: numerator and denominator of k - 1.
        alpha: weight of the pseudo-labels.
        summed: whether the loss is the sum over the rows rather than their mean.
    """
    scores, proposals = (part if part.stride(1) == 1 else part.contiguous() for part in (scores, proposals))
    loss: Tensor = _AverageK.apply(scores, proposals, target.contiguous(), ignore_index, *more, alpha, summed)  # type: ignore[no-untyped-call]
    return loss
