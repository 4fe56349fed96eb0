"""Coverage of sets, accuracy of the top k and of average-k sets; overall, by class and by shot group.

With one label a row, coverage is the share of rows whose label is in their set. With several labels a row it is the share of
labels that are in the set of their row (recall). ``average="macro"`` is the mean over the classes present, ``average="none"``
gives the value of each class. The papers call coverage the accuracy of sets: ``set_accuracy`` and ``shot_accuracy`` are
synonyms of ``coverage`` and ``shot_coverage``.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.checks import one_of, whole
from shortlist.class_names import by_class, column_names
from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.metrics.totals import ratio
from shortlist.predictions.checks import check_counts
from shortlist.sets import SetRule, average_k, top_k
from shortlist.sets.hierarchy import superclass_numbers
from shortlist.sets.origin import check_same_origin
from shortlist.tensors import Sets, Target, as_tensor, is_single_label, pick
from shortlist.words import refused, shown, understands

Average: TypeAlias = Literal["micro", "macro", "none"]
AVERAGES = ("micro", "macro", "none")
FEW, MANY = 20, 100  # below FEW training examples a class is few-shot, above MANY many-shot (Garcin 2023, Table 2)
SHOT_GROUPS = ("few", "medium", "many")

NO_CLASSES = refused("num_classes: not needed, the number of classes is that of the columns")
OF_SETS = refused("top_k: sets have their own sizes; for the k most probable labels use top_k_accuracy(probs, target, k)")


@understands(num_classes=NO_CLASSES, top_k=OF_SETS)
@like_input
def coverage(sets: Any, target: Any, *, average: Average = "micro") -> Answer:
    """Share of rows whose label is in their set; with several labels a row, share of labels in the set of their row.

    Args:
        sets: bool (N, C).
        target: int64 (N,) or bool (N, C).
        average: ``micro`` over all labels, ``macro`` over the classes present, ``none`` for each class (NaN if absent).

    Shape: a number, or (C,) for ``average="none"``.

    >>> coverage(torch.tensor([[True, True], [False, True], [False, True]]), torch.tensor([0, 1, 0]))
    tensor(0.6667, dtype=torch.float64)
    >>> coverage([[True, True], [False, True], [False, True]], [0, 1, 0], average="none")
    array([0.5, 1. ])
    """
    return averaged(class_hits(*checked(sets, target, "sets")), check_average(average))


@understands(num_classes=NO_CLASSES, top_k=OF_SETS)
@like_input
def shot_coverage(sets: Any, target: Any, train_counts: Any, *, edges: Sequence[int] | None = None) -> Answer:
    """Mean coverage of the classes present with few (< 20), medium (20–100) and many (> 100) training examples.

    Args:
        sets: bool (N, C).
        target: int64 (N,) or bool (N, C).
        train_counts: training examples of each class, (C,).
        edges: other groups, by the largest number of examples of each but the last: ``(10, 50, 500, 2000)`` has five groups,
            called ``0-10``, ``11-50``, ``51-500``, ``501-2000`` and ``2001+`` (Garcin thesis, Table 3.1).

    >>> sets, target = torch.tensor([[True, False], [False, False]]), torch.tensor([0, 1])
    >>> shot_coverage(sets, target, train_counts=[5, 500])["few"]
    tensor(1., dtype=torch.float64)
    >>> shot_coverage([[True, False], [False, False]], [0, 1], train_counts=[5, 500], edges=[10])
    {'0-10': np.float64(1.0), '11+': np.float64(0.0)}

    Garcin 2023, Table 2.
    """
    hits = class_hits(*checked(sets, target, "sets"))
    counts = as_tensor(by_class("train_counts", train_counts, column_names(sets)), "train_counts")
    return coverage_by_shot(hits, counts, check_edges(edges))


@understands(num_classes=NO_CLASSES, top_k=OF_SETS)
@like_input
def superclass_coverage(sets: Any, target: Any, superclasses: Any, *, average: Average = "micro") -> Answer:
    """Share of rows that have a label of the right superclass in their set; with several labels a row, share of superclasses.

    The sets become sets of superclasses: those of their labels. A row with several labels of one superclass counts it once.

    Args:
        sets: bool (N, C).
        target: int64 (N,) or bool (N, C).
        superclasses: the superclass of each class, C names or numbers; a class without one (None, NaN) is its own.
        average: as in :func:`coverage`, over superclasses in the order of their first class.

    >>> sets, target = [[True, False, False], [False, False, True]], [1, 0]
    >>> superclass_coverage(sets, target, ["oak", "oak", "elm"])
    np.float64(0.5)

    Garcin, thesis, section 3.5.
    """
    classes = column_names(sets)
    sets, target = checked(sets, target, "sets")
    groups = checked_superclasses(superclasses, sets.shape[1], classes).to(sets.device)
    return averaged(superclass_hits(sets, target, groups), check_average(average))


set_accuracy = coverage
shot_accuracy = shot_coverage


@understands(top_k="k", num_classes=NO_CLASSES)
@like_input
def top_k_accuracy(probs: Any, target: Any, k: int, *, average: Average = "micro") -> Answer:
    """Share of labels that are among the k most probable of their row; ties are broken by lower index.

    Args:
        probs: (N, C); scores will do, only their order matters.
        target: int64 (N,) or bool (N, C).
        k: number of labels.
        average: as in :func:`coverage`.

    >>> top_k_accuracy(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), torch.tensor([1, 0]), k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    probs, target = checked(probs, target, "scores")
    return averaged(class_hits(top_k(k).sets(probs), target), check_average(average))


@understands(num_classes=NO_CLASSES)
@like_input
def average_k_accuracy(
    probs: Any, target: Any, k: float, *, calibration: Any = None, prior: Any = None, average: Average = "micro"
) -> Answer:
    """Coverage of the sets above one threshold that hold k labels on average.

    Args:
        probs: (N, C); scores will do unless there is a prior.
        target: int64 (N,) or bool (N, C).
        k: mean number of labels.
        calibration: unlabelled probabilities to take the threshold from (those of validation; report the size reached
            beside the accuracy); ``probs`` themselves by default.
        prior: class prior (C,) for macro accuracy; none by default.
        average: as in :func:`coverage`.

    >>> average_k_accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([1, 1]), k=1.5)
    tensor(0.5000, dtype=torch.float64)
    """
    given = probs
    probs, target = checked(probs, target, "scores")
    rule = average_k(k, prior).fit(probs) if calibration is None else calibrated(average_k(k, prior), calibration, given)
    return averaged(class_hits(rule(probs), target), check_average(average))


def calibrated(rule: SetRule, calibration: Any, probs: Any = None) -> SetRule:
    """The rule fitted on the ``calibration`` of a metric, by which name messages call it.

    Args:
        rule: to fit.
        calibration: unlabelled rows.
        probs: the rows that the rule will answer; if both are data frames, their columns must be the same.
    """
    try:
        rule.fit(calibration)
        check_same_origin(rule.text, rule.origin, probs)
        return rule
    except InputError as error:
        raise InputError(f"calibration: {error}") from error


def class_hits(sets: Sets, target: Target) -> Tensor:
    """How many labels of each class are in the set of their row, and how many there are: float64 (2, C)."""
    if not is_single_label(target):
        return torch.stack([(sets & target).sum(0), target.sum(0)]).double()
    classes = sets.shape[1]
    hit = target[pick(sets, target)]
    return torch.stack([hit.bincount(minlength=classes), target.bincount(minlength=classes)]).double()


def checked_superclasses(superclasses: Any, classes: int, names: Sequence[str] | None = None) -> Tensor:
    """The number of the superclass of each class, int64 (C,); the names of the classes are for superclasses by name."""
    groups = superclass_numbers(superclasses, names)
    if len(groups) != classes:
        raise InputError(f"superclasses: expected one for each of {classes} classes, got {len(groups)}")
    return groups


def superclass_hits(sets: Sets, target: Target, groups: Tensor) -> Tensor:
    """:func:`class_hits` of superclasses: float64 (2, G)."""
    above = groups[target] if is_single_label(target) else merged(target, groups)
    return class_hits(merged(sets, groups), above)


def merged(marks: Tensor, groups: Tensor) -> Tensor:
    """Whether any class of each superclass is marked: bool (N, C) → (N, G)."""
    counts = torch.zeros(len(marks), int(groups.max()) + 1 if len(groups) else 0, dtype=torch.int32, device=marks.device)
    return counts.index_add_(1, groups, marks.int()) > 0


def class_shares(hits: Tensor) -> Tensor:
    """Coverage of each class, NaN for a class that is absent."""
    return hits[0] / hits[1]


def check_edges(edges: Sequence[int] | None, name: str = "edges") -> tuple[int, ...] | None:
    """Whole numbers from 0, in increasing order; ``name`` is what messages call them."""
    if edges is None:
        return None
    several = isinstance(edges, Iterable) and not isinstance(edges, str)
    found = tuple(whole(0)(name, edge) for edge in edges) if several else ()
    if not found or any(one >= other for one, other in pairwise(found)):
        raise InputError(f"{name}: expected increasing whole numbers, got {shown(edges)}")
    return found


def shot_groups(train_counts: Tensor, edges: tuple[int, ...] | None = None) -> dict[str, Tensor]:
    """Which classes are few-shot, medium-shot and many-shot, or in the groups with these edges, bool (C,) each."""
    if edges is not None:
        lows = [0, *(edge + 1 for edge in edges)]
        names = [*(f"{low}-{edge}" for low, edge in zip(lows[:-1], edges, strict=True)), f"{lows[-1]}+"]
        group = torch.bucketize(train_counts.double(), torch.tensor(edges, dtype=torch.float64, device=train_counts.device))
        return {name: group == place for place, name in enumerate(names)}
    few, many = train_counts < FEW, train_counts > MANY
    return dict(zip(SHOT_GROUPS, (few, ~few & ~many, many), strict=True))


def averaged(hits: Tensor, average: Average) -> Tensor:
    """Over all labels, over the classes present, or of each class."""
    if average == "micro":
        return ratio(hits.sum(1))
    shares = class_shares(hits)
    return shares if average == "none" else shares.nanmean()


def check_average(average: Average) -> Average:
    """The average, if it exists."""
    found: Average = one_of(*AVERAGES)("average", average)
    return found


def coverage_by_shot(hits: Tensor, train_counts: Tensor, edges: tuple[int, ...] | None = None) -> dict[str, Tensor]:
    """Mean coverage of the classes present in each shot group."""
    check_counts(train_counts, hits.shape[1])
    shares = class_shares(hits)
    return {name: shares[group].nanmean() for name, group in shot_groups(train_counts, edges).items()}
