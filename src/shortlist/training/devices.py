"""Where to train: the processor or a GPU, alone or among several processes, and in which precision."""

from typing import Literal, TypeAlias

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from shortlist.errors import InputError
from shortlist.machine import launched_processes
from shortlist.training.recipe import Precision

Device: TypeAlias = Literal["auto", "cpu", "cuda"]


def make_accelerator(precision: Precision = "auto", device: Device = "auto") -> Accelerator:
    """The accelerator of this process; under ``accelerate launch`` or ``torchrun`` it joins the others."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device: expected auto, cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device: expected a GPU, which was asked for, and torch finds none: use --device cpu, or leave it out")
    on_gpu = torch.cuda.is_available() and device != "cpu"
    if precision == "float16" and not on_gpu:
        raise InputError("precision: float16 needs a GPU: use bfloat16 or float32")
    if precision == "bfloat16" and on_gpu and not torch.cuda.is_bf16_supported():
        raise InputError("precision: this GPU has no bfloat16: use float16 or float32")
    if on_gpu:
        torch.backends.cudnn.benchmark = True
    # A second training in one process may want another precision, and where it is alone another device.
    AcceleratorState._reset_state(reset_partial_state=launched_processes() == 1)
    return Accelerator(
        cpu=not on_gpu,
        mixed_precision=_mixed(precision, on_gpu),
        # Running statistics of one process are handed to the others before they are used, not at every step.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )


def processor_computes_bfloat16() -> bool:
    """Whether the processor has instructions for bfloat16; without them it would be slower than float32, not faster."""
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, lambda: False)()) for name in asked)


def _mixed(precision: Precision, on_gpu: bool) -> str:
    if precision == "auto":
        return "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "no"
    return {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}[precision]
