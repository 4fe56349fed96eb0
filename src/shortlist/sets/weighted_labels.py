"""One threshold for each label where rows count by weights, or labels by votes: every distinct value of a label is tried.

Precision, recall and F1 are shares of rows; here a row counts by its weight, and it has a label as far as its votes say so.
"""

import math
from fractions import Fraction

import numpy as np
import torch

from shortlist.sets.constraints import FittedThreshold
from shortlist.sets.multilabel import LabelObjective, halfway
from shortlist.sets.weighted_rows import Entries
from shortlist.tensors import Array

CLOSE = 1e-9  # relative distance below which shares are compared in fractions


def label_thresholds(
    constraint: LabelObjective, entries: Entries, weights: Array, marked: Array, classes: int
) -> FittedThreshold:
    """The best threshold of each label; rows without weight are as if they were not there.

    Args:
        constraint: what is best.
        entries: the values of all labels of the rows.
        weights: what each counts for, whole numbers.
        marked: the part of that for which the row has the label, whole numbers.
        classes: the number of labels.
    """
    order = np.lexsort((-entries.values, entries.labels))
    order = order[weights[order] > 0]
    ends = np.searchsorted(entries.labels[order], np.arange(classes + 1))
    thresholds = np.full(classes, -np.inf if constraint.objective == "recall" else np.inf)
    every = 0
    for label in range(classes):
        own = order[ends[label] : ends[label + 1]]
        if not marked[own].any():
            continue
        values = entries.values[own]
        last = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1)  # of equal values
        right, returned = marked[own].cumsum()[last], weights[own].cumsum()[last]
        place = best_place(constraint, right, returned)
        thresholds[label] = np.inf
        if place is not None:
            distinct = values[last]
            thresholds[label] = halfway(distinct[[place]], distinct[[min(place + 1, len(distinct) - 1)]])[0]
            every += int(returned[place] == returned[-1] and thresholds[label] > -np.inf)
    rows = len(np.unique(entries.rows[order]))
    return FittedThreshold(torch.from_numpy(thresholds), constraint.notes_on(thresholds, every, rows))


def best_place(constraint: LabelObjective, right: Array, returned: Array) -> int | None:
    """The place of the best threshold among the values of a label that some rows have, the most plausible first.

    Args:
        constraint: what is best.
        right: the weight, up to each value, of rows that have the label.
        returned: the weight of all rows up to it.

    >>> best_place(LabelObjective("f1"), np.array([3, 3, 5]), np.array([3, 4, 6]))
    2
    >>> best_place(LabelObjective("precision", 0.9), np.array([3, 3, 5]), np.array([3, 4, 6]))
    0
    """
    positives, share = int(right[-1]), constraint.share
    if constraint.objective == "recall":
        return int(np.searchsorted(right, math.ceil(share * positives)))
    places = np.flatnonzero(np.diff(right, prepend=0))
    if constraint.objective == "precision":
        may = places[right[places] / returned[places] >= float(share) * (1 - CLOSE)]
        met = (int(place) for place in may[::-1] if int(right[place]) >= share * int(returned[place]))
        return next(met, None)
    gain = right[places] / (returned[places] / 2 + positives / 2)
    best: list[int] = places[gain >= gain.max() * (1 - CLOSE)].tolist()
    return max(best, key=lambda place: (Fraction(2 * int(right[place]), int(returned[place]) + positives), -place))
