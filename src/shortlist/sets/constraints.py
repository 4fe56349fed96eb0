"""Constraints: what a threshold is chosen for: a size, an average size, an error, a risk.

A constraint looks at the ordering of the calibration rows (and at their labels, where it needs them) and returns a
:class:`FittedThreshold`: the threshold, and notes that the user should read. Numbers that were typed (k, alpha) are taken as
exact decimals.

It does so in rounds: it names the values of a batch that matter (:meth:`Constraint.values`), these are counted by their leading
bits, and from the counts follows the threshold or what the next round has to count (:meth:`Constraint.step`). Counts add up, so
rows may be in several places (:mod:`shortlist.sets.shards`). Those for labelled rows are in ``conformal.py`` and
``multilabel.py``.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import as_typed, decimal, whole
from shortlist.errors import InputError
from shortlist.leading_bits import BitCounts, first_round
from shortlist.rounds import Kept, Values, in_rounds
from shortlist.selection import Cut, cut_largest, cut_or_next, floor_of
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.draws import CalibrationDraws, Digest, digest_of
from shortlist.sets.kinds import RulePart
from shortlist.sets.orderings import Ordering
from shortlist.tensors import Probs, shape_of

ENOUGH = 100  # rows, from which notes speak of shares of them


@dataclass(frozen=True)
class FittedThreshold:
    """What a constraint returns from its fit: one threshold or one for each class, and notes for the user.

    A constraint whose guarantee depends on them also gives the number of labels that each threshold was chosen on, and how many
    more of these are within it than were needed, because they tie with the last one: () or (C,). That is -1 if none more
    are, but those that were needed tie (with the last one, or if all were needed, any of them).
    """

    threshold: Tensor
    notes: tuple[str, ...] = ()
    labels: Tensor | None = None
    tied: Tensor | None = None


class Constraint(RulePart):
    """What the threshold of a rule is chosen for.

    A subclass gives a ``guarantee``, a ``kind`` under which rules that use it are saved and loaded, and either :meth:`values`
    and :meth:`step`, with which a rule is fitted on rows in any number of places, or :meth:`fit` for rows in one.

    Attributes:
        guarantee: what the sets promise and on what assumption, in one sentence.
        needs_labels: whether the calibration rows must have labels.
        one_label: whether each of them must have exactly one.
        needs_probabilities: whether probabilities are needed even if the ordering works with any scores.
        per_class: whether there is one threshold for each class; None if that depends on the fit.
        takes_draws: whether what a randomised ordering draws is taken from the values.
    """

    role = "constraint"
    kinds: ClassVar[dict[str, type[Any]]] = {}
    needs_labels: ClassVar[bool] = False
    one_label: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False
    per_class: ClassVar[bool | None] = None
    takes_draws: ClassVar[bool] = False
    guarantee: str

    def fixed(self) -> float | None:
        """The threshold, if it needs no calibration rows."""
        return None

    def check_classes(self, classes: int) -> None:
        """Raise an error if the constraint cannot be met with this number of classes."""

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The threshold for these calibration rows."""
        if not self.in_rounds:
            raise TypeError(f"{type(self).__name__} does not define fit(ordering, batches)")
        return in_rounds(
            values_of_rows(self, ordering, batches),
            self.first_counts(ordering).kept_here(),
            lambda counts: self.step(ordering, counts, batches.classes or 0),
            repeatable=batches.repeatable,
        )

    def rows_to_fit(self, ordering: Ordering, batches: Batches) -> Batches:
        """The rows that the threshold is chosen on, after the ordering chose on others what it leaves open; all by default."""
        return batches

    @property
    def in_rounds(self) -> bool:
        """Whether thresholds are found in rounds, so that the rows may be in several places."""
        return type(self).values is not Constraint.values

    @property
    def fewest_rows(self) -> int:
        """The number of calibration rows from which a threshold means what it should."""
        return ENOUGH

    def draws_from(self, ordering: Ordering) -> bool:
        """Whether draws have to be known before anything can be counted."""
        return self.takes_draws and ordering.row_draws() is not None

    def first_counts(self, ordering: Ordering, sample: Probs | None = None) -> BitCounts:
        """What the first round counts.

        Args:
            ordering: of the rule.
            sample: some of the rows, from which it may be guessed what need not be counted.
        """
        return first_round()

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """What is counted of a batch of rows."""
        raise TypeError(f"{type(self).__name__} does not define values(ordering, batch)")

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """The threshold, or the next round, from the counts of all calibration rows."""
        raise TypeError(f"{type(self).__name__} does not define step(ordering, counts, classes)")

    def limit(self, threshold: Tensor) -> Tensor:
        """What the values of labels are compared with: the threshold; NaN, which no value reaches, for a label that is never
        returned."""
        return threshold


def values_of_rows(constraint: Constraint, ordering: Ordering, batches: Batches) -> Callable[[], Iterable[Values]]:
    """A function that starts a pass over what a constraint counts of these rows, with the draws taken away."""

    def read() -> Iterable[Values]:
        return (constraint.values(ordering, batch) for batch in batches.whole_rows())

    if not constraint.draws_from(ordering):
        return read
    digest, kept = Digest(), Kept(limited=batches.repeatable)
    for batch in batches.whole_rows():
        digest = digest.merge(digest_of(batch.probs, batch.labels, batch.row_numbers))
        kept.add(constraint.values(ordering, batch))
    draws = ordering.calibration_draws(digest)
    ordering.keep_draws(draws)
    return lambda: (drawn(values, draws) for values in (read() if kept.values is None else kept.values))


def drawn(values: Values, draws: CalibrationDraws) -> Values:
    """The values after what is drawn for their rows is taken away."""
    assert values.own is not None
    assert values.numbers is not None
    taken = draws.shares(values.numbers).to(values.own.device) * values.own
    return replace(values, values=values.values - taken)


def check_threshold(threshold: Tensor, constraint: Constraint, classes: int | None = None, *, by_class: bool = False) -> None:
    """Raise an error unless this can be the threshold of the constraint: float64, one number or one for each class, no NaN.

    Args:
        threshold: one that was loaded, or that a constraint returned.
        constraint: whose threshold it is.
        classes: the number of classes, if it is known.
        by_class: whether there is one for each class because calibration rows count by class, whatever the constraint says.
    """
    per_class = True if by_class else constraint.per_class
    if threshold.dtype != torch.float64:
        raise InputError(f"threshold: expected float64, got {shape_of(threshold)}")
    shapes = [shape for shape, several in (("()", False), ("(C,)", True)) if per_class in (None, several)]
    wrong_length = threshold.ndim == 1 and classes is not None and len(threshold) != classes
    if threshold.ndim > 1 or per_class not in (None, threshold.ndim == 1) or wrong_length:
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
            self._wanted,
            sample=values if batches.repeatable else None,  # a wrong guess costs a second pass
            share=float(self.size) / classes,
        )
        return self._threshold(cut)

    def fit_values(self, values: Tensor, worst: float) -> FittedThreshold:
        """The same threshold for the values of all rows, (n, C), of which the worst is the last to be returned."""
        if self.size == values.shape[1]:
            return FittedThreshold(torch.tensor(worst, dtype=torch.float64))
        return self._threshold(cut_largest(lambda: iter([values]), self._wanted))

    def first_counts(self, ordering: Ordering, sample: Probs | None = None) -> BitCounts:
        """As declared by :class:`Constraint`: values far below those of the sample that are kept are left out."""
        if sample is None or not sample.numel():
            return first_round()
        return first_round(floor=floor_of(ordering(sample), float(self.size) / sample.shape[1]))

    def values(self, ordering: Ordering, batch: Batch) -> Values:
        """Those of all labels."""
        return Values(ordering(batch.probs), len(batch.probs))

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """As :meth:`fit`, from counts."""
        if not counts.rows:
            raise InputError("probs: expected calibration rows, got none")
        self.check_classes(classes)
        found = cut_or_next(counts, self._wanted(counts.rows))
        return found if isinstance(found, BitCounts) else self._threshold(found)

    def _wanted(self, rows: int) -> int:
        return round_half_up(self.size * rows)

    def _threshold(self, cut: Cut) -> FittedThreshold:
        notes: tuple[str, ...] = ()
        if cut.kept != cut.wanted:
            notes = (
                f"many labels tie at the cut: {cut.kept} labels are returned on {cut.rows} rows instead of {cut.wanted}, "
                f"{cut.kept / cut.rows:.4g} on average",
            )
        return FittedThreshold(torch.tensor(cut.threshold, dtype=torch.float64), notes)
