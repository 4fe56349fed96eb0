"""Claim: a sentence of a paper, what decides it, and the verdict that the measurements give."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shortlist.claims.statistic import Measured, Statistic
from shortlist.errors import InputError

Decision: TypeAlias = Literal["holds", "fails", "open"]
LEVEL = 0.05  # 1 - the confidence of an interval


@dataclass(frozen=True)
class Interval:
    """Mean over seeds with Student's t interval; one seed has none.

    Args:
        mean: of the values.
        low: lower end; minus infinity for one value.
        high: upper end; infinity for one value.
        n: number of seeds.
    """

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float], level: float = LEVEL) -> "Interval":
        r"""The interval of these values, one a seed.

        .. math:: \bar x \pm t_{1 - level/2,\, n - 1}\, s / \sqrt n

        >>> found = Interval.of([1.0, 2.0, 3.0])
        >>> round(found.low, 3), found.mean, round(found.high, 3)
        (-0.484, 2.0, 4.484)
        """
        if not values:
            raise InputError("values: expected one for each seed, got none")
        mean = statistics.fmean(values)
        if len(values) == 1 or math.isnan(mean):
            return cls(mean, -math.inf, math.inf, len(values))
        from scipy.special import stdtrit

        half = float(stdtrit(len(values) - 1, 1 - level / 2)) * statistics.stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half, len(values))


@dataclass(frozen=True)
class AtLeast:
    """Holds if the interval lies above ``margin``, fails if it lies below."""

    margin: float = 0.0

    def decide(self, interval: Interval) -> Decision:
        """The decision."""
        return "holds" if interval.low > self.margin else "fails" if interval.high < self.margin else "open"

    def __str__(self) -> str:
        return f"> {self.margin:g}"


@dataclass(frozen=True)
class Within:
    """Equivalence: holds if the interval lies within ±tolerance of 0, fails if it lies outside."""

    tolerance: float

    def decide(self, interval: Interval) -> Decision:
        """The decision."""
        if -self.tolerance < interval.low and interval.high < self.tolerance:
            return "holds"
        return "fails" if interval.low > self.tolerance or interval.high < -self.tolerance else "open"

    def __str__(self) -> str:
        return f"within ± {self.tolerance:g}"


Rule: TypeAlias = AtLeast | Within
GREATER = AtLeast(0.0)


@dataclass(frozen=True)
class Part:
    """One comparison of a claim: a statistic of each seed, and the rule that its interval has to satisfy.

    Args:
        name: what distinguishes it from the other parts, such as ``"k = 5"``.
        statistic: computed for each seed.
        rule: decides by the interval over seeds.
        unit: of the statistic, ``"points"`` (of percent) by default.
    """

    name: str
    statistic: Statistic
    rule: Rule = GREATER
    unit: str = "points"


@dataclass(frozen=True)
class Curves:
    """A plot that explains a verdict: one number of some arms against what distinguishes them.

    Args:
        experiment: id of the experiment.
        number: the number that is drawn.
        xlabel: what distinguishes the arms of a series.
        series: by name, the place on the axis of each arm.
        caption: what to see in it.
    """

    experiment: str
    number: str
    xlabel: str
    series: Mapping[str, Mapping[str, float]]
    caption: str


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that experiments can decide.

    Args:
        id: ``PAPER-WORDS``, what users call it by.
        paper: a key of :data:`~shortlist.recipes.published.PAPERS`, or ``"beyond"`` for ideas of this project.
        table: the table, figure or section that says so.
        sentence: the claim, one sentence.
        parts: the comparisons; all have to hold.
        experiments: ids of the experiments that measure it; each has all arms that the parts read.
        published: which numbers of the paper it is about: fields of :class:`~shortlist.recipes.Published` with their value, or
            a tuple of values.
        remark: what was learnt about it, shown below its numbers.
        curves: a plot shown below it.
    """

    id: str
    paper: str
    table: str
    sentence: str
    parts: tuple[Part, ...]
    experiments: tuple[str, ...]
    published: Mapping[str, object] = field(default_factory=dict)
    remark: str = ""
    curves: Curves | None = None

    def arms(self) -> tuple[str, ...]:
        """The arms that its parts and its plot read."""
        drawn = () if self.curves is None else tuple(arm for arms in self.curves.series.values() for arm in arms)
        return tuple(dict.fromkeys([*(arm for part in self.parts for arm in part.statistic.arms()), *drawn]))


@dataclass(frozen=True)
class PartVerdict:
    """What the measurements say about one part."""

    part: Part
    interval: Interval | None
    decision: Decision
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What one experiment says about a claim.

    Args:
        claim: the claim.
        experiment: id of the experiment.
        decision: of the whole claim.
        parts: one for each part.
        seconds: time that its arms took, all seeds together.
        machines: where they were measured.
    """

    claim: Claim
    experiment: str
    decision: Decision
    parts: tuple[PartVerdict, ...]
    seconds: float = 0.0
    machines: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The number of seeds of the part with the fewest."""
        return min((part.interval.n if part.interval else 0 for part in self.parts), default=0)


def judge(claim: Claim, experiment: str, seeds: Mapping[int, Measured], **about: object) -> Verdict:
    """The verdict of an experiment on a claim.

    A part holds or fails by its 95 % interval. The claim holds if every part holds: that needs no correction for their number,
    since a wrong claim is accepted only if its wrong part is. It fails if a part fails at 1 - 0.05 / (number of parts),
    Bonferroni's correction, since any of many parts could fail by chance. Otherwise it is open. So is a part with a seed whose
    value is not finite: that a training diverged is no reason to judge its arm by the others.

    Args:
        claim: the claim.
        experiment: id of the experiment.
        seeds: by seed, the numbers of its arms; a part uses the seeds that have all of its arms.
        about: further fields of the verdict.
    """
    found, failed = [], False
    for part in claim.parts:
        every = [part.statistic.of(seeds[seed]) for seed in sorted(seeds) if _has(seeds[seed], part)]
        values = [value for value in every if math.isfinite(value)]
        interval = Interval.of(values) if values else None
        decides = bool(values) and len(values) == len(every)
        found.append(PartVerdict(part, interval, part.rule.decide(interval) if decides and interval else "open", tuple(values)))
        failed |= decides and part.rule.decide(Interval.of(values, LEVEL / len(claim.parts))) == "fails"
    holds = bool(found) and all(part.decision == "holds" for part in found)
    return Verdict(claim, experiment, "holds" if holds else "fails" if failed else "open", tuple(found), **about)  # type: ignore[arg-type]


def _has(measured: Measured, part: Part) -> bool:
    return all(arm in measured for arm in part.statistic.arms())
