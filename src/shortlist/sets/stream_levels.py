"""Levels of error over time: calibration values that may follow the stream, and experts that learn how fast to adapt."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import shown

STEPS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)  # of the experts of Gibbs and Candès
HORIZON = 500  # labels over which the mix competes with the best expert, as there


class Reference:
    """Values at labels, with which those of new rows are compared: of the calibration rows, or of the newest labelled rows.

    Args:
        values: at the labels of the calibration rows; larger ones are less plausible.
        window: how many of the newest are kept; None keeps these and adds none.
    """

    def __init__(self, values: Array, window: int | None = None):
        self.window = None if window is None else whole(1)("window", window)
        kept = np.asarray(values, np.float64)
        kept = kept if self.window is None else kept[-self.window :]
        if not len(kept):
            raise InputError("probs: expected labelled calibration rows, got none")
        self.arrived = kept.copy()  # in the order of arrival, as a ring that starts at `oldest`
        self.oldest = 0
        self._sort()

    def _sort(self) -> None:
        n = len(self.arrived)
        self.ordered = np.sort(self.arrived)
        self.levels = (n + 1 - np.arange(n + 1)) / (n + 1)  # the p-value of a label with j smaller values among them

    def p_value(self, value: float) -> float:
        """The largest level of error at which a label with this value is left out."""
        return float(self.levels[np.searchsorted(self.ordered, value)])

    def limit(self, level: float) -> float | None:
        """The largest value of labels in the set at this level: infinite if all are; None if none is."""
        kept = int((self.levels > level).sum())
        if not kept:
            return None
        return math.inf if kept > len(self.ordered) else float(self.ordered[kept - 1])

    def add(self, value: float) -> None:
        """Take the value of a newly labelled row in place of the oldest, if they follow the stream."""
        if self.window is None:
            return
        if len(self.arrived) < self.window:
            self.arrived = np.append(self.arrived, value)
        else:
            self.arrived[self.oldest] = value
            self.oldest = (self.oldest + 1) % self.window
        self._sort()


class Experts:
    """Levels that adapt with different steps, mixed by how well each would have done lately.

    Args:
        alpha: the allowed error.
        steps: one for each expert.

    Gibbs, Candès, "Conformal inference for online prediction with arbitrary distribution shifts", 2024, Algorithm 1 with the
    weighted mean of the levels.
    """

    def __init__(self, alpha: float, steps: Sequence[float] = STEPS):
        self.alpha, self.steps = alpha, np.array(checked_steps(steps))
        self.levels = np.full(len(self.steps), alpha)
        self.weights = np.full(len(self.steps), 1 / len(self.steps))
        self.share = 1 / (2 * HORIZON)  # of the weight that is spread evenly again after each label
        spread = (1 - alpha) ** 2 * alpha**3 + alpha**2 * (1 - alpha) ** 3
        self.rate = math.sqrt(3 / HORIZON * (math.log(2 * len(self.steps) * HORIZON) + 1) / spread)

    @property
    def level(self) -> float:
        """The mean of the levels by weight, from 0 to 1; exactly their level while all are at one."""
        first = self.levels[0]  # summed as differences from it: eight eighths of 0.1 add up to less than 0.1
        return float(np.clip(first + self.weights @ (self.levels - first), 0, 1))

    def learn(self, p_value: float) -> None:
        """Weigh the experts by the pinball loss of their levels at this p-value of a true label, and let each take its step."""
        gap = p_value - self.levels
        loss = self.alpha * gap - np.minimum(0, gap)
        weights = self.weights * np.exp(-self.rate * (loss - loss.min()))
        weights /= weights.sum()
        self.weights = (1 - self.share) * weights + self.share / len(weights)
        self.levels = self.levels + self.steps * (self.alpha - (self.levels >= p_value))


def checked_steps(steps: Any) -> list[float]:
    """Steps of experts: numbers above 0, at least one."""
    if not isinstance(steps, list | tuple | np.ndarray) or not len(steps):
        raise InputError(f"experts: expected True, False or a list of steps, got {shown(steps)}")
    return [float(number(above=0)("experts", step)) for step in steps]
