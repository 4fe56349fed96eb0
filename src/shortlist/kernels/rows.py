"""How programs that each take one row go through its columns."""

from torch import Tensor

COLUMNS_PER_WARP = 128  # 4 for each thread: enough to keep it busy, few enough for the registers of several sums


def warps_of(classes: int) -> int:
    """The number of warps of a program that takes a row of this many classes."""
    if classes <= 128:
        return 1
    return 4 if classes <= 2048 else 8 if classes <= 8192 else 16


def block_of(classes: int) -> int:
    """The number of columns a program reads at once, a power of two."""
    return min(COLUMNS_PER_WARP * warps_of(classes), max(16, 1 << (classes - 1).bit_length()))


def unit_columns(values: Tensor) -> Tensor:
    """The values (N, C), copied if neighbouring columns are not neighbours in memory."""
    return values if values.stride(1) == 1 or values.shape[1] == 1 else values.contiguous()
