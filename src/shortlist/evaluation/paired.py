"""Paired differences: two evaluations on the same rows, compared row by row, so that what both find hard cancels out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.tally import CHECKSUM, HITS, LABELS, SIZE, TOP_1

DEFINITION = (
    "the second less the first, on the same rows; the interval is 1.96 standard errors of the mean of the differences of the "
    "rows, so that what both find hard cancels out"
)


@dataclass(frozen=True)
class PairedDifference:
    """The difference of a quantity between two evaluations of the same rows.

    Args:
        name: of the quantity.
        value: the second less the first.
        error: its standard error, from the differences of the rows.
        rows: number of rows.
    """

    name: str
    value: float
    error: float
    rows: int


def same_rows(first: Evaluation, second: Evaluation) -> Tensor | None:
    """For each row of the first evaluation its number in the second; None unless both have the same rows.

    Rows are the same if they have the same ids, in any order, or the same numbers, and the same labels.
    """
    if first.rows != second.rows or first.single_label != second.single_label:
        return None
    mine, theirs = first.totals.get("outcomes"), second.totals.get("outcomes")
    if mine is None or theirs is None:
        return None
    order = _order(first.ids, second.ids, first.rows)
    if order is None:
        return None
    labels = _labels(first, second, theirs[CHECKSUM])
    return order if labels is not None and torch.equal(mine[CHECKSUM], labels[order]) else None


def _order(mine: Sequence[str] | None, theirs: Sequence[str] | None, rows: int) -> Tensor | None:
    if mine == theirs:
        return torch.arange(rows)
    if mine is None or theirs is None:
        return None
    places = {name: row for row, name in enumerate(theirs)}
    found = [places.get(name, -1) for name in mine]
    return None if -1 in found else torch.tensor(found, dtype=torch.int64)


def _labels(first: Evaluation, second: Evaluation, checksums: Tensor) -> Tensor | None:
    """What stands for the labels of each row of the second, numbered as the classes of the first."""
    if first.classes == second.classes:
        return checksums
    if not first.single_label or set(first.classes) != set(second.classes):
        return None
    numbers = {name: number for number, name in enumerate(first.classes)}
    return torch.tensor([numbers[name] for name in second.classes], dtype=torch.float64)[checksums.long()]


def paired_differences(first: Evaluation, second: Evaluation) -> list[PairedDifference]:
    """Coverage (recall), mean size and top-1 accuracy of the second evaluation less those of the first; none on other rows."""
    order = same_rows(first, second)
    if order is None:
        return []
    mine, theirs = first.totals["outcomes"], second.totals["outcomes"][:, order]
    names = {"coverage" if first.single_label else "recall": HITS, "size": SIZE}
    if first.single_label:
        names["top1"] = TOP_1
    ones = torch.ones(first.rows, dtype=torch.float64)
    return [
        _difference(name, theirs[place] - mine[place], mine[LABELS] if place == HITS else ones) for name, place in names.items()
    ]


def _difference(name: str, gaps: Tensor, weights: Tensor) -> PairedDifference:
    """The ratio of two sums over rows, with the standard error of a ratio."""
    total = float(weights.sum())
    value = float(gaps.sum()) / total if total else math.nan
    error = math.sqrt(float(((gaps - value * weights) ** 2).sum())) / total if total else math.nan
    return PairedDifference(name, value, error, len(gaps))


def changed_rows(first: Evaluation, second: Evaluation) -> tuple[int, int, list[tuple[int, int]]]:
    """Rows whose labels the second evaluation gained, rows whose labels it lost, and all of them.

    Returns:
        The number of gained rows, the number of lost rows, and pairs of row numbers in the first and in the second, gained and
        lost ones in turn, in the order of the rows; nothing for evaluations of other rows.
    """
    order = same_rows(first, second)
    if order is None:
        return 0, 0, []
    gaps = second.totals["outcomes"][HITS, order] - first.totals["outcomes"][HITS]
    gained, lost = ((gaps * sign > 0).nonzero().squeeze(1).tolist() for sign in (1, -1))
    turns = [row for pair in zip(lost, gained, strict=False) for row in pair]
    rest = lost[len(gained) :] + gained[len(lost) :]
    return len(gained), len(lost), [(row, int(order[row])) for row in turns + rest]
