"""Average-k on a stream: one number follows, so that sets hold k labels on average whatever comes."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_rows, number
from shortlist.errors import InputError
from shortlist.sets.batches import as_probs
from shortlist.sets.constraints import AverageSize
from shortlist.sets.orderings import Probability
from shortlist.sets.rule import SetRule
from shortlist.words import shown


class SizeStream:
    """An average-k rule whose threshold follows the stream: whatever comes, the mean size tends to k.

    After each row the threshold moves up by ``step`` for every label beyond k in its set, or down for every label short of it.
    It moves on the scale ``u = log(1 + q / q₀) / log(1 + top / q₀)``, where q₀ is the threshold that the rule was fitted to
    and top the largest value there can be (1, or 1 over the smallest prior): steps are shares of the threshold, and a u from 0
    to 1 is enough. Needs no labels; its memory is four numbers.

    Args:
        rule: ``average_k``, fitted on calibration rows, without cap, floor or gate.
        step: how far u moves with each label too many or too few, 0.001 by default.

    >>> from shortlist.sets import average_k
    >>> stream = SizeStream(average_k(1).fit([[0.6, 0.4], [0.8, 0.2]]), step=0.1)
    >>> stream.answer([[0.55, 0.45], [0.55, 0.54], [0.55, 0.45], [0.55, 0.45]]).sum(1)
    array([1, 2, 0, 1])
    >>> stream.mean
    1.0

    Robbins, Monro, "A stochastic approximation method", 1951; with a step that does not shrink, as in Gibbs, Candès, "Adaptive
    conformal inference under distribution shift", 2021.
    """

    def __init__(self, rule: SetRule, *, step: float = 0.001):
        if not isinstance(rule, SetRule) or not isinstance(rule.constraint, AverageSize):
            came = rule.text if isinstance(rule, SetRule) else shown(rule)
            raise InputError(f"rule: expected average_k, got {came}")
        if rule.least or rule.most is not None or rule.gate is not None:
            raise InputError(
                f"rule: expected one without cap, floor and gate, which would break the guarantee, got {rule.text}"
            )
        if rule.groups is not None:
            raise InputError(f"rule: expected one threshold for all rows, got {rule.text}: start a stream for each group")
        if not isinstance(rule.ordering, Probability):
            raise InputError(f"rule: expected average_k on probabilities, got {rule.text}")
        self.rule, self.step = rule.twin(), float(number(above=0)("step", step))
        self.start = rule.fitted_buffer("threshold").item()
        prior = rule.ordering.prior
        self.top = 1.0 if prior is None else 1 / float(prior.min())
        if not 0 < self.start < self.top:
            raise InputError(
                f"rule: expected a threshold between 0 and {self.top:g}, got {self.start:g}: fit it on probabilities"
            )
        self.rows = self.labels = 0
        self.first = self.place = math.log(2) / self._length

    @property
    def _length(self) -> float:
        return math.log1p(self.top / self.start)

    @property
    def k(self) -> float:
        """The mean size to reach."""
        return float(self.rule.k or 0)

    @property
    def threshold(self) -> float:
        """The threshold of the next row: up to 0 every label is in its set, above the largest possible value none."""
        if self.place == self.first:
            return self.start  # as it was fitted, unrounded
        return self.start * math.expm1(self.place * self._length) if self.place <= 1 else math.inf

    @property
    def mean(self) -> float:
        """The mean size of the sets so far; NaN before the first."""
        return self.labels / self.rows if self.rows else float("nan")

    def bound(self, classes: int) -> float:
        """What the distance between :attr:`mean` and k cannot exceed for rows of this many classes, whatever came."""
        if not self.rows:
            return float("inf")
        farthest = max(self.first + self.step * self.k, 1 - self.first + self.step * (classes - self.k))
        return farthest / (self.step * self.rows)

    @property
    def guarantee(self) -> str:
        """What is promised, in one sentence."""
        return (
            f"Whatever rows come, the mean size of the first T sets differs from k = {self.k:g} by at most "
            f"max(u + γk, 1 - u + γ(C - k)) / (γT), where γ = {self.step:g} is the step, u = {self.first:.4g} the first place "
            "of the threshold and C the number of classes."
        )

    def answer(self, probs: Any) -> Any:
        """The sets of these rows, bool (N, C), one after the other; how they are divided into calls changes nothing.

        Returns:
            A tensor for a tensor, otherwise a numpy array.
        """
        values = check_rows(as_probs(probs).cpu(), kind="probabilities")
        self.rule.constraint.check_classes(values.shape[1])
        ordered: Tensor = self.rule.ordering(values)
        found = torch.empty(values.shape, dtype=torch.bool)
        for row, one in zip(found, ordered.double(), strict=True):
            torch.ge(one, self.threshold, out=row)
            size = int(row.sum())
            self.place += self.step * (size - self.k)
            self.rows, self.labels = self.rows + 1, self.labels + size
        return found if isinstance(probs, Tensor) else found.numpy()

    def save(self, path: str | Path) -> None:
        """Write everything as one safetensors file, whole or not at all."""
        from shortlist.sets.stream_files import save_size

        save_size(self, path)

    @staticmethod
    def load(path: str | Path) -> "SizeStream":
        """The stream that :meth:`save` wrote; it goes on as if it had never stopped."""
        from shortlist.sets.stream_files import load_size

        return load_size(path)

    def __repr__(self) -> str:
        return f"SizeStream({self.rule.text}, threshold {self.threshold:.4g}, {self.rows} rows)"
