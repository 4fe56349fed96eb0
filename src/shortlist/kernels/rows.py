"""How programs that each take one row go through its columns."""

from torch import Tensor

LARGEST_BLOCK = 4096


def block_of(classes: int) -> int:
    """The number of columns a program reads at once, a power of two: few beyond the last class, and enough to keep it busy."""
    if classes <= 512:
        return max(16, 1 << (classes - 1).bit_length())
    if classes <= 2048:
        return 512
    return 2048 if classes <= 8192 else LARGEST_BLOCK


def warps_of(classes: int) -> int:
    """The number of warps of a program, 4 to 16 columns of a block for each thread."""
    if classes <= 128:
        return 1
    return 4 if classes <= 2048 else 8 if classes <= 8192 else 16


def unit_columns(values: Tensor) -> Tensor:
    """The values (N, C), copied if neighbouring columns are not neighbours in memory."""
    return values if values.stride(1) == 1 or values.shape[1] == 1 else values.contiguous()
