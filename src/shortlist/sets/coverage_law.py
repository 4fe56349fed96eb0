"""What calibration rows can promise: the exact distribution of the coverage of one split-conformal calibration.

The guarantee of a conformal rule is an average over calibrations. One calibration on n rows has a coverage of its own, which
stays what it is for all new rows. If no two values tie, it is distributed as Beta(r, n + 1 - r), where r = ⌈(n + 1)(1 - α)⌉ is
the rank of the threshold; ties only make it larger, and so does a set that holds more than a randomised one (``aps`` by
default), whose coverage has this law.

Vovk, "Conditional validity of inductive conformal predictors", 2012, proposition 2; Angelopoulos, Bates, "Conformal
prediction: a gentle introduction", 2023, section 3.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.sets.conformal import AverageError, ErrorPerClass, conformal_rank
from shortlist.sets.constraints import check_alpha
from shortlist.sets.rule import SetRule

LEVEL = 0.95


@dataclass(frozen=True)
class CoverageLaw:
    """The distribution of the coverage of a threshold that was chosen on n labels for an error of alpha.

    Args:
        n: number of calibration labels.
        alpha: the allowed error.
        exact: whether coverage has this distribution; otherwise it is that or larger.

    >>> law = CoverageLaw(500, 0.1)
    >>> [round(end, 3) for end in law.interval()], law.rows_to_halve()
    ([0.873, 0.925], 2012)
    """

    n: int
    alpha: Any
    exact: bool = True

    def __post_init__(self) -> None:
        whole(0)("n", self.n)
        check_alpha(self.alpha)

    @property
    def level(self) -> Fraction:
        """The allowed error, exact."""
        return check_alpha(self.alpha)

    @property
    def needed(self) -> int:
        """The smallest number of labels that a threshold can be chosen on: ⌈1/α⌉ - 1."""
        return math.ceil(1 / self.level) - 1

    @property
    def too_few(self) -> bool:
        """Whether there are fewer, so that every label is returned, and coverage is 1."""
        return self.n < self.needed

    @property
    def parameters(self) -> tuple[int, int]:
        """The two parameters of the Beta distribution; an error if there are too few labels for a threshold."""
        if self.too_few:
            raise InputError(
                f"n: expected at least {self.needed} calibration labels for an error of {self.alpha}, got {self.n}"
            )
        rank = conformal_rank(self.n, self.level)
        return rank, self.n + 1 - rank

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The range that coverage lies in with this probability, as much outside on either side; (1, 1) with too few labels.

        If the law is not exact, the range ends at 1, and the probability is higher.
        """
        if self.too_few:
            return 1.0, 1.0
        from scipy.special import betaincinv

        ends = betaincinv(*self.parameters, [(1 - level) / 2, (1 + level) / 2])
        return float(ends[0]), float(ends[1]) if self.exact else 1.0

    def measured_interval(self, rows: int, level: float = LEVEL) -> tuple[float, float]:
        """The same for the coverage that is measured on this many new rows, which chance moves further (beta-binomial)."""
        whole(1)("rows", rows)
        if self.too_few:
            return 1.0, 1.0
        from scipy.special import betaln, gammaln

        covered = np.arange(rows + 1, dtype=np.float64)
        first, second = self.parameters
        choices = gammaln(rows + 1) - gammaln(covered + 1) - gammaln(rows - covered + 1)
        shares = np.exp(choices + betaln(covered + first, rows - covered + second) - betaln(first, second)).cumsum()
        low, high = np.searchsorted(shares / shares[-1], [(1 - level) / 2, (1 + level) / 2])
        return float(low) / rows, float(high) / rows if self.exact else 1.0

    @property
    def width(self) -> float:
        """Width of the 95 % range, of an exact law."""
        low, high = replace(self, exact=True).interval()
        return high - low

    def rows_to_halve(self) -> int:
        """A number of calibration labels whose range is half as wide; one less would not do."""
        wanted, enough = self.width / 2, 4 * max(self.n, self.needed)
        while CoverageLaw(enough, self.alpha).width > wanted and wanted:
            enough *= 2
        short = max(self.n, self.needed)
        while enough - short > 1:
            middle = (short + enough) // 2
            short, enough = (short, middle) if CoverageLaw(middle, self.alpha).width <= wanted else (middle, enough)
        return enough

    def sentence(self) -> str:
        """The promise in words."""
        rows = f"{self.n:,} calibration {'row' if self.n == 1 else 'rows'}"
        if self.too_few:
            return f"{rows} are too few for an error of {self.alpha}, which needs {self.needed:,}: every label is returned."
        low, high = self.interval()
        halved = float(f"{self.rows_to_halve():.2g}")
        if not self.exact:
            return (
                f"With {rows} the coverage of this calibration is at least {low:.1%} (with a probability of 97.5 %; "
                f"{1 - float(self.level):.4g} was asked for, and the label at the boundary is included besides); with about "
                f"{halved:,.0f} rows chance would take away half as much."
            )
        return (
            f"With {rows} the coverage of this calibration lies between {low:.1%} and {high:.1%} (with a probability of 95 %; "
            f"{1 - float(self.level):.4g} was asked for); about {halved:,.0f} rows would halve that range."
        )

    def record(self) -> dict[str, Any]:
        """The numbers by name."""
        low, high = self.interval()
        halved = None if self.too_few else self.rows_to_halve()
        return {"calibration_rows": self.n, "needed": self.needed, "low": low, "high": high, "rows_to_halve": halved}


@dataclass(frozen=True)
class ClassLaws:
    """The distributions of the coverages of the classes, for a rule with one threshold for each.

    Args:
        counts: number of calibration labels of each class.
        alpha: the allowed error of each class.
    """

    counts: Sequence[int]
    alpha: Any

    def of(self, label: int) -> CoverageLaw:
        """The law of one class."""
        return CoverageLaw(self.counts[label], self.alpha)

    @property
    def needed(self) -> int:
        """The number of calibration labels that a class needs for a threshold of its own."""
        return CoverageLaw(0, self.alpha).needed

    def too_small(self) -> list[int]:
        """The classes with fewer, from the smallest; they are in every set."""
        small = [label for label, count in enumerate(self.counts) if count < self.needed]
        return sorted(small, key=lambda label: (self.counts[label], label))

    def sentence(self) -> str:
        """The promise in words, with a suggestion if classes are too small."""
        small, classes = len(self.too_small()), len(self.counts)
        enough = sorted(count for count in self.counts if count >= self.needed)
        parts = []
        if enough:
            median = enough[len(enough) // 2]
            low, high = CoverageLaw(median, self.alpha).interval()
            parts.append(
                f"Each class has a threshold of its own, so its coverage depends on its own calibration rows: with {median:,}, "
                f"the median of the classes that have enough, it lies between {low:.1%} and {high:.1%} (with a probability of "
                "95 %)."
            )
        if small:
            missing = sum(self.needed - count for count in self.counts if count < self.needed)
            parts.append(
                f"{small:,} of {classes:,} classes have fewer than the {self.needed:,} calibration rows that an error of "
                f"{self.alpha} needs, and are in every set: add {missing:,} labelled rows of these classes, allow a larger "
                "error, or use interpolated:0.5, which borrows from the common threshold."
            )
        return " ".join(parts)


class _Conformal(SetRule):
    """A rule whose constraint is an error, for the type checker."""

    constraint: AverageError


def coverage_law(rule: SetRule | None) -> CoverageLaw | None:
    """The law of the coverage of a fitted rule; None unless it is split conformal with one threshold, and without a cap.

    Behind a gate it is that of the rows that are answered.

    >>> from shortlist.sets import lac
    >>> rule = lac(0.5).fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    >>> coverage_law(rule).parameters
    (2, 2)
    """
    if not _promises(rule, AverageError):
        return None
    counts, sizes = rule.fitted_labels, rule.calibrated
    n = int(counts) if counts is not None else None if sizes is None else sizes.rows  # rules saved before have no counts
    in_between = rule.ordering.row_draws() is not None and not rule.ordering.randomized
    return None if n is None else CoverageLaw(n, rule.constraint.alpha, exact=not in_between)


def class_laws(rule: SetRule | None) -> ClassLaws | None:
    """The laws of the coverages of the classes of a fitted rule; None unless it is conformal for each class by itself."""
    if not _promises(rule, ErrorPerClass) or rule.fitted_labels is None:
        return None
    return ClassLaws(rule.fitted_labels.tolist(), rule.constraint.alpha)


def _promises(rule: SetRule | None, kind: type[AverageError]) -> TypeGuard["_Conformal"]:
    """Whether a fitted rule has a constraint of exactly this kind, no cap, and all rows count alike."""
    if rule is None or not rule.fitted or rule.groups is not None or rule.weighting.kind is not None:
        return False
    return type(rule.constraint) is kind and rule.most is None
