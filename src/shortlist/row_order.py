"""Order within rows: sorting, counting, the largest of each.

On the CPU numpy does the work: its sort of plain values is vectorised, and several times faster than one that carries indices
along. Other devices use torch. Nothing here depends on the values being probabilities.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from shortlist.tensors import Array, by_device, row_blocks

# Sorting rows up to this length is faster than torch.topk.
SHORT_ROW = 256
GROUPS = 64  # of columns, whose maxima bound the largest values of longer rows
WORTH_THREADS = 2**20
CACHED_ENTRIES = 2**19


def sort_rows(values: Tensor, *, descending: bool = False) -> Tensor:
    """The values of each row in order, without their indices."""
    return by_device(SORT_ROWS, values)(values, descending)


def _sort_torch(values: Tensor, descending: bool) -> Tensor:
    return values.sort(dim=-1, descending=descending).values


def _sort_numpy(values: Tensor, descending: bool) -> Tensor:
    if values.dtype not in (torch.float32, torch.float64):
        return _sort_torch(values, descending)
    ordered = np.array(values.detach().numpy(), order="C")
    threads = min(torch.get_num_threads(), len(ordered)) if ordered.ndim > 1 and ordered.size >= WORTH_THREADS else 1
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:  # numpy releases the GIL while it sorts
            list(pool.map(lambda part: part.sort(axis=-1), np.array_split(ordered, threads)))
    else:
        ordered.sort(axis=-1)
    result = torch.from_numpy(ordered)
    return result.flip(-1) if descending else result


SORT_ROWS = {"cpu": _sort_numpy, "any": _sort_torch}


def count_rows(marks: Tensor) -> Tensor:
    """The number of true entries in each row, int64 (N,)."""
    return by_device(COUNT_ROWS, marks)(marks)


def _count_torch(marks: Tensor) -> Tensor:
    return marks.view(torch.uint8).sum(1, dtype=torch.int32).long()


def _count_numpy(marks: Tensor) -> Tensor:
    if marks.shape[1] <= SHORT_ROW:
        return _count_torch(marks)
    return torch.from_numpy(np.add.reduce(marks.numpy().view(np.uint8), axis=1, dtype=np.uint32).astype(np.int64))


COUNT_ROWS = {"cpu": _count_numpy, "any": _count_torch}


def first_largest(values: Tensor) -> Tensor:
    """The index of the largest value of each row, the first one if there are ties, (N, 1)."""
    return by_device(FIRST_LARGEST, values)(values)


def _first_torch(values: Tensor) -> Tensor:
    return values.argmax(1, keepdim=True)


def _first_numpy(values: Tensor) -> Tensor:
    if values.dtype == torch.bfloat16:
        return _first_torch(values)
    return torch.from_numpy(values.detach().numpy().argmax(1, keepdims=True))


FIRST_LARGEST = {"cpu": _first_numpy, "any": _first_torch}


def keep_top(values: Tensor, n: int) -> Tensor:
    """The n largest values of each row as booleans, ties broken by lower index."""
    rows, columns = values.shape
    if n == 0 or n >= columns or rows == 0:
        return torch.full(values.shape, n > 0, device=values.device)
    if columns <= SHORT_ROW:
        ordered = sort_rows(values, descending=True)
        return keep_largest(values, torch.full((rows,), n, device=values.device), ordered[:, n - 1], ordered[:, n])
    if n == 1:
        return torch.zeros(values.shape, dtype=torch.bool, device=values.device).scatter_(1, first_largest(values), True)
    return by_device(KEEP_TOP, values)(values, n)


def _keep_top_torch(values: Tensor, n: int) -> Tensor:
    found = values.topk(n + 1, dim=1)
    kept = torch.zeros(values.shape, dtype=torch.bool, device=values.device).scatter_(1, found.indices[:, :n], True)
    return _without_excess(kept, values, n, found.values[:, n - 1], found.values[:, n])


def _keep_top_numpy(values: Tensor, n: int) -> Tensor:
    """The same, faster on the CPU: block after block, so that what is compared stays in the cache."""
    if 4 * (n + 1) > GROUPS or values.dtype not in (torch.float32, torch.float64):
        return _keep_top_torch(values, n)
    scores = np.ascontiguousarray(values.detach().numpy())
    kept = np.zeros(scores.shape, bool)
    blocks = list(row_blocks(len(values), values.shape[1], CACHED_ENTRIES))
    threads = min(torch.get_num_threads(), len(blocks))
    with ThreadPoolExecutor(max(1, threads)) as pool:  # numpy releases the GIL
        list(pool.map(lambda rows: _mark_top(scores[rows], n, kept[rows]), blocks))
    return torch.from_numpy(kept)


def _mark_top(values: Array, n: int, kept: Array) -> None:
    """Mark the n largest of each row in ``kept``, which is empty.

    Of the maxima of 64 groups of columns, the (n + 1)-th largest is at most the (n + 1)-th largest value of the row: few values
    reach it.
    """
    rows, columns = values.shape
    depth = columns // GROUPS
    maxima = values[:, : depth * GROUPS].reshape(rows, depth, GROUPS).max(axis=1)
    maxima.sort(axis=1)
    row, column = np.divmod(np.flatnonzero(values >= maxima[:, GROUPS - n - 1, None]), columns)
    if len(row) > rows * GROUPS:  # many values tie
        kept[:] = _keep_top_torch(torch.from_numpy(values), n).numpy()
        return
    candidates = values[row, column]
    edges = np.searchsorted(row, np.arange(rows + 1))
    matrix = np.full((rows, int(np.diff(edges).max())), -np.inf, candidates.dtype)
    matrix[row, np.arange(len(row)) - edges[row]] = candidates
    matrix.sort(axis=1)
    cutoff, following = matrix[:, matrix.shape[1] - n].copy(), matrix[:, matrix.shape[1] - n - 1].copy()
    best = candidates >= cutoff[row]
    kept[row[best], column[best]] = True
    _without_excess(torch.from_numpy(kept), torch.from_numpy(values), n, torch.from_numpy(cutoff), torch.from_numpy(following))


KEEP_TOP = {"cpu": _keep_top_numpy, "any": _keep_top_torch}


def _without_excess(kept: Tensor, values: Tensor, n: int, cutoff: Tensor, following: Tensor) -> Tensor:
    """Keep exactly n, the first of those that tie, in rows where the n-th largest value is the next one too."""
    tied = (cutoff == following).nonzero().squeeze(1)
    if len(tied):
        counts = torch.full((len(tied),), n, device=values.device)
        kept[tied] = keep_largest(values[tied], counts, cutoff[tied], following[tied])
    return kept


def keep_largest(values: Tensor, counts: Tensor, cutoff: Tensor, following: Tensor) -> Tensor:
    """The ``counts[i]`` largest values of row i as booleans, ties broken by lower index.

    Args:
        values: (N, C).
        counts: how many of each row, (N,), 0 to C.
        cutoff: the counts[i]-th largest value of the row, +inf where counts is 0.
        following: the next value in decreasing order, -inf where counts is C.
    """
    kept = values >= cutoff[:, None]
    tied = (cutoff == following) & (counts > 0)
    if tied.any():
        rows = tied.nonzero().squeeze(1)
        part, edge = values[rows], cutoff[rows, None]
        above, at = part > edge, part == edge
        places = counts[rows, None] - above.sum(1, keepdim=True)
        kept[rows] = above | (at & (at.cumsum(1) <= places))
    return kept
