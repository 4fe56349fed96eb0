"""Quantities about calibration: errors over several choices of pairs, the calibration test, log-loss."""

from collections.abc import Callable

import torch

from shortlist.evaluation.evaluation import Evaluation, Pairs
from shortlist.evaluation.quantity import Quantity, never
from shortlist.metrics.calibration import NAMES, Norm
from shortlist.metrics.classwise import class_errors
from shortlist.metrics.proper import brier_parts
from shortlist.metrics.smooth import smooth_error
from shortlist.metrics.totals import ratio

LOG_LOSS = (
    "mean of -log p of the labels; with several labels a row, of every label being present or absent; "
    "a probability of exactly 0 counts as e^-745"
)

BRIER = (
    "mean over rows of the sum over classes of (p - y)², y being 1 for the label and 0 elsewhere; with several labels a row, "
    "mean over all (row, label) pairs"
)
# Name, definition, and what is subtracted from what; see :func:`shortlist.metrics.brier_decomposition`.
PARTS = (
    ("reliability", "squared gap between probability and frequency, {bins} bins of equal width a class", ["reliability"]),
    ("resolution", "squared distance of the frequencies of the bins from the mean, which is subtracted", ["resolution"]),
    ("uncertainty", "variance of the labels, which no probabilities change", ["uncertainty"]),
    ("within", "what the differences within bins add or, below 0, take away", ["within_variance", "within_covariance"]),
)
TITLES = {"within": "within bins"}


def _calibration(over: Pairs, norm: Norm) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: evaluation.calibration_error(over, norm) if over in evaluation.totals else None


def _classwise(evaluation: Evaluation) -> float | None:
    table = evaluation.totals.get("class_bins")
    return None if table is None else float(class_errors(table, "expected", "macro"))


def _p_value(evaluation: Evaluation) -> float | None:
    found = evaluation.calibration_test
    return None if found is None else float(found.p_value)


def _smooth(evaluation: Evaluation) -> float | None:
    sums = evaluation.totals.get("smooth")
    return None if sums is None else float(smooth_error(sums))


def _brier(evaluation: Evaluation) -> float | None:
    return float(ratio(evaluation.totals["squared_errors"])) if "squared_errors" in evaluation.totals else None


def _brier_part(*names: str) -> Callable[[Evaluation], float | None]:
    """A part of the Brier score, or the difference of two."""

    def measured(evaluation: Evaluation) -> float | None:
        bins, mass = evaluation.totals.get("class_bins"), evaluation.totals.get("right_mass")
        if bins is None or mass is None:
            return None
        several = torch.zeros_like(mass) if evaluation.single_label else bins[0]
        parts = brier_parts(torch.stack([*bins, mass, several]))
        first, *others = (float(parts[name]) for name in names)
        return first - sum(others)

    return measured


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
        "smooth",
        "smooth ECE",
        "mean absolute residual over the top label of a row (all pairs if rows have several labels), smoothed by a Gaussian "
        "whose bandwidth is the error itself",
        _smooth,
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
    Quantity("brier", "Brier score", BRIER, _brier, form=".4f", group="calibration"),
    *(
        Quantity(
            f"brier_{name}",
            TITLES.get(name, name),
            f"part of the Brier score: {meaning}",
            _brier_part(*parts),
            form=".4f",
            group="calibration",
        )
        for name, meaning, parts in PARTS
    ),
)
