"""Near-duplicate pictures: a 64-bit print of each, the pairs that differ in few bits, and those on both sides of a split.

A picture that is in the training rows and, cropped a little or compressed again, in the test rows as well makes a test
easier than it should be. The print is a difference hash: whether each cell of a 9 × 8 reduction of the luminance is darker
than the next one on its right.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError, ShortlistWarning
from shortlist.tensors import Array, check_tensor, row_blocks, shape_of, tensor_of

COLUMNS, ROWS = 9, 8
LUMINANCE = (299.0, 587.0, 114.0)  # thousandths of red, green and blue (ITU-R BT.601)
BITS = 64
NO_GROUP = -1
DuplicatePolicy: TypeAlias = Literal["keep", "together", "drop"]  # what to do about near duplicates
POLICIES: tuple[str, ...] = get_args(DuplicatePolicy)
SMALL = 512  # prints that are compared each with each
AT_ONCE = 2**21  # pairs that are compared at once


@dataclass(frozen=True, eq=False)
class NearDuplicates:
    """Rows with the same print as groups, and the pairs of groups whose prints differ in few bits.

    Identical prints are kept as groups because a thousand copies of one picture are half a million pairs.

    Attributes:
        group: the number of each row's group, int64 (N,), counted by first appearance; -1 for a print without information.
        pairs: the two groups of each pair, the lower first, int64 (M, 2), ascending.
        distance: the number of bits in which two prints of a pair differ at most.
    """

    group: Tensor
    pairs: Tensor
    distance: int

    @property
    def flat(self) -> int:
        """How many rows were left out because their print is zero, which says nothing about a picture."""
        return int((self.group == NO_GROUP).sum())

    def row_pairs(self) -> Tensor:
        """Every pair of rows within the distance, int64 (M, 2), ascending; quadratic in the copies of one picture."""
        sizes, first, member = _members(self.group.numpy())
        own = np.arange(len(sizes))
        left, right = np.concatenate([np.stack([own, own], axis=1), self.pairs.numpy()]).T
        many = sizes[left] * sizes[right]
        place = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        left, right = np.repeat(left, many), np.repeat(right, many)
        one, other = np.divmod(place, sizes[right])
        one, other = member[first[left] + one], member[first[right] + other]
        kept = (left != right) | (one < other)
        return _ascending(np.minimum(one, other)[kept], np.maximum(one, other)[kept])

    def clusters(self) -> Tensor:
        """A number for each row, int64 (N,), equal for rows that a chain of near duplicates joins.

        What ``grouped_split`` takes as groups to keep near duplicates on one side. Rows without information are by themselves.
        """
        group = self.group.numpy()
        groups = int(group.max(initial=NO_GROUP)) + 1
        lowest, (left, right) = np.arange(groups), self.pairs.numpy().T
        while not np.array_equal(lowest[left], lowest[right]):
            np.minimum.at(lowest, lowest[left], lowest[right])
            np.minimum.at(lowest, lowest[right], lowest[left])
            lowest = lowest[lowest]
        cluster = np.append(lowest, 0)[group]
        alone = group == NO_GROUP
        cluster[alone] = groups + np.arange(int(alone.sum()))
        return torch.from_numpy(cluster)


def fingerprints(images: Tensor) -> Tensor:
    """A difference hash of each picture: bit ``8 r + c`` says whether cell (r, c) is darker than cell (r, c + 1).

    The cells are the 8 × 9 parts of the picture of equal size, their luminance averaged exactly: pixels that a border cuts
    count by their share on either side. All of it is done in whole numbers, so that every machine finds the same bits.
    The print is 0 where no cell is brighter than the one on its left: for flat pictures, and for those that only darken
    from left to right, which it cannot tell apart.

    Shape:
        images uint8 (N, 3, H, W) or (N, 1, H, W), of any height and width; uint64 (N,) on the same device.

    >>> rising = torch.arange(9, dtype=torch.uint8).expand(1, 3, 8, 9)
    >>> fingerprints(torch.cat([rising, rising.flip(3)])).tolist() == [2**64 - 1, 0]
    True

    N. Krawetz, "Kind of like that", The Hacker Factor Blog, 2013.
    """
    check_tensor(images, "images")
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape[2:]:
        raise InputError(f"images: expected uint8 (N, 3, H, W) or (N, 1, H, W), got {shape_of(images)}")
    across = _overlaps(COLUMNS, images.shape[3]).T.to(images.device, torch.float32)
    down = _overlaps(ROWS, images.shape[2]).to(images.device, torch.float64)
    weights = torch.tensor(LUMINANCE[: images.shape[1]], dtype=torch.float64, device=images.device)
    place = torch.arange(BITS, device=images.device).view(ROWS, COLUMNS - 1)
    prints = torch.empty(len(images), dtype=torch.int64, device=images.device)
    for rows in row_blocks(len(images), math.prod(images.shape[1:])):
        # Whole numbers below 2²⁴ in float32 and below 2⁵³ in float64: sums are exact in any order.
        with torch.autocast(images.device.type, enabled=False):
            strips = images[rows].float() @ across
        cells = down @ torch.einsum("nchw,c->nhw", strips.double(), weights)
        darker = cells[..., :-1] < cells[..., 1:]
        prints[rows] = (darker.long() << place).sum((1, 2))
    return prints.view(torch.uint64)


def near_duplicates(prints: Any, *, distance: int = 3) -> NearDuplicates:
    """All pairs of prints that differ in at most ``distance`` bits, exactly, without comparing each with each.

    Two prints that differ in d bits agree in at least one of d + 1 bands, so that only those that share a band are compared.
    Where many share one, they are divided further by bands of the bits in which they differ. A print of 0 carries no
    information: such rows are left out, and counted in ``flat``.

    Args:
        prints: uint64 (N,), from :func:`fingerprints`.
        distance: the number of bits in which two prints may differ, 0 to 63.

    >>> found = near_duplicates([0b1111, 0b1110, 0b1111, 0, 1 << 40], distance=1)
    >>> found.group.tolist(), found.pairs.tolist(), found.flat
    ([0, 1, 0, -1, 2], [[0, 1]], 1)
    >>> found.row_pairs().tolist()
    [[0, 1], [0, 2], [1, 2]]

    The bands: Manku, Jain, Das Sarma, "Detecting near-duplicates for web crawling", 2007, sec. 3.
    """
    distance = whole(0)("distance", distance)
    if distance >= BITS:
        raise InputError(f"distance: expected at most {BITS - 1} of {BITS} bits, got {distance}")
    words = _words(prints)
    group = np.full(len(words), NO_GROUP)
    told = np.flatnonzero(words)
    distinct, first, place = np.unique(words[told], return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    group[told] = np.argsort(by_appearance)[place]
    pairs = list(_search(distinct[by_appearance], np.arange(len(distinct)), distance, ()))
    left, right = np.concatenate([np.empty((2, 0), np.int64), *pairs], axis=1)
    return NearDuplicates(torch.from_numpy(group), _ascending(np.minimum(left, right), np.maximum(left, right)), distance)


def straddling(found: NearDuplicates, split: Sequence[Any] | Tensor | Array) -> Tensor:
    """Every row that has a near duplicate in another split, with the first such duplicate: int64 (K, 2), rows ascending.

    Args:
        found: what :func:`near_duplicates` found.
        split: the split of each row (N,), by name or by number.

    >>> straddling(near_duplicates([7, 7, 8], distance=1), ["train", "test", "test"]).tolist()
    [[0, 1], [1, 0]]
    """
    group = found.group.numpy()
    side, sides = _sides(split, len(group))
    none = len(group)
    first = np.full((int(group.max(initial=NO_GROUP)) + 1, sides), none)
    told = np.flatnonzero(group != NO_GROUP)
    np.minimum.at(first, (group[told], side[told]), told)
    near, (left, right) = first.copy(), found.pairs.numpy().T
    np.minimum.at(near, left, first[right])
    np.minimum.at(near, right, first[left])
    other = near[group[told]]
    other[np.arange(len(told)), side[told]] = none
    witness = other.min(axis=1, initial=none)
    return torch.from_numpy(np.stack([told, witness], axis=1)[witness < none])


def warn_straddling(found: NearDuplicates, split: Sequence[Any] | Tensor | Array, ids: Sequence[Any] | None = None) -> Tensor:
    """:func:`straddling`, and one warning that counts the rows and names three of them; nothing is said where there are none.

    Args:
        found: what :func:`near_duplicates` found.
        split: the split of each row (N,), by name or by number.
        ids: the name of each row (N,); by default its number.
    """
    pairs = straddling(found, split)
    if ids is not None and len(ids) != len(found.group):
        raise InputError(f"ids: expected one for each of {len(found.group)} rows, got {len(ids)}")
    if len(pairs):
        names = _names(split)
        distinct = list(dict.fromkeys((min(pair), max(pair)) for pair in pairs[: 2 * 3].tolist()))[:3]
        examples = ", ".join(
            " and ".join(f"{row if ids is None else ids[row]} ({names[row]})" for row in pair) for pair in distinct
        )
        warnings.warn(
            f"{len(pairs)} of {len(found.group)} pictures have a near duplicate in another split, such as {examples}: "
            "results on them say little about new pictures; grouped_split by clusters() keeps them on one side",
            ShortlistWarning,
            stacklevel=2,
        )
    return pairs


def _overlaps(cells: int, pixels: int) -> Tensor:
    """How much of each pixel lies in each cell, in units of 1 / ``cells`` of a pixel: whole numbers (cells, pixels)."""
    cell, pixel = torch.arange(cells)[:, None] * pixels, torch.arange(pixels) * cells
    return (torch.minimum(cell + pixels, pixel + cells) - torch.maximum(cell, pixel)).clamp(min=0)


def _words(prints: Any) -> Array:
    """The prints as uint64 (N,)."""
    if isinstance(prints, list | tuple):
        try:
            prints = np.array(prints, np.uint64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError("prints: expected whole numbers from 0 to 2⁶⁴ - 1") from error
    words = tensor_of(prints, "prints")
    if words.dtype not in (torch.uint64, torch.int64) or words.ndim != 1:
        raise InputError(f"prints: expected uint64 (N,), got {shape_of(words)}")
    array: Array = words.cpu().view(torch.int64).numpy()
    return array.view(np.uint64)


def _search(prints: Array, among: Array, distance: int, apart: tuple[int, ...]) -> Iterator[Array]:
    """Pairs (2, M) among these prints, each once: a pair is counted in the first band in which it agrees.

    ``apart`` holds the masks of bands before, in which a pair must differ. A step is taken only where it halves the number of
    pairs to compare at least, so that prints that bands do not tell apart cost what comparing each with each costs, no more.
    """
    words = prints[among]
    varying = int(np.bitwise_or.reduce(words ^ words[0])) if len(words) > SMALL else 0
    bits = [bit for bit in range(BITS) if varying >> bit & 1]
    # Every (distance + 1)-th bit: spread over the picture, of which sky or border may be the same in many.
    masks = [sum(1 << bit for bit in bits[band :: distance + 1]) for band in range(distance + 1)]
    runs = [_runs(words & np.uint64(mask)) for mask in masks] if len(bits) > distance else []
    if not runs or 2 * sum(_count(ends) for _, ends in runs) > _count(np.array([0, len(words)])):
        yield from _compare(prints, among, np.array([0, len(words)]), distance, apart)
        return
    for mask, (order, ends) in zip(masks, runs, strict=True):
        large = np.flatnonzero(np.diff(ends) > SMALL)
        yield from _compare(prints, among[order], _without(ends, large), distance, apart)
        for run in large:
            yield from _search(prints, among[order[ends[run] : ends[run + 1]]], distance, apart)
        apart = (*apart, mask)


def _runs(keys: Array) -> tuple[Array, Array]:
    """The order that brings equal keys together, and the borders of their runs."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    return order, np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])


def _count(ends: Array) -> int:
    """Pairs within runs with these borders."""
    sizes = np.diff(ends)
    return int((sizes * (sizes - 1) // 2).sum())


def _without(ends: Array, large: Array) -> Array:
    """The borders of the runs, the large ones cut into runs of one, which have no pairs."""
    single = [np.arange(ends[run], ends[run + 1]) for run in large]
    return np.unique(np.concatenate([ends, *single]))


def _compare(prints: Array, ordered: Array, ends: Array, distance: int, apart: tuple[int, ...]) -> Iterator[Array]:
    """Each print with each that follows in its run, a bounded number at once."""
    follow = np.repeat(ends[1:], np.diff(ends)) - 1 - np.arange(len(ordered))
    before = np.concatenate([[0], np.cumsum(follow)])
    start = 0
    while start < len(ordered):
        stop = max(start + 1, int(np.searchsorted(before, before[start] + AT_ONCE, side="right")) - 1)
        here = slice(start, stop)
        left = np.repeat(np.arange(start, stop), follow[here])
        right = left + 1 + np.arange(len(left)) - np.repeat(before[here] - before[start], follow[here])
        left, right = ordered[left], ordered[right]
        differ = prints[left] ^ prints[right]
        kept = _few_bits(differ, distance)
        for mask in apart:
            kept &= (differ & np.uint64(mask)) != 0
        yield np.stack([left[kept], right[kept]])
        start = stop


def _few_bits(words: Array, most: int) -> Array:
    """Whether at most this many bits are set: nothing is left once the lowest one was cleared as often."""
    words = words.copy()
    for _ in range(most):
        words &= words - np.uint64(1)
    few: Array = words == 0
    return few


def _ascending(left: Array, right: Array) -> Tensor:
    order = np.lexsort((right, left))
    return torch.from_numpy(np.stack([left[order], right[order]], axis=1))


def _members(group: Array) -> tuple[Array, Array, Array]:
    """The size of each group, where its rows begin among the rows of all groups, and these, group by group."""
    told = np.flatnonzero(group != NO_GROUP)
    sizes = np.bincount(group[told])
    return sizes, np.cumsum(sizes) - sizes, told[np.argsort(group[told], kind="stable")]


def _sides(split: Sequence[Any] | Tensor | Array, rows: int) -> tuple[Array, int]:
    """The split of each row as a number, and how many splits there are."""
    names = _names(split)
    if len(names) != rows:
        raise InputError(f"split: expected one for each of {rows} rows, got {len(names)}")
    numbers: dict[Any, int] = {}
    side = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    return side, len(numbers)


def _names(split: Sequence[Any] | Tensor | Array) -> list[Any]:
    return split.tolist() if isinstance(split, Tensor | np.ndarray) else list(split)
