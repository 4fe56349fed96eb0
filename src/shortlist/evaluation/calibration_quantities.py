"""Quantities about calibration: errors over several choices of pairs, the calibration test, log-loss."""

from collections.abc import Callable

from shortlist.evaluation.evaluation import Evaluation, Pairs
from shortlist.evaluation.quantity import Quantity, never
from shortlist.metrics.calibration import NAMES, Norm
from shortlist.metrics.classwise import class_errors
from shortlist.metrics.totals import ratio

LOG_LOSS = (
    "mean of -log p of the labels; with several labels a row, of every label being present or absent; "
    "a probability of exactly 0 counts as e^-745"
)


def _calibration(over: Pairs, norm: Norm) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: evaluation.calibration_error(over, norm) if over in evaluation.totals else None


def _classwise(evaluation: Evaluation) -> float | None:
    table = evaluation.totals.get("class_bins")
    return None if table is None else float(class_errors(table, "expected", "macro"))


def _p_value(evaluation: Evaluation) -> float | None:
    found = evaluation.calibration_test
    return None if found is None else float(found.p_value)


def _log_loss(evaluation: Evaluation) -> float | None:
    return float(ratio(evaluation.totals["log_loss"])) if "log_loss" in evaluation.totals else None


# Name and title of the pairs, which pairs they are, and when their ECE is in the headline.
COUNTED: dict[Pairs, tuple[str, str, Callable[[Evaluation], bool]]] = {
    "top": ("top", "the top label of a row", lambda evaluation: evaluation.single_label),
    "all": ("all", "all (row, label) pairs", lambda evaluation: not evaluation.single_label),
    "top_n": ("top {n}", "the {n} most confident labels of a row", never),
}
KEYS: dict[Norm, str] = {"expected": "calibration", "average": "ace", "max": "mce"}

CALIBRATION = (
    *(
        Quantity(
            f"{key}_{over}",
            f"{NAMES[norm]} {title}",
            f"{NAMES[norm]}, {{bins}} bins of equal width, over {counted}",
            _calibration(over, norm),
            form=".2%",
            group="calibration",
            headline=first if norm == "expected" else never,
        )
        for over, (title, counted, first) in COUNTED.items()
        for norm, key in KEYS.items()
    ),
    Quantity(
        "calibration_classwise",
        "ECE classwise",
        "mean over all classes of the ECE of a class, {bins} bins of equal width, over the pairs of the class with every row",
        _classwise,
        form=".2%",
        group="calibration",
    ),
    Quantity(
        "calibration_p",
        "calibration p",
        "p-value of the test that labels follow the probabilities, in {bins} bins of equal width, over the top label of a row "
        "(all pairs if rows have several labels)",
        _p_value,
        form=".3f",
        group="calibration",
    ),
    Quantity(
        "log_loss",
        "log-loss",
        LOG_LOSS,
        _log_loss,
        form=".3f",
        group="calibration",
        headline=lambda evaluation: evaluation.rule is None,
    ),
)
