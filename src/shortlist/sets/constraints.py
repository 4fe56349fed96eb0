"""Constraints: what a threshold is chosen for: a size, an average size, an error, a risk.

A constraint looks at the ordering of the calibration rows (and at their labels, where it needs them) and returns a
:class:`FittedThreshold`: the threshold, and notes that the user should read. Numbers that were typed (k, alpha) are taken as
exact decimals.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import as_typed, decimal, whole
from shortlist.errors import InputError
from shortlist.selection import cut_largest
from shortlist.sets.batches import Batches
from shortlist.sets.kinds import RulePart
from shortlist.sets.orderings import Ordering, Probability
from shortlist.tensors import is_single_label, shape_of

# A note says so if coverage exceeds what was asked for by more than MUCH, on at least ENOUGH rows.
MUCH, ENOUGH = 0.02, 100


@dataclass(frozen=True)
class FittedThreshold:
    """What a constraint returns from its fit: one threshold or one for each class, and notes for the user.

    A constraint whose guarantee depends on it also gives the number of labels that each threshold was chosen on: () or (C,).
    """

    threshold: Tensor
    notes: tuple[str, ...] = ()
    labels: Tensor | None = None


class Constraint(RulePart):
    """What the threshold of a rule is chosen for.

    A subclass gives :meth:`fit`, a ``guarantee``, and a ``kind`` under which rules that use it are saved and loaded.

    Attributes:
        guarantee: what the sets promise and on what assumption, in one sentence.
        needs_labels: whether the calibration rows must have labels.
        one_label: whether each of them must have exactly one.
        needs_probabilities: whether probabilities are needed even if the ordering works with any scores.
        per_class: whether there is one threshold for each class; None if that depends on the fit.
    """

    role = "constraint"
    kinds: ClassVar[dict[str, type[Any]]] = {}
    needs_labels: ClassVar[bool] = False
    one_label: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False
    per_class: ClassVar[bool | None] = None
    guarantee: str

    def fixed(self) -> float | None:
        """The threshold, if it needs no calibration rows."""
        return None

    def check_classes(self, classes: int) -> None:
        """Raise an error if the constraint cannot be met with this number of classes."""

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The threshold for these calibration rows."""
        raise TypeError(f"{type(self).__name__} does not define fit(ordering, batches)")

    def limit(self, threshold: Tensor) -> Tensor:
        """What the values of labels are compared with: the threshold; NaN, which no value reaches, for a label that is never
        returned."""
        return threshold


def check_threshold(threshold: Tensor, constraint: Constraint, classes: int | None = None) -> None:
    """Raise an error unless this can be the threshold of the constraint: float64, one number or one for each class, no NaN.

    Args:
        threshold: one that was loaded, or that a constraint returned.
        constraint: whose threshold it is.
        classes: the number of classes, if it is known.
    """
    if threshold.dtype != torch.float64:
        raise InputError(f"threshold: expected float64, got {shape_of(threshold)}")
    shapes = [shape for shape, per_class in (("()", False), ("(C,)", True)) if constraint.per_class in (None, per_class)]
    wrong_length = threshold.ndim == 1 and classes is not None and len(threshold) != classes
    if threshold.ndim > 1 or constraint.per_class not in (None, threshold.ndim == 1) or wrong_length:
        known = "" if classes is None else f" for {classes} classes"
        raise InputError(f"threshold: expected float64 {' or '.join(shapes)}{known}, got {shape_of(threshold)}")
    if threshold.isnan().any():
        raise InputError("threshold: expected numbers, got nan")
    fixed = constraint.fixed()
    if fixed is not None and threshold.item() != fixed:
        raise InputError(f"threshold: expected {fixed:g}, which the rule states, got {threshold.item():g}")


def check_alpha(alpha: object) -> Fraction:
    """The allowed error as an exact fraction, strictly between 0 and 1."""
    value = decimal("alpha", alpha)
    if not 0 < value < 1:
        raise InputError(f"alpha: expected a number between 0 and 1, such as 0.1 for 90 % coverage; got {alpha}")
    return value


def round_half_up(value: Fraction) -> int:
    """The nearest whole number; halves are rounded up."""
    return math.floor(value + Fraction(1, 2))


@dataclass
class Size(Constraint):
    """Exactly k labels in every set; for :class:`~shortlist.sets.Rank`."""

    kind = "size"
    per_class = False
    k: int
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.k = whole(1)("k", self.k)
        self.guarantee = f"Every set holds exactly {self.k} labels; nothing is promised about the error."

    def fixed(self) -> float:
        """The rank k."""
        return float(self.k)

    def check_classes(self, classes: int) -> None:
        """k is at most the number of classes."""
        if self.k > classes:
            raise InputError(f"k: expected at most the number of classes, {classes}, got {self.k}")


@dataclass
class Level(Constraint):
    """A probability p that every label of a set reaches; for :class:`~shortlist.sets.GivenLevel`."""

    kind = "level"
    per_class = False
    p: int | float | str
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= decimal("p", self.p) <= 1:
            raise InputError(f"p: expected a probability from 0 to 1, got {self.p}")
        self.p = as_typed("p", self.p)
        self.guarantee = (
            f"Every label has a predicted probability of at least {self.p}; nothing is promised about the size or the error."
        )

    def fixed(self) -> float:
        """The probability p."""
        return float(decimal("p", self.p))


@dataclass
class Mass(Constraint):
    """Labels whose probabilities sum to at least 1 - α; for :class:`~shortlist.sets.MassAbove`."""

    kind = "mass"
    per_class = False
    alpha: int | float | str
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.mass = float(1 - check_alpha(self.alpha))
        self.alpha = as_typed("alpha", self.alpha)
        self.guarantee = (
            f"Every set contains its label with probability at least {self.mass:g}, if the predicted probabilities are true."
        )

    def fixed(self) -> float:
        """The largest number below 1 - α: a label is in the set while the mass above it is below 1 - α."""
        return float(np.nextafter(self.mass, 0))


@dataclass
class AverageSize(Constraint):
    """k labels on average over unlabelled rows."""

    kind = "average-size"
    per_class = False
    k: int | float | str
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.size = decimal("k", self.k)
        if self.size <= 0:
            raise InputError(f"k: expected a number above 0, got {self.k}")
        self.k = as_typed("k", self.k)
        self.guarantee = (
            f"Sets hold {self.k} labels on average, exactly so over the calibration rows (except for ties) and up to chance "
            "over new rows from the same source; nothing is promised about the error."
        )

    def check_classes(self, classes: int) -> None:
        """k is at most the number of classes."""
        if self.size > classes:
            raise InputError(f"k: expected at most the number of classes, {classes}, got {self.k}")

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The midpoint between the kn-th largest of all values and the next, exactly, in at most two passes for float32."""
        sample = batches.sample()
        if sample is None or sample.numel() == 0:
            raise InputError("probs: expected calibration rows, got none")
        classes = sample.shape[1]
        self.check_classes(classes)
        values = ordering(sample)
        if not batches.repeatable and values.dtype != torch.float16:
            raise InputError(
                "probs: expected batches that can be read twice, as the exact threshold requires, got a generator: pass a "
                "list, a DataLoader, a function that starts a new pass, or float16 probabilities"
            )
        if self.size == classes:
            for _ in batches:  # checks every batch
                pass
            return FittedThreshold(torch.tensor(ordering.worst(), dtype=torch.float64))
        cut = cut_largest(
            lambda: (ordering(probs) for probs, _ in batches),
            lambda rows: round_half_up(self.size * rows),
            sample=values if batches.repeatable else None,  # a wrong guess costs a second pass
            share=float(self.size) / classes,
        )
        notes: tuple[str, ...] = ()
        if cut.kept != cut.wanted:
            notes = (
                f"many labels tie at the cut: {cut.kept} labels are returned on {cut.rows} rows instead of {cut.wanted}, "
                f"{cut.kept / cut.rows:.4g} on average",
            )
        return FittedThreshold(torch.tensor(cut.threshold, dtype=torch.float64), notes)


def conformal_rank(n: int, alpha: Fraction) -> int:
    """``⌈(n + 1)(1 - α)⌉`` in exact arithmetic."""
    return math.ceil((n + 1) * (1 - alpha))


def conformal_quantile(values: Tensor, alpha: Fraction, ordering: Ordering) -> float:
    """The conformal quantile of the values, or the worst possible value if there are too few of them."""
    rank = conformal_rank(len(values), alpha)
    if rank > len(values):
        return ordering.worst()
    if ordering.descending:
        rank = len(values) + 1 - rank
    return float(values.kthvalue(rank).values)


def _beyond(values: Tensor, threshold: float, ordering: Ordering, alpha: Fraction) -> float:
    """The share of the values beyond the conformal rank that are within the threshold because of ties."""
    within = values >= threshold if ordering.descending else values <= threshold
    return (int(within.sum()) - conformal_rank(len(values), alpha)) / len(values)


@dataclass
class AverageError(Constraint):
    """The label of a new row is missed with probability at most α: split conformal prediction."""

    kind = "average-error"
    per_class = False
    needs_labels = one_label = True
    alpha: int | float | str
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.level = check_alpha(self.alpha)
        self.alpha = as_typed("alpha", self.alpha)
        self.guarantee = (
            f"The set of a new row contains its label with probability at least {1 - float(self.level):g}, on average over "
            "rows and calibration sets, if new rows and calibration rows are exchangeable."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The conformal quantile of the ordering at the true labels."""
        values, _, _ = _at_labels(ordering, batches, single=self.one_label)
        threshold = conformal_quantile(values, self.level, ordering)
        notes: tuple[str, ...] = ()
        if conformal_rank(len(values), self.level) > len(values):
            notes = (
                f"{len(values)} calibration rows are too few for an error of {self.alpha} "
                f"({math.ceil(1 / self.level) - 1} are needed): every label is returned",
            )
        elif len(values) >= ENOUGH and (extra := _beyond(values, threshold, ordering, self.level)) > MUCH:
            notes = (
                f"{extra:.1%} more of the calibration rows are covered than was asked for, because many tie at the threshold: "
                "sets are larger than necessary (aps and raps can be randomised, aps:ALPHA:random)",
            )
        return FittedThreshold(torch.tensor(threshold, dtype=torch.float64), notes, torch.tensor(len(values)))


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

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """One conformal quantile for each class."""
        values, labels, classes = _at_labels(ordering, batches, single=self.one_label)
        thresholds, always = self._quantiles(values, labels, classes, ordering)
        notes: tuple[str, ...] = ()
        if always:
            least = math.ceil(1 / self.level) - 1
            notes = (
                f"{always} of {len(thresholds)} classes have fewer than the {least} calibration rows that an error of "
                f"{self.alpha} needs: they are in every set",
            )
        return FittedThreshold(thresholds, notes, labels.cpu().bincount(minlength=classes))

    def _quantiles(self, values: Tensor, labels: Tensor, classes: int, ordering: Ordering) -> tuple[Tensor, int]:
        """One quantile for each class, and how many classes have too few values for one."""
        values, labels = values.cpu(), labels.cpu()  # many small groups
        order = labels.argsort(stable=True)
        counts = labels.bincount(minlength=classes)
        groups = values[order].split(counts.tolist())
        quantiles = [conformal_quantile(group, self.level, ordering) for group in groups]
        thresholds = torch.tensor(quantiles, dtype=torch.float64)
        return thresholds, int((thresholds == ordering.worst()).sum())


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

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """``w · q_y + (1 - w) · q``; a class that would always be in counts as one with the threshold 0."""
        if type(ordering) is not Probability or ordering.needs_prior:
            raise InputError("interpolated: expected lac, whose thresholds lie between 0 and 1")
        values, labels, classes = _at_labels(ordering, batches, single=self.one_label)
        per_class, always = self._quantiles(values, labels, classes, ordering)
        common = conformal_quantile(values, self.level, ordering)
        mixed = self._mixed(per_class.clamp(min=0), max(common, 0.0))
        notes = (f"{always} of {len(per_class)} classes have too few rows: their own threshold counts as 0",) if always else ()
        return FittedThreshold(mixed, notes)

    def _mixed(self, per_class: Tensor, common: float) -> Tensor:
        """The thresholds in between, rounded down: rounded up, a label that lies exactly at one would be left out."""
        weight, shared = decimal("weight", self.weight), Fraction(common)
        exact = [weight * Fraction(own) + (1 - weight) * shared for own in per_class.tolist()]
        rounded = [(float(value), value) for value in exact]
        return torch.tensor(
            [near if near <= value else math.nextafter(near, -math.inf) for near, value in rounded], dtype=torch.float64
        )


def _at_labels(ordering: Ordering, batches: Batches, *, single: bool) -> tuple[Tensor, Tensor, int]:
    """The ordering at every true label, those labels, and the number of classes."""
    values, labels, classes = [], [], 0
    draws = ordering.calibration_draws()
    for probs, target in batches.labelled():
        if single and not is_single_label(target):
            raise InputError(
                "target: expected one label a row, got many labels: use risk-control, which bounds the share of labels that is "
                "missed, or classwise"
            )
        classes = probs.shape[1]
        values.append(ordering.at_labels(probs, target))
        if draws is not None:
            draws.add(probs, target)
        labels.append(target if is_single_label(target) else target.nonzero()[:, 1])
    if not any(len(part) for part in values):
        raise InputError("probs: expected labelled calibration rows, got none")
    found = joined(values)
    if draws is not None:
        drawn = draws.drawn()
        ordering.keep_draws(drawn)
        found = found - drawn.taken.to(found.device)
    return found, joined(labels), classes


def joined(parts: list[Tensor]) -> Tensor:
    """The parts one after the other, on the device of the first."""
    return torch.cat([part.to(parts[0].device) for part in parts])
