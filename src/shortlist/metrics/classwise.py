"""Calibration of each class by itself: mean probability against frequency, and calibration errors over the pairs of a class."""

from typing import Any, Literal

import torch
from torch import Tensor

from shortlist.checks import one_of
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.binned_pairs import bins_by
from shortlist.metrics.calibration import NO_CLASSES, Norm, bin_error, check_definition
from shortlist.metrics.inputs import checked
from shortlist.words import understands


@understands(n_bins="bins", num_bins="bins", num_classes=NO_CLASSES)
@like_input
def classwise_calibration_error(
    probs: Any, target: Any, *, norm: Norm = "expected", bins: int = 15, average: Literal["macro", "none"] = "macro"
) -> Answer:
    """Calibration error of each class over its N (row, label) pairs, averaged over all classes.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        norm: as in :func:`~shortlist.metrics.calibration_error`.
        bins: number of bins of equal width, [a, b), the last one closed.
        average: ``macro``, the mean over all classes, absent ones included, or ``none`` for the error of each class.

    Shape: a number, or (C,) for ``average="none"``.

    >>> probs, target = torch.tensor([[0.9, 0.1], [0.7, 0.3]]), torch.tensor([0, 1])
    >>> classwise_calibration_error(probs, target, bins=2)
    tensor(0.3000, dtype=torch.float64)

    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multiclass probabilities with Dirichlet calibration",
    2019 (classwise-ECE).
    """
    norm = check_definition(norm, bins, "width", "all")
    average = check_class_average(average)
    probs, target = checked(probs, target, "probabilities")
    return class_errors(bins_by("class", probs, target, int(bins)), norm, average)


def check_class_average(average: Any) -> Literal["macro", "none"]:
    """The average, if it exists."""
    found: Literal["macro", "none"] = one_of("macro", "none")("average", average)
    return found


def class_errors(table: Tensor, norm: Norm, average: str = "none") -> Tensor:
    """Calibration error of each class, (C,), or its mean; ``table`` is (4, C, bins) of :func:`bins_by` class."""
    errors = bin_error(table[:3], norm)
    return errors if average == "none" else errors.mean()


def class_numbers(table: Tensor) -> dict[str, Tensor]:
    """What a calibration table says about each class, (C,) each.

    Args:
        table: (4, C, bins) of :func:`~shortlist.metrics.binned_pairs.bins_by` class.

    Returns:
        ``labels``: number of rows with the class; ``probability``: its mean over all rows; ``frequency``: share of rows with
        the class; ``gap``: probability - frequency; ``z``: (Σ p - labels) / √ Σ p (1 - p), approximately standard normal if the
        class is calibrated, since rows are independent; ``ece``, ``ace``, ``mce``: calibration errors.

    >>> probs, target = torch.tensor([[0.5], [0.5], [0.5], [0.5]]), torch.tensor([[True], [False], [False], [False]])
    >>> float(class_numbers(bins_by("class", probs, target, 15))["z"])
    1.0
    """
    rows, expected, labels, variance = table.sum(2)
    gap = (expected - labels) / rows
    return {
        "labels": labels,
        "probability": expected / rows,
        "frequency": labels / rows,
        "gap": gap,
        "z": torch.where(gap == 0, 0.0, (expected - labels) / variance.sqrt()),
        "ece": class_errors(table, "expected"),
        "ace": class_errors(table, "average"),
        "mce": class_errors(table, "max"),
    }
