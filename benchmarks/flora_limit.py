"""How near a network comes to the best possible answer on Flora: plain cross-entropy, more and more pictures, one GPU.

``python -m benchmarks flora_limit`` takes minutes on a GPU and is left out of a run of all benchmarks.
"""

import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness import record
from shortlist.data import Flora
from shortlist.metrics import average_k_accuracy, top_k_accuracy

TEST, BATCH = 20_000, 512
SEEDS = (0, 1, 2)


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int, out: int, stride: int):
        super().__init__()
        self.one = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.around = nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        inner = self.two(F.relu(self.norm_one(self.one(features))))
        return F.relu(self.norm_two(inner) + self.around(features))


def network(classes: int) -> nn.Module:
    widths = (64, 128, 256)
    blocks = [Block(before, width, stride) for before, width, stride in zip((64, 64, 128), widths, (1, 2, 2), strict=True)]
    blocks += [Block(256, 256, 1)]
    stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes))


def train(images: Tensor, target: Tensor, classes: int, steps: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = network(classes).to(images.device, memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    step = 0
    while step < steps:
        for rows in torch.randperm(len(images), device=images.device).split(BATCH):
            if step == steps:
                break
            with torch.autocast(images.device.type, torch.bfloat16):
                loss = F.cross_entropy(model(_ready(images[rows])), target[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            step += 1
    return model.eval()


def _ready(images: Tensor) -> Tensor:
    return (images.float() / 64 - 2).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def scores_of(model: nn.Module, images: Tensor) -> Tensor:
    return torch.cat([model(_ready(block)).float() for block in images.split(2048)])


def accuracies(probs: Tensor, target: Tensor) -> dict[str, float]:
    top = {f"top-{k}": 100 * float(top_k_accuracy(probs, target, k=k)) for k in (1, 3, 5)}
    return top | {f"average-{k}": 100 * float(average_k_accuracy(probs, target, k=k)) for k in (3, 5)}


def run(sizes: tuple[int, ...] = (20_000, 100_000, 1_000_000), seeds: tuple[int, ...] = SEEDS) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    flora = Flora()
    test_images, test_target, posterior = flora.specimens(TEST, seed=3)
    test_images = test_images.to(device)
    best = accuracies(posterior, test_target)
    print("best possible", best)
    for size in sizes:
        images, target, _ = flora.specimens(size, seed=1)
        images, target = images.to(device), target.to(device)
        steps = max(2_000, min(12_000, 12 * size // BATCH))
        for seed in seeds:
            start = time.perf_counter()
            scores = scores_of(train(images, target, len(flora.classes), steps, seed), test_images).cpu()
            seconds = time.perf_counter() - start
            found = accuracies(scores.softmax(1), test_target)
            measured: dict[str, Any] = {"seed": seed, "network": found, "best": best, "test": TEST, "steps": steps}
            accelerator = torch.cuda.get_device_name() if device == "cuda" else None
            record("flora-limit", f"{size:,} pictures", measured | {"seconds": seconds, "accelerator": accelerator})
            print(size, seed, round(seconds), {name: round(value, 2) for name, value in found.items()})
