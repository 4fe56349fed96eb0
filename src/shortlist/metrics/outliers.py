"""How well a classifier tells rows with a label from rows without one (Liao, Table II).

Each row gets one number, by which rows with a label should rank above the others: the largest probability, or the probability
that the row has any label at all.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.checks import decimal, number, one_of
from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.sets.gates import ROW_MEASURES, RowMeasure, row_measure
from shortlist.tensors import Probs, Target, is_single_label


class RowScores(NamedTuple):
    """The numbers by which rows are told apart.

    Args:
        scores: float64 (N,).
        labelled: bool (N,), whether the row has a label.
    """

    scores: Tensor
    labelled: Tensor


@like_input
def outlier_auroc(probs: Any, target: Any, *, by: RowMeasure = "confidence") -> Answer:
    """Probability that a row with a label gets a larger number than a row without one, ties counting half.

    NaN unless there are rows of both kinds.

    Args:
        probs: (N, C).
        target: bool (N, C), some rows of which have no label.
        by: ``confidence``, the largest probability of the row, or ``any-label``, the probability of at least one label if
            labels are independent, ``1 - Π (1 - p)``.

    >>> probs = torch.tensor([[0.9, 0.2], [0.3, 0.1], [0.5, 0.4], [0.6, 0.1]])
    >>> outlier_auroc(probs, torch.tensor([[True, False], [False, False], [False, True], [False, False]]))
    tensor(0.7500, dtype=torch.float64)

    Hanley, McNeil, 1982; Liao, Table II.
    """
    probs, target = checked(probs, target, "probabilities")
    return auroc(row_scores(probs, target, check_by(by)))


@like_input
def outlier_fpr(probs: Any, target: Any, *, tpr: float = 0.95, by: RowMeasure = "confidence") -> Answer:
    """Share of the rows without a label that pass the threshold which a share ``tpr`` of the rows with one pass.

    The threshold is the largest that at least this share of them reach. NaN unless there are rows of both kinds.

    Args:
        probs: (N, C).
        target: bool (N, C), some rows of which have no label.
        tpr: the share of rows with a label to recognise, above 0 and up to 1.
        by: as in :func:`outlier_auroc`.

    >>> probs = torch.tensor([[0.9, 0.2], [0.3, 0.1], [0.5, 0.4], [0.6, 0.1]])
    >>> outlier_fpr(probs, torch.tensor([[True, False], [False, False], [False, True], [False, False]]))
    tensor(0.5000, dtype=torch.float64)

    Liang, Li, Srikant, "Enhancing the reliability of out-of-distribution image detection in neural networks", 2018.
    """
    probs, target = checked(probs, target, "probabilities")
    return false_positives(row_scores(probs, target, check_by(by)), check_tpr(tpr))


def check_by(by: RowMeasure) -> RowMeasure:
    """The number by which rows are told apart, if it exists."""
    found: RowMeasure = one_of(*ROW_MEASURES)("by", by)
    return found


def check_tpr(tpr: float) -> Fraction:
    """A share above 0 and up to 1, exactly as it is written."""
    number(above=0, most=1)("tpr", tpr)
    return decimal("tpr", tpr)


def row_scores(probs: Probs, target: Target, by: RowMeasure) -> RowScores:
    """The number of each row, and whether it has a label."""
    if is_single_label(target):
        raise InputError("target: expected bool (N, C), some rows of which have no label; got one label a row")
    return RowScores(row_measure(probs, by), target.any(1))


def auroc(found: RowScores) -> Tensor:
    """The area under the curve, exactly, from the ranks."""
    known, others = found.scores[found.labelled], found.scores[~found.labelled].sort().values
    below = torch.searchsorted(others, known) + torch.searchsorted(others, known, right=True)
    return below.sum().double() / (2 * len(known) * len(others)) if len(known) and len(others) else _undefined(found)


def false_positives(found: RowScores, tpr: Fraction) -> Tensor:
    """The share of rows without a label at or above the threshold."""
    known, others = found.scores[found.labelled].sort(descending=True).values, found.scores[~found.labelled]
    if not len(known) or not len(others):
        return _undefined(found)
    return (others >= known[math.ceil(tpr * len(known)) - 1]).double().mean()


def _undefined(found: RowScores) -> Tensor:
    return found.scores.new_full((), torch.nan)
