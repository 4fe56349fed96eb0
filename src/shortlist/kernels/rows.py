"""How programs go through the columns of a row: block sizes, warps, and the layout they need.

Programs that keep many numbers for each column (several sums, or a search) take ``block_of`` and ``warps_of``; those that
keep few take ``blocks``, with more columns for each thread.
"""

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
