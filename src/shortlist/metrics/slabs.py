"""Worst-slab coverage: coverage where it is lowest between two parallel planes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.metrics.accuracy import NO_CLASSES, OF_SETS
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.row_order import count_rows
from shortlist.tensors import Array, Sets, Target, as_tensor, is_single_label, pick, row_blocks
from shortlist.words import understands

ROUNDING = 1e-9  # of sums of counts, and of places along a direction as a share of the largest: nearer ones are the same


@dataclass(frozen=True)
class Slab:
    """The rows with ``low`` ≤ features · direction ≤ ``high``."""

    direction: Array
    low: float
    high: float

    def holds(self, features: Array) -> Array:
        """Which rows are in it, bool (N,)."""
        place = features @ self.direction
        return np.asarray((place >= self.low) & (place <= self.high))


@understands(num_classes=NO_CLASSES, top_k=OF_SETS)
@like_input
def worst_slab_coverage(
    sets: Any, target: Any, features: Any, *, share: float = 0.1, directions: int = 1000, seed: int = 0
) -> Answer:
    """Coverage of the rows in the slab {low ≤ features · v ≤ high} that covers least (WSC).

    A rule that covers 90 % of all rows may cover few of those that lie together somewhere. One half of the rows finds the worst
    slab, among those along many random directions v that hold a share of its rows; the other half measures its coverage, so
    that it is not low by choice. With several labels a row coverage is the share of the labels in the set of their row.

    Args:
        sets: bool (N, C).
        target: int64 (N,) or bool (N, C).
        features: (N, D), what rows are near each other by: embeddings, inputs, or the probabilities.
        share: of the rows, the least that a slab holds.
        directions: how many are tried.
        seed: of the halves and the directions.

    Returns:
        A number; NaN if no row of the other half is in the slab.

    >>> random = np.random.default_rng(0)
    >>> features = random.uniform(size=(2000, 2))
    >>> sets = np.stack([features[:, 0] > 0.2, features[:, 0] > 2], 1)  # nothing on the left
    >>> target = np.zeros(2000, dtype=int)
    >>> round(float(sets[:, 0].mean()), 2), round(float(worst_slab_coverage(sets, target, features)), 2)
    (0.79, 0.0)

    Cauchois, Gupta, Duchi, "Knowing what you know: valid and validated confidence sets in multiclass and multilabel
    prediction", 2021; the second half as in Romano, Sesia, Candès, "Classification with valid and adaptive coverage", 2020.
    """
    share = number(above=0, most=1)("share", share)
    directions, seed = whole(1)("directions", directions), whole(0)("seed", seed)
    sets, target = checked(sets, target, "sets")
    found, labels = row_counts(sets, target)
    hits, total = slab_counts(found, labels, _checked_features(features, len(sets)), share, directions, seed)
    return torch.tensor(hits / total if total else torch.nan, dtype=torch.float64, device=sets.device)


def row_counts(sets: Sets, target: Target) -> tuple[Array, Array]:
    """For each row, labels that are in its set and labels, float64 (N,) each."""
    if is_single_label(target):
        return pick(sets, target).double().cpu().numpy(), np.ones(len(target))
    return count_rows(sets & target).double().cpu().numpy(), count_rows(target).double().cpu().numpy()


def slab_counts(found: Array, labels: Array, features: Array, share: float, directions: int, seed: int) -> tuple[float, float]:
    """Labels found and labels in the worst slab, of the half of the rows that did not choose it."""
    random = np.random.default_rng(seed)
    rows = random.permutation(len(features))
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    vectors = random.standard_normal((directions, features.shape[1]))
    slab = worst_slab(found[first], labels[first], features[first], share, vectors)
    if slab is None:
        return 0.0, 0.0
    inside = second[slab.holds(features[second])]
    return float(found[inside].sum()), float(labels[inside].sum())


def worst_slab(found: Array, labels: Array, features: Array, share: float, vectors: Array) -> Slab | None:
    """The slab along one of these directions, with this share of the rows, that covers the smallest share of its labels.

    None if no slab has labels. The first of equally bad directions counts.
    """
    if not labels.sum():
        return None
    least, slab = max(1, int(np.ceil(share * len(features) - ROUNDING))), None
    lowest = np.inf
    for part in row_blocks(len(vectors), len(features)):
        places = vectors[part] @ features.T
        windows = _Windows.along(places, found, labels, least)
        while (window := windows.below(lowest)) is not None:
            line, start, end, lowest = window
            order = windows.order[line]
            low, high = places[line, order[[start, end - 1]]].tolist()
            margin = ROUNDING * float(np.abs(places[line]).max())
            slab = Slab(vectors[part][line], low - margin, high + margin)
    return slab


@dataclass(frozen=True)
class _Windows:
    """Rows in the order of their places along each direction, and the running sums of what windows of them hold.

    Args:
        order: int64 (M, n).
        hits: running sum of labels found, from 0, (M, n + 1).
        labels: that of labels.
        ends: where a window may start or end, (M, n + 1): rows in the same place are in it together.
        least: rows of the smallest window.
    """

    order: Array
    hits: Array
    labels: Array
    ends: Array
    least: int

    @staticmethod
    def along(places: Array, found: Array, labels: Array, least: int) -> "_Windows":
        order = np.argsort(places, axis=1, kind="stable")
        ordered = np.take_along_axis(places, order, 1)
        ends = np.ones((len(places), places.shape[1] + 1), bool)
        ends[:, 1:-1] = np.diff(ordered, axis=1) > ROUNDING * np.abs(ordered).max(1, keepdims=True)
        return _Windows(order, _running(found[order]), _running(labels[order]), ends, least)

    def below(self, level: float) -> tuple[int, int, int, float] | None:
        """A window that covers less than the level: its direction, first row, end and coverage; None if there is none.

        It is the one with the largest Σ (level · labels - hits), of which repeating with its coverage as the level finds the
        lowest coverage of all (Dinkelbach, 1967).
        """
        level = min(level, 2.0)
        balance = self.hits - level * self.labels
        starts = np.maximum.accumulate(np.where(self.ends, balance, -np.inf), axis=1)
        short = np.where(self.ends[:, self.least :], balance[:, self.least :], np.inf) - starts[:, : -self.least]
        line, place = (int(number) for number in np.unravel_index(short.argmin(), short.shape))
        if short[line, place] >= -ROUNDING:
            return None
        end = place + self.least
        start = int(np.flatnonzero(self.ends[line, : place + 1] & (balance[line, : place + 1] == starts[line, place]))[0])
        labels = self.labels[line, end] - self.labels[line, start]
        return line, start, end, float((self.hits[line, end] - self.hits[line, start]) / labels)


def _running(values: Array) -> Array:
    return np.concatenate([np.zeros((len(values), 1)), values.cumsum(1)], axis=1)


def _checked_features(features: Any, rows: int) -> Array:
    values: Tensor = as_tensor(features, "features")
    if values.ndim != 2 or len(values) != rows or not values.shape[1]:
        raise InputError(f"features: expected numbers of shape ({rows}, D), one line for each row, got {tuple(values.shape)}")
    if values.dtype == torch.bool or values.is_complex() or not bool(values.isfinite().all()):
        raise InputError("features: expected finite numbers, got others")
    return values.detach().double().cpu().numpy()
