"""Accuracy of sets, of the top k, of average-k sets, overall, by class and by shot group.

For one label a row, accuracy is the share of rows whose label is in the set. For many labels a row it is the share of labels
that are in the set of their row (recall). ``average="macro"`` is the mean of that over the classes present.
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.totals import ratio
from shortlist.sets import average_k, top_k
from shortlist.tensors import (
    Sets,
    Target,
    as_target,
    as_tensor,
    check_sets,
    is_single_label,
    pick,
    shape_of,
)

Average: TypeAlias = Literal["micro", "macro"]
FEW, MANY = 20, 100  # below FEW training examples a class is few-shot, above MANY many-shot (Garcin 2023, Table 2)


def set_accuracy(sets: Any, target: Any, *, average: Average = "micro") -> Tensor:
    """The share of labels that are in the set of their row.

    >>> set_accuracy(torch.tensor([[True, True], [False, True], [False, True]]), torch.tensor([0, 1, 0]))
    tensor(0.6667, dtype=torch.float64)
    """
    return average_accuracy(class_hits(as_tensor(sets, "sets"), as_target(target)), average)


def shot_accuracy(sets: Any, target: Any, train_counts: Any) -> dict[str, Tensor]:
    """Mean accuracy over the classes present with few (< 20), medium (20–100) and many (> 100) training examples.

    >>> sets, target = torch.tensor([[True, False], [False, False]]), torch.tensor([0, 1])
    >>> shot_accuracy(sets, target, train_counts=[5, 500])["few"]
    tensor(1., dtype=torch.float64)

    Garcin 2023, Table 2.
    """
    return accuracy_by_shot(class_hits(as_tensor(sets, "sets"), as_target(target)), as_tensor(train_counts, "train_counts"))


def top_k_accuracy(probs: Any, target: Any, k: int, *, average: Average = "micro") -> Tensor:
    """The share of labels among the k most probable of their row, ties broken by lower index.

    >>> top_k_accuracy(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), torch.tensor([1, 0]), k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    return set_accuracy(top_k(k)(as_tensor(probs)), target, average=average)


def average_k_accuracy(
    probs: Any, target: Any, k: float, *, calibration: Any = None, prior: Any = None, average: Average = "micro"
) -> Tensor:
    """The accuracy of the sets above one threshold that hold k labels on average.

    The threshold comes from the unlabelled ``calibration`` probabilities (those of validation; report the size reached
    beside the accuracy), or, without them, from ``probs`` themselves.

    >>> average_k_accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([1, 1]), k=1.5)
    tensor(0.5000, dtype=torch.float64)
    """
    rule = average_k(k, prior).fit(as_tensor(probs) if calibration is None else calibration)
    return set_accuracy(rule(as_tensor(probs)), target, average=average)


def class_hits(sets: Sets, target: Target) -> Tensor:
    """How many labels of each class are in the set of their row, and how many there are: float64 (2, C)."""
    check_sets(sets, target)
    if not is_single_label(target):
        return torch.stack([(sets & target).sum(0), target.sum(0)]).double()
    classes = sets.shape[1]
    hit = target[pick(sets, target)]
    return torch.stack([hit.bincount(minlength=classes), target.bincount(minlength=classes)]).double()


def class_accuracy(hits: Tensor) -> Tensor:
    """Accuracy of each class, NaN for a class that is absent."""
    return hits[0] / hits[1]


def shot_groups(train_counts: Tensor) -> dict[str, Tensor]:
    """Which classes are few-shot, medium-shot and many-shot, bool (C,) each."""
    few, many = train_counts < FEW, train_counts > MANY
    return {"few": few, "medium": ~few & ~many, "many": many}


def average_accuracy(hits: Tensor, average: Average) -> Tensor:
    """Over all labels, or over the classes present."""
    if check_average(average) == "micro":
        return ratio(hits.sum(1))
    return class_accuracy(hits).nanmean()


def check_average(average: Average) -> Average:
    """The average, if it is one that exists."""
    if average not in ("micro", "macro"):
        raise InputError(f"average: expected 'micro' or 'macro', got {average!r}")
    return average


def accuracy_by_shot(hits: Tensor, train_counts: Tensor) -> dict[str, Tensor]:
    """Mean accuracy over the classes present of each shot group."""
    if train_counts.shape != hits.shape[1:]:
        raise InputError(f"train_counts: expected one number for each of {hits.shape[1]} classes, got {shape_of(train_counts)}")
    accuracy = class_accuracy(hits)
    return {name: accuracy[group].nanmean() for name, group in shot_groups(train_counts).items()}
