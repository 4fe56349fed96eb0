"""The rules by name: each is an ordering and a constraint.

==================== ============================================== ======================== ======================
rule                 returns                                        controls                 fitted on
==================== ============================================== ======================== ======================
top_k                the k most probable labels                     size of every set        nothing
average_k            all labels above one threshold                 average size             unlabelled rows
threshold            all labels with at least this probability      nothing                  nothing
mass                 the fewest labels with mass 1 - alpha          error of every row       nothing
lac                  all labels above one threshold                 average error            labelled rows
aps, raps            the first labels of the row, by mass           average error            labelled rows
pas                  all labels with p over prior above one thresh. average error            labelled rows
classwise            the same with one threshold a class            error of every class     labelled rows
interpolated         the same, between class-wise and common        neither exactly          labelled rows
risk_control         all labels above one threshold                 expected share missed    many labels a row
per_label            labels above a threshold of their own          F1, precision, recall    many labels a row
cap, floor           the same, at most / at least n labels          size of every set        as the rule
==================== ============================================== ======================== ======================
"""

from typing import Any

import numpy as np
import torch

from shortlist.checks import decimal, whole
from shortlist.errors import InputError
from shortlist.sets.constraints import (
    AverageError,
    AverageSize,
    ErrorPerClass,
    Fixed,
    InterpolatedError,
    check_alpha,
)
from shortlist.sets.multilabel import LabelObjective, Objective, Risk
from shortlist.sets.orderings import CumulativeMass, GivenLevel, Improbability, MassAbove, Ordering, Probability, Rank
from shortlist.sets.rule import SetRule


def top_k(k: int) -> SetRule:
    """The k most probable labels of every row, ties broken by lower index.

    >>> top_k(2)(torch.tensor([[0.2, 0.5, 0.3]]))
    tensor([[False,  True,  True]])
    """
    k = whole(1)("k", k)
    promise = f"Every set holds exactly {k} labels; nothing is promised about the error."
    return SetRule(f"top-k:{k!s}", _Exactly(k), Fixed(float(k), promise))


def average_k(k: float, prior: Any = None) -> SetRule:
    """All labels above one threshold, chosen on unlabelled rows so that sets hold k labels on average.

    With a class prior the threshold is on ``p / prior``, which is best for accuracy averaged over classes.

    >>> rule = average_k(1.5).fit(torch.tensor([[0.9, 0.1, 0.0], [0.4, 0.35, 0.25]]))
    >>> rule(torch.tensor([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]]))
    tensor([[ True, False, False], [ True,  True,  True]])

    Garcin thesis, 2.27, with the midpoint of the kn-th and the next probability in place of the kn-th.
    """
    text = f"average-k:{k!s}" if prior is None else f"average-k:{k!s}:prior"
    return SetRule(text, Probability(prior), AverageSize(k))


def threshold(p: float) -> SetRule:
    """All labels with probability p at least.

    >>> threshold(0.3)(torch.tensor([[0.2, 0.5, 0.3]]))
    tensor([[False,  True,  True]])
    """
    level = float(decimal("p", p))
    if not 0 <= level <= 1:
        raise InputError(f"p: expected a probability from 0 to 1, got {p}")
    promise = f"Every label has probability {p} at least, as the model has it; nothing is promised about size or error."
    return SetRule(f"threshold:{p!s}", GivenLevel(), Fixed(level, promise))


def mass(alpha: float) -> SetRule:
    """The fewest labels whose probabilities sum to 1 - alpha at least.

    >>> mass(0.2)(torch.tensor([[0.2, 0.5, 0.3]]))
    tensor([[False,  True,  True]])
    """
    wanted = float(1 - check_alpha(alpha))
    promise = f"Every set holds its label with probability {wanted:g} at least, if the probabilities are true."
    # A label is in while the mass above it is below the wanted mass: at most the next smaller number.
    return SetRule(f"mass:{alpha!s}", MassAbove(), Fixed(float(np.nextafter(wanted, 0)), promise))


def lac(alpha: float) -> SetRule:
    """All labels with 1 - p up to the conformal quantile: the smallest sets on average for their error.

    >>> rule = lac(0.5).fit(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), torch.tensor([0, 1, 1]))
    >>> rule.threshold
    tensor(0.2000, dtype=torch.float64)

    Sadinle, Lei, Wasserman, "Least ambiguous set-valued classifiers with bounded error levels", 2019.
    """
    return SetRule(f"lac:{alpha!s}", Improbability(), AverageError(alpha))


def aps(alpha: float, generator: torch.Generator | None = None) -> SetRule:
    """The first labels of the row up to the conformal quantile of the mass at the true label.

    Without a generator (the default) nothing is random, and a confident classifier gets much larger sets than it needs: the
    mass at its labels is all but 1. With one, the label at the boundary is in or out by chance, and coverage is exact.

    Romano, Sesia, Candès, "Classification with valid and adaptive coverage", 2020.
    """
    return SetRule(f"aps:{alpha!s}{_random(generator)}", CumulativeMass(generator=generator), AverageError(alpha))


def raps(alpha: float, penalty: float = 0.01, k_reg: int = 5, generator: torch.Generator | None = None) -> SetRule:
    """APS with a penalty for every label beyond the first ``k_reg``, against long tails of sets.

    Angelopoulos, Bates, Malik, Jordan, "Uncertainty sets for image classifiers using conformal prediction", 2021.
    """
    share = float(decimal("penalty", penalty))
    if share < 0:
        raise InputError(f"penalty: expected a number from 0, got {penalty}")
    k_reg = whole(0)("k_reg", k_reg)
    ordering = CumulativeMass(share, k_reg, generator)
    return SetRule(f"raps:{alpha!s}:{penalty!s}:{k_reg}{_random(generator)}", ordering, AverageError(alpha))


def pas(alpha: float, prior: Any) -> SetRule:
    """LAC on probability over class prior: the same average error, spent less on the rare classes.

    Ding, Fermanian, Salmon, "Conformal prediction for long-tailed classification", 2025, arXiv 2507.06867.
    """
    return SetRule(f"pas:{alpha!s}", Probability(prior), AverageError(alpha))


def classwise(rule: SetRule) -> SetRule:
    """A conformal rule with one threshold for each class; a class with too few calibration rows is in every set.

    Vovk, "Conditional validity of inductive conformal predictors", 2012.
    """
    constraint = _conformal(rule, "classwise")
    return _with(rule, "classwise", ErrorPerClass(constraint.alpha))


def interpolated(rule: SetRule, weight: float) -> SetRule:
    """LAC between one threshold for all (weight 0) and one for each class (weight 1), linearly.

    Ding, Fermanian, Salmon, 2025, arXiv 2507.06867.
    """
    constraint = _conformal(rule, "interpolated")
    if not isinstance(rule.ordering, Improbability):
        raise InputError(f"interpolated: expected lac, whose thresholds lie between 0 and 1, got {rule.text}")
    return _with(rule, f"interpolated:{weight!s}", InterpolatedError(constraint.alpha, weight=float(decimal("weight", weight))))


def risk_control(risk: str, alpha: float) -> SetRule:
    """All labels above the highest threshold at which a row misses a share alpha of its labels at most, on average.

    ``risk`` is ``"recall"``: one minus the recall of a row is what is controlled.

    Angelopoulos, Bates, Fisch, Lei, Schuster, "Conformal risk control", 2022.
    """
    return SetRule(f"risk-control:{risk}:{alpha!s}", Probability(), Risk(risk, alpha))


def per_label(objective: Objective = "f1", level: float | None = None) -> SetRule:
    """A threshold for each label: its best F1, or the most right labels at this precision, or the highest with this recall.

    >>> probs = torch.tensor([[0.9], [0.7], [0.4], [0.1]])
    >>> rule = per_label("precision", 0.6).fit(probs, torch.tensor([[True], [False], [True], [False]]))
    >>> rule(probs).flatten()
    tensor([ True,  True,  True, False])
    """
    text = f"per-label:{objective}" + ("" if level is None else f":{level!s}")
    return SetRule(text, Probability(), LabelObjective(objective, level))


def cap(rule: SetRule, n: int) -> SetRule:
    """The same rule with n labels at most: the most plausible ones of its set.

    >>> cap(threshold(0.2), 2)(torch.tensor([[0.2, 0.5, 0.3]]))
    tensor([[False,  True,  True]])
    """
    n = whole(0)("cap", n)
    return rule.bounded_by(f"cap:{n}", most=n)


def floor(rule: SetRule, n: int = 1) -> SetRule:
    """The same rule with n labels at least: its set, filled up with the most plausible others.

    >>> floor(threshold(0.6))(torch.tensor([[0.2, 0.5, 0.3]]))
    tensor([[False,  True, False]])
    """
    n = whole(0)("floor", n)
    return rule.bounded_by(f"floor:{n}", least=n)


class _Exactly(Rank):
    """Rank, with k checked against the number of classes."""

    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def select(self, probs: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
        if self.k > probs.shape[1]:
            raise InputError(f"k: expected at most the number of classes, {probs.shape[1]}, got {self.k}")
        return super().select(probs, threshold)


def _random(generator: torch.Generator | None) -> str:
    return "" if generator is None else ":random"


def _conformal(rule: SetRule, name: str) -> AverageError:
    if type(rule.constraint) is not AverageError:
        raise InputError(f"{name}: expected a conformal rule (lac, aps, raps, pas), got {rule.text}")
    return rule.constraint


def _with(rule: SetRule, text: str, constraint: ErrorPerClass) -> SetRule:
    ordering: Ordering = rule.ordering
    return SetRule(f"{rule.text},{text}", ordering, constraint, rule.least, rule.most)
