"""Fitting a rule on calibration rows that count by weights, or whose labels are votes; these rows are kept in memory."""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.conformal import AverageError, ErrorPerClass, InterpolatedError, conformal_rank
from shortlist.sets.constraints import AverageSize, Constraint, FittedThreshold
from shortlist.sets.gates import Gate, answered
from shortlist.sets.groups import ALL, Found, Groups
from shortlist.sets.ladder import Ladder, Scale
from shortlist.sets.multilabel import LabelObjective, Risk
from shortlist.sets.orderings import Ordering, Weighed
from shortlist.sets.weighted_labels import label_thresholds
from shortlist.sets.weighted_rows import Entries, calibration_draws, entries_of, most_voted, relabelled
from shortlist.sets.weighting import Weighting, Weights
from shortlist.tensors import Array

TAKEN = (AverageError, ErrorPerClass, InterpolatedError, Risk, AverageSize, LabelObjective)
NEAR = 0.02  # labels on average, from which a note says that an average size was missed


def check_takes(text: str, constraint: Constraint, gate: Gate | None, batches: Batches, weights: Weights | None) -> None:
    """Raise an error for a rule that would ignore these weights or votes, or whose guarantee does not carry over to them."""
    if weights is None:
        return
    if not batches.repeatable:
        raise InputError("probs: expected rows that can be read more than once with weights or votes, got an iterator")
    if weights.votes is not None and not constraint.needs_labels and gate is None:
        raise InputError(f"target: expected labels or none, got votes: {text} is not fitted on labels")
    fixed = constraint.fixed() is not None
    if weights.rows is not None and fixed and gate is None:
        raise InputError(f"weights: expected none for {text}, which is not fitted, got some")
    if weights.classes is not None and (fixed or type(constraint) in (AverageSize, Risk, LabelObjective)):
        raise InputError(
            f"class_weights: expected a conformal rule (lac, aps, raps, pas, sure-node, classwise, interpolated), got {text}: "
            "pass weights of rows"
        )
    if not fixed and type(constraint) not in TAKEN:
        if weights.votes is not None:
            raise InputError(
                f"target: expected labels, got votes: what {text} promises holds for rows that count alike: draw one vote for "
                "each row, torch.multinomial(votes, 1).squeeze(1), and fit on these labels"
            )
        name = "weights" if weights.classes is None else "class_weights"
        raise InputError(
            f"{name}: expected none, because what {text} promises holds for rows that count alike: keep rows with "
            "probabilities in proportion to their weights, shortlist.shift.thinned(weights), and fit on these"
        )


def fit_gate(gate: Gate, constraint: Constraint, rows: Batches, weights: Weights | None) -> Batches:
    """Fit the gate on the rows without a label, by their weights; returns the rows with one that it accepts."""
    if weights is not None and weights.votes is not None:
        rows = relabelled(rows, lambda batch: (weights.votes_of(batch.row_numbers) > 0).to(batch.probs.device))
    gate.fit(rows, None if weights is None else weights.rows)
    return answered(rows, gate, one_label=constraint.one_label)


def without_votes(weights: Weights | None) -> Weights | None:
    """The weights of rows, for a rule that is not fitted on labels; the gate in front of it looked at the votes."""
    return None if weights is None or weights.rows is None else Weights(weights.rows)


def rows_that_calibrate(constraint: Constraint, ordering: Ordering, batches: Batches, weights: Weights) -> Batches:
    """The rows on which the ordering chooses nothing, after it has chosen."""
    if weights.votes is not None:
        batches = relabelled(batches, lambda batch: most_voted(batch, weights))
    if not isinstance(constraint, AverageError) or ordering.in_rounds:
        return batches
    level, given = constraint.level, weights.rows if weights.rows is not None else weights.classes
    scale = Scale.of(1.0 if given is None else float(given.max()), 2**22)

    def whole(batch: Batch) -> Tensor:
        own = weights.of_rows(batch.row_numbers)
        if weights.classes is not None:
            own = weights.of_new_rows(batch.probs.shape[1])[batch.labels.cpu()]
        return torch.from_numpy(scale.whole(own.numpy()))

    heaviest = scale.one(1.0 if given is None else float(given.max()))
    return ordering.tuned(batches, lambda n: conformal_rank(n, level), Weighed(whole, heaviest))


def gathered(
    constraint: Constraint, ordering: Ordering, batches: Batches, weights: Weights, groups: Groups | None = None
) -> dict[str, Entries]:
    """What a constraint looks at in all rows, and in the rows of each group."""
    draws = calibration_draws(constraint, ordering, batches, weights)
    parts: dict[str, list[Entries]] = {}
    for batch in batches.whole_rows():
        for name, part in ((ALL, batch),) if groups is None else groups.parts(batch):
            parts.setdefault(name, []).append(entries_of(constraint, ordering, part, weights, draws))
    if not any(len(part.values) for part in parts.get(ALL, ())):
        raise InputError(f"probs: expected {'labelled ' if constraint.needs_labels else ''}calibration rows, got none")
    return {name: Entries.joined(some) for name, some in parts.items()}


class Search(NamedTuple):
    """What the thresholds of all rows, and of each group of them, are found with.

    Args:
        constraint: what they are chosen for.
        ordering: of the rule.
        scale: how weights become whole numbers.
        new: what a new row counts for, in those: one number, or one for each class.
        classes: the number of classes.
    """

    constraint: Constraint
    ordering: Ordering
    scale: Scale
    new: list[int]
    classes: int

    @staticmethod
    def among(constraint: Constraint, ordering: Ordering, entries: Entries, weights: Weights, classes: int) -> "Search":
        """The search among these entries."""
        new = weights.of_new_rows(classes)
        shares = entries.shares if entries.marked is None else entries.marked
        scale = Scale.of_shares(max(float(new.max()), float(entries.weights.max())), entries.weights, shares)
        return Search(constraint, ordering, scale, [scale.one(one) for one in new.tolist()], classes)

    def counted(self, entries: Entries) -> Array:
        """What each value counts for, in whole numbers; those of a row are given together."""
        return self.scale.shared(entries.weights, entries.shares, entries.rows)

    def ladder(self, entries: Entries) -> Ladder:
        """The weight up to each value."""
        return Ladder.of(entries.values, self.counted(entries), self.ordering.descending)

    def thresholds(self, entries: Entries) -> Array:
        """The weighted quantile of these entries, (1,) or (C,)."""
        assert isinstance(self.constraint, AverageError | Risk)
        level, worst = self.constraint.level, self.ordering.worst()
        counted, descending = self.counted(entries), self.ordering.descending
        common = Ladder.of(entries.values, counted, descending).quantiles(level, self.new, worst)
        if not isinstance(self.constraint, ErrorPerClass):
            return common
        found = np.empty(self.classes)
        for label, weight in enumerate(self.new if len(self.new) == self.classes else self.new * self.classes):
            own = entries.labels == label
            [found[label]] = Ladder.of(entries.values[own], counted[own], descending).quantiles(level, [weight], worst)
        if isinstance(self.constraint, InterpolatedError):
            return self.constraint.mixed(torch.from_numpy(found), torch.from_numpy(common)).numpy()
        return found

    def found(self, entries: Entries, *, strict: bool) -> Found:
        """What was found for a group; with few rows, where ``strict``, none of its own."""
        rows = len(np.unique(entries.rows))
        if isinstance(self.constraint, AverageSize):
            return Found(self.average_size(entries).threshold.tolist(), int(entries.worth()), rows)
        if isinstance(self.constraint, LabelObjective):
            return Found(self.of_labels(entries).threshold.tolist(), int(entries.worth()), rows)
        found = self.thresholds(entries)
        if type(self.constraint) is ErrorPerClass:
            worth = np.array([int(entries.of_label(label).worth()) for label in range(self.classes)])
        else:
            worth = np.full(len(found), int(entries.worth()))
        counted = np.where(strict & (found == self.ordering.worst()), 0, worth).tolist()
        single = len(found) == 1 and not self.constraint.per_class
        return Found(float(found[0]) if single else found.tolist(), counted[0] if single else counted, rows)

    def of_labels(self, entries: Entries) -> FittedThreshold:
        """The best threshold of each label by the weight that is returned."""
        assert isinstance(self.constraint, LabelObjective)
        assert entries.marked is not None
        whole, marked = self.scale.whole(entries.weights), self.scale.shared(entries.weights, entries.marked, entries.rows)
        return label_thresholds(self.constraint, entries, whole, marked, self.classes)

    def average_size(self, entries: Entries) -> FittedThreshold:
        """The midpoint between the values where the weight of what is returned comes nearest to k a row; below if equal."""
        constraint, worst = self.constraint, self.ordering.worst()
        assert isinstance(constraint, AverageSize)
        constraint.check_classes(self.classes)
        counted = self.counted(entries)
        weighs = counted > 0
        if not weighs.any():
            return FittedThreshold(torch.tensor(worst, dtype=torch.float64))  # of a group that weighs nothing
        if (counted[weighs] == counted.max()).all():  # as without weights, ties and halves included
            return constraint.fit_values(torch.from_numpy(entries.values[weighs].reshape(-1, self.classes)), worst)
        ladder = Ladder.of(entries.values, counted, self.ordering.descending)
        wanted = constraint.size * ladder.total / self.classes
        upper = int(np.searchsorted(ladder.sums, math.ceil(wanted)))  # the first with at least this weight
        sums = np.concatenate([[0], ladder.sums])
        upper = min(upper, len(ladder.sums) - 1)
        kept = (
            upper + 1 if wanted - int(sums[upper]) > int(sums[upper + 1]) - wanted else upper
        )  # the number of values returned
        if constraint.size == self.classes or kept == len(ladder.values):
            return FittedThreshold(torch.tensor(worst, dtype=torch.float64))
        if not kept:
            return FittedThreshold(torch.tensor(-worst, dtype=torch.float64))
        last, following = ladder.values[kept - 1], ladder.values[kept]
        middle = float(entries.values.dtype.type((last + following) / 2))
        reached = float(Fraction(int(sums[kept])) * self.classes / ladder.total)
        notes = (
            ()
            if abs(reached - float(constraint.size)) < NEAR
            else (f"many labels tie at the cut, or few rows weigh much: sets hold {reached:.4g} labels on average",)
        )
        return FittedThreshold(torch.tensor(middle if middle not in (last, following) else last, dtype=torch.float64), notes)


def fit_weighted(
    constraint: Constraint,
    ordering: Ordering,
    batches: Batches,
    weights: Weights,
    kept: Weighting,
    groups: Groups | None = None,
) -> FittedThreshold:
    """The threshold for calibration rows that count by these weights; what new rows need of them is kept."""
    rows = rows_that_calibrate(constraint, ordering, batches, weights)
    parts = gathered(constraint, ordering, rows, weights, groups)
    entries = parts.pop(ALL)
    search = Search.among(constraint, ordering, entries, weights, rows.classes or 0)
    kept.keep(weights.kind)
    common = _common(search, entries, weights)
    if groups is not None:
        strict = groups.least is None
        span = ordering.span(search.classes)
        found = {name: groups.within(search.found(part, strict=strict), span) for name, part in parts.items()}
        notes = groups.take(found, common.threshold, groups.least_rows(constraint), weighted=weights.kind != "votes")
        return FittedThreshold(common.threshold, (*common.notes, *notes))
    if not common.threshold.ndim and not isinstance(constraint, AverageSize):
        kept.keep(weights.kind, search.ladder(entries), search.scale)
    return common


def _common(search: Search, entries: Entries, weights: Weights) -> FittedThreshold:
    """The threshold for all rows; an error if it would be that which returns every label."""
    constraint = search.constraint
    if not search.scale.whole(entries.weights).any():
        raise InputError("weights: expected calibration rows that weigh something beside the heaviest row, got none")
    if isinstance(constraint, AverageSize):
        return search.average_size(entries)
    notes = _worth(weights, entries)
    if isinstance(constraint, LabelObjective):
        best = search.of_labels(entries)
        return FittedThreshold(best.threshold, (*notes, *best.notes))
    assert isinstance(constraint, AverageError | Risk)
    found = search.thresholds(entries)
    always = int((found == search.ordering.worst()).sum())
    if always == len(found):
        name = "target" if weights.kind == "votes" else "weights"
        raise InputError(
            f"{name}: expected calibration rows worth at least {constraint.fewest_rows} of equal weight for an error of "
            f"{constraint.alpha}, otherwise every label is returned: {' '.join(notes) or 'there are too few rows'}"
        )
    if always:
        notes += (f"{always} of {len(found)} classes have too little weight: they are in every set",)
    several = constraint.per_class or weights.classes is not None
    return FittedThreshold(torch.from_numpy(found) if several else torch.tensor(found[0], dtype=torch.float64), notes)


def _worth(weights: Weights, entries: Entries) -> tuple[str, ...]:
    """How many rows of equal weight there are, if these are few."""
    if weights.rows is None and weights.classes is None:
        return ()
    worth, rows = entries.worth(), len(np.unique(entries.rows))
    if 2 * worth >= rows:
        return ()
    return (f"the weights of {rows:,} calibration rows are worth {worth:,.1f} rows of equal weight",)
