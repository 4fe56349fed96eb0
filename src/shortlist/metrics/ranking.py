"""Ranking quality: mean average precision by class and by example, F1 of the top n.

Average precision takes tied scores together, as scikit-learn does: the precision at a positive is that of everything scored
at least as high.
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.checks import one_of, whole
from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.metrics.totals import ratio
from shortlist.row_order import sort_rows
from shortlist.sets import top_k
from shortlist.tensors import BLOCK_ENTRIES, Probs, Target, one_hot, row_blocks, summed, working
from shortlist.words import refused, understands

Axis: TypeAlias = Literal["class", "example"]
NO_CLASSES, NO_LABELS = (refused(f"{name}: not needed, it is the number of columns") for name in ("num_classes", "num_labels"))


@understands(num_classes=NO_CLASSES, num_labels=NO_LABELS)
@like_input
def mean_average_precision(
    probs: Any, target: Any, *, axis: Axis = "class", average: Literal["macro", "none"] = "macro"
) -> Answer:
    """Average precision, averaged over the classes (mAP@y) or over the examples (mAP@x) that have a positive.

    Args:
        probs: (N, C); scores will do, only their order matters.
        target: int64 (N,) or bool (N, C).
        axis: ``class`` or ``example``.
        average: ``macro``, or ``none`` for the value of each class (NaN without a positive); over classes only.

    >>> probs = torch.tensor([[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]])
    >>> target = torch.tensor([[True, False], [False, True], [True, False]])
    >>> mean_average_precision(probs, target)
    tensor(0.9167, dtype=torch.float64)
    """
    probs, target = checked(probs, target, "scores")
    if check_axis(axis, average) == "example":
        return ratio(example_sums(probs, target))
    return averaged_precision(average_precisions(probs, target), average)


def precision_histograms(probs: Probs, target: Target, bins: int) -> Tensor:
    """Positives and all pairs of each class by bin of log-odds, from -20 to 20: float64 (2, C, bins)."""
    classes = probs.shape[1]
    place = ((torch.logit(probs.double()).clamp(-20, 20) + 20) / 40 * bins).long().clamp(max=bins - 1)
    cell = torch.arange(classes, device=probs.device) * bins + place
    counts = [part.bincount(minlength=classes * bins) for part in (cell[one_hot(target, classes)], cell.flatten())]
    return torch.stack(counts).view(2, classes, bins).double()


def binned_precision(histograms: Tensor) -> Tensor:
    """Mean average precision over classes, all scores in one bin taken as tied."""
    positives, everything = histograms.flip(2).unbind()
    precision = positives.cumsum(1) / everything.cumsum(1).clamp(min=1)
    return (positives * precision).sum(1).div(positives.sum(1)).nanmean()


def binned_precision_bounds(histograms: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of the exact value: the positives of each bin come last, one by one, or first, all tied."""
    positives, everything = histograms.flip(2).unbind()
    before, above = positives.cumsum(1) - positives, everything.cumsum(1) - everything
    last = _one_after_the_other(before, above + everything - positives, positives)
    first = positives * (before + positives) / (above + positives).clamp(min=1)  # tied ones share the best precision
    low, high = (part.sum(1).div(positives.sum(1)).nanmean() for part in (last, first))
    return low, high


@understands(top_k="n", num_classes=NO_CLASSES, num_labels=NO_LABELS)
@like_input
def top_n_f1(probs: Any, target: Any, *, n: int = 4) -> Answer:
    """F1 of returning the n most probable labels of every row, averaged over the classes present (macro F1).

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        n: number of labels returned for each row.

    >>> top_n_f1(torch.tensor([[0.9, 0.2], [0.3, 0.7]]), torch.tensor([[True, False], [True, True]]), n=1)
    tensor(0.8333, dtype=torch.float64)

    Liao, section V-C, n = 4.
    """
    probs, target = checked(probs, target, "scores")
    return macro_f1(top_counts(probs, target, n))


def average_precisions(probs: Probs, target: Target) -> Tensor:
    """Average precision of each class, float64 (C,), NaN for a class without positives."""
    marks = one_hot(target, probs.shape[1])
    scores = working(probs)
    columns = max(1, BLOCK_ENTRIES // max(1, len(scores)))
    return torch.cat(
        [
            _by_column(scores[:, start : start + columns], marks[:, start : start + columns])
            for start in range(0, scores.shape[1], columns)
        ]
    )


def _by_column(scores: Tensor, marks: Tensor) -> Tensor:
    """Only values are sorted: a positive's precision needs how many values, and how many positives, reach its own."""
    by_label, positive = scores.t().contiguous(), marks.t().contiguous()
    ordered = sort_rows(by_label)
    found = []
    for label in range(len(by_label)):
        own = sort_rows(by_label[label][positive[label]])
        reach = ordered.shape[1] - torch.searchsorted(ordered[label], own)
        right = len(own) - torch.searchsorted(own, own)
        found.append((right.double() / reach).mean())
    return torch.stack(found)


def example_sums(probs: Probs, target: Target) -> Tensor:
    """Summed average precision of the rows with a positive, and their number."""
    total = torch.zeros(2, dtype=torch.float64, device=probs.device)
    for rows in row_blocks(*probs.shape):
        precision = rows_average_precision(working(probs[rows]), one_hot(target[rows], probs.shape[1]))
        total += torch.stack([summed(precision.nan_to_num()), (~precision.isnan()).sum()])
    return total


def rows_average_precision(scores: Tensor, marks: Tensor) -> Tensor:
    """Average precision of each row: as by column, for many short rows at once."""
    ordered = sort_rows(scores).contiguous()
    positives = torch.where(marks, scores, torch.inf)  # what is not positive sorts to the end, among positives of +inf
    own = sort_rows(positives).contiguous()
    count = marks.sum(1, keepdim=True)
    width = int(count.max()) if len(count) else 0
    own = own[:, :width].contiguous()
    reach = scores.shape[1] - torch.searchsorted(ordered, own)
    right = count - torch.searchsorted(own, own)
    real = torch.arange(width, device=own.device) < count
    precision = torch.where(real, right.double() / reach, 0.0)
    return precision.sum(1) / count.squeeze(1)


def _one_after_the_other(before: Tensor, above: Tensor, positives: Tensor) -> Tensor:
    """``Σ_{i=1}^{p} (before + i) / (above + i)``: p positives one after the other, behind ``above`` others."""
    # (before + i)/(above + i) = 1 - (above - before)/(above + i), and Σ 1/(above + i) is a difference of digammas.
    tail = torch.digamma(above + positives + 1) - torch.digamma(above + 1)
    return positives - (above - before) * tail


def top_counts(probs: Probs, target: Target, n: int) -> Tensor:
    """Right, returned and present labels of each class when the n most probable are returned: float64 (3, C)."""
    sets = top_k(min(whole(1)("n", n), probs.shape[1])).sets(probs)
    marks = one_hot(target, probs.shape[1])
    return torch.stack([(sets & marks).sum(0), sets.sum(0), marks.sum(0)]).double()


def macro_f1(counts: Tensor) -> Tensor:
    """F1 averaged over the classes present."""
    right, returned, present = counts.unbind()
    f1 = 2 * right / (returned + present)
    return f1[present > 0].mean()


def averaged_precision(by_class: Tensor, average: str) -> Tensor:
    """The mean over classes with a positive, or the value of each class."""
    return by_class.nanmean() if average == "macro" else by_class


def check_axis(axis: Axis, average: str = "macro") -> Axis:
    """The axis, if it exists and goes with the average."""
    found: Axis = one_of("class", "example")("axis", axis)
    if one_of("macro", "none")("average", average) == "none" and axis == "example":
        raise InputError("average: expected 'macro' with axis='example', got 'none', which gives a value for each class")
    return found
