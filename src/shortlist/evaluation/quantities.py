"""The table of named quantities: what each means, how it is computed, and its standard error where it has one."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from torch import Tensor

from shortlist.evaluation.calibration_quantities import CALIBRATION
from shortlist.evaluation.coverage_quantities import CONDITIONAL
from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.gate_quantities import GATE, QUALITY
from shortlist.evaluation.quantity import GROUPS, HEADLINE, LONG_TAIL, Quantity, always, known
from shortlist.evaluation.superclass_quantities import SUPERCLASSES
from shortlist.metrics.accuracy import SHOT_GROUPS
from shortlist.metrics.outliers import RowScores, auroc, false_positives
from shortlist.metrics.ranking import macro_f1
from shortlist.sets.gates import RowMeasure


def _labelled(evaluation: Evaluation, *, single: bool | None = None) -> bool:
    """Whether a rule was measured on labels, of this kind if one is given."""
    return "hits" in evaluation.totals and (single is None or evaluation.single_label == single)


def _coverage(evaluation: Evaluation) -> float | None:
    return evaluation.coverage if _labelled(evaluation, single=True) else None


def _recall(evaluation: Evaluation) -> float | None:
    return evaluation.coverage if _labelled(evaluation, single=False) else None


def _coverage_error(evaluation: Evaluation) -> float:
    return evaluation.coverage_error


def _macro_coverage(evaluation: Evaluation) -> float | None:
    return evaluation.macro_coverage if _labelled(evaluation, single=True) else None


def _macro_recall(evaluation: Evaluation) -> float | None:
    return evaluation.macro_coverage if _labelled(evaluation, single=False) else None


def _row_recall(evaluation: Evaluation) -> float | None:
    return evaluation.row_recall if _labelled(evaluation, single=False) else None


def _precision(evaluation: Evaluation) -> float | None:
    return evaluation.precision if _labelled(evaluation, single=False) else None


def _shot(group: str) -> Callable[[Evaluation], float | None]:
    """Coverage of a group of the default edges; with other edges, :meth:`Evaluation.by_shots` has their groups."""
    return lambda evaluation: None if evaluation.shots is not None else evaluation.shot_coverages().get(group)


def _size(evaluation: Evaluation) -> float | None:
    return evaluation.size.mean if evaluation.rule is not None else None


def _size_error(evaluation: Evaluation) -> float:
    return math.sqrt(evaluation.size.variance / evaluation.rows)


def _size_spread(evaluation: Evaluation) -> float | None:
    return math.sqrt(evaluation.size.variance) if evaluation.rule is not None else None


def _empty(evaluation: Evaluation) -> float | None:
    return evaluation.empty_rate if evaluation.rule is not None else None


def _top_1(evaluation: Evaluation) -> float | None:
    return None if evaluation.rank_curve is None else float(evaluation.rank_curve.accuracies[1])


def _top_1_error(evaluation: Evaluation) -> float:
    share = _top_1(evaluation) or 0.0
    return math.sqrt(share * (1 - share) / evaluation.rows)


def _precision_of_ranking(name: str) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: evaluation.mean_average_precision.get(name)


def _top_n_f1(evaluation: Evaluation) -> float | None:
    counts = evaluation.totals.get("top_n_counts")
    return None if counts is None else float(macro_f1(counts))


def _of_outliers(value: Callable[[RowScores], Tensor], by: RowMeasure = "confidence") -> Callable[[Evaluation], float | None]:
    def measured(evaluation: Evaluation) -> float | None:
        found = evaluation.outliers(by)
        return None if found is None else float(value(found))

    return measured


def _right_in(evaluation: Evaluation) -> float | None:
    found = evaluation.outliers()
    return None if found is None else float(evaluation.totals["outliers"][3][found.labelled].mean())


SHOTS = {"few": "fewer than 20", "medium": "20 to 100", "many": "more than 100"}
AVERAGE_PRECISION = "average precision, tied scores taken together, averaged over the {} that have a positive"

SETS = (
    Quantity("coverage", "coverage", "share of rows whose label is in their set", _coverage, _coverage_error, headline=always),
    Quantity(
        "recall", "recall", "share of all labels that are in the set of their row", _recall, _coverage_error, headline=always
    ),
    Quantity(
        "row_recall",
        "recall by row",
        "mean over rows of the share of a row's labels that is in its set, 1 for a row without labels",
        _row_recall,
    ),
    Quantity(
        "macro_coverage", "macro coverage", "mean of the coverages of the classes present", _macro_coverage, headline=always
    ),
    Quantity("macro_recall", "macro recall", "mean of the recalls of the classes present", _macro_recall, headline=always),
    Quantity("precision", "precision", "share of the returned labels that are right", _precision),
    Quantity("size", "mean size", "mean number of labels in a set", _size, _size_error, ".2f", headline=always),
    Quantity("size_sd", "SD of size", "standard deviation of the number of labels in a set", _size_spread, None, ".2f"),
    Quantity("empty", "empty sets", "share of rows whose set is empty", _empty, headline=always),
)

FEW_TO_MANY = tuple(
    Quantity(
        group,
        f"{group}-shot",
        f"macro average over the classes with {SHOTS[group]} training examples",
        _shot(group),
        group=LONG_TAIL,
    )
    for group in SHOT_GROUPS
)

RANKING = (
    Quantity(
        "top1",
        "top-1",
        "top-1 accuracy: share of rows whose most probable label is right",
        _top_1,
        _top_1_error,
        group="ranking",
        headline=always,
    ),
    Quantity(
        "map_class",
        "mAP by class",
        AVERAGE_PRECISION.format("classes"),
        _precision_of_ranking("map_class"),
        group="ranking",
        headline=always,
    ),
    Quantity(
        "map_example",
        "mAP by example",
        AVERAGE_PRECISION.format("rows"),
        _precision_of_ranking("map_example"),
        group="ranking",
    ),
    Quantity(
        "map_class_low",
        "mAP by class, at least",
        "lower bound of mAP by class, which was computed from a histogram",
        _precision_of_ranking("map_class_low"),
        group="ranking",
    ),
    Quantity(
        "map_class_high",
        "mAP by class, at most",
        "upper bound of mAP by class, which was computed from a histogram",
        _precision_of_ranking("map_class_high"),
        group="ranking",
    ),
    Quantity(
        "f1_top_n",
        "macro F1 top {n}",
        "F1 of returning the {n} most probable labels of every row, averaged over the classes present",
        _top_n_f1,
        group="ranking",
    ),
)


def _above_one(first: int) -> Callable[[Evaluation], float | None]:
    def measured(evaluation: Evaluation) -> float | None:
        counts = evaluation.totals.get("above_one")
        return None if counts is None else float(counts[first] / counts[first + 1])

    return measured


# Of the quasibinary link (Liao), whose q = exp(s) / C is a probability only up to 1.
QUASIBINARY = (
    Quantity(
        "above_one",
        "q > 1",
        "share of (row, label) pairs whose q = exp(s) / C is above 1, which is cut to 1",
        _above_one(0),
        group="calibration",
    ),
    Quantity("rows_above_one", "rows with q > 1", "share of rows with at least one such pair", _above_one(2)),
)

OUTLIERS = tuple(
    replace(quantity, group="rows without a label")
    for quantity in (
        Quantity("top1_in", "top-1 with a label", "share of rows with a label whose most probable label is right", _right_in),
        Quantity(
            "confidence_in",
            "confidence with a label",
            "mean of the largest probability over the rows with a label",
            _of_outliers(lambda found: found.scores[found.labelled].mean()),
        ),
        Quantity(
            "confidence_out",
            "confidence without",
            "mean of the largest probability over the rows without a label",
            _of_outliers(lambda found: found.scores[~found.labelled].mean()),
        ),
        Quantity(
            "auroc_confidence",
            "AUROC, confidence",
            "probability that the top probability of a row with a label exceeds that of a row without one",
            _of_outliers(auroc),
            form=".3f",
            headline=always,
        ),
        Quantity(
            "auroc_any_label",
            "AUROC, any label",
            "the same for the probability of at least one label, 1 - Π (1 - p)",
            _of_outliers(auroc, "any-label"),
            form=".3f",
        ),
        Quantity(
            "fpr95",
            "FPR at 95 % TPR",
            "share of rows without a label that are as confident as 95 % of those with one",
            _of_outliers(lambda found: false_positives(found, Fraction(95, 100))),
        ),
    )
)

ALL = (*SETS, *CONDITIONAL, *GATE, *FEW_TO_MANY, *SUPERCLASSES, *RANKING, *CALIBRATION, *QUASIBINARY, *OUTLIERS, *QUALITY)
QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in ALL}


def defined(evaluation: Evaluation) -> Iterator[tuple[Quantity, float]]:
    """The quantities that this evaluation defines, with their values, in the order of the table."""
    for quantity in QUANTITIES.values():
        value = quantity.value(evaluation)
        if value is not None:
            yield quantity, value


def in_groups(evaluations: Sequence[Evaluation], *, measured: bool = True) -> dict[str, list[Quantity]]:
    """The quantities that any of the evaluations defines: those of a ``headline``, then the others by :data:`GROUPS`.

    Args:
        evaluations: one, or several that are compared.
        measured: leave out quantities that are NaN in all of them.
    """
    found: dict[str, list[Quantity]] = {name: [] for name in (HEADLINE, *GROUPS)}
    for quantity in QUANTITIES.values():
        values = [(evaluation, quantity.value(evaluation)) for evaluation in evaluations]
        owners = [evaluation for evaluation, value in values if value is not None]
        if owners and (not measured or any(known(value) for _, value in values)):
            first = any(quantity.headline(evaluation) for evaluation in owners)
            found[HEADLINE if first else quantity.group].append(quantity)
    return {name: quantities for name, quantities in found.items() if quantities}
