"""Coverage on a stream: a level of error that follows what happens, for labels that come at once, late, or seldom."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_rows, number, whole
from shortlist.errors import InputError
from shortlist.sets.batches import Batches, Source, as_probs
from shortlist.sets.conformal import AverageError
from shortlist.sets.rule import SetRule
from shortlist.sets.stream_levels import STEPS, Experts, Reference, checked_steps
from shortlist.tensors import Array, Probs, Sets, as_target, is_single_label, pick
from shortlist.words import shown


@dataclass
class Pending:
    """A row that was answered and whose label is not known.

    Args:
        probs: (C,).
        inside: its set, bool (C,).
        labelled: how many labels had come when it was answered.
    """

    probs: Tensor
    inside: Tensor
    labelled: int


class CoverageStream:
    """A conformal rule whose threshold follows the stream: whatever comes, the share of errors tends to α.

    Sets are those of the rule for a level of error α + c. The correction c starts at 0; every label that turns out to be
    missed makes it smaller, every other one larger, so that it grows by ``step · (α - error)`` with each label. The answer to a
    row never depends on its own label, and no assumption about rows or labels is made: see :attr:`guarantee`.

    Labels may come in any order, long after the answer, or never; each counts once, against the set that was given.

    Args:
        rule: one with a single conformal threshold (``lac``, ``pas``, ``aps`` and ``raps`` without random answers), without
            cap, floor or gate; fitted or not.
        probs: calibration rows, as for :meth:`SetRule.fit`.
        target: their labels.
        step: how far the level moves with each label, 0.01 by default: larger steps follow faster and waver more.
        experts: True adds to the correction a level by experts with eight steps from 0.001 to 0.128, weighted by how well
            each has done lately; a list gives other steps. False (the default) leaves the level at α + c.
        window: compare new rows with this many of the newest labelled rows; None (the default) with the calibration rows.
        pending: how many rows may wait for their label, 10,000 by default; beyond that the oldest are forgotten.

    >>> from shortlist.sets import lac
    >>> stream = CoverageStream(lac(0.5), [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1], step=0.2)
    >>> stream.answer([[0.75, 0.25]], ids=["a"])
    array([[False, False]])
    >>> stream.learn(["a"], [0]), round(stream.level, 3)
    (1, 0.4)
    >>> stream.answer([[0.75, 0.25]])
    array([[ True, False]])

    Gibbs, Candès, "Adaptive conformal inference under distribution shift", 2021; with experts, the same, "Conformal inference
    for online prediction with arbitrary distribution shifts", 2024, inside the correction by the sum of errors of Angelopoulos,
    Candès, Tibshirani, "Conformal PID control for time series prediction", 2023.
    """

    def __init__(
        self,
        rule: SetRule,
        probs: Source,
        target: Any = None,
        *,
        step: float = 0.01,
        experts: bool | Sequence[float] = False,
        window: int | None = None,
        pending: int = 10_000,
    ):
        check_follows(rule)
        self.rule = rule.twin()
        self.ordering = self.rule.ordering.of_answers()
        self.step = float(number(above=0)("step", step))
        self.most_pending = whole(1)("pending", pending)
        self._sign = -1.0 if rule.ordering.descending else 1.0
        batches = Batches(probs, target, probabilities=rule.needs_probabilities)
        found = [self._values(part, labels) for part, labels in batches.labelled()]
        self.reference = Reference(np.concatenate(found) if found else np.empty(0), window)
        self.classes: int = batches.classes or 0
        steps = STEPS if experts is True else () if experts is False else checked_steps(experts)
        self.experts = Experts(self.alpha, steps) if len(steps) else None
        self.correction = 0.0
        self.labelled = self.missed = self.delay = self.forgotten = self.rows = 0
        self.waiting: dict[str, Pending] = {}

    @property
    def alpha(self) -> float:
        """The error to reach in the long run."""
        return float(self.rule.alpha or 0)

    @property
    def level(self) -> float:
        """The level of error of the next sets: up to 0 every label is in them, from 1 on none."""
        return (self.alpha if self.experts is None else self.experts.level) + self.correction

    @property
    def error(self) -> float:
        """The share of the labels so far that were missed; NaN before the first."""
        return self.missed / self.labelled if self.labelled else float("nan")

    @property
    def bound(self) -> float:
        """What the distance between :attr:`error` and α cannot exceed, whatever came."""
        if not self.labelled:
            return float("inf")
        start = 1.0 if self.experts is not None else max(self.alpha, 1 - self.alpha)
        return (start + (self.delay + 1) * self.step) / (self.step * self.labelled)

    @property
    def guarantee(self) -> str:
        """What is promised, in one sentence."""
        start = "1" if self.experts is not None else "max(α, 1 - α)"
        return (
            f"Whatever rows and labels come, the share of missed labels among the first T differs from α = {self.alpha:g} by "
            f"at most ({start} + (D + 1)γ) / (γT), where γ = {self.step:g} is the step and D the most labels that came between "
            "the answer to a row and its own label."
        )

    def answer(self, probs: Any, ids: Iterable[Any] | None = None) -> Any:
        """The sets of these rows, bool (N, C), all at the present level; they then wait for their labels.

        Args:
            probs: (N, C).
            ids: a name for each row, by which its label will be told; by default the number of the row in the stream. A name
                that waits already stands for the newer row.

        Returns:
            A tensor for a tensor, otherwise a numpy array.
        """
        values = self._checked(probs)
        names = [str(self.rows + row) for row in range(len(values))] if ids is None else self._names(ids, len(values))
        sets = self._sets(values)
        for row, name in enumerate(names):
            self.waiting.pop(name, None)
            self.waiting[name] = Pending(values[row].clone(), sets[row].clone(), self.labelled)
        self.rows += len(values)
        while len(self.waiting) > self.most_pending:
            del self.waiting[next(iter(self.waiting))]
            self.forgotten += 1
        return sets if isinstance(probs, Tensor) else sets.numpy()

    def learn(self, ids: Iterable[Any], target: Any) -> int:
        """Take the labels of answered rows, in any order, and move the level.

        Args:
            ids: the names of the rows. Names that wait for no label (never answered, told before, forgotten) are passed over.
            target: a label for each, int64.

        Returns:
            How many labels were taken.
        """
        labels = as_target(target)
        if not is_single_label(labels):
            raise InputError("target: expected one label a row, got many labels")
        names = self._names(ids, len(labels), distinct=False)
        check_rows(torch.zeros(len(labels), self.classes), labels)
        known = 0
        for name, label in zip(names, labels.tolist(), strict=True):
            row = self.waiting.pop(name, None)
            if row is not None:
                self._learn(row, label)
                known += 1
        return known

    def replay(self, probs: Any, target: Any) -> Any:
        """Answer rows one by one, telling the label of each before the next: what the stream would have done on a history."""
        values, labels = self._checked(probs), as_target(target)
        check_rows(values, labels)
        found = torch.zeros_like(values, dtype=torch.bool)
        for row in range(len(values)):
            found[row] = self.answer(values[row : row + 1], ids=[("replayed", row)])[0]
            self.learn([("replayed", row)], labels[row : row + 1])
        return found if isinstance(probs, Tensor) else found.numpy()

    def save(self, path: str | Path) -> None:
        """Write everything, rows that wait included, as one safetensors file, whole or not at all."""
        from shortlist.sets.stream_files import save_coverage

        save_coverage(self, path)

    @staticmethod
    def load(path: str | Path) -> "CoverageStream":
        """The stream that :meth:`save` wrote; it goes on as if it had never stopped."""
        from shortlist.sets.stream_files import load_coverage

        return load_coverage(path)

    def _learn(self, row: Pending, label: int) -> None:
        missed = not bool(row.inside[label])
        self.delay = max(self.delay, self.labelled - row.labelled)
        self.labelled, self.missed = self.labelled + 1, self.missed + missed
        self.correction += self.step * (self.alpha - missed)
        value = float(self._values(row.probs[None], torch.tensor([label]))[0])
        if self.experts is not None:
            self.experts.learn(self.reference.p_value(value))
        self.reference.add(value)

    def _sets(self, probs: Probs) -> Sets:
        limit = self.reference.limit(self.level)
        if limit is None:
            return torch.zeros(probs.shape, dtype=torch.bool)
        return self.ordering.select(probs, torch.tensor(self._sign * limit, dtype=torch.float64))

    def _values(self, probs: Probs, target: Tensor) -> Array:
        """The ordering at the labels as sets compare it, larger where they are less plausible."""
        if not is_single_label(target):
            raise InputError("target: expected one label a row, got many labels")
        probs, target = probs.cpu(), target.cpu()
        values, whole = self.ordering.at_labels(probs, target).double(), self.ordering.row_draws()
        if whole is not None:  # sets hold the label at the boundary: what counts is the mass of the labels before it
            values = values - whole(probs).squeeze(1) * pick(probs, target).double()
        found: Array = self._sign * values.numpy()
        return found

    def _checked(self, probs: Any) -> Probs:
        values = check_rows(as_probs(probs).cpu(), kind="probabilities" if self.rule.needs_probabilities else "scores")
        if values.shape[1] != self.classes:
            raise InputError(f"probs: the stream was started with {self.classes} classes, got {values.shape[1]}")
        return values

    def _names(self, ids: Iterable[Any], rows: int, distinct: bool = True) -> list[str]:
        names = [str(one) for one in (ids.tolist() if isinstance(ids, Tensor | np.ndarray) else ids)]
        if len(names) != rows:
            raise InputError(f"ids: expected a name for each of {rows} rows, got {len(names)}")
        if distinct and len(set(names)) != rows:
            raise InputError("ids: expected different names, got one twice")
        return names

    def __repr__(self) -> str:
        return f"CoverageStream({self.rule.text}, level {self.level:.4g}, {self.labelled} labels, {len(self.waiting)} waiting)"


def check_follows(rule: Any) -> None:
    """Raise an error unless the sets of this rule have one conformal threshold that can be moved."""
    if not isinstance(rule, SetRule) or type(rule.constraint) is not AverageError:
        came = rule.text if isinstance(rule, SetRule) else shown(rule)
        raise InputError(f"rule: expected one with a single conformal threshold (lac, pas, aps, raps), got {came}")
    if rule.least or rule.most is not None or rule.gate is not None:
        raise InputError(f"rule: expected one without cap, floor and gate, which break the guarantee, got {rule.text}")
    if rule.groups is not None:
        raise InputError(f"rule: expected one threshold for all rows, got {rule.text}: start a stream for each group")
    if not rule.ordering.in_rounds:
        raise InputError(f"rule: expected one whose ordering is given, got {rule.text}")
    if rule.ordering.randomized:
        raise InputError(f"rule: expected one that draws nothing at random, got {rule.text}")
