"""What can go wrong in a step: a loss that is not finite, and a GPU that is full."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import InputError
from shortlist.files import written_whole

PROBES = (8, 4)  # the shares of a batch, 1/8 and 1/4, whose memory is measured
FILL = 0.95  # of the memory that is there
NO_ROOM = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory")


class NonFiniteLossError(InputError):
    """A loss was infinite or not a number, and training stopped before its gradient did any harm."""


class OutOfMemoryError(InputError):
    """The device has too little memory for the batch; the message says what would fit."""


def keep_batch(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the batch of a failed step, to look at."""
    try:
        with written_whole(path) as temporary:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"the loss of a step is not finite, and its batch cannot be written to {path} ({error}): lower lr, set clip=1 or "
            "precision=float32, or leave such steps out with skip_nonfinite=N"
        ) from error


def nonfinite(step: int, loss: float, path: Path, skipped: int) -> NonFiniteLossError:
    """The sentence."""
    after = f" after {skipped} such steps were left out" if skipped else ""
    return NonFiniteLossError(
        f"the loss of step {step} is {loss}{after}; its batch is in {path}: lower lr, set clip=1 or precision=float32, or "
        "leave such steps out with skip_nonfinite=N"
    )


def largest_batch(rows: int, peak: Callable[[int], float], available: float) -> int:
    """The largest batch whose memory fits, told from the memory that an eighth and a quarter of the batch need.

    Memory grows in a straight line with the rows, from what weights and data on the device need.

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
    """Whether a GPU had no room left: PyTorch's own error, or that of a library of NVIDIA's, which has no type of its own.

    >>> is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    True
    >>> is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    False
    """
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in NO_ROOM)


def out_of_memory(rows: int, accumulate: int, fits: int, device: str) -> OutOfMemoryError:
    """The sentence; ``rows`` of a micro-batch did not fit and ``fits`` would."""
    if rows <= 1:
        return OutOfMemoryError(
            f"{device} has too little memory for one row: set size to the side of smaller pictures, or take a smaller backbone"
        )
    parts = -(-rows * accumulate // max(1, fits))
    return OutOfMemoryError(
        f"{device} has too little memory for {rows} rows at once; about {fits} would fit: set accumulate={parts}, which trains "
        f"the same batch in parts (losses that couple a batch then couple each part), or batch_size={fits * accumulate}"
    )
