"""Sets of rows that come a block at a time, and their sizes."""

from collections.abc import Iterable

import torch
from torch import Tensor

from shortlist.row_order import count_rows
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.draws import same_draws
from shortlist.sets.rule import SetRule
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import Array, Sets, blocks_of


class SetsInBlocks:
    """The sets of rows that come a block at a time: draws of a randomised rule do not depend on the division into blocks.

    Args:
        rule: fitted, or one that needs no fit.
    """

    def __init__(self, rule: SetRule):
        self._rule, self._draws = rule, rule.ordering.row_draws()

    def __call__(
        self,
        probs: Tensor,
        scores: Tensor | None = None,
        quality: Tensor | None = None,
        groups: Array | None = None,
        weights: Tensor | None = None,
    ) -> Sets:
        """The sets of a block of values that have been checked already.

        Args:
            probs: (N, C).
            scores: what the probabilities were computed from, if that is known: a randomised rule draws by these.
            quality: (N,), if the gate compares rows by it.
            groups: the group of each row, (N,), if there is a threshold for each.
            weights: what each row counts for, (N,), if each is compared with the threshold for its weight.
        """
        return self._rule.gated(probs, self._rule.bounded(probs, self.unbounded(probs, scores, groups, weights)), quality)

    def unbounded(
        self, probs: Tensor, scores: Tensor | None = None, groups: Array | None = None, weights: Tensor | None = None
    ) -> Sets:
        """The same before the cap, the floor and the gate."""
        if self._draws is None:
            return self._rule.unbounded(probs, None, groups, weights)
        draws = self._draws(probs if scores is None else scores).to(probs.device)
        return self._rule.unbounded(probs, draws, groups, weights)


def measured(rule: SetRule, batches: Batches) -> SizeSummary | None:
    """The sizes of the sets of these rows; None if there are none."""
    counts = size_counts(rule, batches.whole_rows())
    return None if counts is None or not counts.sum() else SizeSummary.of(counts)


def size_counts(rule: SetRule, batches: Iterable[Batch]) -> Tensor | None:
    """The number of sets of size 0, 1, 2, …, C of these rows, int64 (C + 1,); None if there are no batches."""
    counts: Tensor | None = None
    sets_of = SetsInBlocks(rule)
    with same_draws(rule.ordering.generator):
        for batch in batches:
            if counts is None:
                counts = torch.zeros(batch.probs.shape[1] + 1, dtype=torch.int64, device=batch.probs.device)
            for rows in blocks_of(batch.probs):
                scores, quality = (None if part is None else part[rows] for part in (batch.scores, batch.quality))
                groups = None if batch.groups is None else batch.groups[rows]
                sizes = count_rows(sets_of(batch.probs[rows], scores, quality, groups)).to(counts.device)
                counts.scatter_add_(0, sizes, torch.ones_like(sizes))
    return None if counts is None else counts.cpu()
