"""The table of named quantities: what each means, how it is computed, and its standard error where it has one."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor

from shortlist.evaluation.evaluation import Evaluation
from shortlist.metrics import calibration_definition
from shortlist.metrics.accuracy import SHOT_GROUPS
from shortlist.metrics.outliers import RowScores, auroc, false_positives
from shortlist.metrics.totals import ratio
from shortlist.sets.gates import RowMeasure


@dataclass(frozen=True)
class Quantity:
    """A number about an evaluation.

    Args:
        name: key in records and columns.
        title: heading in tables.
        definition: what it means, without a full stop.
        value: computes it; None where it is not defined, NaN where there is nothing to measure.
        error: its standard error, where it has one.
        form: format specification.
    """

    name: str
    title: str
    definition: str
    value: Callable[[Evaluation], float | None]
    error: Callable[[Evaluation], float] | None = None
    form: str = ".1%"


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
    return lambda evaluation: evaluation.shot_coverages().get(group)


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


def _calibration(over: str) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: evaluation.calibration_error(over) if over in evaluation.totals else None


def _of_outliers(value: Callable[[RowScores], Tensor], by: RowMeasure = "confidence") -> Callable[[Evaluation], float | None]:
    def measured(evaluation: Evaluation) -> float | None:
        found = evaluation.outliers(by)
        return None if found is None else float(value(found))

    return measured


def _right_in(evaluation: Evaluation) -> float | None:
    found = evaluation.outliers()
    return None if found is None else float(evaluation.totals["outliers"][3][found.labelled].mean())


def _log_loss(evaluation: Evaluation) -> float | None:
    return float(ratio(evaluation.totals["log_loss"])) if "log_loss" in evaluation.totals else None


SHOTS = {"few": "fewer than 20", "medium": "20 to 100", "many": "more than 100"}
AVERAGE_PRECISION = "average precision, tied scores taken together, averaged over the {} that have a positive"
# A probability of exactly 0 counts as e^-745, the smallest number above 0.
LOG_LOSS = "mean of -log p of the labels; with several labels a row, of every label being present or absent"

OUTLIERS = (
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
        "probability that a row with a label has a larger largest probability than a row without one",
        _of_outliers(auroc),
        form=".3f",
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


def _above_one(first: int) -> Callable[[Evaluation], float | None]:
    def measured(evaluation: Evaluation) -> float | None:
        counts = evaluation.totals.get("above_one")
        return None if counts is None else float(counts[first] / counts[first + 1])

    return measured


# Of the quasibinary link (Liao), whose q = exp(s) / C is a probability only up to 1.
QUASIBINARY = (
    Quantity(
        "above_one", "q > 1", "share of (row, label) pairs whose q = exp(s) / C is above 1, which is cut to 1", _above_one(0)
    ),
    Quantity("rows_above_one", "rows with q > 1", "share of rows with at least one such pair", _above_one(2)),
)

QUANTITIES: dict[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity("coverage", "coverage", "share of rows whose label is in their set", _coverage, _coverage_error),
        Quantity("recall", "recall", "share of all labels that are in the set of their row", _recall, _coverage_error),
        Quantity(
            "row_recall",
            "recall by row",
            "mean over rows of the share of a row's labels that is in its set, 1 for a row without labels",
            _row_recall,
        ),
        Quantity("macro_coverage", "macro coverage", "mean of the coverages of the classes present", _macro_coverage),
        Quantity("macro_recall", "macro recall", "mean of the recalls of the classes present", _macro_recall),
        *(
            Quantity(
                group,
                f"{group}-shot",
                f"macro average over the classes with {SHOTS[group]} training examples",
                _shot(group),
            )
            for group in SHOT_GROUPS
        ),
        Quantity("precision", "precision", "share of the returned labels that are right", _precision),
        Quantity("size", "mean size", "mean number of labels in a set", _size, _size_error, ".2f"),
        Quantity("size_sd", "SD of size", "standard deviation of the number of labels in a set", _size_spread, None, ".2f"),
        Quantity("empty", "empty sets", "share of rows whose set is empty", _empty),
        Quantity("top1", "top-1", "top-1 accuracy: share of rows whose most probable label is right", _top_1, _top_1_error),
        Quantity("map_class", "mAP by class", AVERAGE_PRECISION.format("classes"), _precision_of_ranking("map_class")),
        Quantity("map_example", "mAP by example", AVERAGE_PRECISION.format("rows"), _precision_of_ranking("map_example")),
        Quantity(
            "map_class_low",
            "mAP by class, at least",
            "lower bound of mAP by class, which was computed from a histogram",
            _precision_of_ranking("map_class_low"),
        ),
        Quantity(
            "map_class_high",
            "mAP by class, at most",
            "upper bound of mAP by class, which was computed from a histogram",
            _precision_of_ranking("map_class_high"),
        ),
        Quantity("calibration_top", "ECE top", calibration_definition(over="top"), _calibration("top"), None, ".2%"),
        Quantity("calibration_all", "ECE all", calibration_definition(over="all"), _calibration("all"), None, ".2%"),
        Quantity("log_loss", "log-loss", LOG_LOSS, _log_loss, None, ".3f"),
        *OUTLIERS,
        *QUASIBINARY,
    )
}


def defined(evaluation: Evaluation) -> Iterator[tuple[Quantity, float]]:
    """The quantities that this evaluation defines, with their values, in the order of the table."""
    for quantity in QUANTITIES.values():
        value = quantity.value(evaluation)
        if value is not None:
            yield quantity, value
