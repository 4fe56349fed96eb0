"""What the kernels of losses for any number of labels share on the host: how targets are read."""

import torch
from torch import Tensor

from shortlist.kernels.rows import unit_columns
from shortlist.tensors import Target, is_single_label


def readable(target: Target) -> Tensor:
    """The target as kernels read it: labels (N,), or marks (N, C) as bytes with dense rows."""
    return target if is_single_label(target) else unit_columns(target).view(dtype=torch.uint8)
