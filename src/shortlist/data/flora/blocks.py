"""Pictures in blocks, by threads: a block is large enough to keep numpy busy and small enough to stay near the processor."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.machine import usable_cores
from shortlist.tensors import Array

SMALLEST, LARGEST = 8, 1024
BLOCK_PIXELS, BLOCK_PICTURES = 2**21, 2048
# Threads take turns between the steps of numpy: with more of them the turns cost more than they bring.
MOST_THREADS = 8


def picture_side(size: int) -> int:
    """The side of a picture in pixels, as an int."""
    side = whole(1)("size", size)
    if not SMALLEST <= side <= LARGEST:
        raise InputError(f"size: expected from {SMALLEST} to {LARGEST} pixels, got {size}")
    return side


def in_blocks(draw: Callable[[slice], Array], n: int, size: int) -> Tensor:
    """What ``draw`` makes of every row from 0 to n, uint8 (n, 3, size, size)."""
    images = np.empty((n, 3, size, size), np.uint8)
    step = max(1, min(BLOCK_PICTURES, BLOCK_PIXELS // size**2))

    def fill(begin: int) -> None:
        rows = slice(begin, min(begin + step, n))
        images[rows] = draw(rows)

    with ThreadPoolExecutor(min(usable_cores(), MOST_THREADS)) as pool:
        list(pool.map(fill, range(0, n, step)))
    return torch.from_numpy(images)
