"""Calibration error and mean average precision against torchmetrics, netcal and scikit-learn."""

import warnings

import torch
from sklearn.metrics import average_precision_score
from torchmetrics.functional.classification import multiclass_calibration_error, multilabel_average_precision

from benchmarks.data import multi_label, single_label
from benchmarks.harness import compare
from shortlist.metrics import calibration_error, mean_average_precision


def run() -> None:
    warnings.simplefilter("ignore")
    from netcal.metrics import ECE

    probs, target = single_label(10_000, 100)
    compare(
        "calibration-error",
        "10,000 × 100, top label, 15 bins",
        {
            "shortlist": lambda: calibration_error(probs, target, over="top"),
            "torchmetrics": lambda: multiclass_calibration_error(probs, target, 100, n_bins=15, norm="l1"),
            "netcal": lambda: ECE(15).measure(probs.numpy(), target.numpy()),
        },
        rounds=21,
    )
    scores, marks = multi_label(39_616, 80)
    compare(
        "mean-average-precision",
        "39,616 × 80, by class",
        {
            "shortlist": lambda: mean_average_precision(scores, marks),
            "torchmetrics": lambda: multilabel_average_precision(scores, marks.long(), 80),
            "scikit-learn": lambda: average_precision_score(marks.numpy(), scores.numpy()),
            "torch.sort by columns": lambda: torch.sort(scores, dim=0),
        },
        rounds=5,
    )
