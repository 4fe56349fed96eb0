"""The average-k loss of scores that are there for some rows at a time."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.kernels.average_k import ROUNDS, AverageKParts
from shortlist.losses.average_k import (
    AverageKLoss,
    barred_entries,
    can_fuse,
    global_cut,
    more_labels,
    number_chosen,
    open_probs,
    term_sums,
)
from shortlist.losses.head_gradients import ChunkedHead
from shortlist.losses.rows import labelled_rows, single_labels, without_ignored
from shortlist.tensors import Scores, Target

Chosen = Callable[[Scores, Tensor], Tensor]


def average_k_of_chunks(
    loss: AverageKLoss,
    labels: ChunkedHead,
    proposals: ChunkedHead,
    scores: Scores,
    target: Target,
    chunks: Sequence[slice],
    scale: float,
) -> Tensor:
    """The loss of one process, while both heads collect their gradients.

    Args:
        loss: the loss.
        labels: the multi-label head.
        proposals: the proposal head.
        scores: (N, C), of which only shape, dtype and device are used.
        target: int64 (N,).
        chunks: the rows that are there at a time, in order.
        scale: what the gradients are multiplied by.
    """
    keywords = loss.keywords
    target = single_labels(scores, target, keywords["ignore_index"]).contiguous()
    if keywords["k"] > scores.shape[1]:
        raise InputError(f"k: expected at most the {scores.shape[1]} classes of weight, got {keywords['k']:g}")
    compute = _fused if len(target) and can_fuse(scores, scores) else _plain
    return compute(loss, labels, proposals, target, chunks, scale)


def _fused(
    loss: AverageKLoss,
    labels: ChunkedHead,
    proposals: ChunkedHead,
    target: Target,
    chunks: Sequence[slice],
    scale: float,
) -> Tensor:
    """By kernels: a pass over the proposal scores for each digit of the cut, and one over the scores of both heads."""
    keywords = loss.keywords
    more = more_labels(keywords["k"]).as_integer_ratio()
    parts = AverageKParts(target, keywords["ignore_index"], more, keywords["alpha"], summed=keywords["reduction"] == "sum")
    last = _LastScores(proposals)
    for round in range(ROUNDS):
        for rows in _ending_where_the_next_begins(chunks, ROUNDS - round):
            parts.count(round, rows, last(rows))
    upstream = torch.full((), scale, device=target.device) if labels.trains or proposals.trains else None
    return torch.stack([_finished(parts, rows, labels, proposals, last, upstream) for rows in chunks]).sum()


class _LastScores:
    """The scores of a head; those of the rows that were asked for last are still there.

    Args:
        head: the head.
    """

    def __init__(self, head: ChunkedHead):
        self._head = head
        self._rows: slice | None = None
        self._scores: Scores | None = None

    def __call__(self, rows: slice) -> Scores:
        if self._scores is None or rows != self._rows:
            self._scores = None  # gone before the next are computed: there is memory for one chunk
            self._scores, self._rows = self._head.scores(rows), rows
        return self._scores


def _ending_where_the_next_begins(chunks: Sequence[slice], passes_left: int) -> Sequence[slice]:
    """The chunks, forwards or backwards, so that the last pass goes forwards and none computes its first chunk again."""
    return chunks if passes_left % 2 == 0 else chunks[::-1]


def _finished(
    parts: AverageKParts,
    rows: slice,
    labels: ChunkedHead,
    proposals: ChunkedHead,
    last: _LastScores,
    upstream: Tensor | None,
) -> Tensor:
    proposal_scores = last(rows)
    value, *gradients = parts.finish(rows, labels.scores(rows), proposal_scores, upstream)
    if gradients:
        labels.add(rows, gradients[0])
        proposals.add(rows, gradients[1], further=True)
    return value


def _plain(
    loss: AverageKLoss,
    labels: ChunkedHead,
    proposals: ChunkedHead,
    target: Target,
    chunks: Sequence[slice],
    scale: float,
) -> Tensor:
    """The definition: one pass over the proposal scores for the cut, and one over the scores of both heads."""
    keywords, classes = loss.keywords, len(labels.weight)
    ignore_index, k, alpha = keywords["ignore_index"], keywords["k"], keywords["alpha"]
    number = (target != ignore_index).sum()
    wanted = number_chosen(k, number)
    last = _LastScores(proposals)
    choose = _chooser(last, target, ignore_index, k, wanted, _ending_where_the_next_begins(chunks, 1))
    kind = torch.promote_types(labels.weight.dtype, torch.float32)
    rows_counted = number.to(kind).clamp(min=0.5)
    whole = rows_counted if keywords["reduction"] == "sum" else 1.0
    others = number * (classes - 1) - wanted
    shares = [whole / rows_counted, *(alpha * whole / entries.clamp(min=1).to(kind) for entries in (wanted, others))]
    values = [_part(labels, proposals, last, rows, target[rows], ignore_index, choose, shares, scale) for rows in chunks]
    return torch.stack(values).sum()


def _chooser(last: _LastScores, target: Target, ignore_index: int, k: float, wanted: Tensor, chunks: Sequence[slice]) -> Chosen:
    """A function that marks the pseudo-positives of a chunk; it is called with the chunks in order of their rows."""
    most = number_chosen(k, len(target))  # reached if no row is ignored
    best: Tensor | None = None
    for rows in chunks if most else ():
        (own, kept), scores = labelled_rows(last(rows), target[rows], ignore_index)
        probs = open_probs(scores, barred_entries(own, kept, scores.shape[1]))
        largest = probs.topk(min(most, len(probs))).values
        together = largest if best is None else torch.cat([best, largest])
        best = together.topk(min(most, len(together))).values
    if best is None or not len(best):
        return lambda _, barred: torch.zeros_like(barred)
    cut, free = global_cut(best, wanted)
    before = torch.zeros_like(free)

    def choose(scores: Scores, barred: Tensor) -> Tensor:
        probs = open_probs(scores.detach(), barred)
        tied = probs == cut
        chosen = (probs > cut) | (tied & (before + tied.cumsum(0) <= free))
        before.add_(tied.sum())
        return chosen.view(barred.shape)

    return choose


def _part(
    labels: ChunkedHead,
    proposals: ChunkedHead,
    last: _LastScores,
    rows: slice,
    given: Target,
    ignore_index: int,
    choose: Chosen,
    shares: Sequence[Tensor],
    scale: float,
) -> Tensor:
    """What these rows add to the loss."""
    trains = labels.trains or proposals.trains
    proposal_leaf = last(rows).requires_grad_(trains)
    leaves = [labels.scores(rows).requires_grad_(trains), proposal_leaf]
    with torch.set_grad_enabled(trains):
        own, scores = labelled_rows(leaves[0], given, ignore_index)
        proposal_scores = without_ignored(leaves[1], own.kept)
        barred = barred_entries(own.target, own.kept, scores.shape[1])
        sums = term_sums(scores, proposal_scores, given, own, barred, choose(proposal_scores, barred), ignore_index)
        value = sum((share * part for share, part in zip(shares, sums, strict=True)), start=sums[0].new_zeros(()))
        if len(given):
            value = torch.where(scores.detach().amax(1).isnan().any(), torch.nan, value)
    if trains:
        gradients = torch.autograd.grad(value, leaves, torch.full_like(value, scale))
        labels.add(rows, gradients[0])
        proposals.add(rows, gradients[1], further=True)
    return value.detach()
