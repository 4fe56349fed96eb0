"""Shot groups: what was measured about the classes with few, more and many training examples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.metrics.accuracy import class_shares

DEFINITIONS = {
    "classes": "number of classes with so many training examples",
    "present": "how many of them have rows here; macro averages are over these",
    "rows": "number of rows with a label of the group",
    "macro_coverage": "mean of the coverages of the classes present in the group",
    "macro_recall": "mean of the recalls of the classes present in the group",
    "macro_top1": "mean over the classes present in the group of their top-1 accuracy",
    "size": "mean number of labels in the sets of the rows with a label of the group",
}


@dataclass(frozen=True)
class ShotGroup:
    """A group of classes by their number of training examples; :data:`DEFINITIONS` says what the numbers mean.

    Args:
        name: ``few``, ``medium`` or ``many``, or a range such as ``11-50`` or ``2001+``.
        classes: number of classes.
        present: number of classes with rows.
        rows: number of rows with a label of the group.
        single_label: whether every row has exactly one label.
        coverage: macro coverage, with several labels a row macro recall; None without a rule, NaN without rows.
        top1: macro top-1 accuracy; None with several labels a row, NaN without rows.
        size: mean set size; None without a rule, NaN without rows.
    """

    name: str
    classes: int
    present: int
    rows: int
    single_label: bool
    coverage: float | None = None
    top1: float | None = None
    size: float | None = None

    def record(self) -> dict[str, Any]:
        """``group``, the counts, and as far as measured ``macro_coverage`` (``macro_recall``), ``macro_top1`` and ``size``."""
        word = "macro_coverage" if self.single_label else "macro_recall"
        counts = {"group": self.name, "classes": self.classes, "present": self.present, "rows": self.rows}
        measured = {word: self.coverage, "macro_top1": self.top1, "size": self.size}
        return counts | {name: value for name, value in measured.items() if value is not None}


def measured_groups(members: Mapping[str, Tensor], totals: Mapping[str, Tensor], *, single_label: bool) -> list[ShotGroup]:
    """The groups with these classes, from the totals of an evaluation; none if nothing about them was measured."""
    hits, first, sizes = (totals.get(name) for name in ("hits", "first_hits", "group_sizes"))
    counted = first if hits is None else hits
    if counted is None or (sizes is None and not single_label):
        return []
    found = []
    for place, (name, chosen) in enumerate(members.items()):
        by_size = None if sizes is None else sizes[place]
        found.append(
            ShotGroup(
                name,
                classes=int(chosen.sum()),
                present=int((counted[1][chosen] > 0).sum()),
                rows=int(counted[1][chosen].sum() if by_size is None else by_size.sum()),
                single_label=single_label,
                coverage=_macro(hits, chosen),
                top1=_macro(first, chosen),
                size=None if by_size is None else _mean_size(by_size),
            )
        )
    return found


def _macro(hits: Tensor | None, chosen: Tensor) -> float | None:
    return None if hits is None else float(class_shares(hits)[chosen].nanmean())


def _mean_size(counts: Tensor) -> float:
    """Of sets counted by size, from 0."""
    rows = float(counts.sum())
    sizes = torch.arange(len(counts), dtype=counts.dtype, device=counts.device)
    return float((counts * sizes).sum()) / rows if rows else math.nan
