"""What the kernels of losses for any number of labels share on the host: layout of scores and targets, and block sizes."""

import torch
from torch import Tensor

from shortlist.kernels.rows import unit_columns
from shortlist.tensors import Target, is_single_label

LARGEST_BLOCK = 2048


def readable(target: Target) -> Tensor:
    """The target as kernels read it: labels (N,), or marks (N, C) as bytes with dense rows."""
    return target if is_single_label(target) else unit_columns(target).view(dtype=torch.uint8)


def blocks(classes: int) -> dict[str, int]:
    """Columns that a program works on at once, and its warps, for rows of this many classes."""
    block = 16
    while block < min(classes, LARGEST_BLOCK):
        block *= 2
    return {"BLOCK": block, "num_warps": max(1, min(8, block // 256))}
