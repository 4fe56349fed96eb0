"""What is watched of each row, as whole numbers: how sure the classifier is, the size of the set, the class, the label."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from shortlist.row_order import count_rows
from shortlist.tensors import Array, is_single_label

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
        label: the place of the value that decides whether the label is found, int64 (N,); None without labels.
        missed: the share of its labels that the set of a row lacks, 0 or 1 for one label, float64 (N,); None without labels.
        several: whether a row may have several labels.
    """

    unlabelled: Array
    label: Array | None = None
    missed: Array | None = None
    several: bool = False

    def __len__(self) -> int:
        return len(self.unlabelled)


def signals(probs: Tensor, sets: Tensor) -> Rows:
    """The signals of a block of rows without labels, (N, C) and their sets, bool (N, C)."""
    largest = probs.double().max(1)
    columns = [places(largest.values.numpy()), count_rows(sets).numpy(), largest.indices.numpy()]
    return Rows(np.stack(columns, axis=1).astype(np.int64))


def missed_shares(sets: Tensor, target: Tensor) -> Array:
    """The share of its labels that the set of each row lacks, float64 (N,); 0 for a row without labels.

    >>> sets = torch.tensor([[True, False, False], [True, True, False]])
    >>> missed_shares(sets, torch.tensor([1, 1])), missed_shares(sets, torch.tensor([[True, True, True], [False] * 3])).round(2)
    (array([1., 0.]), array([0.67, 0.  ]))
    """
    if is_single_label(target):
        found: Array = (~sets.gather(1, target[:, None]).squeeze(1)).double().numpy()
        return found
    found = ((target & ~sets).sum(1).double() / target.sum(1).clamp(min=1)).numpy()
    return found


def deciding(values: Array, sizes: Array, allowed: Fraction, *, descending: bool) -> Array:
    """The value at the label of each row that decides whether the row misses more than the allowed share of its labels.

    Of m labels, ``⌊m · allowed⌋`` may be missed, so it is that of the least plausible label after these: a threshold beyond it
    makes the loss of the row exceed what is allowed. A row without labels has the most plausible value there is.

    Args:
        values: the ordering at the labels, row by row, float64.
        sizes: the number of labels of each row, int64 (N,).
        allowed: the share of its labels that a row may miss, from 0 and below 1.
        descending: whether larger values are more plausible.

    >>> deciding(np.array([0.9, 0.2, 0.5, 0.7]), np.array([3, 0, 1]), Fraction(1, 3), descending=True)
    array([0.5, inf, 0.7])
    """
    rows = np.repeat(np.arange(len(sizes)), sizes)
    ordered = values[np.lexsort((values if descending else -values, rows))]
    skipped = sizes * allowed.numerator // allowed.denominator
    found = np.full(len(sizes), np.inf if descending else 0.0)
    some = sizes > 0
    found[some] = ordered[(sizes.cumsum() - sizes + skipped)[some]]
    return found


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
