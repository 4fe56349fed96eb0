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
from shortlist.leading_bits import BitCounts, first_round, ranked, values_of
from shortlist.rounds import Values
from shortlist.sets.batches import Batch
from shortlist.sets.constraints import ENOUGH, Constraint, FittedThreshold, check_alpha
from shortlist.sets.orderings import Ordering
from shortlist.tensors import Array, Probs, is_single_label, one_hot

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

    @property
    def fewest_rows(self) -> int:
        """The number of rows from which a label may be missed."""
        return math.ceil(1 / self.level) - 1

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """The ordering at the labels, in groups by the number of labels of their row."""
        target = batch.labels
        sizes = torch.ones_like(target) if is_single_label(target) else target.sum(1)
        each = sizes if is_single_label(target) else sizes.repeat_interleave(sizes)
        return Values(ordering.at_labels(batch.probs, target), len(batch.probs), groups=each)

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """The highest threshold with ``(total loss + 1) / (n + 1) ≤ α``; the loss is summed in exact fractions."""
        if not counts.rows:
            raise InputError("probs: expected labelled calibration rows, got none")
        budget = self.level * (counts.rows + 1) - 1
        if budget < 0:
            note = f"{counts.rows} calibration rows are too few for a risk of {self.alpha}: every label is returned"
            return FittedThreshold(torch.tensor(-torch.inf, dtype=torch.float64), (note,))
        found = affordable(counts, budget)
        return found if isinstance(found, BitCounts) else FittedThreshold(torch.tensor(found, dtype=torch.float64))


def affordable(counts: BitCounts, budget: Fraction) -> float | BitCounts:
    """The largest threshold at which the labels below it, each a loss of 1/size, stay within the budget; or the next round."""
    sizes, totals = counts.group_totals()
    # In units of one over the common multiple every loss is an integer, Python's where those of 64 bits could overflow.
    unit = math.lcm(*map(int, sizes))
    integers = np.int64 if unit * counts.seen < 2**63 else object
    losses = {int(size): unit // int(size) for size in sizes}
    most = math.floor(budget * unit)
    if sum(int(total) * losses[int(size)] for size, total in zip(sizes, totals[:, 0], strict=True)) <= most:
        return np.inf
    bins = counts.bins
    weights = np.array([losses[int(size)] for size in bins.groups], integers)
    lost = bins.counts[:, 0].astype(integers) * weights
    edges, where = np.unique(bins.prefixes, return_inverse=True)
    in_bin = np.zeros(len(edges), integers)
    np.add.at(in_bin, where, lost)
    below = sum(int(count) * losses[int(size)] for size, count in zip(sizes, counts.below()[:, 0], strict=True))
    lost_below = below + np.cumsum(in_bin) - in_bin
    place = int(np.flatnonzero(lost_below <= most)[-1])
    if counts.resolved:
        return float(values_of(edges[[place]], np.dtype(counts.dtype))[0])
    return counts.opening(counts.everywhere(int(edges[place])))


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

    def first_counts(self, ordering: Ordering, sample: Probs | None = None) -> BitCounts:
        """As declared by :class:`Constraint`: the values of each label, and apart those of the rows that have it."""
        return first_round(marked=True, grouped=True)

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """Those of all labels, which are the groups; those of the labels of the row are marked."""
        marks = one_hot(batch.labels, batch.probs.shape[1])
        return Values(ordering(batch.probs), len(batch.probs), marks=marks)

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """The best of all distinct values in the label's column, or the next round.

        The best is always the value of a row that has the label: a lower threshold only adds other rows until the next one.
        """
        if not counts.rows:
            raise InputError("probs: expected labelled calibration rows, got none")
        positives = counts.group_totals()[1][:, 1]  # every label has values, those of all rows
        places = self._places(counts, positives)
        if len(places) and not counts.resolved:
            return counts.opening(counts.codes[np.union1d(places, _next_lower(counts, places))])
        thresholds = np.where(positives > 0, np.inf, -np.inf if self.objective == "recall" else np.inf)
        every = 0
        if len(places):
            values = counts.values()
            thresholds[counts.bins.groups[places]] = found = halfway(values[places], values[_next_lower(counts, places)])
            returned = counts.bins.above[places, 0] + counts.bins.counts[places, 0]
            every = int(((returned == counts.rows) & (found > -np.inf)).sum())
        return FittedThreshold(torch.from_numpy(thresholds), self.notes_on(thresholds, every, counts.rows))

    def notes_on(self, thresholds: Array, every: int, rows: int) -> tuple[str, ...]:
        """What the user should know about these thresholds, of which so many are passed by every calibration row."""
        labels = len(thresholds)
        notes = []
        if never := int((thresholds == np.inf).sum()):
            notes.append(f"{never} of {labels} labels are never returned: no threshold meets the objective")
        if always := int((thresholds == -np.inf).sum()):
            notes.append(f"{always} of {labels} labels are always returned: they have no positive rows")
        if every and rows >= ENOUGH:
            notes.append(f"{every} of {labels} labels are returned on every calibration row: no threshold does better")
        return tuple(notes)

    def limit(self, threshold: Tensor) -> Tensor:
        """As declared by :class:`Constraint`: a label with an infinite threshold is never returned, whatever its score."""
        return torch.where(threshold == torch.inf, torch.nan, threshold)

    def _places(self, counts: BitCounts, positives: Array) -> Array:
        """The places of the bins that may hold the best value of a label; once every bit is known, one for each label."""
        if self.objective == "recall":
            return ranked(counts, np.array([math.ceil(self.share * int(n)) for n in positives], np.int64), column=1)
        bins = counts.bins
        here = np.flatnonzero(bins.counts[:, 1])
        groups, right = bins.groups[here], (bins.above + bins.counts)[here, 1]
        # A threshold at the lowest marked value of a bin returns at most all of the bin, and at least the marked ones.
        most = (bins.above + bins.counts)[here, 0]
        least = most if counts.resolved else bins.above[here, 0] + bins.counts[here, 1]
        if self.objective == "precision":
            # The lowest that is certain to meet the level, and those below it that may.
            certain = np.full(len(positives), len(here))
            sure = np.flatnonzero(self._meets(right, most))
            np.minimum.at(certain, groups[sure], sure)
            kept = self._meets(right, least) & (np.arange(len(here)) <= certain[groups])
        else:
            reached = np.zeros(len(positives))
            np.maximum.at(reached, groups, 2 * right / (most + positives[groups]))
            kept = 2 * right / (least + positives[groups]) >= reached[groups]
            if counts.resolved:  # the highest of equally good ones
                highest = np.full(len(positives), -1)
                np.maximum.at(highest, groups[kept], np.flatnonzero(kept))
                kept &= np.arange(len(here)) == highest[groups]
        found: Array = here[kept]
        return found

    def _meets(self, right: Array, returned: Array) -> Array:
        """Whether the precision reaches its level, exactly."""
        numerator, denominator = self.share.numerator, self.share.denominator
        if not len(right) or int(returned.max()) * denominator < 2**63:
            met: Array = right * denominator >= returned * numerator
            return met
        # Python's integers: a share such as 1/3 as a decimal has a denominator of 10^16.
        return np.array(right.astype(object) * denominator >= returned.astype(object) * numerator, bool)


def _next_lower(counts: BitCounts, places: Array) -> Array:
    """The places of the bins below these in the same group; the same places where there are none."""
    groups, lower = counts.bins.groups, np.maximum(places - 1, 0)
    found: Array = np.where(groups[lower] == groups[places], lower, places)
    return found


def halfway(cuts: Array, following: Array) -> Array:
    """Between these values and the next below them, so that rounding differences in another run of the model lose no label."""
    with np.errstate(all="ignore"):
        middle = ((cuts.astype(np.float64) + following.astype(np.float64)) / 2).astype(cuts.dtype)
    found = np.where(middle > following, middle, cuts).astype(np.float64)
    return np.minimum(found, float(np.finfo(cuts.dtype).max))  # infinite would be never
