"""Cross-conformal prediction: every row calibrates, with probabilities from a model that was fitted without it.

The rows are divided into folds. For each fold a model is fitted on the other folds, and a conformal rule is calibrated on this
one. A label of a new row has a value by each model, and its p-value counts the calibration values of every fold that are at
least as extreme: ``(1 + Σ_k #{values of fold k at least as extreme as that by model k}) / (n + 1)``. The set holds the labels
whose p-value exceeds α.

Vovk, "Cross-conformal predictors", 2015; Barber, Candès, Ramdas, Tibshirani, "Predictive inference with the jackknife+", 2021.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.sets.batches import as_probs
from shortlist.sets.p_values import CONFORMAL
from shortlist.sets.rule import SetRule
from shortlist.tensors import Array


class CrossConformal:
    """Sets from one conformal rule for each fold.

    Args:
        rules: the same rule, fitted with ``keep=True`` on each fold, each with probabilities from a model that was fitted
            without the fold; without a gate, and without weights or votes: the folds count rows.

    >>> from shortlist.sets import lac
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    >>> folds = [lac(0.4).fit(probs[:2], [0, 1], keep=True), lac(0.4).fit(probs[2:], [1, 1], keep=True)]
    >>> both = CrossConformal(folds)
    >>> both.p_values([[[0.75, 0.25]], [[0.5, 0.5]]])
    array([[0.4, 0.4]])
    >>> both.predict([[[0.85, 0.15]], [[0.9, 0.1]]])
    array([[ True, False]])
    """

    def __init__(self, rules: Sequence[SetRule]):
        if len(rules) < 2 or not all(isinstance(rule, SetRule) for rule in rules):
            raise InputError(f"rules: expected at least two rules, one for each fold, got {len(rules)}")
        if len({rule.text for rule in rules}) > 1 or any(rule.gate is not None for rule in rules):
            raise InputError(f"rules: expected the same rule for each fold, without a gate, got {rules[0].text}")
        if any(rule.kept_weights is not None for rule in rules):
            raise InputError(
                "rules: expected folds whose rows count alike, got weights or votes: fit each fold without them, or one rule "
                "with them on rows held out"
            )
        self.rules = list(rules)

    @property
    def text(self) -> str:
        """The rule as text."""
        return self.rules[0].text

    @property
    def rows(self) -> int:
        """The number of calibration rows, those of all folds."""
        return sum(0 if rule.kept is None else len(rule.kept) for rule in self.rules)

    @property
    def guarantee(self) -> str:
        """What is promised, in one sentence."""
        alpha = self.rules[0].alpha or 0.0
        return (
            f"The set of a new row contains its label with probability at least 1 - 2α - √(2/n), {1 - 2 * alpha:g} for many "
            f"rows, and usually with about 1 - α, {1 - alpha:g}, if new rows and the n rows of the folds are exchangeable and "
            "folds are of one size."
        )

    def p_values(self, probs: Sequence[Any]) -> Array:
        """The p-value of every label, float64 (N, C).

        Args:
            probs: for each fold the probabilities (N, C) of the new rows by its model.
        """
        if len(probs) != len(self.rules):
            raise InputError(f"probs: expected those by each of {len(self.rules)} models, got {len(probs)}")
        extreme: Any = 0
        labels: Any = 0
        for rule, values in zip(self.rules, probs, strict=True):
            matrix = as_probs(values)
            found = rule.p_values(matrix).cpu().numpy()
            own = _sizes(rule, matrix.shape[1])
            extreme = extreme + np.rint(found * (own + 1)).astype(np.int64) - 1
            labels = labels + own
        shares: Array = (1 + extreme) / (labels + 1)
        return shares

    def predict(self, probs: Sequence[Any]) -> Array:
        """The sets, bool (N, C); a cap and a floor go by the mean of the probabilities.

        Args:
            probs: as for :meth:`p_values`.
        """
        sets = torch.from_numpy(self.p_values(probs) > self.rules[0].alpha)
        mean = torch.stack([as_probs(values).double().cpu() for values in probs]).mean(0)
        found: Array = self.rules[0].bounded(mean, sets).numpy()
        return found


def check_folds(folds: Any, rule: SetRule, rows: int, *, one_label: bool) -> int:
    """The number of folds; an error if rows or rule cannot be divided into them."""
    if not one_label:
        raise InputError("cv: expected one label a row, got several: hold rows out with calibration")
    if type(rule.constraint) not in CONFORMAL or rule.gate is not None or rule.groups is not None:
        raise InputError(
            f"cv: expected a conformal rule without a gate and groups (lac, aps, raps, pas, classwise), got {rule.text}: hold "
            "rows out with calibration"
        )
    found = whole(2)("cv", folds)
    if found > rows:
        raise InputError(f"cv: expected a number of folds up to the number of rows, {rows}, got {folds}")
    return found


def _sizes(rule: SetRule, classes: int) -> Array:
    """The number of calibration values that each label is compared with."""
    assert rule.kept is not None
    if rule.kept_labels is None:
        return np.full(classes, len(rule.kept))
    return np.bincount(rule.kept_labels.numpy(), minlength=classes)
