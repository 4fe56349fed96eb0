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
classwise            the same with one threshold for each class     error of every class     labelled rows
interpolated         the same, between class-wise and common        neither exactly          labelled rows
risk_control         all labels above one threshold                 expected share missed    several labels a row
per_label            labels above a threshold of their own          F1, precision, recall    several labels a row
cap, floor           the same, at most / at least n labels          size of every set        as the rule
by                   the same with one threshold for each group     as the rule, by group    the same rows by group
gate                 the same, or nothing where the row is refused  rows without a label     rows with and without
==================== ============================================== ======================== ======================

``alpha`` is the allowed error; ``confidence_level`` and ``coverage`` (1 - alpha) are understood in its place.
"""

import warnings
from functools import partial
from typing import Any, Literal, TypeAlias

from shortlist.checks import as_typed, decimal, whole
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets.conformal import AverageError, ErrorPerClass, InterpolatedError
from shortlist.sets.constraints import AverageSize, Level, Mass, Size, check_alpha
from shortlist.sets.gates import Gate, GateMeasure
from shortlist.sets.hierarchy import SurestNode
from shortlist.sets.multilabel import LabelMeasure, LabelObjective, Risk
from shortlist.sets.orderings import GivenLevel, Probability
from shortlist.sets.prefixes import CumulativeMass, MassAbove, Randomized, Rank
from shortlist.sets.registry import AUTO, register_modifier, register_rule
from shortlist.sets.rule import SetRule
from shortlist.sets.tuned_mass import TunedMass
from shortlist.words import shown, understands


def _alpha_of(name: str, level: Any) -> int | float | str:
    """``1 - level`` in exact decimals."""
    rest = 1 - decimal(name, level)
    if not 0 <= rest <= 1:
        raise InputError(f"{name}: expected a number between 0 and 1, 1 - alpha, got {shown(level)}")
    return as_typed("alpha", float(rest) if decimal("alpha", float(rest)) == rest else rest)


UNDERSTOOD: Any = {name: ("alpha", partial(_alpha_of, name)) for name in ("confidence_level", "coverage")}
Penalty: TypeAlias = float | Literal["auto"]
RANDOMNESS: Any = {"randomised": "randomized", "random_state": "generator"}


@register_rule("top-k", "k")
def top_k(k: int) -> SetRule:
    """The k most probable labels of every row, ties broken by lower index.

    >>> top_k(2).predict([[0.2, 0.5, 0.3]])
    array([[False,  True,  True]])
    """
    size = Size(k)
    return SetRule(f"top-k:{size.k}", Rank(), size)


@register_rule("average-k", "k", "prior?")
def average_k(k: float, prior: Any = None) -> SetRule:
    """All labels above one threshold, chosen on unlabelled rows so that sets hold k labels on average.

    Args:
        k: the average size, which need not be a whole number.
        prior: shares of the classes, (C,); with them the threshold is on ``p / prior``, which is best for accuracy averaged
            over classes.

    >>> rule = average_k(1.5).fit([[0.9, 0.1, 0.0], [0.4, 0.35, 0.25]])
    >>> rule.predict([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]])
    array([[ True, False, False], [ True,  True,  True]])

    Garcin thesis, 2.27, with the midpoint of the kn-th and the next probability in place of the kn-th.
    """
    text = f"average-k:{k!s}" if prior is None else f"average-k:{k!s}:prior"
    return SetRule(text, Probability(prior), AverageSize(k))


@register_rule("threshold", "p")
def threshold(p: float) -> SetRule:
    """All labels with a probability of at least p.

    >>> threshold(0.3).predict([[0.2, 0.5, 0.3]])
    array([[False,  True,  True]])
    """
    return SetRule(f"threshold:{p!s}", GivenLevel(), Level(p))


@register_rule("mass", "alpha")
@understands(**UNDERSTOOD)
def mass(alpha: float) -> SetRule:
    """The fewest labels whose probabilities sum to at least 1 - alpha.

    >>> mass(0.2).predict([[0.2, 0.5, 0.3]])
    array([[False,  True,  True]])
    """
    _hint_at_coverage(alpha)
    return SetRule(f"mass:{alpha!s}", MassAbove(), Mass(alpha))


@register_rule("lac", "alpha")
@understands(**UNDERSTOOD)
def lac(alpha: float) -> SetRule:
    """All labels with p from a conformal quantile on: the smallest sets on average for a given error.

    The threshold is one on p. The paper's is one on 1 - p; the sets are the same, but rounding 1 - p would make small
    probabilities equal.

    Args:
        alpha: the allowed error: 0.1 for a coverage of 90 %.

    >>> rule = lac(0.5).fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    >>> rule.threshold, rule.alpha
    (tensor(0.8000, dtype=torch.float64), 0.5)

    Sadinle, Lei, Wasserman, "Least ambiguous set-valued classifiers with bounded error levels", 2019.
    """
    _hint_at_coverage(alpha)
    return SetRule(f"lac:{alpha!s}", Probability(), AverageError(alpha))


@register_rule("aps", "alpha", "random|deterministic?")
@understands(**UNDERSTOOD, **RANDOMNESS)
def aps(alpha: float, generator: Any = None, randomized: Randomized = None) -> SetRule:
    """The first labels of the row, up to the conformal quantile of the cumulative probability at the true label.

    By default the calibration is randomised, and answers are not: a row has one set, which holds the label at the boundary, so
    that coverage is at least 1 - alpha. A rule that is randomised on both sides includes that label or not by chance, and its
    coverage is exact. One that is not randomised at all gives a confident classifier far larger sets: the cumulative
    probability at its labels is nearly 1.

    Args:
        alpha: the allowed error: 0.1 for a coverage of 90 %.
        generator: where random numbers come from. With a seed (0 by default) they follow from the seed and the data: the same
            calibration rows give the same threshold, and the same row the same set; other calibration rows give independent
            draws. A torch or numpy generator is drawn from in turn. A generator alone makes the rule randomised on both sides.
        randomized: ``"calibration"`` (the default), True for both sides, False for neither.

    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    >>> aps(0.5).fit(probs, [0, 1, 1]).predict([[0.7, 0.3], [0.1, 0.9]])
    array([[ True, False],
           [False,  True]])

    Romano, Sesia, Candès, "Classification with valid and adaptive coverage", 2020.
    """
    _hint_at_coverage(alpha)
    ordering = CumulativeMass(generator=generator, randomized=_or_calibration(randomized, generator))
    return SetRule(f"aps:{alpha!s}{_random(ordering)}", ordering, AverageError(alpha))


@register_rule("raps", "alpha", "penalty?", "k_reg?", "random|deterministic?", auto=("penalty",))
@understands(kreg="k_reg", lambda_reg="penalty", lam_reg="penalty", **UNDERSTOOD, **RANDOMNESS)
def raps(
    alpha: float, penalty: Penalty = 0.01, k_reg: int | None = None, generator: Any = None, randomized: Randomized = None
) -> SetRule:
    """APS with a penalty for every label beyond the first ``k_reg``, against very large sets.

    Args:
        alpha: the allowed error: 0.1 for a coverage of 90 %.
        penalty: added to the cumulative probability for each label beyond ``k_reg``; ``"auto"`` chooses both on a fifth of the
            calibration rows, for the smallest sets, see :class:`~shortlist.sets.TunedMass`.
        k_reg: number of labels without a penalty, 5 by default.
        generator: as for :func:`aps`.
        randomized: as for :func:`aps`.

    Angelopoulos, Bates, Malik, Jordan, "Uncertainty sets for image classifiers using conformal prediction", 2021.
    """
    _hint_at_coverage(alpha)
    if penalty == AUTO:
        if k_reg is not None:
            raise InputError(f"k_reg: expected none, because penalty='auto' chooses it too, got {k_reg}")
        tuned = TunedMass(generator, _or_calibration(randomized, generator))
        return SetRule(f"raps:{alpha!s}:{AUTO}{_random(tuned)}", tuned, AverageError(alpha))
    k_reg = 5 if k_reg is None else k_reg
    ordering = CumulativeMass(penalty, k_reg, generator, _or_calibration(randomized, generator))  # type: ignore[arg-type]
    return SetRule(f"raps:{alpha!s}:{penalty!s}:{ordering.k_reg}{_random(ordering)}", ordering, AverageError(alpha))


@register_rule("pas", "alpha", prior=True)
@understands(**UNDERSTOOD)
def pas(alpha: float, prior: Any) -> SetRule:
    """LAC on p over the class prior: the same average error, with less of it on the rare classes.

    Args:
        alpha: the allowed error: 0.1 for a coverage of 90 %.
        prior: shares of the classes, (C,), all above 0.

    Ding, Fermanian, Salmon, "Conformal prediction for long-tailed classification", 2025, arXiv 2507.06867.
    """
    _hint_at_coverage(alpha)
    return SetRule(f"pas:{alpha!s}", Probability(prior), AverageError(alpha))


@register_rule("sure-node", "alpha", superclasses=True)
@understands(**UNDERSTOOD)
def sure_node(alpha: float, superclasses: Any) -> SetRule:
    """The most probable class if it is sure enough, otherwise its superclass, otherwise every class.

    The answer is the first of these whose probability exceeds a threshold. The threshold is fitted conformally, on the
    probability of the last one that does not hold the true class, so that the true class is in the answer with probability
    1 - alpha or more. For sets of single classes that may belong to several superclasses, use :func:`lac`.

    Args:
        alpha: the allowed error: 0.1 for a coverage of 90 %.
        superclasses: the superclass of each class, C names or numbers.

    >>> probs = [[0.5, 0.3, 0.2], [0.9, 0.1, 0.0], [0.2, 0.6, 0.2], [0.5, 0.4, 0.1]]
    >>> rule = sure_node(0.2, ["oak", "oak", "elm"]).fit(probs, [1, 0, 1, 0])
    >>> rule.predict([[0.6, 0.3, 0.1], [0.4, 0.3, 0.3]])
    array([[ True, False, False],
           [ True,  True, False]])
    """
    _hint_at_coverage(alpha)
    return SetRule(f"sure-node:{alpha!s}", SurestNode(superclasses), AverageError(alpha))


@register_modifier("classwise")
def classwise(rule: SetRule) -> SetRule:
    """A conformal rule with one threshold for each class; a class with too few calibration rows is in every set.

    Vovk, "Conditional validity of inductive conformal predictors", 2012.
    """
    constraint = _conformal(rule, "classwise")
    return rule.under("classwise", ErrorPerClass(constraint.alpha))


@register_modifier("interpolated", "weight")
def interpolated(rule: SetRule, weight: float) -> SetRule:
    """LAC with thresholds between one for all classes (weight 0) and one for each class (weight 1).

    Ding, Fermanian, Salmon, 2025, arXiv 2507.06867.
    """
    constraint = _conformal(rule, "interpolated")
    if type(rule.ordering) is not Probability or rule.needs_prior:
        raise InputError(f"interpolated: expected lac, whose thresholds lie between 0 and 1, got {rule.text}")
    return rule.under(f"interpolated:{weight!s}", InterpolatedError(constraint.alpha, weight=weight))


@register_rule("risk-control", "risk", "alpha", texts=("risk",))
@understands(**UNDERSTOOD)
def risk_control(risk: str, alpha: float) -> SetRule:
    """All labels above the highest threshold at which sets miss at most a share alpha of a row's labels, on average.

    Args:
        risk: ``"recall"``: the risk is one minus the recall of a row.
        alpha: the allowed risk: 0.1 for a recall of 90 %.

    Angelopoulos, Bates, Fisch, Lei, Schuster, "Conformal risk control", 2022.
    """
    _hint_at_coverage(alpha)
    return SetRule(f"risk-control:{risk}:{alpha!s}", Probability(), Risk(risk, alpha))


@register_rule("per-label", "objective?", "level?", texts=("objective",))
def per_label(objective: LabelMeasure = "f1", level: float | None = None) -> SetRule:
    """A threshold for each label: that of its best F1, the lowest with this precision, or the highest with this recall.

    Thresholds are sought among the probabilities of the calibration rows that have the label.

    Args:
        objective: ``"f1"`` (the default), ``"precision"`` or ``"recall"``.
        level: the precision or recall to reach; none for F1.

    >>> probs = [[0.9], [0.7], [0.4], [0.1]]
    >>> rule = per_label("precision", 0.6).fit(probs, [[True], [False], [True], [False]])
    >>> rule.predict(probs).flatten()
    array([ True,  True,  True, False])
    """
    text = f"per-label:{objective}" + ("" if level is None else f":{level!s}")
    return SetRule(text, Probability(), LabelObjective(objective, level))


@register_modifier("cap", "n")
def cap(rule: SetRule, n: int) -> SetRule:
    """The same rule with at most n labels: the most plausible ones of its set.

    >>> cap(threshold(0.2), 2).predict([[0.2, 0.5, 0.3]])
    array([[False,  True,  True]])
    """
    n = whole(0)("cap", n)
    return rule.bounded_by(f"cap:{n}", most=n)


@register_modifier("floor", "n?")
def floor(rule: SetRule, n: int = 1) -> SetRule:
    """The same rule with at least n labels: its set, filled up with the next most plausible ones.

    >>> floor(threshold(0.6)).predict([[0.2, 0.5, 0.3]])
    array([[False,  True, False]])
    """
    n = whole(0)("floor", n)
    return rule.bounded_by(f"floor:{n}", least=n)


@register_modifier("gate", "refuse", "by?", texts=("by",))
def gate(rule: SetRule, refuse: float, by: GateMeasure = "confidence") -> SetRule:
    """The same rule behind a gate: rows that hold nothing the classifier knows are refused, with an empty set.

    The gate is fitted on the calibration rows without a label: a new row like these is refused with probability at least
    ``refuse``. The rule is fitted on the rows with a label that the gate accepts, and its guarantee holds for such rows.

    Args:
        rule: any rule.
        refuse: the share of rows without a label to refuse, between 0 and 1; a share of 0.95 needs 19 such rows.
        by: what rows are compared by: ``confidence``, the largest probability of the row; ``any-label``, the probability
            that it has a label at all if labels are independent; ``quality``, any number that is given with each row as
            ``quality=``, higher for better rows, such as what a second network says of a picture; or ``sharpness``, the same
            with the sharpness of pictures (:func:`shortlist.data.sharpness`), which classifiers compute themselves.

    >>> probs, target = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.2]], [[True, False], [False, True], [False, False]]
    >>> gate(top_k(1), 0.5).fit(probs, target).predict([[0.1, 0.7], [0.1, 0.2]])
    array([[False,  True],
           [False, False]])
    >>> rule = gate(top_k(1), 0.5, "quality").fit(probs, target, quality=[7.0, 9.0, 2.0])
    >>> rule.predict([[0.1, 0.7], [0.1, 0.2]], quality=[1.5, 3.0])
    array([[False, False],
           [False,  True]])
    """
    if rule.gate is not None:
        raise InputError(f"gate: expected a rule without a gate, got {rule.text}")
    return rule.behind(Gate(refuse, by))


def _hint_at_coverage(alpha: Any) -> None:
    """Warn if the allowed error looks like a coverage."""
    level = check_alpha(alpha)
    if level > 0.5:
        meant = _alpha_of("alpha", alpha)
        warnings.warn(
            f"alpha={alpha} is an allowed error of {float(level):.0%}, a coverage of {float(1 - level):.0%}: did you mean "
            f"alpha={meant}?",
            ShortlistWarning,
            stacklevel=4,
        )


def _or_calibration(randomized: Randomized, generator: Any) -> Randomized:
    return "calibration" if randomized is None and generator is None else randomized


def _random(ordering: CumulativeMass) -> str:
    if ordering.row_draws() is None:
        return ":deterministic"
    return ":random" if ordering.randomized else ""


def _conformal(rule: SetRule, name: str) -> AverageError:
    if not isinstance(rule, SetRule):
        raise InputError(f"{name}: expected a rule, such as lac(0.1), got {shown(rule)}: make a text a rule with parse_rule")
    if type(rule.constraint) is not AverageError:
        raise InputError(f"{name}: expected a conformal rule (lac, aps, raps, pas), got {rule.text}")
    return rule.constraint
