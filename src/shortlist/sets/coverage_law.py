"""What calibration rows can promise: the exact distribution of the coverage of one split-conformal calibration.

The guarantee of a conformal rule is an average over calibrations. One calibration on n rows has a coverage of its own, which
stays what it is for all new rows. If no two values tie, it is distributed as Beta(r, n + 1 - r), where r = ⌈(n + 1)(1 - α)⌉ is
the rank of the threshold. Whatever adds labels to these sets only makes it larger, and the law then holds from below: a floor,
and the label at the boundary that a randomised set would hold or not (``aps`` by default).

Ties make it larger, too. If w of n calibration labels are within the threshold, where r were needed, the coverage is at most
the end that Clopper and Pearson give for w of n, the quantile of Beta(w + 1, n - w), also if w = r and only labels that were
needed tie at the threshold. Where r = n that is the last value, which may be the last there is although it was met once: the
end is then 1 if any values tie. That fails no more often than for a threshold that is given: wherever it fails, the labels
within the first of the values at which it can fail are too few, too.

Vovk, "Conditional validity of inductive conformal predictors", 2012, proposition 2; Angelopoulos, Bates, "Conformal
prediction: a gentle introduction", 2023, section 3.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
        exact: whether coverage has this distribution, ties aside; otherwise it is that or larger.
        tied: how many more labels are within the threshold than were needed, because they tie with the last one; -1 if none
            more are, but some of those that were needed tie with the last one, or if all were needed, any of them do.

    >>> law = CoverageLaw(500, 0.1)
    >>> [round(end, 3) for end in law.interval()], law.rows_to_halve()
    ([0.873, 0.925], 2012)
    """

    n: int
    alpha: Any
    exact: bool = True
    tied: int = 0

    def __post_init__(self) -> None:
        whole(0)("n", self.n)
        whole(-1)("tied", self.tied)
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

    @property
    def _parameters_above(self) -> tuple[int, int] | None:
        """The same for the upper end of ranges; None if that is 1."""
        first, second = self.parameters
        more = max(self.tied, 0) + 1 if self.tied else 0
        return (first + more, second - more) if self.exact and more < second else None

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The range that coverage lies in with this probability, as much outside on either side; (1, 1) with too few labels.

        If the law is not exact, the range ends at 1, and the probability is higher; so it is where values tie.
        """
        if self.too_few:
            return 1.0, 1.0
        from scipy.special import betaincinv

        above = self._parameters_above
        low, high = betaincinv(*self.parameters, (1 - level) / 2), 1.0 if above is None else betaincinv(*above, (1 + level) / 2)
        return float(low), float(high)

    def measured_interval(self, rows: int, level: float = LEVEL) -> tuple[float, float]:
        """The same for the coverage that is measured on this many new rows, which chance moves further (beta-binomial)."""
        whole(1)("rows", rows)
        if self.too_few:
            return 1.0, 1.0
        above = self._parameters_above
        low = _beta_binomial_quantile(rows, self.parameters, (1 - level) / 2)
        return low / rows, 1.0 if above is None else _beta_binomial_quantile(rows, above, (1 + level) / 2) / rows

    @property
    def width(self) -> float:
        """Width of the 95 % range, of an exact law without ties."""
        low, high = CoverageLaw(self.n, self.alpha).interval()
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
                f"{1 - float(self.level):.4g} was asked for, and sets hold more labels than that takes); with about "
                f"{halved:,.0f} rows chance would take away half as much."
            )
        lies = (
            f"With {rows} the coverage of this calibration lies between {low:.1%} and {high:.1%} (with a probability of 95 %; "
        )
        if self.tied:
            ties = "labels that tie at the threshold are included besides" if self.tied > 0 else "labels tie"
            return (
                f"{lies}{1 - float(self.level):.4g} was asked for, and {ties}); "
                f"with about {halved:,.0f} rows chance would take away half as much."
            )
        return f"{lies}{1 - float(self.level):.4g} was asked for); about {halved:,.0f} rows would halve that range."

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
        exact: whether coverages have these distributions, ties aside; otherwise they are that or larger.
        tied: how many more labels of each class are within its threshold than were needed, as for :class:`CoverageLaw`; none
            (the default).
    """

    counts: Sequence[int]
    alpha: Any
    exact: bool = True
    tied: Sequence[int] | None = None

    def of(self, label: int) -> CoverageLaw:
        """The law of one class."""
        return CoverageLaw(self.counts[label], self.alpha, self.exact, 0 if self.tied is None else self.tied[label])

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
            more = "" if self.tied is None else "; more where values tie"
            lies = (
                f"it lies between {low:.1%} and {high:.1%} (with a probability of 95 %{more})"
                if self.exact
                else f"it is at least {low:.1%} (with a probability of 97.5 %; sets hold more labels than that takes)"
            )
            parts.append(
                f"Each class has a threshold of its own, so its coverage depends on its own calibration rows: with {median:,}, "
                f"the median of the classes that have enough, {lies}."
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
    tied = 0 if rule.fitted_ties is None else int(rule.fitted_ties)
    return None if n is None else CoverageLaw(n, rule.constraint.alpha, _exact(rule), tied)


def class_laws(rule: SetRule | None) -> ClassLaws | None:
    """The laws of the coverages of the classes of a fitted rule; None unless it is conformal for each class by itself."""
    if not _promises(rule, ErrorPerClass) or rule.fitted_labels is None:
        return None
    tied = None if rule.fitted_ties is None or not rule.fitted_ties.any() else rule.fitted_ties.tolist()
    return ClassLaws(rule.fitted_labels.tolist(), rule.constraint.alpha, _exact(rule), tied)


def _exact(rule: SetRule) -> bool:
    """Whether sets hold the labels within the threshold and no others, and calibration labels that tie there were counted."""
    in_between = rule.ordering.row_draws() is not None and not rule.ordering.randomized
    return not in_between and not rule.least and rule.fitted_ties is not None


def _beta_binomial_quantile(rows: int, parameters: tuple[int, int], share: float) -> int:
    """The smallest number of rows up to which there is this share of the probability."""
    from scipy.special import betaln, gammaln

    covered = np.arange(rows + 1, dtype=np.float64)
    first, second = parameters
    choices = gammaln(rows + 1) - gammaln(covered + 1) - gammaln(rows - covered + 1)
    shares = np.exp(choices + betaln(covered + first, rows - covered + second) - betaln(first, second)).cumsum()
    return int(np.searchsorted(shares / shares[-1], share))


def _promises(rule: SetRule | None, kind: type[AverageError]) -> TypeGuard["_Conformal"]:
    """Whether a fitted rule has a constraint of exactly this kind, no cap, and all rows count alike."""
    if rule is None or not rule.fitted or rule.groups is not None or rule.weighting.kind is not None:
        return False
    return type(rule.constraint) is kind and rule.most is None
