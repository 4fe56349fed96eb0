"""The numbers that a training epoch and a model card show: selections from one evaluation."""

import warnings
from typing import Any

from shortlist.errors import ShortlistWarning
from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.measuring import measure
from shortlist.evaluation.quantities import OUTLIERS, QUANTITIES
from shortlist.metrics.accuracy import class_shares
from shortlist.predictions import Predictions
from shortlist.sets import average_k
from shortlist.tensors import Target, is_single_label

OF_PROBABILITIES = ("ace", "nll")
OF_OUTLIERS = {quantity.name.replace("_", "-"): quantity for quantity in OUTLIERS}
# Validation numbers for which less is better.
LOWER_IS_BETTER = (*OF_PROBABILITIES, "confidence-out", "fpr95")
VALIDATION_TOTALS = frozenset({"hits", "ranks", "top_hits", "all", "log_loss", "examples", "histograms"})


def validation_names(k: float, classes: int, *, single_label: bool, probabilities: bool, outliers: bool = False) -> list[str]:
    """Names of the numbers of :func:`validation_numbers`, in their order.

    Args:
        k: mean size of the sets.
        classes: number of classes.
        single_label: whether every row has exactly one label.
        probabilities: whether there is a link.
        outliers: whether some rows have a label and some have none.

    >>> validation_names(5, 100, single_label=True, probabilities=False)
    ['top-1', 'top-5', 'macro-top-5', 'average-5', 'macro-average-5']
    """
    whole = whole_size(k, classes)
    if single_label:
        names = ["top-1", f"top-{whole}", f"macro-top-{whole}", f"average-{k:g}", f"macro-average-{k:g}"]
        return [*names, *OF_PROBABILITIES] if probabilities else names
    return ["map", *(OF_PROBABILITIES if probabilities else ()), *(OF_OUTLIERS if probabilities and outliers else ())]


def has_outliers(target: Target | None) -> bool:
    """Whether some rows have a label and some have none.

    >>> import torch
    >>> has_outliers(torch.tensor([[True, False], [False, False]]))
    True
    """
    if target is None or is_single_label(target):
        return False
    labelled = int(target.any(1).sum())
    return 0 < labelled < len(target)


def whole_size(k: float, classes: int) -> int:
    """k as the size of a top-k set: rounded, from 1 to the number of classes."""
    return min(max(1, round(k)), classes)


def validation_numbers(predictions: Predictions, k: float) -> dict[str, float]:
    """The numbers of a training epoch.

    ================ ==================================================================================================
    top-1            top-1 accuracy
    top-K            top-K accuracy, K being k rounded
    macro-top-K      the same averaged over the classes present
    average-k        average-k accuracy, at the threshold that gives k labels on average on these rows
    macro-average-k  the same averaged over the classes present, with the same threshold
    map              several labels a row: mean average precision over classes
    ace              calibration error over all labels, 15 bins of equal width, the mean over bins
    nll              log-loss: mean of -log p of the labels
    top1-in          rows with a label: top-1 accuracy
    confidence-in    rows with a label: mean of the largest probability
    confidence-out   rows without a label: mean of the largest probability
    auroc-confidence area under the ROC curve of rows with a label against rows without, by the largest probability
    auroc-any-label  the same by the probability of any label
    fpr95            share of rows without a label that are as confident as 95 % of those with one
    ================ ==================================================================================================

    The first five need one label a row; those from ``ace`` on need a link, and those from ``top1-in`` on rows with several
    labels, some of which have none.

    >>> predictions = Predictions([[0.7, 0.3], [0.6, 0.4]], target=[0, 1], link="identity")
    >>> validation_numbers(predictions, 1)["top-1"]
    0.5
    """
    assert predictions.target is not None
    classes, single = predictions.num_classes, is_single_label(predictions.target)
    whole = whole_size(k, classes)
    rule = None
    if single:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortlistWarning)  # ties, at a threshold that is not kept
            rule = average_k(min(k, classes)).fit(predictions.plausibility())
    outliers = predictions.link is not None and has_outliers(predictions.target)
    found = measure(predictions, rule, only=VALIDATION_TOTALS | ({"outliers"} if outliers else set()), k=whole)
    values = [*_of_one_label(found, whole)] if single else [found.mean_average_precision["map_class"]]
    if predictions.link is not None:
        values += [found.calibration_error("all", "average"), float(QUANTITIES["log_loss"].value(found) or 0.0)]
    if outliers:
        values += [float(quantity.value(found) or 0.0) for quantity in OF_OUTLIERS.values()]
    names = validation_names(k, classes, single_label=single, probabilities=predictions.link is not None, outliers=outliers)
    return dict(zip(names, values, strict=True))


def _of_one_label(found: Evaluation, k: int) -> list[float]:
    assert found.rank_curve is not None
    accuracies = found.rank_curve.accuracies
    macro = class_shares(found.totals["top_hits"]).nanmean()
    return [float(accuracies[1]), float(accuracies[k]), float(macro), found.coverage, found.macro_coverage]


def card_numbers(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The numbers of a model card: name with definition, value, number of rows, and standard error where there is one."""
    pairs = "calibration_top" if evaluation.single_label else "calibration_all"
    outliers = ("top1_in", "confidence_out", "auroc_confidence")
    names = ("coverage", "recall", "macro_coverage", "macro_recall", "size", "top1", "map_class", pairs, *outliers)
    found = []
    for quantity in (QUANTITIES[name] for name in names):
        value = quantity.value(evaluation)
        if value is not None:
            row = {
                "name": f"{quantity.heading(evaluation)} ({quantity.meaning(evaluation)})",
                "value": value,
                "n": evaluation.rows,
            }
            found.append(row | ({"error": quantity.error(evaluation)} if quantity.error is not None else {}))
    return found
