"""Learn then test: a threshold at which several expected losses of a row are shown to be small, whatever the losses are.

Each threshold of a fixed grid is a hypothesis that one of the losses exceeds its level. It is rejected by a p-value for each
loss, of the bounds of Hoeffding and Bentkus (of the exact binomial law for a loss that is 0 or 1), of which the largest counts.
Losses that can only grow with the threshold are tested from the smallest on, up to the first that is not rejected (fixed
sequence); otherwise every threshold is tested at δ over their number (Bonferroni). Of those rejected the highest has the
smallest sets.

Angelopoulos, Bates, Candès, Jordan, Lei, "Learn then test: calibrating predictive algorithms to achieve risk control", 2021.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import as_typed
from shortlist.errors import InputError
from shortlist.sets.batches import Batches
from shortlist.sets.constraints import Constraint, FittedThreshold, check_alpha
from shortlist.sets.high_probability import check_delta
from shortlist.sets.orderings import Ordering, Probability
from shortlist.sets.registry import register_rule
from shortlist.sets.rule import SetRule
from shortlist.tensors import Array, Sets, blocks_of, one_hot
from shortlist.words import did_you_mean, shown

GRID = np.concatenate([[0.001, 0.002, 0.005], np.arange(1, 100) / 100])  # probabilities, chosen before any row is seen
Losses: TypeAlias = Callable[[Sets, Tensor], Tensor]


class RowLoss(NamedTuple):
    """The loss of each row, from 0 to 1.

    Args:
        of: sets and labels, both bool (N, C), → (N,).
        grows: whether it can only grow when labels are taken away.
        binary: whether it is always 0 or 1.
    """

    of: Losses
    grows: bool = False
    binary: bool = False


def _share(part: Tensor, whole: Tensor, empty: float) -> Tensor:
    part, whole = part.sum(1).double(), whole.sum(1).double()
    return torch.where(whole > 0, part / whole.clamp(min=1), empty)


def _f1(sets: Sets, marks: Tensor) -> Tensor:
    total = (sets.sum(1) + marks.sum(1)).double()
    return torch.where(total > 0, 1 - 2 * (sets & marks).sum(1) / total.clamp(min=1), 0.0)


ROW_LOSSES: dict[str, RowLoss] = {
    "recall": RowLoss(lambda sets, marks: _share(marks & ~sets, marks, 0.0), grows=True),
    "precision": RowLoss(lambda sets, marks: _share(sets & ~marks, sets, 0.0)),
    "f1": RowLoss(_f1),
    "miscoverage": RowLoss(lambda sets, marks: (marks & ~sets).any(1).double(), grows=True, binary=True),
}


def register_row_loss(name: str, *, grows: bool = False, binary: bool = False) -> Callable[[Losses], Losses]:
    """Decorator: give a loss of rows a name, for :func:`learn_then_test`.

    Args:
        name: small letters.
        grows: whether the loss of a row can only grow when labels are taken away from its set.
        binary: whether it is always 0 or 1.

    >>> @register_row_loss("size-over-3", binary=True)
    ... def size_over_3(sets, marks):
    ...     return (sets.sum(1) > 3).double()
    """
    if name != name.lower() or not name or any(sign in name for sign in ":,+= "):
        raise InputError(f"name: expected small letters without spaces and any of : , + =, got {name!r}")

    def decorate(function: Losses) -> Losses:
        ROW_LOSSES[name] = RowLoss(function, grows, binary)
        return function

    return decorate


@dataclass
class SeveralRisks(Constraint):
    """Every expected loss is at most its level, in a share 1 - δ of the calibrations."""

    kind = "learn-then-test"
    per_class = False
    needs_labels = needs_probabilities = True
    losses: list[str]
    levels: list[Any]
    delta: int | float | str = 0.05
    guarantee: str = field(init=False)

    def __post_init__(self) -> None:
        if not self.losses or len(self.losses) != len(self.levels):
            raise InputError(f"losses: expected one or more, each with a level, got {shown(self.losses)}")
        for name in self.losses:
            if name not in ROW_LOSSES:
                raise InputError(
                    f"losses: {did_you_mean(name, ROW_LOSSES)}expected {', '.join(ROW_LOSSES)}, or a name given to "
                    f"register_row_loss, got {shown(name)}"
                )
        self.bounds = [float(check_alpha(level)) for level in self.levels]
        self.levels = [as_typed("level", level) for level in self.levels]
        self.chance = float(check_delta(self.delta))
        self.delta = as_typed("delta", self.delta)
        parts = " and ".join(f"{name} loss at most {level}" for name, level in zip(self.losses, self.levels, strict=True))
        self.guarantee = (
            f"With a probability of at least {1 - self.chance:g} over calibration rows, new rows have an expected {parts}, if "
            "all rows are independent and from the same source."
        )

    def fit(self, ordering: Ordering, batches: Batches) -> FittedThreshold:
        """The highest threshold of the grid that is rejected."""
        if type(ordering) is not Probability or ordering.needs_prior:
            raise InputError("learn-then-test: expected probabilities themselves as the ordering")
        totals, rows = self._totals(batches)
        if not rows:
            raise InputError("probs: expected labelled calibration rows, got none")
        p_values = np.array([self._p_value(total, rows) for total in totals])
        if all(ROW_LOSSES[name].grows for name in self.losses):
            failed = np.flatnonzero(p_values > self.chance)
            shown_small = np.arange(len(GRID) if not len(failed) else failed[0])
        else:
            shown_small = np.flatnonzero(p_values <= self.chance / len(GRID))
        if not len(shown_small):
            raise InputError(
                f"probs: no threshold could be shown to have every loss within its level on {rows} rows: allow larger losses "
                "or a larger delta, or calibrate on more rows"
            )
        return FittedThreshold(torch.tensor(GRID[shown_small[-1]], dtype=torch.float64))

    def _totals(self, batches: Batches) -> tuple[Array, int]:
        """The total of each loss at each threshold, (grid, losses), and the number of rows."""
        totals, rows = np.zeros((len(GRID), len(self.losses))), 0
        for probs, target in batches.labelled():
            for block in blocks_of(probs):
                marks = one_hot(target[block], probs.shape[1])
                for place, cut in enumerate(GRID):
                    sets = probs[block].double() >= cut
                    for which, name in enumerate(self.losses):
                        totals[place, which] += float(self._loss(name, sets, marks).sum())
            rows += len(probs)
        return totals, rows

    def _loss(self, name: str, sets: Sets, marks: Tensor) -> Tensor:
        found = ROW_LOSSES[name].of(sets, marks)
        if found.shape != (len(sets),) or not bool(((found >= 0) & (found <= 1)).all()):
            raise InputError(f"loss {name}: expected a number from 0 to 1 for each of {len(sets)} rows")
        return found.double()

    def _p_value(self, totals: Array, rows: int) -> float:
        """The largest of the losses' p-values: none may exceed its level."""
        found = zip(totals, self.bounds, self.losses, strict=True)
        return max(p_value(total, rows, level, binary=ROW_LOSSES[name].binary) for total, level, name in found)


def p_value(total: float, n: int, level: float, *, binary: bool = False) -> float:
    """How likely so small a total loss of n rows is, at most, if the expected loss exceeds the level.

    >>> round(p_value(3, 100, 0.1, binary=True), 4), round(p_value(3, 100, 0.1), 4)
    (0.0078, 0.0213)
    """
    from scipy.special import bdtr

    exact = float(bdtr(min(math.ceil(total - 1e-9), n), n, level))  # sums of losses are rounded
    if binary:
        return exact
    mean = total / n
    if mean >= level:
        return 1.0
    divergence = (mean * math.log(mean / level) if mean > 0 else 0.0) + (1 - mean) * math.log((1 - mean) / (1 - level))
    return min(math.exp(-n * divergence), math.e * exact, 1.0)


@register_rule("learn-then-test", "losses", "delta?", texts=("losses",))
def learn_then_test(losses: Mapping[str, Any] | str, delta: float = 0.05) -> SetRule:
    """All labels above the highest threshold at which several losses are shown to be small, with probability 1 - delta.

    Args:
        losses: the level of each loss, ``{"recall": 0.1, "precision": 0.3}``, as text ``"recall=0.1+precision=0.3"``: the
            expected share of the labels of a row that its set misses, of its set that is wrong, one minus their F1 (``f1``),
            the probability to miss any label (``miscoverage``), or a loss of :func:`register_row_loss`.
        delta: the share of calibrations in which one of them may be larger, 0.05 by default.

    >>> learn_then_test({"recall": 0.1, "precision": 0.3}).text
    'learn-then-test:recall=0.1+precision=0.3:0.05'
    """
    found = dict(losses) if isinstance(losses, Mapping) else _parsed(losses)
    constraint = SeveralRisks(list(found), list(found.values()), delta)
    levels = "+".join(f"{name}={level!s}" for name, level in zip(constraint.losses, constraint.levels, strict=True))
    return SetRule(f"learn-then-test:{levels}:{constraint.delta!s}", Probability(), constraint)


def _parsed(text: Any) -> dict[str, Any]:
    pairs = [part.split("=") for part in text.split("+")] if isinstance(text, str) else [[]]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(f"losses: expected a level for each, such as recall=0.1+precision=0.3, got {shown(text)}")
    return {name.strip(): as_typed("level", level.strip()) for name, level in pairs}
