"""A long-tailed subsample of balanced training data: few classes keep all of their rows, most keep few (CIFAR-100-LT)."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import torch

from shortlist.checks import decimal, one_of, whole
from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.randomness import Purpose, random_ranks
from shortlist.errors import InputError
from shortlist.tensors import is_single_label
from shortlist.words import listed

Profile: TypeAlias = Literal["exponential", "step"]
CLOSE = 1e-6  # relative distance to a whole number below which floating point does not decide how to round


def long_tail_counts(most: int, classes: int, imbalance: float | Fraction, profile: Profile = "exponential") -> list[int]:
    """The number of rows that each class keeps, rounded down.

    ``"exponential"``: class i of C keeps ``⌊most · imbalance^(-i / (C - 1))⌋``. ``"step"``: the first ``⌊C / 2⌋`` classes
    keep ``most`` and the others ``⌊most / imbalance⌋``. Both are computed exactly, so that they are the same on every machine.

    Args:
        most: rows of the largest class.
        classes: the number of classes, C.
        imbalance: the largest class over the smallest, at least 1.
        profile: ``"exponential"`` or ``"step"``.

    >>> long_tail_counts(5000, 10, 100)
    [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    >>> long_tail_counts(500, 4, 100, "step")
    [500, 500, 5, 5]

    Cao, Wei, Gaidon, Arechiga, Ma, "Learning imbalanced datasets with label-distribution-aware margin loss", 2019, sec. 4.1.
    """
    most, classes = whole(1)("most", most), whole(1)("classes", classes)
    ratio = decimal("imbalance", imbalance)
    if ratio < 1:
        raise InputError(f"imbalance: expected a number from 1, the largest class over the smallest, got {imbalance}")
    one_of("exponential", "step")("profile", profile)
    if profile == "step":
        return [most] * (classes // 2) + [math.floor(most / ratio)] * (classes - classes // 2)
    return [_exponential(most, ratio, place, max(1, classes - 1)) for place in range(classes)]


def long_tailed(dataset: Dataset, imbalance: float, profile: Profile = "exponential", seed: int = 0) -> Dataset:
    """The dataset with fewer training rows: class 0 keeps most, the last class fewest; other splits stay as they are.

    Classes keep :func:`long_tail_counts` of their rows, in the order of the labels; ``most`` is the number of training rows of
    the smallest class, which is that of every class if the data are balanced. Which rows they keep depends on the seed and on
    the order of the rows, and is the same on every machine. CIFAR-100 with ``imbalance=100`` keeps 10,847 rows.

    Args:
        dataset: with a split train, one label a row.
        imbalance: the largest class over the smallest, ρ; at most the rows of a class, so that every class keeps one.
        profile: ``"exponential"``, or ``"step"``: half of the classes keep all rows.
        seed: of the choice of rows.

    >>> from shortlist.data import Split
    >>> rows = Split(torch.zeros(300, 1), torch.arange(300) % 3, [str(row) for row in range(300)])
    >>> long_tailed(Dataset("garden", ["ash", "elm", "oak"], {"train": rows}), 100).train_counts
    tensor([100,  10,   1])
    """
    if TRAIN not in dataset.splits:
        splits = listed([*dataset.splits])
        raise InputError(
            f"imbalance: expected data with a split called train, of which alone rows are left out, got {dataset.name} "
            f"with {splits}"
        )
    train = dataset.splits[TRAIN]
    if not is_single_label(train.labels):
        raise InputError(f"imbalance: expected one label a row, but rows of {dataset.name} may have any number")
    counts = train.counts(len(dataset.classes))
    most = int(counts.min()) if len(counts) else 0
    if not most:
        raise InputError(
            f"imbalance: expected training rows of every class, got none of {dataset.classes[int(counts.argmin())]}"
        )
    kept = long_tail_counts(most, len(dataset.classes), imbalance, profile)
    if min(kept) < 1:
        raise InputError(
            f"imbalance: expected at most {most:,}, the rows of the smallest class of {dataset.name}, so that every class "
            f"keeps a row, got {imbalance:g}"
        )
    labels = train.labels.numpy()
    mask = torch.from_numpy(random_ranks(labels, seed, Purpose.LONG_TAIL) < np.array(kept)[labels])
    shape = "" if profile == "exponential" else f" ({profile})"
    note = f"{sum(kept):,} of {len(train):,} training rows, an imbalance of {imbalance:g} ({profile}, seed {seed})"
    return replace(
        dataset,
        name=f"{dataset.name}, imbalance {imbalance:g}{shape}",
        splits={name: split.rows(mask) if name == TRAIN else split for name, split in dataset.splits.items()},
        notes=[*dataset.notes, note],
    )


def _exponential(most: int, ratio: Fraction, place: int, steps: int) -> int:
    """⌊most · ratio^(-place / steps)⌋, decided by whole numbers where floating point might not."""
    value = float(most * float(ratio) ** (-place / steps))
    if abs(value - round(value)) > CLOSE * value:
        return math.floor(value)
    # m ≤ most · (p/q)^(-place/steps)  ⟺  m^steps · p^place ≤ most^steps · q^place
    reached = round(value) ** steps * ratio.numerator**place <= most**steps * ratio.denominator**place
    return round(value) if reached else round(value) - 1
