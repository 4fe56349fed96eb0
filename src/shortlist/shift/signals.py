"""What is watched of each row, as whole numbers: how sure the classifier is, the size of the set, the class, the label."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.row_order import count_rows
from shortlist.tensors import Array

SIGNALS = ("confidence", "size", "class", "label")
UNLABELLED = SIGNALS[:3]
STEPS = 64  # per unit of log-odds
FARTHEST = 32  # log-odds, beyond which all are the same
ABOVE = 64  # units, for values above 1 (a mass with penalties, p over the prior), of which there are logarithms
CONFIDENCES = 2 * FARTHEST * STEPS + 1
PLACES = CONFIDENCES + ABOVE * STEPS


def sizes_of(classes: int) -> dict[str, int]:
    """How many different numbers each signal has."""
    return {"confidence": CONFIDENCES, "size": classes + 1, "class": classes, "label": PLACES}


@dataclass(frozen=True)
class Rows:
    """The signals of some rows.

    Args:
        unlabelled: confidence, size and class, int64 (N, 3).
        label: the place of the true label, int64 (N,); None without labels.
        missed: whether the set lacks it, bool (N,); None without labels.
    """

    unlabelled: Array
    label: Array | None = None
    missed: Array | None = None

    def __len__(self) -> int:
        return len(self.unlabelled)


def signals(probs: Tensor, sets: Tensor, values: Tensor | None = None, target: Tensor | None = None) -> Rows:
    """The signals of a block of rows.

    Args:
        probs: (N, C).
        sets: their sets, bool (N, C).
        values: the ordering at the labels, (N,); None without labels.
        target: the labels, int64 (N,).
    """
    largest = probs.double().max(1)
    columns = [places(largest.values.numpy()), count_rows(sets).numpy(), largest.indices.numpy()]
    found = np.stack(columns, axis=1).astype(np.int64)
    if values is None or target is None:
        return Rows(found)
    missed = ~sets.gather(1, target[:, None]).squeeze(1)
    return Rows(found, places(values.double().numpy()), missed.numpy())


def places(values: Array) -> Array:
    """Whole numbers in the order of these values, which are at least 0: log-odds up to 1, logarithms above.

    >>> places(np.array([0.0, 0.5, 1.0, 2.0]))
    array([   0, 2048, 4096, 4450])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(values) - np.log1p(-np.minimum(values, 1))
        above = FARTHEST + 8 * np.log(values)
    scale = np.where(values < 1, np.clip(odds, -FARTHEST, FARTHEST), np.clip(above, FARTHEST, FARTHEST + ABOVE))
    found: Array = np.floor((scale + FARTHEST) * STEPS).astype(np.int64)
    return found


def probability_at(place: float) -> float:
    """The probability that stands at this place."""
    return 1 / (1 + math.exp(FARTHEST - place / STEPS))


def shuffles(signal: int, start: int, rows: int) -> Array:
    """Uniform numbers that break ties, float64 (N,): a function of the signal and the number of the row."""
    from shortlist.sets.draws import CalibrationDraws

    return CalibrationDraws(signal + 1, torch.tensor(0)).shares(torch.arange(start, start + rows)).numpy()
