"""How programs go through the columns of a row: block sizes, warps, and the layout they need.

Programs that keep many numbers for each column (several sums, or a search) take ``block_of`` and ``warps_of``; those that
keep few take ``blocks``, with more columns for each thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

COLUMNS_PER_WARP = 128  # 4 for each thread: enough to keep it busy, few enough for the registers of several sums
LARGEST_BLOCK = 2048


def warps_of(classes: int) -> int:
    """The number of warps of a program that takes a row of this many classes."""
    if classes <= 128:
        return 1
    return 4 if classes <= 2048 else 8 if classes <= 8192 else 16


def block_of(classes: int) -> int:
    """The number of columns a program reads at once, a power of two."""
    return min(COLUMNS_PER_WARP * warps_of(classes), max(16, 1 << (classes - 1).bit_length()))


def blocks(classes: int) -> dict[str, int]:
    """The number of columns a program works on at once, and its warps, if it keeps few numbers for each."""
    block = min(LARGEST_BLOCK, max(16, 1 << (classes - 1).bit_length()))
    return {"BLOCK": block, "num_warps": max(1, min(8, block // 256))}


def unit_columns(values: Tensor) -> Tensor:
    """The values (N, C), copied if neighbouring columns are not neighbours in memory."""
    return values if values.stride(1) == 1 or values.shape[1] == 1 else values.contiguous()


_overwritten: Tensor | None = None


@contextmanager
def overwriting(scores: Tensor) -> Iterator[None]:
    """Context in which kernels that can may write the gradient in these scores over them: they are not read afterwards."""
    global _overwritten
    before, _overwritten = _overwritten, scores.detach()
    try:
        yield
    finally:
        _overwritten = before


def room_for_gradient(scores: Tensor) -> Tensor:
    """Memory for the gradient in the scores: their own, where :func:`overwriting` allows it.

    For kernels that read the score of a place before they write to it, and not again.
    """
    given = _overwritten
    if given is not None and given.is_contiguous() and given.data_ptr() == scores.data_ptr() and given.shape == scores.shape:
        return given
    return torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)
