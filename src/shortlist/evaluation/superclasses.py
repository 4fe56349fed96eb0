"""Superclasses: how the sets and the probabilities of classes do as answers about superclasses."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from shortlist.predictions import Predictions
from shortlist.row_order import count_rows, first_largest
from shortlist.sets import SetRule
from shortlist.sets.hierarchy import SurestNode, superclass_numbers
from shortlist.tensors import Probs, Sets, Target


def superclasses_of(predictions: Predictions, rule: SetRule | None) -> tuple[str, ...] | None:
    """The superclass of each class: its name in the predictions, or else its number in a rule that answers with them."""
    if predictions.superclasses is not None:
        return tuple(predictions.superclasses)
    if rule is not None and isinstance(rule.ordering, SurestNode):
        return tuple(map(str, rule.ordering.groups.tolist()))
    return None


def superclass_top(probs: Probs, target: Target, groups: Tensor) -> Tensor:
    """Number of rows whose superclass has the largest summed probability (ties: the first), and of rows: float64 (2,)."""
    right = _sums(probs.double(), groups).argmax(1) == groups[target]
    return torch.tensor([int(right.sum()), len(right)], dtype=torch.float64)


def superclass_nodes(sets: Sets, groups: Tensor) -> Tensor:
    """What the sets are as nodes of the tree: float64 (5,).

    The sum of the numbers of superclasses in the sets; the number of sets that are one class, all of one superclass (more
    than one class, but not every class), and every class (more than one); the number of rows.
    """
    inside, held = _sums(sets.double(), groups), count_rows(sets)
    members = groups.bincount().double()
    several = held > 1
    every = several & (held == sets.shape[1])
    one = several & ~every & ((inside > 0).sum(1) == 1) & (inside == members).any(1)
    counts = [int((inside > 0).sum()), int((held == 1).sum()), int(one.sum()), int(every.sum()), len(sets)]
    return torch.tensor(counts, dtype=torch.float64)


def superclass_answers(probs: Probs, sets: Sets | None, target: Target, groups: Tensor) -> Tensor:
    """What a superclass would have answered, for rows with one label each: float64 (6,).

    The number of rows whose most probable label is wrong, and of those among them whose superclass is right; the number of sets
    with several labels, of those among them whose labels are all of one superclass, and of those whose label is of it; the
    number of rows.
    """
    best = first_largest(probs).squeeze(1)
    wrong = best != target
    counts = [int(wrong.sum()), int((wrong & (groups[best] == groups[target])).sum())]
    if sets is None:
        return torch.tensor([*counts, 0, 0, 0, len(target)], dtype=torch.float64)
    inside = _sums(sets.double(), groups) > 0
    several = count_rows(sets) > 1
    one = several & (inside.sum(1) == 1)
    right = one & inside.gather(1, groups[target][:, None]).squeeze(1)
    return torch.tensor([*counts, int(several.sum()), int(one.sum()), int(right.sum()), len(target)], dtype=torch.float64)


def superclass_columns(superclasses: Sequence[str], totals: Mapping[str, Tensor]) -> dict[str, list[Any]]:
    """The columns of :meth:`Evaluation.by_superclass`; none unless sets were measured on labels."""
    if "superclass_hits" not in totals:
        return {}
    above, groups = totals["superclass_hits"], superclass_numbers(superclasses)
    hits = _sums(totals["hits"], groups.to(totals["hits"].device))
    return {
        "superclass": list(dict.fromkeys(superclasses)),
        "classes": groups.bincount().tolist(),
        "rows": above[1].long().tolist(),
        "superclass_coverage": (above[0] / above[1]).tolist(),
        "class_coverage": (hits[0] / hits[1]).tolist(),
    }


def _sums(values: Tensor, groups: Tensor) -> Tensor:
    """The sum over the classes of each superclass, (N, C) → (N, G)."""
    sums = torch.zeros(len(values), int(groups.max()) + 1, dtype=values.dtype, device=values.device)
    return sums.index_add_(1, groups, values)
