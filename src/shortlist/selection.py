"""The cut that keeps the m largest of everything, however much that is: numpy on the CPU, ``kernels.select`` on a GPU.

Nothing here depends on the values being probabilities.
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
from shortlist.tensors import Array

# Candidates kept in memory before the selection switches to histograms: at most 16 MB for any number of rows.
KEPT_CANDIDATES = 2**21
CHUNK = 2**20
DIGIT = 16


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

    The first pass keeps whatever can be among the m largest (a lower bound estimated from ``sample`` excludes the rest) and
    switches to a histogram of the leading 16 bits once that grows large; further passes refine the one or two bins that hold
    P[m] and P[m+1], by 16 bits each: one pass for float16, at most two for float32, four for float64, and one more if the
    lower bound was wrong. On a GPU every pass makes a histogram, of up to 12 bits: one pass for half precision, three for
    float32, six for float64, and nothing is copied but the result.

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
    search = _Search(_floor(sample, share) if sample is not None else None)
    rows = search.read(chain([first], batches))
    m = wanted(rows)
    if not 0 < m < search.total:
        return _cut_nothing_or_all(m, search.total, rows)
    if search.found <= m:  # the floor was above P[m+1]
        search = _Search(None)
        search.read(read())
    while not search.resolve(m):
        search.read(read())
    assert search.answer is not None
    return _cut_between(search.answer, search.dtype, m, rows)


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
    upper, lower = _values([ranked.upper, ranked.lower], dtype)
    if upper > lower:
        half = (float(upper) + float(lower)) / 2
        middle = dtype.type(half if np.isfinite(half) else upper / 2 + lower / 2)
        return Cut(float(middle if middle > lower else upper), m, m, rows)
    through = ranked.above + ranked.equal
    if through - m < m - ranked.above:
        return Cut(float(upper), m, through, rows)
    return Cut(float(np.nextafter(upper, dtype.type(np.inf))), m, ranked.above, rows)


def _floor(sample: Tensor, share: float) -> float | None:
    """A lower bound that the m largest values very likely exceed, with a margin of half of m."""
    flat = _flat(sample)
    rank = int(1.5 * share * flat.size) + 64
    return None if rank >= flat.size else float(np.partition(flat, flat.size - rank)[flat.size - rank])


class _Search:
    """Locates P[m] and P[m+1], one pass at a time."""

    def __init__(self, floor: float | None):
        self.floor = floor
        self.total = 0
        self.found = 0
        self.level = 0  # digits of 16 bits known of the open prefixes
        self.open: dict[int, int] = {0: 0}  # prefix → number of values above every value with it
        self.counts: dict[int, Array] = {}
        self.kept: list[Array] | None = []
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.answer: Ranked | None = None

    def read(self, batches: Iterable[Tensor]) -> int:
        """Make one pass; returns the number of rows."""
        rows = 0
        self.counts = {prefix: np.zeros(2**DIGIT, np.int64) for prefix in self.open}
        self.found = self.total = 0
        for batch in _of_one_dtype(batches):
            rows += len(batch)
            self.total += batch.numel()
            for chunk in _candidates(batch, self.floor):
                self.dtype = chunk.dtype
                self._add(chunk)
        return rows

    def _add(self, values: Array) -> None:
        self.found += values.size
        if self.kept is not None:
            self.kept.append(values)
            if self.found <= KEPT_CANDIDATES:
                return
            parts, self.kept = self.kept, None
            for part in parts:
                self._count(part)
        else:
            self._count(values)

    def _count(self, values: Array) -> None:
        """Add the values to the histograms of the open prefixes."""
        keys = _keys(values)
        bits = 8 * self.dtype.itemsize
        digit = (keys >> (bits - DIGIT * (self.level + 1))) & (2**DIGIT - 1)
        prefixes = keys >> (bits - DIGIT * self.level) if self.level else None
        for prefix, counts in self.counts.items():
            matching = digit if prefixes is None else digit[prefixes == prefix]
            counts += np.bincount(matching.astype(np.int64), minlength=2**DIGIT)

    def resolve(self, m: int) -> bool:
        """Look up ranks m and m+1 in the result of the last pass; False if another pass must refine it."""
        if self.kept is not None:
            self._resolve_kept(m)
            return True
        bits = 8 * self.dtype.itemsize
        ends = [self._locate(rank) for rank in (m, m + 1)]
        self.level += 1
        if self.level * DIGIT >= bits:
            (upper, above, equal), (lower, _, _) = ends
            self.answer = Ranked(upper, lower, above, equal)
            return True
        self.open = {prefix: above for prefix, above, _ in ends}
        return False

    def _locate(self, rank: int) -> tuple[int, int, int]:
        """The prefix, one digit longer, of the value of this rank; the number of values above it; the number that share it."""
        for prefix, counts in self.counts.items():
            down = np.cumsum(counts[::-1])
            above = self.open[prefix]
            if above < rank <= above + int(down[-1]):
                place = int(np.searchsorted(down, rank - above))
                digit = counts.size - 1 - place
                share = int(counts[digit])
                return (prefix << DIGIT) | digit, above + int(down[place]) - share, share
        raise AssertionError("the ranks lie in the open prefixes")  # pragma: no cover

    def _resolve_kept(self, m: int) -> None:
        values = np.concatenate(self.kept or [])
        ordered = np.partition(values, [values.size - m - 1, values.size - m])
        upper, lower = ordered[values.size - m], ordered[values.size - m - 1]
        above, equal = int((values > upper).sum()), int((values == upper).sum())
        upper_key, lower_key = _keys(np.array([upper, lower])).tolist()
        self.answer = Ranked(upper_key, lower_key, above, equal)


def _flat(values: Tensor) -> Array:
    """All values as a flat array; bfloat16, which numpy lacks, as float32 (whose low 16 bits are then zero)."""
    values = values.detach()
    if values.dtype == torch.bfloat16:
        values = values.float()
    return values.cpu().reshape(-1).numpy()


def _candidates(batch: Tensor, floor: float | None) -> Iterable[Array]:
    """The values at or above the lower bound, in pieces small enough for the processor's cache."""
    if batch.device.type != "cpu" and floor is not None:
        batch = batch[batch >= floor]
    flat = _flat(batch)
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK]
        yield chunk.copy() if floor is None else chunk[chunk >= chunk.dtype.type(floor)]


def _keys(values: Array) -> Array:
    """Unsigned integers in the order of the floats: the sign bit is flipped, and for negative floats all other bits too."""
    width = values.dtype.itemsize
    unsigned = np.dtype(f"u{width}")
    bits = (values + values.dtype.type(0)).view(unsigned)  # adding 0 makes -0 and 0 one value
    sign = unsigned.type(1 << (8 * width - 1))
    keys: Array = np.where(bits & sign, ~bits, bits | sign)
    return keys


def _values(keys: list[int], dtype: np.dtype[Any]) -> Array:
    """The floats of these keys."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = np.array(keys, unsigned)
    sign = unsigned.type(1 << (8 * dtype.itemsize - 1))
    floats: Array = np.where(bits & sign, bits ^ sign, ~bits).view(dtype)
    return floats
