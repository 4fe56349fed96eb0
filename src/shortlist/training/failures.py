"""Failures of a step: a loss that is not finite, a GPU out of memory."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import InputError
from shortlist.files import written_whole

PROBES = (8, 4)  # memory is measured with 1/8 and 1/4 of the batch
FILL = 0.95  # share of the memory to use
NO_ROOM = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory")


class NonFiniteLossError(InputError):
    """A loss was infinite or NaN; training stopped before the weights were updated with it."""


class OutOfMemoryError(InputError):
    """The device has too little memory for the batch; the message says which batch size would fit."""


def save_failed_batch(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the batch of a failed step, for inspection."""
    try:
        with written_whole(path) as temporary:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"the loss of a step is not finite, and its batch could not be written to {path} ({error}): lower lr, set clip=1 "
            "or precision=float32, or skip such steps with skip_nonfinite=N"
        ) from error


def nonfinite_loss(step: int, loss: float, path: Path, skipped: int) -> NonFiniteLossError:
    """The error for a loss that is not finite, with advice."""
    after = f" after {skipped} such steps were skipped" if skipped else ""
    return NonFiniteLossError(
        f"the loss of step {step} is {loss}{after}; its batch is in {path}: lower lr, set clip=1 or precision=float32, or "
        "skip such steps with skip_nonfinite=N"
    )


def largest_batch(rows: int, peak: Callable[[int], float], available: float) -> int:
    """The largest batch that fits, extrapolated from the memory that an eighth and a quarter of the batch need.

    Memory grows linearly with the number of rows.

    >>> largest_batch(800, lambda rows: 1000 + 10 * rows, available=6000)
    480
    """
    few, more = (max(1, rows // part) for part in PROBES)
    low, high = peak(few), peak(more)
    slope = (high - low) / max(1, more - few)
    if more == few or slope <= 0:
        return few
    return max(1, min(rows - 1, int(FILL * (available - low) / slope) + few))


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU is out of memory: PyTorch's own error, or one of cuBLAS or cuDNN, which have no type of their own.

    >>> is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    True
    >>> is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    False
    """
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in NO_ROOM)


def out_of_memory_error(rows: int, accumulate: int, fits: int, device: str) -> OutOfMemoryError:
    """The error, with advice: ``rows`` rows of a micro-batch did not fit, ``fits`` would."""
    if rows <= 1:
        return OutOfMemoryError(
            f"{device} has too little memory for a single row: reduce size, the side of the pictures, or use a smaller backbone"
        )
    parts = -(-rows * accumulate // max(1, fits))
    return OutOfMemoryError(
        f"{device} has too little memory for {rows} rows at once; about {fits} would fit: set accumulate={parts}, which splits "
        f"each batch into micro-batches (batch-coupled losses then couple each micro-batch), or batch_size={fits * accumulate}"
    )
