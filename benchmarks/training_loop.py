"""Seconds an epoch: our loop against a hand-written one of the same network, loss, data and augmentation.

``python -m benchmarks training_loop`` takes minutes. On a GPU it is ResNet-18 on random pictures of CIFAR-100's shape, in
bfloat16 and compiled; on a CPU a small network in float32.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import record
from shortlist.data import Dataset, PictureArray, Split
from shortlist.losses import AverageKLoss, CrossEntropyLoss, NoisedTopkHingeLoss
from shortlist.models import InputSpec, Network
from shortlist.training import Callback, Recipe
from shortlist.training.run import train

SIDE, PAD = 32, 4
METHODS = {
    "cross-entropy": CrossEntropyLoss(),
    "noised-topk": NoisedTopkHingeLoss(k=5),
    "average-k": AverageKLoss(k=5, alpha=0.3),
}


class EpochTimes(Callback):
    """When each epoch ended, the work of the device included."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def epoch_ended(self, line: dict[str, Any], history: Any) -> None:
        _wait()
        self.times.append(time.perf_counter())


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def pictures(rows: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (rows, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    return images, torch.randint(classes, (rows,), generator=generator)


def ours(recipe: Recipe, images: Tensor, target: Tensor, classes: int) -> list[float]:
    """Seconds of each epoch but the first, which compiles."""
    held = max(2 * classes, 200)
    parts = {"train": slice(held, None), "val": slice(0, held // 2), "test": slice(held // 2, held)}
    splits = {
        name: Split(PictureArray(images[rows]), target[rows], [str(n) for n in range(len(target[rows]))])
        for name, rows in parts.items()
    }
    data = Dataset("random", [str(label) for label in range(classes)], splits)
    callback = EpochTimes()
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, Path(folder) / "run", callback=callback, checkpoint_seconds=math.inf, dataset=data)
    return [after - before for before, after in zip(callback.times, callback.times[1:], strict=False)][:-1]


def by_hand(recipe: Recipe, images: Tensor, target: Tensor, classes: int) -> list[float]:
    """The loop that one writes in an afternoon for this one case."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, target = images[max(2 * classes, 200) :].to(device), target[max(2 * classes, 200) :].to(device)
    inputs = InputSpec("pictures", SIDE, (0.5, 0.5, 0.5), (0.29, 0.29, 0.29))
    network = Network(recipe.backbone, recipe.chosen_method.head_kind, inputs, classes).to(device)
    network.to(memory_format=torch.channels_last)
    model = torch.compile(network) if recipe.compile else network
    loss_of = METHODS[recipe.method]
    cuda = device.type == "cuda"
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=cuda or None)
    steps = len(images) // recipe.batch_size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.epochs * steps)
    times = []
    for _ in range(recipe.epochs):
        _wait()
        start = time.perf_counter()
        for batch, labels in shuffled_batches(images, target, recipe.batch_size):
            with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
                output = model(batch)
            loss = _loss(loss_of, output, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        _wait()
        times.append(time.perf_counter() - start)
    return times[1:]


def _loss(loss: nn.Module, output: Any, labels: Tensor) -> Tensor:
    if isinstance(output, Tensor):
        return loss(output.float(), labels)
    return loss(output.scores.float(), labels, proposal_scores=output.proposal_scores.float())


def shuffled_batches(images: Tensor, target: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled, shifted by up to 4 pixels, flipped, standardised: on the device, by indices."""
    device = images.device
    order = torch.randperm(len(images), device=device)
    across = torch.arange(SIDE, device=device)
    for start in range(0, len(order) - size + 1, size):
        rows = order[start : start + size]
        padded = nn.functional.pad(images[rows], (PAD,) * 4)
        top, left = (torch.randint(2 * PAD + 1, (size, 1), device=device) + across for _ in range(2))
        flip = torch.rand(size, 1, device=device) < 0.5
        left = torch.where(flip, left.flip(1), left)
        batch = padded[torch.arange(size, device=device)[:, None, None], :, top[:, :, None], left[:, None, :]]
        batch = ((batch.float() / 255 - 0.5) / 0.29).permute(0, 3, 1, 2)
        yield batch.contiguous(memory_format=torch.channels_last), target[rows]


def run(epochs: int = 5, rounds: int = 3) -> None:
    """Each method by our loop and by hand, then the methods of our loop against each other."""
    cuda = torch.cuda.is_available()
    rows, classes = (45_200, 100) if cuda else (2_760, 100)
    backbone, batch = ("resnet-18", 512) if cuda else ("resnet-8x2/2", 128)
    images, target = pictures(rows, classes)
    times: dict[str, dict[str, list[float]]] = {method: {"ours": [], "by hand": []} for method in METHODS}
    for _ in range(rounds):
        for method, found in times.items():
            recipe = Recipe(
                "loop",
                "random",
                method=method,
                backbone=backbone,
                batch_size=batch,
                epochs=epochs + 2,
                lr=0.01,
                compile=cuda,
                validate_every=1000,
            )
            for name, loop in (("ours", ours), ("by hand", by_hand)):
                torch._dynamo.reset()
                found[name] += loop(recipe, images, target, classes)
    device = torch.cuda.get_device_name() if cuda else "cpu"
    where = f"{backbone}, {rows - 200:,} pictures, batch {batch}, {'H200' if 'H200' in device else device}"
    for method, found in times.items():
        _tell("training-loop", f"{method}, {where}", found)
    _tell("training-methods", where, {method: found["ours"] for method, found in times.items()})


def _tell(name: str, setting: str, times: dict[str, list[float]]) -> None:
    """Record the times of all contenders, with ratios to the first, and print the medians."""
    first = next(iter(times.values()))
    found = {
        contender: {
            "median_ms": 1e3 * statistics.median(seconds),
            "low_ms": 1e3 * min(seconds),
            "high_ms": 1e3 * max(seconds),
            "ratio": statistics.median(a / b for a, b in zip(seconds, first, strict=False)),
        }
        for contender, seconds in times.items()
    }
    record(name, setting, {"rounds": len(first), "contenders": found})
    print(name, setting, {contender: round(line["median_ms"] / 1e3, 4) for contender, line in found.items()}, flush=True)
