"""The cost of a cap or a floor."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.row_order import count_rows
from shortlist.sets.batches import Batches, Source
from shortlist.sets.origin import check_same_origin
from shortlist.sets.rule import SetRule
from shortlist.tensors import Sets, Target, is_single_label, pick


@dataclass(frozen=True)
class BoundCost:
    """What a cap and a floor change: the sizes of sets and their coverage, before and after."""

    rows: int
    shortened: int
    lengthened: int
    size_before: float
    size_after: float
    coverage_before: float | None = None
    coverage_after: float | None = None

    def sentence(self) -> str:
        """The cost in words."""
        parts = [
            f"{what} {count / self.rows:.1%} of the sets"
            for what, count in (("the cap shortens", self.shortened), ("the floor lengthens", self.lengthened))
            if count
        ]
        if not parts:
            return "the bounds change no set"
        text = f"{' and '.join(parts)}: {self.size_before:.2f} → {self.size_after:.2f} labels on average"
        if self.coverage_before is None or self.coverage_after is None:
            return text
        return f"{text}, coverage {self.coverage_before:.1%} → {self.coverage_after:.1%}"


def bound_cost(rule: SetRule, probs: Source, target: Any = None, *, quality: Any = None, groups: Any = None) -> BoundCost:
    """What the cap and the floor of a fitted rule change on these rows; with labels, also for coverage.

    Args:
        rule: fitted, or one that needs no fit.
        probs: as in :meth:`SetRule.fit`.
        target: as in :meth:`SetRule.fit`.
        quality: as in :meth:`SetRule.fit`.
        groups: as in :meth:`SetRule.fit`.

    >>> from shortlist.sets import cap, threshold
    >>> rule = cap(threshold(0.2), 1)
    >>> bound_cost(rule, torch.tensor([[0.5, 0.4, 0.1], [0.9, 0.1, 0.0]]), torch.tensor([1, 0])).sentence()
    'the cap shortens 50.0% of the sets: 1.50 → 1.00 labels on average, coverage 100.0% → 50.0%'
    """
    check_same_origin(rule.text, rule.origin, probs)
    total = torch.zeros(8, dtype=torch.float64)
    labelled = True
    sets_of = rule.in_blocks()
    # Not widened: the sets are those that calling the rule gives, in the dtype of the probabilities.
    reading: dict[str, Any] = {"probabilities": rule.needs_probabilities, "widen": False}
    batches = Batches(probs, target, quality=quality, groups=groups, column=rule.column, **reading)
    for batch in batches.whole_rows():
        free = sets_of.unbounded(batch.probs, batch.scores, batch.groups)
        both = (free, rule.bounded(batch.probs, free))
        before, after = (rule.gated(batch.probs, sets, batch.quality) for sets in both)
        total += _changes(before, after, batch.target).cpu()
        labelled &= batch.target is not None
    # Of batches, the columns are known once they are read.
    check_same_origin(rule.text, rule.origin, probs, batches.names, batches.classes)
    rows, shorter, longer, size_before, size_after, hits_before, hits_after, count = total.tolist()
    if not rows:
        raise InputError("probs: expected rows, got none")
    coverages = (hits_before / count, hits_after / count) if labelled and count else (None, None)
    return BoundCost(int(rows), int(shorter), int(longer), size_before / rows, size_after / rows, *coverages)


def _changes(before: Sets, after: Sets, target: Target | None) -> Tensor:
    old, new = count_rows(before), count_rows(after)
    hits = [torch.zeros(())] * 3
    if target is not None and is_single_label(target):
        hits = [pick(before, target).sum(), pick(after, target).sum(), torch.tensor(len(target))]
    elif target is not None:
        hits = [(before & target).sum(), (after & target).sum(), target.sum()]
    counts = [torch.tensor(len(before)), (new < old).sum(), (new > old).sum(), old.sum(), new.sum(), *hits]
    return torch.stack([count.double() for count in counts])
