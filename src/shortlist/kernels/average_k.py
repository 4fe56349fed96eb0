"""The two-head loss for average-k sets, fused: ``losses/average_k.py`` has the plain form."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.derivatives import differentiable_once
from shortlist.kernels.overwriting import overwriting, room_for_gradient
from shortlist.kernels.registry import operator

ROUNDS = 3  # of counting a digit of the probabilities
PROGRAMS = 1024
MOST_COLUMNS = 1024  # of a row at once: more leave a processor room for fewer programs
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
    found = _allocated(scores)
    if not len(scores):
        found.loss.zero_()
        return tuple(found)
    terms = torch.empty(len(scores), 6, device=scores.device)
    for round in range(ROUNDS):
        _count(round, proposals, target, found, terms, ignore_index, (numerator, denominator))
    _sum_rows(scores, proposals, target, found, terms, ignore_index)
    _sum_all(scores, proposals, target, found, terms, (numerator, denominator), alpha, summed)
    return tuple(found)


def _count(
    round: int, proposals: Tensor, target: Tensor, found: Found, terms: Tensor, ignore_index: int, more: tuple[int, int]
) -> None:
    """Count one digit of the probabilities of these rows; the first round also finds the statistics of the rows."""
    from shortlist.kernels.device.average_k import count_first, count_further

    work, statistics, (rows, classes) = found.workspace, found.statistics, proposals.shape
    grid, rows_each, block, warps = _grid(rows, classes)
    of_rows = rows, classes, proposals.stride(0), ignore_index
    if round == 0:
        count_first[grid](proposals, target, statistics, terms, work, work[FIRST:], *of_rows, rows_each, block, num_warps=warps)
        return
    earlier, counts, digit, copies = (FIRST, SECOND, 8, 1) if round == 1 else (SECOND, THIRD, 11, COPIES)
    count_further[grid](
        *(proposals, target, statistics, work, work[STATE:], work[earlier:], work[counts:], *of_rows, *more, rows_each),
        *(round, digit, copies, COPIES, block),
        num_warps=warps,
    )


def _sum_rows(scores: Tensor, proposals: Tensor, target: Tensor, found: Found, terms: Tensor, ignore_index: int) -> None:
    """The sums of each row, once all digits are counted."""
    from shortlist.kernels.device.average_k import row_terms

    work, (rows, classes) = found.workspace, scores.shape
    grid, rows_each, block, warps = _grid(rows, classes)
    row_terms[grid](
        *(scores, proposals, target, found.statistics, terms, found.ties[0], work[STATE:], work[THIRD:], rows, classes),
        *(scores.stride(0), proposals.stride(0), ignore_index, rows_each, COPIES, block),
        num_warps=warps,
    )


def _sum_all(
    scores: Tensor,
    proposals: Tensor,
    target: Tensor,
    found: Found,
    terms: Tensor,
    more: tuple[int, int],
    alpha: float,
    summed: bool,
) -> None:
    """The loss of these rows, how many of the ties of each are chosen, and the shares."""
    from shortlist.kernels.device.average_k import total_loss

    rows, classes = scores.shape
    work, (tied, quotas) = found.workspace, found.ties
    total_loss[(1,)](
        *(scores, proposals, target, found.statistics, terms, tied, quotas, work, work[STATE:], found.loss, found.shares),
        *(rows, classes, scores.stride(0), proposals.stride(0), *more, alpha, summed, 1024, _sizes(classes)[0]),
        num_warps=8,
    )


def _grid(rows: int, classes: int) -> tuple[tuple[int], int, int, int]:
    """The programs, the rows of each, the columns it takes at once, and its warps."""
    rows_each = -(-rows // PROGRAMS)
    return (-(-rows // rows_each),), rows_each, *_sizes(classes)


def _gradient_shapes(upstream: Tensor, scores: Tensor, proposals: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return room_for_gradient(scores), room_for_gradient(proposals)


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
    return block, 8 if classes > 2 * MOST_COLUMNS else 4


class AverageKParts:
    """The loss of a batch whose scores are there for some rows at a time, in the order of the rows.

    Call :meth:`count` with the proposal scores of all rows, :data:`ROUNDS` times over; then :meth:`finish` with the scores of
    both heads of all rows. The scores of a row must be the same each time.

    Args:
        target: int64 (N,), the labels of the batch.
        ignore_index: rows with this label are left out.
        more: numerator and denominator of k - 1.
        alpha: weight of the pseudo-labels.
        summed: whether the loss is the sum over the rows rather than their mean.
    """

    def __init__(self, target: Tensor, ignore_index: int, more: tuple[int, int], alpha: float, *, summed: bool):
        self.target, self.ignore_index, self.more, self.alpha, self.summed = target, ignore_index, more, alpha, summed
        self._all = _allocated(target)
        self._terms = torch.empty(len(target), 6, device=target.device)
        self._ties_before = torch.zeros((), dtype=torch.int64, device=target.device)

    def count(self, round: int, rows: slice, proposals: Tensor) -> None:
        """Count a digit of the probabilities of these rows."""
        _count(round, proposals, self.target[rows], self._part(rows), self._terms[rows], self.ignore_index, self.more)

    def finish(self, rows: slice, scores: Tensor, proposals: Tensor, upstream: Tensor | None) -> tuple[Tensor, ...]:
        """The loss of these rows; with an upstream gradient also the gradients of both heads, written over their scores."""
        target, found, terms = self.target[rows], self._part(rows), self._terms[rows]
        _sum_rows(scores, proposals, target, found, terms, self.ignore_index)
        found.workspace[STATE + 7].sub_(self._ties_before)  # the ties of earlier rows are chosen first
        _sum_all(scores, proposals, target, found, terms, self.more, self.alpha, self.summed)
        self._ties_before += found.ties[0].sum()
        if upstream is None:
            return (found.loss,)
        kept = found.statistics, found.ties, found.workspace, found.shares
        with overwriting(scores, proposals):
            return found.loss, *average_k_backward(upstream, scores, proposals, target, *kept, self.ignore_index)

    def _part(self, rows: slice) -> Found:
        whole = self._all
        loss = torch.empty_like(whole.loss)
        return Found(loss, whole.statistics[rows], whole.ties[:, rows], whole.workspace, whole.shares)


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
    @differentiable_once("the GPU kernel of the average-k loss")
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
