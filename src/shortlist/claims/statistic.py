"""Statistics of one seed: what a claim computes from the numbers that its arms reached with that seed.

A statistic is written as arithmetic over numbers of arms: ``Number("two-head", "average-5") - Number("hinge", "average-5")``.
Every arm of a seed saw the same data, so such differences are paired.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shortlist.errors import InputError

# By arm, then by name: what was measured with one seed.
Measured: TypeAlias = Mapping[str, Mapping[str, float]]


class Statistic:
    """A function of the numbers of the arms of one seed, with the arms that it reads."""

    def arms(self) -> tuple[str, ...]:
        """The arms that it reads, each once."""
        raise NotImplementedError

    def of(self, measured: Measured) -> float:
        """Its value for one seed."""
        raise NotImplementedError

    def __sub__(self, other: "Statistic | float") -> "Statistic":
        if isinstance(other, Statistic):
            return Combined("{} - {}", lambda first, second: first - second, (self, other))
        return Combined(f"{{}} - {other:g}", lambda first: first - other, (self,))

    def __rsub__(self, other: float) -> "Statistic":
        return Combined(f"{other:g} - {{}}", lambda first: other - first, (self,))

    def __truediv__(self, other: "Statistic") -> "Statistic":
        return Combined("{} / {}", _ratio, (self, other))


@dataclass(frozen=True)
class Number(Statistic):
    """One number of one arm.

    >>> (Number("a", "top-5") - Number("b", "top-5")).of({"a": {"top-5": 94.0}, "b": {"top-5": 93.0}})
    1.0
    """

    arm: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.arm}"

    def arms(self) -> tuple[str, ...]:
        """The arm."""
        return (self.arm,)

    def of(self, measured: Measured) -> float:
        """The number."""
        numbers = measured[self.arm]
        if self.name not in numbers:
            raise InputError(f"arm {self.arm}: expected the number {self.name!r}, got {', '.join(sorted(numbers)) or 'none'}")
        return numbers[self.name]


@dataclass(frozen=True)
class Tuned(Statistic):
    """One number of the arm that did best on validation rows: a method whose settings are tuned, for each seed anew.

    Args:
        candidates: the arms, one for each setting that is tried.
        name: the number.
        by: the number that chooses, higher is better; of equals the first arm is taken, and never one without a number.

    >>> measured = {"a": {"top-5": 94.0, "validation": 90.0}, "b": {"top-5": 93.0, "validation": 91.0}}
    >>> Tuned(("a", "b"), "top-5").of(measured)
    93.0
    """

    candidates: tuple[str, ...]
    name: str
    by: str = "validation"

    def __str__(self) -> str:
        return f"{self.name} of the best of {', '.join(self.candidates)}"

    def arms(self) -> tuple[str, ...]:
        """All that are tried."""
        return self.candidates

    def of(self, measured: Measured) -> float:
        """The number of the arm that validation chooses; NaN if it has a number for none."""
        chosen = {arm: Number(arm, self.by).of(measured) for arm in self.candidates}
        known = [arm for arm in self.candidates if not math.isnan(chosen[arm])]
        return Number(max(known, key=chosen.__getitem__), self.name).of(measured) if known else math.nan


@dataclass(frozen=True)
class Combined(Statistic):
    """A function of other statistics; ``text`` shows it, with ``{}`` for each of them."""

    text: str
    function: Callable[..., float]
    parts: tuple[Statistic, ...]

    def __str__(self) -> str:
        return self.text.format(*self.parts)

    def arms(self) -> tuple[str, ...]:
        """The arms of all parts, each once."""
        return tuple(dict.fromkeys(arm for part in self.parts for arm in part.arms()))

    def of(self, measured: Measured) -> float:
        """The function of the values of the parts."""
        return self.function(*(part.of(measured) for part in self.parts))


def difference(arm: str, rival: str, name: str) -> Statistic:
    """How much more an arm has of a number than its rival, for the same seed."""
    return Number(arm, name) - Number(rival, name)


def slope(places: Sequence[float], values: Sequence[Statistic]) -> Statistic:
    r"""The slope of the least-squares line through (place, value).

    .. math:: \sum_i (x_i - \bar x)\, y_i / \sum_i (x_i - \bar x)^2

    >>> measured = {"a": {"gap": 1.0}, "b": {"gap": 3.0}}
    >>> slope([0.0, 0.5], [Number("a", "gap"), Number("b", "gap")]).of(measured)
    4.0
    """
    centre = sum(places) / len(places)
    spread = sum((x - centre) ** 2 for x in places)

    def fitted(*found: float) -> float:
        return sum((x - centre) * y for x, y in zip(places, found, strict=True)) / spread

    shown = ", ".join(f"{x:g}" for x in places)
    return Combined(f"slope over {shown} of " + "; ".join(["{}"] * len(values)), fitted, tuple(values))


def largest(*values: Statistic) -> Statistic:
    """The largest of several."""
    return Combined("largest of " + "; ".join(["{}"] * len(values)), _largest, values)


def smallest(*values: Statistic) -> Statistic:
    """The smallest of several."""
    return Combined("smallest of " + "; ".join(["{}"] * len(values)), _smallest, values)


def value_range(*values: Statistic) -> Statistic:
    """The largest of several less the smallest."""
    return Combined("range of " + "; ".join(["{}"] * len(values)), lambda *found: _largest(*found) - _smallest(*found), values)


def _largest(*values: float) -> float:
    """The largest; NaN if any is, which Python's own ``max`` notices or not, by their order."""
    return math.nan if any(map(math.isnan, values)) else max(values)


def _smallest(*values: float) -> float:
    return -_largest(*(-value for value in values))


def _ratio(first: float, second: float) -> float:
    return first / second if second else math.nan
