"""What a training needs besides its recipe and its data."""

from dataclasses import dataclass, field

import torch
from accelerate import Accelerator

from shortlist.training.callbacks import Callback
from shortlist.training.run_folder import RunFolder


@dataclass(frozen=True)
class TrainingContext:
    """What a training needs besides its recipe and data, and what does not change its result.

    Args:
        accelerator: device, processes and precision.
        run: the folder of the run.
        callback: notified as training proceeds.
        checkpoint_seconds: minimum time between checkpoints.
        validation_batch: rows per batch in validation.
        data: digest of the data, which checkpoints keep.
        until: the epoch after which training pauses, if it is not the last.
    """

    accelerator: Accelerator
    run: RunFolder
    callback: Callback = field(default_factory=Callback)
    checkpoint_seconds: float = 30.0
    validation_batch: int = 1024
    data: str = ""
    until: int | None = None

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of autocast; None for full precision."""
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.accelerator.mixed_precision)
