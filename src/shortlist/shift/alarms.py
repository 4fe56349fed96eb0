"""Alarms: what has changed, since when, and what to do, in one line."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shortlist.shift.signals import probability_at
from shortlist.tensors import Array

if TYPE_CHECKING:
    from shortlist.shift.watch import Watch

CLOSE = 0.02  # how near the coverage of a new calibration should come to what was asked for, in 95 % of calibrations
ENOUGH = 1000  # rows for a rule without an allowed error


@dataclass(frozen=True)
class Alarm:
    """A signal that is not what it was.

    Args:
        signal: ``confidence``, ``size``, ``class`` or ``label``.
        row: how many rows had been watched when it was noticed.
        since: the number of the row about which the change began, from 0.
        place: the same in words.
        change: what is different.
        advice: what to do.
    """

    signal: str
    row: int
    since: int
    place: str
    change: str
    advice: str

    @property
    def sentence(self) -> str:
        """Everything in one line."""
        return f"{self.signal}: since about {self.place}, {self.change}; {self.advice}"


def described(watch: "Watch", signal: str, start: int) -> Alarm:
    """The alarm for a signal whose bet has passed its limit."""
    new = watch.since(signal, start)
    counts = watch.ranks[signal].counts
    old = counts - np.bincount(new, minlength=len(counts))
    changes = {"confidence": _confidence, "size": _size, "class": _class, "label": _label}
    change = changes[signal](watch, old, np.bincount(new, minlength=len(counts)), start)
    return Alarm(signal, watch.rows, start, _place(watch, start), change, _advice(watch, signal))


def _place(watch: "Watch", row: int) -> str:
    found = ((name, first) for name, first in reversed(watch.sources) if first <= row)
    name, first = next(found, ("the stream", 0))  # there may be labels and no rows yet
    return f"row {row - first} of {name}"


def _confidence(watch: "Watch", old: Array, new: Array, start: int) -> str:
    before, after = (probability_at(_median(counts)) for counts in (old, new))
    return f"the largest probability has a median of {after:.3g} ({before:.3g} before)"


def _size(watch: "Watch", old: Array, new: Array, start: int) -> str:
    before, after = (float(counts @ np.arange(len(counts)) / max(1, counts.sum())) for counts in (old, new))
    return f"sets hold {after:.3g} labels on average ({before:.3g} before)"


def _class(watch: "Watch", old: Array, new: Array, start: int) -> str:
    shares = [counts / max(1, counts.sum()) for counts in (old, new)]
    label = int(np.abs(shares[1] - shares[0]).argmax())
    name = watch.names[label] if watch.names else f"class {label}"
    return f"{name} is the most probable class of {shares[1][label]:.1%} of the rows ({shares[0][label]:.1%} before)"


def _label(watch: "Watch", old: Array, new: Array, start: int) -> str:
    missed = [missed for row, _, missed in watch.label_rows if row >= start]
    labelled = watch.labelled + watch.reference_labelled - len(missed)
    before = 1 - (watch.missed + watch.reference_missed - sum(missed)) / max(1, labelled)
    now = 1 - sum(missed) / max(1, len(missed))
    compared = f" ({before:.1%} before)" if labelled > 0 else ""
    return f"{'recall' if watch.several else 'coverage'} is {now:.1%} of {len(missed):,} labelled rows{compared}"


def _median(counts: Array) -> float:
    return float(np.searchsorted(counts.cumsum(), counts.sum() / 2)) + 0.5


def _advice(watch: "Watch", signal: str) -> str:
    rows = rows_to_fit(watch.rule.alpha)
    labelled = "labelled " if watch.rule.needs_labels else ""
    if signal == "class":
        return "if only the shares of the classes changed, estimate them and re-weight; otherwise as for a change of confidence"
    if signal == "label":
        return f"fit the rule again on {rows:,} {labelled}rows from then on, and retrain if sets become too large"
    return f"look at these rows; fit the rule again on {rows:,} {labelled}ones, and retrain if sets become too large"


def rows_to_fit(alpha: float | None) -> int:
    """How many labelled rows a new calibration needs to come within 2 points of the coverage that was asked for.

    >>> rows_to_fit(0.1)
    865
    """
    return ENOUGH if alpha is None else math.ceil(alpha * (1 - alpha) * (1.96 / CLOSE) ** 2)
