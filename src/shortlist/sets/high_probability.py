"""Guarantees with a stated probability over calibrations (PAC), where conformal rules promise an average over them.

The expected error of a conformal rule is at most α on average over calibration sets, so about half of them err more often. Here
the error exceeds α in at most a share δ of the calibrations. For an error per row, which happens or not, the number of
calibration rows that a threshold misses is binomial, and the bound is exact (Vovk 2012; Clopper, Pearson 1934). For a loss
between 0 and 1, such as the share of a row's labels that is missed, it is the smaller of the bounds of Hoeffding and Bentkus
(Bates et al. 2021).

Vovk, "Conditional validity of inductive conformal predictors", 2012; Bates, Angelopoulos, Lei, Malik, Jordan,
"Distribution-free, risk-controlling prediction sets", 2021.
"""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction

import torch

from shortlist.checks import as_typed, decimal
from shortlist.errors import InputError
from shortlist.leading_bits import BitCounts
from shortlist.sets.conformal import AverageError
from shortlist.sets.constraints import FittedThreshold
from shortlist.sets.multilabel import Risk, affordable
from shortlist.sets.orderings import Ordering
from shortlist.sets.registry import register_modifier
from shortlist.sets.rule import SetRule
from shortlist.words import shown

CLOSE = 1e-9  # relative distance of probabilities below which they are compared in fractions
MOST_EXACT = 10_000  # rows up to which it takes no time to compare them in fractions
SAFE = 1e-12  # share of a solution in floating point that is given up, far more than its rounding


def check_delta(delta: object) -> Fraction:
    """The probability of a calibration that errs too often, as an exact fraction strictly between 0 and 1."""
    value = decimal("delta", delta)
    if not 0 < value < 1:
        raise InputError(f"delta: expected a number between 0 and 1, such as 0.05, got {shown(delta)}")
    return value


def errors_allowed(n: int, alpha: Fraction, delta: Fraction) -> int:
    """The largest m for which at most m errors in n rows have a probability of at most δ, if each row errs with α; or -1.

    >>> errors_allowed(100, Fraction(1, 10), Fraction(1, 20)), errors_allowed(20, Fraction(1, 10), Fraction(1, 20))
    (4, -1)
    """
    from scipy.special import bdtr

    def seldom(m: int) -> bool:
        probability = float(bdtr(m, n, float(alpha)))
        if abs(probability - delta) > CLOSE * delta:
            return probability < delta
        return sum(math.comb(n, i) * alpha**i * (1 - alpha) ** (n - i) for i in range(m + 1)) <= delta

    low, high = -1, n  # n errors or fewer are certain
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seldom(middle) else (low, middle)
    return low


def loss_allowed(n: int, alpha: Fraction, delta: Fraction) -> Fraction | None:
    """The largest total loss of n rows at which the bound of Hoeffding or that of Bentkus shows an expected loss of at most α.

    None if not even a loss of 0 shows it. The losses of rows lie between 0 and 1.

    >>> round(float(loss_allowed(100, Fraction(1, 10), Fraction(1, 20))), 4)  # Hoeffding's bound; that of Bentkus allows 3
    3.5532
    """
    bentkus = errors_allowed(n, alpha, Fraction(float(delta) / math.e * (1 - SAFE)))
    hoeffding = _hoeffding(n, float(alpha), float(delta))
    found = [Fraction(bentkus)] if bentkus >= 0 else []
    found += [] if hoeffding is None else [hoeffding]
    return max(found, default=None)


def _hoeffding(n: int, alpha: float, delta: float) -> Fraction | None:
    """The largest total loss s with ``exp(-n h(s / n, α)) ≤ δ``, h the divergence of two coins; None if there is none."""
    wanted = -math.log(delta) / n
    if -math.log1p(-alpha) < wanted * (1 + SAFE):
        return None
    low, high = 0.0, alpha
    for _ in range(100):
        middle = (low + high) / 2
        enough = middle * math.log(middle / alpha) + (1 - middle) * math.log((1 - middle) / (1 - alpha)) >= wanted
        low, high = (middle, high) if enough else (low, middle)
    return Fraction(low * n * (1 - SAFE))


@dataclass
class PacError(AverageError):
    """The label of new rows is missed with probability at most α, in a share 1 - δ of the calibrations."""

    kind = "pac-error"
    delta: int | float | str = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.chance = check_delta(self.delta)
        self.delta = as_typed("delta", self.delta)
        self.guarantee = (
            f"With a probability of at least {1 - float(self.chance):g} over calibration rows, the set of a new row contains "
            f"its label with probability at least {1 - float(self.level):g}, if all rows are independent and from the same "
            "source."
        )

    @property
    def fewest_rows(self) -> int:
        """The number of rows from which the threshold leaves a label out."""
        needed = math.log(self.chance) / math.log1p(-self.level)
        nearest = round(needed)
        if abs(needed - nearest) > CLOSE * needed or nearest > MOST_EXACT:
            return math.ceil(needed)
        return nearest if (1 - self.level) ** nearest <= self.chance else nearest + 1

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """The value beyond which as many calibration rows lie as :func:`errors_allowed` says."""
        n = counts.seen
        allowed = errors_allowed(n, self.level, self.chance) if n else 0
        if allowed < 0:
            return too_few(n, self.alpha, self.delta, ordering.worst(), labels=True)
        exact = copy.copy(self)
        exact.level = Fraction(allowed + 1, n + 1)  # whose conformal rank is n - allowed
        return AverageError.step(exact, ordering, counts, classes)


@dataclass
class PacRisk(Risk):
    """The expected share of a row's labels that its set misses is at most α, in a share 1 - δ of the calibrations."""

    kind = "pac-risk"
    delta: int | float | str = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.chance = check_delta(self.delta)
        self.delta = as_typed("delta", self.delta)
        self.guarantee = (
            f"With a probability of at least {1 - float(self.chance):g} over calibration rows, the expected share of a new "
            f"row's labels that its set misses is at most {float(self.level):g} (recall at least {1 - float(self.level):g}; a "
            "row without labels misses none), if all rows are independent and from the same source."
        )

    def step(self, ordering: Ordering, counts: BitCounts, classes: int) -> BitCounts | FittedThreshold:
        """The highest threshold whose total loss :func:`loss_allowed` permits."""
        if not counts.rows:
            raise InputError("probs: expected labelled calibration rows, got none")
        budget = loss_allowed(counts.rows, self.level, self.chance)
        if budget is None:
            return too_few(counts.rows, self.alpha, self.delta, -torch.inf)
        found = affordable(counts, budget)
        return found if isinstance(found, BitCounts) else FittedThreshold(torch.tensor(found, dtype=torch.float64))


def too_few(n: int, alpha: object, delta: object, threshold: float, *, labels: bool = False) -> FittedThreshold:
    """Every label, because n rows cannot show so small an error."""
    note = f"{n} calibration rows are too few to show an error of {alpha} with delta={delta}: every label is returned"
    found = torch.tensor(threshold, dtype=torch.float64)
    return FittedThreshold(found, (note,), torch.tensor(n) if labels else None)


@register_modifier("pac", "delta")
def pac(rule: SetRule, delta: float = 0.05) -> SetRule:
    """A conformal rule, or risk control, whose error exceeds alpha in at most a share delta of all calibrations.

    The plain rules hold on average over calibrations: about half of these err more often than alpha. The price is somewhat
    larger sets, and calibration rows: at least ``log(delta) / log(1 - alpha)`` of them, 29 for 0.1 and 0.05.

    Args:
        rule: ``lac``, ``aps``, ``raps``, ``pas``, ``sure_node`` or ``risk_control``.
        delta: the share of calibrations, 0.05 by default.

    >>> from shortlist.sets import lac
    >>> print(pac(lac(0.1), 0.05).guarantee.partition(", the")[0])
    With a probability of at least 0.95 over calibration rows
    """
    made: AverageError | Risk
    if not isinstance(rule, SetRule):
        raise InputError(f"pac: expected a rule, such as lac(0.1), got {shown(rule)}: make a text a rule with parse_rule")
    if type(rule.constraint) is AverageError:
        made = PacError(rule.constraint.alpha, delta)
    elif type(rule.constraint) is Risk:
        made = PacRisk(rule.constraint.risk, rule.constraint.alpha, delta)
    else:
        raise InputError(f"pac: expected a conformal rule (lac, aps, raps, pas, sure-node) or risk-control, got {rule.text}")
    return rule.under(f"pac:{made.delta!s}", made)
