"""Splits of rows into training, validation and test: stratified by class, by the Pl@ntNet-300K rule, by groups.

A split is a dictionary from a name to row numbers, int64 and ascending, on the CPU; every row is in exactly one. Numbers of
rows are decided in exact arithmetic, and a share that was typed is taken as the decimal that it is. Which rows go where comes
from the raw 64-bit words of PCG64 alone, so that a seed means the same split on every machine and with every version of numpy.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import decimal
from shortlist.class_names import check_listed
from shortlist.data.randomness import check_seed
from shortlist.errors import InputError, ShortlistWarning
from shortlist.tensors import Array, as_target, shape_of

SHARES: Mapping[str, float] = MappingProxyType({"train": 0.8, "val": 0.1, "test": 0.1})
SHOWN = 5  # classes that a warning names
UNLABELLED = -1  # the stratum of the rows without a label


class GroupedSplit(dict[str, Tensor]):
    """A split by groups, and how near it came to what was asked for.

    Attributes:
        reached: the share of the rows that each split got.
        misplaced: the share of the labels that would have to change sides for every class to have its wanted counts.
    """

    def __init__(self, rows: Mapping[str, Tensor], misplaced: float):
        super().__init__(rows)
        total = max(1, sum(len(part) for part in rows.values()))
        self.reached = {name: len(part) / total for name, part in rows.items()}
        self.misplaced = misplaced


def stratified_split(
    target: Any, shares: Mapping[str, float | Fraction] = SHARES, *, seed: int, names: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """Rows divided at random so that every class is divided by the shares.

    A class of n rows gives each split ``share · n`` rows, rounded by the largest remainder; a split whose quota is
    below one row gets one, and the others divide what is left. A class with fewer rows than there are splits gives one row
    each to the splits with the largest shares, training as a rule; such classes are named in a warning. Ties go to the split
    that the classes before have left furthest behind its share, then to that named first, so that many small classes do not
    all favour the same split.

    With many labels a row, each label has these wanted counts, and labels give out their rows one after the other, that with
    the fewest open rows first: to the splits that lack most of the label, first to those that have none of it (iterative
    stratification, with all rows of a label given out at once). Rows without a label are a stratum of their own.

    Args:
        target: int64 (N,), or bool (N, C).
        shares: the share of each split; they sum to 1.
        seed: the same seed gives the same split.
        names: of the classes, for messages; else they are called by number.

    >>> split = stratified_split([0] * 10 + [1] * 4, seed=0)
    >>> {name: len(rows) for name, rows in split.items()}
    {'train': 10, 'val': 2, 'test': 2}

    Sechidis, Tsoumakas, Vlahavas, "On the stratification of multi-label data", 2011, algorithm 1.
    """
    check_listed("names", names)
    parts = _exact_shares(shares)
    labels = _checked(target)
    classes, row, code = _entries(labels)
    wanted = _wanted(np.bincount(code, minlength=len(classes)), parts)
    if labels.ndim == 1:
        side = _deal(code, wanted, seed)
    else:
        side = _label_by_label(row, code, wanted, np.array(_apportion(len(labels), parts)), seed)
    missing = classes[(_counts(code, side[row], wanted.shape) == 0).any(1)]
    if len(missing):
        warnings.warn(
            f"{len(missing)} of {len(classes)} classes have no row in some split, because they have fewer rows than there are "
            f"splits{' or share them with other labels' if labels.ndim > 1 else ''}: {_named(missing, names)}",
            ShortlistWarning,
            stacklevel=2,
        )
    return _rows_of(side, shares)


def ceil_split(
    target: Any, share: float | Fraction = Fraction(1, 10), *, seed: int, names: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """Of a class with n rows, ``⌈share · n⌉`` for validation, as many for test, the rest for training.

    The rule of Pl@ntNet-300K, computed exactly (in floating point, ``0.07 * 100`` is more than 7). Every class must keep a row
    for training; one too small for that is refused, because a benchmark with a class that is never trained, or never tested,
    measures something else. With the share of the paper that is a class with fewer than 3 rows.

    >>> {name: len(rows) for name, rows in ceil_split([0] * 30 + [1] * 5, seed=0).items()}
    {'train': 27, 'val': 4, 'test': 4}

    Garcin et al., "Pl@ntNet-300K: a plant image dataset with high label ambiguity and a long-tailed distribution", 2021.
    """
    check_listed("names", names)
    part = decimal("share", share)
    if not 0 < part < Fraction(1, 2):
        raise InputError(f"share: expected a number between 0 and 1/2, such as 0.1; got {share}")
    labels = _checked(target)
    if labels.ndim != 1:
        raise InputError(f"target: expected int64 (N,), one label a row, got bool {labels.shape}; use stratified_split")
    classes, _, code = _entries(labels)
    counts = np.bincount(code, minlength=len(classes))
    held_out = np.array([math.ceil(part * int(n)) for n in counts], np.int64)
    wanted = np.stack([counts - 2 * held_out, held_out, held_out], axis=1)
    small = classes[wanted[:, 0] < 1]
    if len(small):
        raise InputError(
            f"target: expected classes that keep a row for training beside twice ⌈{share} n⌉, got {len(small)} too small for "
            f"that: {_named(small, names)}; leave them out first, or take a smaller share"
        )
    return _rows_of(_deal(code, wanted, seed), ("train", "val", "test"))


def grouped_split(
    target: Any,
    groups: Any,
    shares: Mapping[str, float | Fraction] = SHARES,
    *,
    seed: int,
    names: Sequence[str] | None = None,
) -> GroupedSplit:
    """Rows divided so that those of one group, one plant or one observer, are never on both sides.

    The wanted counts of each class are those of :func:`stratified_split`. Groups are placed one after the other, the largest
    first and those of one size in random order, in a split that still lacks at least half as many rows as the group has (or
    in any, where none does), and of these where the sum over classes and splits of ``(count - wanted)²`` becomes least; ties
    go to the split that lacks most rows, then to that named first. Classes that end in one split alone are named in a
    warning. With one row a group the counts are exactly those of :func:`stratified_split` (one label a row).

    Args:
        target: int64 (N,), or bool (N, C).
        groups: one name or number a row (N,), of any kind that can be compared.
        shares: the share of each split; they sum to 1.
        seed: the same seed gives the same split.
        names: of the classes, for messages; else they are called by number.

    >>> split = grouped_split([0, 0, 0, 0, 1, 1, 1, 1], list("aabbccdd"), {"train": 0.5, "test": 0.5}, seed=0)
    >>> split.reached, split.misplaced
    ({'train': 0.5, 'test': 0.5}, 0.0)
    """
    check_listed("names", names)
    parts = _exact_shares(shares)
    labels = _checked(target)
    classes, row, code = _entries(labels)
    check_listed("groups", groups)
    group = _group_numbers(groups, len(labels))
    wanted = _wanted(np.bincount(code, minlength=len(classes)), parts)
    room = wanted.sum(0) if labels.ndim == 1 else np.array(_apportion(len(labels), parts))
    place = _place_groups(group, row, code, wanted, room, seed)
    side = place[group]
    reached = _counts(code, side[row], wanted.shape)
    single = classes[((reached > 0).sum(1) == 1) & (classes != UNLABELLED)]
    if len(single) and len(parts) > 1:
        warnings.warn(
            f"{len(single)} of {len(classes)} classes are in one split only, as groups stay whole: {_named(single, names)}",
            ShortlistWarning,
            stacklevel=2,
        )
    return GroupedSplit(_rows_of(side, shares), float(np.abs(reached - wanted).sum() / 2 / max(1, len(code))))


def split_names(split: Mapping[str, Tensor]) -> list[str]:
    """The name of the split that each row is in, for a column of a table.

    >>> split_names({"train": torch.tensor([0, 2]), "test": torch.tensor([1])})
    ['train', 'test', 'train']
    """
    names: list[str | None] = [None] * sum(len(rows) for rows in split.values())
    for name, rows in split.items():
        for row in rows.tolist():
            if not 0 <= row < len(names) or names[row] is not None:
                raise InputError(f"split: expected every row in exactly one split, got row {row} twice or others missing")
            names[row] = name
    return [name for name in names if name is not None]


def _checked(target: Any) -> Array:
    """The target as an array, its form and the sign of its labels checked."""
    target = as_target(target)
    single = target.dtype == torch.int64 and target.ndim == 1
    if not single and not (target.dtype == torch.bool and target.ndim == 2):
        raise InputError(
            f"target: expected int64 (N,), one label a row, or bool (N, C), any number of labels a row; got {shape_of(target)}"
        )
    labels: Array = target.detach().cpu().numpy()
    if single and len(labels) and labels.min() < 0:
        raise InputError(
            f"target: expected labels from 0, got {labels.min()} in row {labels.argmin()}; rows without a label need a "
            "bool (N, C) target"
        )
    return labels


def _exact_shares(shares: Mapping[str, float | Fraction]) -> list[Fraction]:
    if not isinstance(shares, Mapping) or not shares:
        raise InputError(f"shares: expected a dictionary from names to numbers, got {shares!r}")
    parts = [decimal(f"share of {name!r}", share) for name, share in shares.items()]
    if min(parts) <= 0:
        raise InputError(f"shares: expected numbers above 0, got {dict(shares)}")
    total = sum(parts, Fraction(0))
    if abs(total - 1) > Fraction(1, 10**9):  # thirds have no exact decimal; what differs by more was meant differently
        raise InputError(f"shares: expected numbers that sum to 1, got {dict(shares)}, which sum to {float(total):g}")
    return [part / total for part in parts]


def _entries(labels: Array) -> tuple[Array, Array, Array]:
    """The classes present, ascending, and for every label of every row, by rows: its row, its place among the classes."""
    if labels.ndim == 1:
        classes, code = np.unique(labels, return_inverse=True)
        return classes, np.arange(len(labels)), code
    row, label = np.nonzero(labels)
    bare = np.flatnonzero(~labels.any(axis=1))
    row, label = np.concatenate([row, bare]), np.concatenate([label, np.full(len(bare), UNLABELLED)])
    by_row = np.argsort(row, kind="stable")
    classes, code = np.unique(label[by_row], return_inverse=True)
    return classes, row[by_row], code


def _apportion(rows: int, parts: Sequence[Fraction], behind: Sequence[Fraction] | None = None) -> list[int]:
    """How many of the rows each split gets: largest remainder, and at least one each where there are rows enough.

    Ties go to the split that is furthest ``behind`` its share.
    """
    behind = behind or [Fraction(0)] * len(parts)
    largest_first = sorted(range(len(parts)), key=lambda split: (-parts[split], -behind[split]))
    if rows < len(parts):
        return [int(split in largest_first[:rows]) for split in range(len(parts))]
    free, counts = list(range(len(parts))), [1] * len(parts)
    while True:
        left, mass = rows - len(parts) + len(free), sum((parts[split] for split in free), Fraction(0))
        quota = {split: left * parts[split] / mass for split in free}
        if all(value >= 1 for value in quota.values()):
            break
        free = [split for split in free if quota[split] >= 1]
    for split in free:
        counts[split] = math.floor(quota[split])
    by_remainder = sorted(free, key=lambda split: (counts[split] - quota[split], -behind[split]))
    for split in by_remainder[: rows - sum(counts)]:
        counts[split] += 1
    return counts


def _wanted(counts: Array, parts: Sequence[Fraction]) -> Array:
    """The rows that each class has for each split, int64 (classes, splits)."""
    behind = [Fraction(0)] * len(parts)
    wanted = np.empty((len(counts), len(parts)), np.int64)
    for label, rows in enumerate(counts.tolist()):
        wanted[label] = given = _apportion(rows, parts, behind)
        behind = [late + rows * part - own for late, part, own in zip(behind, parts, given, strict=True)]
    return wanted


def _shuffled(rows: int, seed: int) -> Array:
    """The row numbers in random order: sorted by a random word each, whose stream numpy guarantees, unlike that of shuffles."""
    words = np.random.PCG64(check_seed(seed)).random_raw(rows)
    return np.argsort(words, kind="stable")


def _deal(code: Array, wanted: Array, seed: int) -> Array:
    """The split of each row, one label a row: the rows of a class in random order, the first ones for the first split."""
    order = _shuffled(len(code), seed)
    small = np.min_scalar_type(len(wanted))  # 16 bits are sorted by counting
    order = order[np.argsort(code[order].astype(small), kind="stable")]
    classes, splits = wanted.shape
    side = np.empty(len(code), np.int64)
    side[order] = np.repeat(np.tile(np.arange(splits), classes), wanted.ravel())
    return side


def _label_by_label(row: Array, code: Array, wanted: Array, room: Array, seed: int) -> Array:
    """The split of each row, many labels a row; ``room`` is how many rows each split is to have."""
    rows, splits = int(room.sum()), len(room)
    rank = np.argsort(_shuffled(rows, seed))
    by_label = row[np.lexsort((rank[row], code))]
    open_rows = np.bincount(code, minlength=len(wanted))
    ends = np.cumsum(open_rows)
    first = np.searchsorted(row, np.arange(rows + 1))
    side, lacking = np.full(rows, -1), wanted.copy()
    while open_rows.any():
        label = int(np.where(open_rows > 0, open_rows, rows + 1).argmin())
        own = by_label[ends[label - 1] if label else 0 : ends[label]]
        own = own[side[own] < 0]
        given = _give(len(own), lacking[label], lacking[label] == wanted[label], room)
        side[own] = np.repeat(np.arange(splits), given)
        room = room - given
        degree = first[own + 1] - first[own]
        touched = code[_ranges(first[own], degree)]
        np.subtract.at(lacking, (touched, np.repeat(side[own], degree)), 1)
        np.subtract.at(open_rows, touched, 1)
    return side


def _give(rows: int, lacking: Array, none_yet: Array, room: Array) -> Array:
    """How many of the open rows of a label each split gets; what all splits lack together is exactly these rows.

    Where rarer labels have brought a split more rows than it wanted, others must do with less: one by one, the split gives up
    a row that misses the fewest so far, unless it is its only one of this label, and of several that with the least room.
    """
    given = np.maximum(lacking, 0)
    for _ in range(int(given.sum()) - rows):
        givers = np.flatnonzero(given > 0)
        last = (given == 1) & none_yet
        giver = min(givers, key=lambda split: (last[split], lacking[split] - given[split], room[split], -split))
        given[giver] -= 1
    return given


def _place_groups(group: Array, row: Array, code: Array, wanted: Array, room: Array, seed: int) -> Array:
    """The split of each group: ``Σ (count - wanted)²`` ends least where ``Σ own · lacking`` over its classes is most.

    Without the look at the room, classes that lie inside one group would all go to the split that wants most of them.
    """
    sizes = np.bincount(group)
    pair, own = np.unique(group[row] * len(wanted) + code, return_counts=True)
    owner, label = np.divmod(pair, max(1, len(wanted)))
    first = np.searchsorted(owner, np.arange(len(sizes) + 1)).tolist()
    order = _shuffled(len(sizes), seed)
    order = order[np.argsort(-sizes[order], kind="stable")]
    lacking, left = wanted.copy(), room.tolist()
    place, precedence = np.empty(len(sizes), np.int64), [-split for split in range(len(left))]
    for number, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        here = slice(first[number], first[number + 1])
        gain = (own[here] @ lacking[label[here]]).tolist()
        fits = [2 * rows >= size for rows in left]
        best = -max(zip(fits, gain, left, precedence, strict=True))[3]
        lacking[label[here], best] -= own[here]
        left[best] -= size
        place[number] = best
    return place


def _group_numbers(groups: Any, rows: int) -> Array:
    """Groups numbered by first appearance, so that their names do not matter."""
    names = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(names) != rows:
        raise InputError(f"groups: expected one for each of {rows} rows, got {len(names)}")
    numbers: dict[Any, int] = {}
    try:
        group = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    except TypeError as error:
        raise InputError("groups: expected one name or number a row, got something that cannot be compared") from error
    if any(name is None or name != name for name in numbers):
        raise InputError("groups: expected a group for every row, got rows with none; give each of them a name of its own")
    return group


def _ranges(start: Array, length: Array) -> Array:
    """``start[0], start[0] + 1, …`` for each start and length, one after the other."""
    shift: Array = np.repeat(start - np.cumsum(length) + length, length)
    return np.arange(len(shift)) + shift


def _counts(code: Array, side: Array, shape: tuple[int, ...]) -> Array:
    """The rows of each class in each split."""
    counts: Array = np.bincount(code * shape[1] + side, minlength=shape[0] * shape[1])
    return counts.reshape(shape)


def _rows_of(side: Array, names: Any) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.flatnonzero(side == split)) for split, name in enumerate(names)}


def _named(classes: Array, names: Sequence[str] | None) -> str:
    called = [str(label) if names is None else names[label] for label in classes[:SHOWN].tolist() if label != UNLABELLED]
    shown = ", ".join([*called, *["no label"] * (UNLABELLED in classes[:SHOWN])])
    return shown + (f" and {len(classes) - SHOWN} more" if len(classes) > SHOWN else "")
