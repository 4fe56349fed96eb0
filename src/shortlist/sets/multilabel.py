"""Constraints for rows with any number of labels: a bounded miss rate, and one threshold for each label."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import as_typed, decimal
from shortlist.errors import InputError
from shortlist.row_order import sort_rows
from shortlist.sets.batches import Batches
from shortlist.sets.constraints import ENOUGH, Constraint, FittedThreshold, check_alpha, joined
from shortlist.sets.orderings import Ordering
from shortlist.tensors import BLOCK_ENTRIES, Array, is_single_label, one_hot

# Different names for the same risk: one minus the recall of a row.
RISKS = ("recall", "miss_rate", "false_negative_rate")
LabelMeasure: TypeAlias = Literal["f1", "precision", "recall"]


@dataclass
class Risk(Constraint):
    """The expected share of a row's labels that its set misses is at most α: conformal risk control."""

    kind = "risk"
    per_class = False
    needs_labels = True
    risk: str
    alpha: int | float | str
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        if self.risk not in RISKS:
            raise InputError(f"risk: expected 'recall' (the share of labels that are missed), got {self.risk!r}")
        self.level = check_alpha(self.alpha)
        self.alpha = as_typed("alpha", self.alpha)
        self.guarantee = (
            f"The expected share of a new row's labels that its set misses is at most {float(self.level):g} (recall at least "
            f"{1 - float(self.level):g}; a row without labels misses none), if rows are exchangeable."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The highest threshold with ``(total loss + 1) / (n + 1) ≤ α``; the loss is summed in exact fractions."""
        rows, values, sizes = 0, [], []
        for probs, target in batches.labelled():
            rows += len(probs)
            values.append(ordering.at_labels(probs, target).double())
            size = torch.ones_like(target) if is_single_label(target) else target.sum(1)
            sizes.append(size if is_single_label(target) else size.repeat_interleave(size))
        if not rows:
            raise InputError("probs: expected labelled calibration rows, got none")
        budget = self.level * (rows + 1) - 1
        threshold, note = _affordable(joined(values).cpu().numpy(), joined(sizes).cpu().numpy(), budget)
        notes = () if note is None else (f"{rows} calibration rows are too few for a risk of {self.alpha}: {note}",)
        return FittedThreshold(torch.tensor(threshold, dtype=torch.float64), notes)


def _affordable(values: Array, sizes: Array, budget: Fraction) -> tuple[float, str | None]:
    """The largest threshold at which the labels below it, each a loss of 1/size, stay within the budget."""
    if budget < 0:
        return -np.inf, "every label is returned"
    if not values.size:
        return np.inf, None
    order = np.argsort(values, kind="stable")
    edges, first = np.unique(values[order], return_index=True)
    # In units of one over the common multiple every loss is an integer, Python's where those of 64 bits could overflow.
    unit = math.lcm(*map(int, np.unique(sizes)))
    integers = np.int64 if unit * sizes.size < 2**63 else object
    spent = np.cumsum(unit // sizes[order].astype(integers))
    lost_below = np.concatenate([[0], spent])[first]
    if spent[-1] <= budget * unit:
        return np.inf, None
    return float(edges[np.flatnonzero(lost_below <= math.floor(budget * unit))[-1]]), None


@dataclass
class LabelObjective(Constraint):
    """One threshold for each label: the best F1, the lowest with a given precision, or the highest with a given recall."""

    kind = "label-objective"
    per_class = True
    needs_labels = True
    objective: LabelMeasure
    level: int | float | str | None = None
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        if self.objective not in ("f1", "precision", "recall"):
            raise InputError(f"objective: expected 'f1', 'precision' or 'recall', got {self.objective!r}")
        if self.objective == "f1" and self.level is not None:
            raise InputError(f"level: expected none with the objective 'f1', got {self.level}")
        if self.objective != "f1" and self.level is None:
            raise InputError(f"level: expected the {self.objective} that each label should have, such as 0.9, got none")
        self.share = Fraction(1) if self.level is None else decimal("level", self.level)
        if not 0 < self.share <= 1:
            raise InputError(f"level: expected a number above 0 and up to 1, got {self.level}")
        self.level = None if self.level is None else as_typed("level", self.level)
        what = "the best F1" if self.objective == "f1" else f"a {self.objective} of at least {self.level!s}"
        self.guarantee = (
            f"Each label has {what} on the calibration rows, and up to chance on new rows from the same source; the fewer "
            "positive rows a label had, the larger the difference can be."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The best of all distinct values in the label's column. Needs all probabilities in memory."""
        parts = [(ordering(probs).cpu(), one_hot(target, probs.shape[1]).cpu()) for probs, target in batches.labelled()]
        if not sum(len(values) for values, _ in parts):
            raise InputError("probs: expected labelled calibration rows, got none")
        values, marks = (torch.cat(part) for part in zip(*parts, strict=True))
        columns = max(1, BLOCK_ENTRIES // len(values))
        thresholds = torch.cat(
            [
                self._thresholds(values[:, start : start + columns], marks[:, start : start + columns])
                for start in range(0, values.shape[1], columns)
            ]
        )
        every = int(((thresholds <= values.min(0).values) & (thresholds > -torch.inf)).sum())
        never, always = int((thresholds == torch.inf).sum()), int((thresholds == -torch.inf).sum())
        notes = []
        if never:
            notes.append(f"{never} of {len(thresholds)} labels are never returned: no threshold meets the objective")
        if always:
            notes.append(f"{always} of {len(thresholds)} labels are always returned: they have no positive rows")
        if every and len(values) >= ENOUGH:
            notes.append(f"{every} of {len(thresholds)} labels are returned on every calibration row: no threshold does better")
        return FittedThreshold(thresholds, tuple(notes))

    def limit(self, threshold: Tensor) -> Tensor:
        """As declared by :class:`Constraint`: a label with an infinite threshold is never returned, whatever its score."""
        return torch.where(threshold == torch.inf, torch.nan, threshold)

    def _thresholds(self, values: Tensor, marks: Tensor) -> Tensor:
        by_label = values.t().contiguous()
        ordered = sort_rows(by_label, descending=True)
        found = [
            self._threshold(ordered[label].numpy(), np.sort(by_label[label][marks[:, label]].numpy())[::-1])
            for label in range(len(by_label))
        ]
        return torch.tensor(found, dtype=torch.float64)

    def _threshold(self, ordered: Array, positives: Array) -> float:
        """The threshold of one label from all its values and those of its positive rows, both in decreasing order.

        The best threshold is always the value of a positive row: lowering it further only adds negatives until the next one.
        """
        if not positives.size:
            return -np.inf if self.objective == "recall" else np.inf
        cuts = np.unique(positives)[::-1]
        right = np.searchsorted(-positives, -cuts, side="right")
        returned = np.searchsorted(-ordered, -cuts, side="right")
        if self.objective == "recall":
            met = right >= math.ceil(self.share * positives.size)
            place = int(np.argmax(met))
        elif self.objective == "precision":
            # Python's integers: a share such as 1/3 as a decimal has a denominator of 10^16.
            met = right.astype(object) * self.share.denominator >= returned.astype(object) * self.share.numerator
            if not met.any():
                return np.inf
            place = int(np.flatnonzero(met)[-1])
        else:
            place = int(np.argmax(2 * right / (returned + positives.size)))
        # Halfway to the next value, so that rounding differences in another run of the model do not lose the label.
        following = ordered[returned[place]] if returned[place] < ordered.size else cuts[place]
        middle = ordered.dtype.type((float(cuts[place]) + float(following)) / 2)
        found = float(middle if middle > following else cuts[place])
        return min(found, float(np.finfo(ordered.dtype).max))  # infinite would be never
