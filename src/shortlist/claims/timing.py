"""What a loss adds to an epoch of training, on a GPU: Garcin et al. 2022, figure 3.

A seed is a round in which all losses take turns.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.claims.experiment import Arm, Numbers
from shortlist.errors import InputError

SIZES = (1, 2, 5, 10, 20)
SETTINGS: dict[str, Any] = {
    "backbone": "densenet-40-40",
    "batch": 64,
    "classes": 100,
    "steps": 40,
    "sizes": list(SIZES),
    "draws": 3,
}
CROSS_ENTROPY = "cross-entropy"


def noised_at(k: int) -> str:
    """The name of the number of the noised hinge."""
    return f"noised, k = {k}"


def smooth_at(k: int) -> str:
    """The name of the number of the smooth hinge."""
    return f"smooth hinge, k = {k}"


def epoch_times(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """Milliseconds of some steps of training with each loss, all with the same network, one after the other."""
    if not torch.cuda.is_available():
        raise InputError("device: expected a GPU, on which epochs are timed, got none")
    turn = _trainer(settings["backbone"], settings["batch"], settings["classes"], settings["steps"])
    losses = _losses(tuple(settings["sizes"]), settings["draws"])
    for loss in losses.values():
        turn(loss)  # the first time of each pays for compiling
    return {name: turn(loss) for name, loss in losses.items()}


def timing_arms() -> dict[str, Arm]:
    """One arm, whose numbers are the times of all losses: what takes turns cannot be run side by side."""
    return {"times": Arm(epoch_times, SETTINGS)}


def _losses(sizes: tuple[int, ...], draws: int) -> dict[str, Any]:
    from shortlist.losses import CrossEntropyLoss, NoisedTopkHingeLoss, SmoothTopkHingeLoss

    noised = {noised_at(k): NoisedTopkHingeLoss(k=k, samples=draws) for k in sizes}
    return {CROSS_ENTROPY: CrossEntropyLoss(), **noised, **{smooth_at(k): SmoothTopkHingeLoss(k=k) for k in sizes}}


@lru_cache(maxsize=1)
def _trainer(backbone: str, batch: int, classes: int, steps: int) -> Callable[[Any], float]:
    """A function that trains with a loss for some steps, and returns the milliseconds until the device is done."""
    from shortlist.models import InputSpec, Network

    torch.manual_seed(0)
    inputs = InputSpec("pictures", 32, (0.5,) * 3, (0.29,) * 3)
    network = Network(backbone, "linear", inputs, classes).to("cuda", memory_format=torch.channels_last)  # type: ignore[call-overload]
    pictures = torch.rand(batch, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,), device="cuda")
    model: Callable[[Tensor], Tensor] = torch.compile(network)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, nesterov=True, weight_decay=1e-4, fused=True)

    def turn(loss: Any) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            with torch.autocast("cuda", torch.bfloat16):
                scores = model(pictures)
            value = loss(scores.float(), labels)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    return turn
