"""The cut that keeps the m largest of everything, however much that is: numpy on the CPU, ``kernels.select`` on a GPU.

Nothing here depends on the values being probabilities, nor on where they are: :func:`cut_or_next` works on counts that may have
been added up from anywhere, and :func:`cut_largest` on values that are read here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.kernels.choice import fused
from shortlist.kernels.select import DigitSearch, Ranked
from shortlist.leading_bits import BitCounts, first_round, values_of
from shortlist.rounds import Values, as_array, in_rounds


@dataclass(frozen=True)
class Cut:
    """A threshold: ``values >= threshold`` keeps ``kept`` of all values, which is ``wanted`` unless values tie there."""

    threshold: float
    wanted: int
    kept: int
    rows: int


def cut_largest(
    read: Callable[[], Iterable[Tensor]],
    wanted: Callable[[int], int],
    *,
    sample: Tensor | None = None,
    share: float = 1.0,
) -> Cut:
    """The exact cut that keeps the ``m`` largest of all values, read in batches, in constant memory.

    With the values in decreasing order ``P[1] ≥ P[2] ≥ …`` the threshold is the midpoint of ``P[m]`` and ``P[m+1]``, or
    ``P[m]`` if rounding would put it on ``P[m+1]``. If the two are equal, either all of the tied values are kept or none,
    whichever comes closer to m; none if equally close.

    Every round counts 16 bits of the values that share the leading bits of P[m] or P[m+1]: one round for float16, two for
    float32, four for float64. The first leaves out what is below a lower bound estimated from ``sample``; if that was wrong, it
    is repeated without. What is left is kept if it is little, so that there is one pass; otherwise each round is a pass. On a
    GPU every round is a pass and counts up to 12 bits: one for half precision, three for float32, six for float64, and nothing
    is copied but the result.

    Args:
        read: returns the batches, (n, C) each; called once for each pass.
        wanted: returns the number m to keep, given the number of rows.
        sample: some of the rows, from which the lower bound is estimated; a wrong estimate costs a pass, never exactness.
        share: m as a share of all values, for the same estimate.
    """
    batches = iter(read())
    first = next(batches, None)
    if first is None:
        return _cut_nothing_or_all(wanted(0), 0, 0)
    if fused("select", first):
        return _cut_on_device(chain([first], batches), read, wanted)
    started = [chain([first], batches)]

    def values() -> Iterable[Values]:
        for batch in started.pop() if started else read():
            yield Values(batch, len(batch))

    return in_rounds(
        values,
        first_round(floor=None if sample is None else floor_of(sample, share)).kept_here(),
        lambda counts: cut_or_next(counts, wanted(counts.rows)),
    )


def cut_or_next(counts: BitCounts, m: int) -> Cut | BitCounts:
    """The cut that keeps the m largest of the values that were counted, or the next round.

    Args:
        counts: of all values, without groups.
        m: the number of values to keep.
    """
    if not 0 < m < counts.seen:
        return _cut_nothing_or_all(m, counts.seen, counts.rows)
    if counts.first and counts.counts.sum() <= m:  # the floor was above P[m+1]
        return first_round()
    bins = counts.bins
    above, through = bins.above[:, 0], bins.above[:, 0] + bins.counts[:, 0]
    upper, lower = (int(np.flatnonzero((above < rank) & (rank <= through))[0]) for rank in (m, m + 1))
    if not counts.resolved:
        return counts.opening(counts.codes[[upper, lower]])
    ends = int(bins.prefixes[upper]), int(bins.prefixes[lower])
    ranked = Ranked(*ends, int(above[upper]), int(bins.counts[upper, 0]))
    return _cut_between(ranked, np.dtype(counts.dtype), m, counts.rows)


def _cut_on_device(batches: Iterable[Tensor], read: Callable[[], Iterable[Tensor]], wanted: Callable[[int], int]) -> Cut:
    """The same by the GPU's kernels.

    Args:
        batches: the first pass, of at least one batch.
        read: starts a further one.
        wanted: returns the number m to keep, given the number of rows.
    """
    search: DigitSearch | None = None
    rows = total = 0
    dtype = torch.float32
    for batch in _of_one_dtype(batches):
        search, dtype = search or DigitSearch(batch.dtype, batch.device), batch.dtype
        search.count(batch)
        rows, total = rows + len(batch), total + batch.numel()
    m = wanted(rows)
    if search is None or not 0 < m < total:
        return _cut_nothing_or_all(m, total, rows)
    search.look_for(m)
    while not search.complete:
        search.next_round()
        for batch in _of_one_dtype(read()):
            search.count(batch)
    found = search.found()
    if dtype == torch.bfloat16:  # which numpy lacks: the leading bits of float32
        upper, lower = (key << 16 | (0xFFFF if key < 1 << 15 else 0) for key in found[:2])
        return _cut_between(found._replace(upper=upper, lower=lower), np.dtype(np.float32), m, rows)
    return _cut_between(found, np.dtype(str(dtype).removeprefix("torch.")), m, rows)


def _of_one_dtype(batches: Iterable[Tensor]) -> Iterable[Tensor]:
    """The batches, which must all have the dtype of the first."""
    kind = None
    for batch in batches:
        if batch.dtype != (kind := kind or batch.dtype):
            raise InputError(f"expected batches of one dtype, got {kind} and {batch.dtype}")
        yield batch


def _cut_nothing_or_all(m: int, total: int, rows: int) -> Cut:
    """The cut if m is not above 0, or not below the number of values."""
    return Cut(np.inf, m, 0, rows) if m <= 0 else Cut(-np.inf, m, total, rows)


def _cut_between(ranked: Ranked, dtype: np.dtype[Any], m: int, rows: int) -> Cut:
    """The cut at the midpoint, or above or below the tied values."""
    upper, lower = values_of([ranked.upper, ranked.lower], dtype)
    if upper > lower:
        half = (float(upper) + float(lower)) / 2
        middle = dtype.type(half if np.isfinite(half) else upper / 2 + lower / 2)
        return Cut(float(middle if middle > lower else upper), m, m, rows)
    through = ranked.above + ranked.equal
    # No threshold leaves values of +inf out.
    if through - m < m - ranked.above or upper == np.inf:
        return Cut(float(upper), m, through, rows)
    return Cut(float(np.nextafter(upper, dtype.type(np.inf))), m, ranked.above, rows)


def floor_of(sample: Tensor, share: float) -> float | None:
    """A lower bound that the m largest values very likely exceed, with a margin of half of m.

    Args:
        sample: some of the values; the better they stand for all, the more certain the bound.
        share: m as a share of all values.
    """
    flat = as_array(sample).reshape(-1)
    rank = int(1.5 * share * flat.size) + 64
    return None if rank >= flat.size else float(np.partition(flat, flat.size - rank)[flat.size - rank])
