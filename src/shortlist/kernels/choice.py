"""Which tensors the GPU kernels take: one switch, and one table of what each kernel can do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor

from shortlist.errors import InputError

Use: TypeAlias = Literal["auto", "never", "always"]

HALF_AND_SINGLE = (torch.float32, torch.bfloat16, torch.float16)
FLOATS = (*HALF_AND_SINGLE, torch.float64)
MOST_CLASSES = 100_000
HAS_TRITON = find_spec("triton") is not None  # imported only when a kernel is first launched


class Reach(NamedTuple):
    """What a kernel takes; anything else goes to the plain function.

    Args:
        most_classes: the largest number of columns.
        dtypes: the dtypes of the scores.
    """

    most_classes: int = MOST_CLASSES
    dtypes: tuple[torch.dtype, ...] = HALF_AND_SINGLE


REACH = {
    "cross-entropy": Reach(),
    "noised": Reach(),
    "soft": Reach(),
    "smooth-hinge": Reach(),
    "sparse-top": Reach(),
    "average-k": Reach(),
    "partials": Reach(),
    "quasibinary": Reach(),
    "pairs": Reach(),
    "prefix": Reach(),
    "select": Reach(most_classes=2**31, dtypes=FLOATS),
}

_use: Use = "never" if os.environ.get("SHORTLIST_KERNELS") == "never" else "auto"


@contextmanager
def use_kernels(use: Use) -> Iterator[None]:
    """Choose inside a ``with`` block whether the GPU kernels are used.

    Args:
        use: "auto" (the default): on CUDA tensors that a kernel takes; "never": nowhere, so that the plain functions run, as
            with ``SHORTLIST_KERNELS=never`` in the environment; "always": on CPU tensors too, for Triton's interpreter.

    >>> with use_kernels("never"):
    ...     pass
    """
    global _use
    if use not in get_args(Use):
        raise InputError(f"use: expected 'auto', 'never' or 'always', got {use!r}")
    before, _use = _use, use
    try:
        yield
    finally:
        _use = before


def fused(kernel: str, scores: Tensor) -> bool:
    """Whether this kernel runs on these scores, (N, C), instead of the plain function."""
    if _use == "never" or (not scores.is_cuda and _use != "always"):
        return False
    reach = REACH[kernel]
    return scores.dtype in reach.dtypes and scores.shape[1] <= reach.most_classes and HAS_TRITON
