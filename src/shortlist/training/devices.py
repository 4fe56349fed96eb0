"""Where to train: on the CPU or a GPU, in one process or several, and in which precision."""

from typing import Literal, TypeAlias

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from shortlist.checks import one_of
from shortlist.errors import InputError
from shortlist.machine import launched_processes
from shortlist.training.meeting import join_launched
from shortlist.training.recipe import Precision

Device: TypeAlias = Literal["auto", "cpu", "cuda"]


def make_accelerator(precision: Precision = "auto", device: Device = "auto") -> Accelerator:
    """The accelerator of this process; under ``accelerate launch`` or ``torchrun``, as one of several."""
    one_of("auto", "cpu", "cuda")("device", device)
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device: 'cuda' was requested, but torch found no GPU: use 'cpu' or 'auto'")
    on_gpu = torch.cuda.is_available() and device != "cpu"
    if precision == "float16" and not on_gpu:
        raise InputError("precision: 'float16' needs a GPU: use bfloat16 or float32")
    if precision == "bfloat16" and on_gpu and not torch.cuda.is_bf16_supported():
        raise InputError("precision: 'bfloat16' is not supported by this GPU: use float16 or float32")
    if on_gpu:
        torch.backends.cudnn.benchmark = True
    # accelerate keeps global state; a second training in this process may use another precision or device.
    AcceleratorState._reset_state(reset_partial_state=launched_processes() == 1)
    join_launched("nccl" if on_gpu else "gloo")
    return Accelerator(
        cpu=not on_gpu,
        mixed_precision=_mixed(precision, on_gpu),
        # Running statistics are broadcast before validation, not at every step.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )


def cpu_has_bfloat16() -> bool:
    """Whether the CPU has instructions for bfloat16; without them bfloat16 is slower than float32."""
    features = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, lambda: False)()) for name in features)


def _mixed(precision: Precision, on_gpu: bool) -> str:
    if precision == "auto":
        return "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "no"
    return {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}[precision]
