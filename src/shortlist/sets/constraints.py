"""Constraints: what a threshold is chosen for: a size, an average size, an error, a risk.

A constraint looks at the ordering of calibration rows (and at their labels, where it needs them) and answers with a
:class:`Fit`: the threshold, and what a person should know about how it came about. Numbers that were typed (k, alpha) are
taken as the decimals that they are.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.checks import decimal
from shortlist.errors import InputError
from shortlist.selection import cut_largest
from shortlist.sets.batches import Batches
from shortlist.sets.orderings import Improbability, Ordering
from shortlist.tensors import is_single_label

# Coverage beyond what was asked for that a person should know of, and rows enough to tell.
MUCH, ENOUGH = 0.02, 100


@dataclass(frozen=True)
class Fit:
    """A threshold, one number or one for each class, and notes on how it came about."""

    threshold: Tensor
    notes: tuple[str, ...] = ()


class Constraint:
    """What a rule's threshold is chosen for."""

    needs_labels: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False  # beyond what the ordering needs
    guarantee: str

    def fixed(self) -> float | None:
        """The threshold, where it needs no calibration rows."""
        return None

    def fit(self, ordering: Ordering, batches: Batches) -> Fit:
        """The threshold for these calibration rows."""
        raise TypeError(f"{type(self).__name__} does not say how it is fitted")


def check_alpha(alpha: object) -> Fraction:
    """An allowed error, strictly between 0 and 1."""
    value = decimal("alpha", alpha)
    if not 0 < value < 1:
        raise InputError(f"alpha: expected a number between 0 and 1, such as 0.1 for 90 % coverage; got {alpha}")
    return value


def round_half_up(value: Fraction) -> int:
    """The nearest whole number, a half goes up."""
    return math.floor(value + Fraction(1, 2))


@dataclass
class Fixed(Constraint):
    """A threshold that was given."""

    value: float
    guarantee: str

    def fixed(self) -> float:
        """The value that was given."""
        return self.value


@dataclass
class AverageSize(Constraint):
    """k labels on average over unlabelled rows."""

    k: object
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.size = decimal("k", self.k)
        if self.size <= 0:
            raise InputError(f"k: expected a number above 0, got {self.k}")
        self.guarantee = (
            f"Sets hold {self.k!s} labels on average over the calibration rows exactly (ties aside), and over new rows that "
            "come from the same source up to chance; nothing is promised about the error."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> Fit:
        """The midpoint between the kn-th and the next largest value of all, exactly, in two reads at the most."""
        sample = batches.sample()
        if sample is None or sample.numel() == 0:
            raise InputError("probs: expected calibration rows, got none")
        classes = sample.shape[1]
        if self.size > classes:
            raise InputError(f"k: expected at most the number of classes, {classes}, got {self.k}")
        values = ordering(sample)
        if not batches.repeatable and values.dtype != torch.float16:
            raise InputError(
                "probs: a generator can be read once, and the exact threshold needs a second read of float32: pass a list, "
                "a DataLoader, a callable that starts a new pass, or float16 probabilities"
            )
        if self.size == classes:
            for _ in batches:  # says what is wrong with any of them
                pass
            return Fit(torch.tensor(ordering.worst(), dtype=torch.float64))
        cut = cut_largest(
            lambda: (ordering(probs) for probs, _ in batches),
            lambda rows: round_half_up(self.size * rows),
            sample=values if batches.repeatable else None,  # a wrong guess costs a second read
            share=float(self.size) / classes,
        )
        notes: tuple[str, ...] = ()
        if cut.kept != cut.wanted:
            notes = (
                f"many labels tie at the cut: {cut.kept} labels are returned on {cut.rows} rows instead of {cut.wanted}, "
                f"{cut.kept / cut.rows:.4g} on average",
            )
        return Fit(torch.tensor(cut.threshold, dtype=torch.float64), notes)


def conformal_rank(n: int, alpha: Fraction) -> int:
    """``⌈(n + 1)(1 - α)⌉`` in exact arithmetic."""
    return math.ceil((n + 1) * (1 - alpha))


def conformal_quantile(values: Tensor, alpha: Fraction, ordering: Ordering) -> float:
    """The value that a new one is within with probability 1 - α at least; the worst where n is too small to tell."""
    rank = conformal_rank(len(values), alpha)
    if rank > len(values):
        return ordering.worst()
    if ordering.descending:
        rank = len(values) + 1 - rank
    return float(values.kthvalue(rank).values)


def _beyond(values: Tensor, threshold: float, ordering: Ordering, alpha: Fraction) -> float:
    """The share of the values that ties at the threshold lets in beyond the conformal rank."""
    within = values >= threshold if ordering.descending else values <= threshold
    return (int(within.sum()) - conformal_rank(len(values), alpha)) / len(values)


@dataclass
class AverageError(Constraint):
    """A new row's label is missed with probability α at most: split conformal."""

    alpha: object
    needs_labels: ClassVar[bool] = True
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        self.level = check_alpha(self.alpha)
        self.guarantee = (
            f"The set of a new row holds its label with probability {1 - float(self.level):g} at least, on average over "
            "rows and calibrations, if new and calibration rows are exchangeable."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> Fit:
        """The conformal quantile of the ordering at the true labels."""
        values, _, _ = _at_labels(ordering, batches, single=True)
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
                "sets are larger than they need be (aps and raps can be randomised, aps:ALPHA:random)",
            )
        return Fit(torch.tensor(threshold, dtype=torch.float64), notes)


@dataclass
class ErrorPerClass(AverageError):
    """The same for each class by itself; a class with too few calibration rows is always returned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.guarantee = (
            f"Whatever the class of a new row, its set holds that class with probability {1 - float(self.level):g} at "
            "least, if new and calibration rows of a class are exchangeable."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> Fit:
        """One conformal quantile for each class."""
        thresholds, always = self._quantiles(*_at_labels(ordering, batches), ordering)
        notes: tuple[str, ...] = ()
        if always:
            least = math.ceil(1 / self.level) - 1
            notes = (
                f"{always} of {len(thresholds)} classes have fewer than the {least} calibration rows that an error of "
                f"{self.alpha} needs: they are in every set",
            )
        return Fit(thresholds, notes)

    def _quantiles(self, values: Tensor, labels: Tensor, classes: int, ordering: Ordering) -> tuple[Tensor, int]:
        """One quantile for each class, and how many classes have too few values for one."""
        order = labels.argsort(stable=True)
        counts = labels.bincount(minlength=classes)
        groups = values[order].split(counts.tolist())
        quantiles = [conformal_quantile(group, self.level, ordering) for group in groups]
        thresholds = torch.tensor(quantiles, dtype=torch.float64)
        return thresholds, int((thresholds == ordering.worst()).sum())


@dataclass
class InterpolatedError(ErrorPerClass):
    """Between the class-wise thresholds and the common one."""

    weight: float = 0.5
    needs_probabilities: ClassVar[bool] = True  # an infinite threshold counts as 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.weight <= 1:
            raise InputError(f"weight: expected a number from 0 (one threshold) to 1 (class-wise), got {self.weight}")
        self.guarantee = (
            f"Between two guarantees, without one of its own: an error of {self.alpha} on average (weight 0) and for "
            f"every class (weight 1), here at weight {self.weight:g}."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> Fit:
        """``w · q_y + (1 - w) · q``, infinite quantiles taken as 1."""
        if not isinstance(ordering, Improbability):
            raise InputError("interpolated: expected lac, whose thresholds lie between 0 and 1")
        values, labels, classes = _at_labels(ordering, batches, single=True)
        per_class, always = self._quantiles(values, labels, classes, ordering)
        common = conformal_quantile(values, self.level, ordering)
        mixed = self.weight * per_class.clamp(max=1) + (1 - self.weight) * min(common, 1.0)
        notes = (f"{always} of {len(per_class)} classes have too few rows: their own threshold counts as 1",) if always else ()
        return Fit(mixed, notes)


def _at_labels(ordering: Ordering, batches: Batches, *, single: bool = False) -> tuple[Tensor, Tensor, int]:
    """The ordering at every true label, those labels, and the number of classes."""
    values, labels, classes = [], [], 0
    for probs, target in batches.labelled():
        if single and not is_single_label(target):
            raise InputError(
                "target: this rule bounds the error of one label a row, got many labels: use risk-control (recall) or classwise"
            )
        classes = probs.shape[1]
        values.append(ordering.at_labels(probs, target).cpu())
        labels.append((target if is_single_label(target) else target.nonzero()[:, 1]).cpu())
    if not any(len(part) for part in values):
        raise InputError("probs: expected labelled calibration rows, got none")
    return torch.cat(values), torch.cat(labels), classes
