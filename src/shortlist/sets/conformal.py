"""Conformal constraints: the error on average, of every class, or in between, on rows with labels."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import as_typed, decimal
from shortlist.errors import InputError
from shortlist.leading_bits import BitCounts, first_round, ranked
from shortlist.rounds import Values
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.constraints import ENOUGH, Constraint, FittedThreshold, check_alpha
from shortlist.sets.orderings import Ordering, Probability
from shortlist.tensors import Array, Probs, is_single_label, pick

MUCH = 0.02  # a note says so if coverage exceeds what was asked for by more


def conformal_rank(n: int, alpha: Fraction) -> int:
    """``⌈(n + 1)(1 - α)⌉`` in exact arithmetic."""
    return math.ceil((n + 1) * (1 - alpha))


def ranks_from_top(counts: Array, alpha: Fraction, ordering: Ordering) -> Array:
    """The place of the conformal quantile in the decreasing order of n values, for each n; 0 where n is too small for one."""
    sizes, where = np.unique(counts, return_inverse=True)
    ranks = [conformal_rank(int(n), alpha) for n in sizes]
    found = [0 if rank > n else rank if ordering.descending else n + 1 - rank for n, rank in zip(sizes, ranks, strict=True)]
    return np.array(found, np.int64)[where]


@dataclass
class AverageError(Constraint):
    """The label of a new row is missed with probability at most α: split conformal prediction."""

    kind = "average-error"
    per_class = False
    needs_labels = one_label = takes_draws = True
    alpha: int | float | str
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.level = check_alpha(self.alpha)
        self.alpha = as_typed("alpha", self.alpha)
        self.guarantee = (
            f"The set of a new row contains its label with probability at least {1 - float(self.level):g}, on average over "
            "rows and calibration sets, if new rows and calibration rows are exchangeable."
        )

    def rows_to_fit(self, ordering: Ordering, batches: Batches) -> Batches:
        """As declared by :class:`Constraint`: those on which the ordering has not chosen anything."""
        return ordering.tuned(batches, lambda n: conformal_rank(n, self.level))

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """As declared by :class:`Constraint`."""
        return super().fit(ordering, self.rows_to_fit(ordering, batches))

    @property
    def fewest_rows(self) -> int:
        """The number of rows from which the threshold leaves a label out."""
        return math.ceil(1 / self.level) - 1

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """The ordering at the true labels."""
        target = batch.labels
        single = is_single_label(target)
        if self.one_label and not single:
            raise InputError(
                "target: expected one label a row, got many labels: use risk-control, which bounds the share of labels that is "
                "missed, or classwise"
            )
        values, rows = ordering.at_labels(batch.probs, target), len(batch.probs)
        if not self.draws_from(ordering):
            return Values(values, rows)
        own = (pick(batch.probs, target) if single else batch.probs[target]).double()
        numbers = batch.row_numbers if single else batch.row_numbers.repeat_interleave(target.sum(1))
        return Values(values, rows, own=own, numbers=numbers)

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """The conformal quantile of these values."""
        n = _some(counts)
        rank = conformal_rank(n, self.level)
        labels = torch.tensor(n)
        if rank > n:
            note = (
                f"{n} calibration rows are too few for an error of {self.alpha} ({self.fewest_rows} are needed): every label "
                "is returned"
            )
            return FittedThreshold(torch.tensor(ordering.worst(), dtype=torch.float64), (note,), labels, torch.tensor(0))
        [place] = ranked(counts, ranks_from_top(np.array([n]), self.level, ordering))
        if not counts.resolved:
            return counts.opening(_to_open(counts, np.array([place]), np.array([rank == n])))
        tied = _ties(counts, np.array([place]), np.array([n]), np.array([rank]), ordering)
        notes: tuple[str, ...] = ()
        if n >= ENOUGH and (extra := int(tied[0]) / n) > MUCH:
            notes = (
                f"{extra:.1%} more of the calibration rows are covered than was asked for, because many tie at the threshold: "
                "sets are larger than necessary (aps and raps need not be :deterministic)",
            )
        threshold = torch.tensor(float(counts.values()[place]), dtype=torch.float64)
        return FittedThreshold(threshold, notes, labels, torch.tensor(int(tied[0])))


@dataclass
class ErrorPerClass(AverageError):
    """The same for each class by itself; a class with too few calibration rows is in every set."""

    kind = "error-per-class"
    per_class = True
    one_label = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.guarantee = (
            f"Whatever the label of a new row, its set contains it with probability at least {1 - float(self.level):g}, if new "
            "rows and calibration rows of a class are exchangeable."
        )

    def first_counts(self, ordering: Ordering, sample: Probs | None = None) -> BitCounts:
        """As declared by :class:`Constraint`: values are counted class by class."""
        return first_round(grouped=True)

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """The ordering at the true labels, which are the groups."""
        target = batch.labels
        labels = target if is_single_label(target) else target.nonzero()[:, 1]
        return replace(super().values(ordering, batch), groups=labels)

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """One conformal quantile for each class."""
        _some(counts)
        found = self._quantiles(ordering, counts, classes)
        if isinstance(found, BitCounts):
            return found
        thresholds, labels, tied = found
        notes: tuple[str, ...] = ()
        if always := int((thresholds == ordering.worst()).sum()):
            notes = (
                f"{always} of {len(thresholds)} classes have fewer than the {self.fewest_rows} calibration rows that an error "
                f"of {self.alpha} needs: they are in every set",
            )
        return FittedThreshold(thresholds, notes, labels, tied)

    def _quantiles(self, ordering: Ordering, counts: BitCounts, groups: int) -> BitCounts | tuple[Tensor, Tensor, Tensor]:
        """The quantile of each group, its number of values, and how many more than needed are within it; or the next round."""
        sizes = np.zeros(groups, np.int64)
        present, totals = counts.group_totals()
        sizes[present] = totals[:, 0]
        places = ranked(counts, ranks_from_top(sizes, self.level, ordering))
        at = counts.bins.groups[places]
        ranks = np.array([conformal_rank(int(n), self.level) for n in sizes[at]], np.int64)
        if len(places) and not counts.resolved:
            return counts.opening(_to_open(counts, places, ranks == sizes[at]))
        thresholds, tied = np.full(groups, ordering.worst()), np.zeros(groups, np.int64)
        if len(places):
            thresholds[at] = counts.values()[places]
            tied[at] = _ties(counts, places, sizes[at], ranks, ordering)
        return torch.from_numpy(thresholds), torch.from_numpy(sizes), torch.from_numpy(tied)


@dataclass
class InterpolatedError(ErrorPerClass):
    """Thresholds between those of each class and the common one."""

    kind = "interpolated-error"
    one_label = True
    needs_probabilities = True  # an infinite threshold counts as 1
    weight: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weight = float(decimal("weight", self.weight))
        if not 0 <= self.weight <= 1:
            raise InputError(f"weight: expected a number from 0 (one threshold) to 1 (class-wise), got {self.weight}")
        self.guarantee = (
            f"No guarantee of its own: the thresholds lie between those for an error of {self.alpha} on average (weight 0) and "
            f"for every class (weight 1), at weight {self.weight:g}."
        )

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """Every value twice: in the group of its label, and in one more that holds all."""
        found = super().values(ordering, batch)
        assert found.groups is not None
        together = torch.full_like(found.groups, batch.probs.shape[1])
        return replace(found, values=found.values.repeat(2), groups=torch.cat([found.groups, together]))

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """``w · q_y + (1 - w) · q``; a class that would always be in counts as one with the threshold 0."""
        _some(counts)
        found = self._quantiles(ordering, counts, classes + 1)
        if isinstance(found, BitCounts):
            return found
        per_class, common = found[0][:-1], float(found[0][-1])
        always = int((per_class == ordering.worst()).sum())
        mixed = self.mixed(per_class, torch.tensor([common], dtype=torch.float64))
        notes = (f"{always} of {len(per_class)} classes have too few rows: their own threshold counts as 0",) if always else ()
        return FittedThreshold(mixed, notes)

    def first_counts(self, ordering: Ordering, sample: Probs | None = None) -> BitCounts:
        """As declared by :class:`Constraint`."""
        if type(ordering) is not Probability or ordering.needs_prior:
            raise InputError("interpolated: expected lac, whose thresholds lie between 0 and 1")
        return super().first_counts(ordering, sample)

    def mixed(self, per_class: Tensor, common: Tensor) -> Tensor:
        """The thresholds in between, rounded down: rounded up, a label that lies exactly at one would be left out.

        Args:
            per_class: the threshold of each class, (C,); an infinite one counts as 0.
            common: of all, (1,), or (C,) where it depends on the class.
        """
        weight, pairs = (
            decimal("weight", self.weight),
            zip(per_class.tolist(), common.expand(len(per_class)).tolist(), strict=True),
        )
        exact = [weight * Fraction(max(own, 0.0)) + (1 - weight) * Fraction(max(shared, 0.0)) for own, shared in pairs]
        rounded = [(float(value), value) for value in exact]
        return torch.tensor(
            [near if near <= value else math.nextafter(near, -math.inf) for near, value in rounded], dtype=torch.float64
        )


def _within(counts: BitCounts, places: Array, sizes: Array, ordering: Ordering) -> Array:
    """How many of so many values of a group are at least as plausible as those at these places, one for each group."""
    above = counts.bins.above[places, 0]
    found: Array = above + counts.bins.counts[places, 0] if ordering.descending else sizes - above
    return found


def _to_open(counts: BitCounts, places: Array, all_needed: Array) -> Array:
    """The codes that a search for the values at these places opens; where all of a group are needed, all that may hold ties."""
    bins = counts.bins
    several = (bins.counts[:, 0] > 1) & np.isin(bins.groups, bins.groups[places][all_needed])
    return np.union1d(counts.codes[places], counts.codes[several])


def _ties(counts: BitCounts, places: Array, sizes: Array, ranks: Array, ordering: Ordering) -> Array:
    """What :func:`more_than_needed` counts, for each group of so many values."""
    bins = counts.bins
    equal = np.zeros(int(bins.groups.max()) + 1, np.int64)
    np.maximum.at(equal, bins.groups, bins.counts[:, 0])
    equal = np.where(ranks == sizes, equal[bins.groups[places]], bins.counts[places, 0])
    return more_than_needed(_within(counts, places, sizes, ordering), ranks, equal)


def more_than_needed(within: Array, ranks: Array, equal: Array) -> Array:
    """How many more values than needed are within a threshold; -1 for none, if values tie nevertheless.

    Args:
        within: how many are within it.
        ranks: how many were needed.
        equal: how many are equal to it; where all were needed, the most that are equal to any one. The threshold is then the
            last value, which may be met once, and be the last that there is.
    """
    more: Array = within - ranks
    return np.where((more == 0) & (equal > 1), -1, more)


def _some(counts: BitCounts) -> int:
    """The number of values; an error if there are none."""
    if not counts.seen:
        raise InputError("probs: expected labelled calibration rows, got none")
    return counts.seen
