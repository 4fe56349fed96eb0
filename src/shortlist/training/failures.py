"""Failures of a step: a loss or a gradient that is not finite, a GPU out of memory."""

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


REMEDY = "lower lr, set clip=1 or precision=float32"


class NonFiniteError(InputError):
    """A loss, a gradient or a weight was infinite or NaN; training stopped, and no checkpoint holds the result."""


class OutOfMemoryError(InputError):
    """The device has too little memory for the batch; the message says which batch size would fit."""


def save_failed_batch(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the batch of a failed step, for inspection."""
    try:
        with written_whole(path) as temporary:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"the loss or the gradient of a step is not finite, and its batch could not be written to {path} ({error}): "
            f"{REMEDY}, or skip such steps with skip_nonfinite=N"
        ) from error


def nonfinite_step(step: int, loss: float, gradient: float | None, path: Path, skipped: int) -> NonFiniteError:
    """The error for a step whose loss or gradient is not finite, with advice.

    Args:
        step: number of the step, from 1.
        loss: its loss.
        gradient: the largest absolute entry of its gradient; None if the loss is the reason.
        path: where its batch is.
        skipped: number of such steps that were skipped before.
    """
    after = f" after {skipped} such steps were skipped" if skipped else ""
    return NonFiniteError(
        f"{nonfinite(step, loss, gradient)}{after}; its batch is in {path}: {REMEDY}, or skip such steps with skip_nonfinite=N"
    )


def nonfinite(step: int, loss: float, gradient: float | None) -> str:
    """What is not finite.

    >>> nonfinite(7, float("nan"), None), nonfinite(7, 0.5, float("inf"))
    ('the loss of step 7 is nan', 'the gradient of step 7 is inf, although its loss is 0.5')
    """
    if gradient is None:
        return f"the loss of step {step} is {loss}"
    return f"the gradient of step {step} is {gradient}, although its loss is {loss:g}"


def nonfinite_weights(step: int, name: str, path: Path) -> NonFiniteError:
    """The error for weights or optimiser state that are no longer finite."""
    kept = f"; the checkpoint before it is kept in {path}" if path.exists() else ""
    return NonFiniteError(f"after step {step}, {name} is not finite, so it is not saved{kept}: {REMEDY}")


def only_overflows(step: int, steps: int) -> NonFiniteError:
    """The error for float16 gradients that overflow whatever their scale."""
    return NonFiniteError(
        f"the float16 gradients of the {steps} steps up to step {step} all overflowed, whatever their scale: lower lr, or set "
        "precision=bfloat16 or float32"
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


def rows_that_fit(rows: int, attempt: Callable[[int], None], device: torch.device) -> int:
    """How many rows fit into the memory of a GPU that has too little for ``rows``.

    Args:
        rows: number of rows that did not fit.
        attempt: takes a step with this number of rows.
        device: the GPU.
    """

    def peak(number: int) -> float:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        attempt(number)
        return float(torch.cuda.max_memory_reserved(device))

    try:
        free, _ = torch.cuda.mem_get_info(device)
        available = free + torch.cuda.memory_reserved(device)
        return largest_batch(rows, peak, float(available))
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return max(1, rows // 16)


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
