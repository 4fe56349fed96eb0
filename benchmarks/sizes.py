"""What size is worth: accuracy and training time by backbone, picture size, epochs and number of pictures, on Flora, one core.

``python -m benchmarks sizes`` takes about ten minutes of one core.
"""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.harness import record
from shortlist.recipes import find_recipe
from shortlist.training import train

NAME = "sizes"
SPECIES, GENERA, TEST = 12, 4, 500
SEEDS = (0, 1)


@dataclass(frozen=True)
class Choice:
    """What a user chooses: a backbone, the side of the pictures in pixels, the number of epochs; and the pictures there are."""

    backbone: str
    size: int
    epochs: int
    pictures: int


CHOICES = (
    *(
        Choice(backbone, size, epochs, 300)
        for backbone, size, epochs in (("plain-16", 32, 30), ("resnet-8", 32, 10), ("resnet-8", 32, 30), ("resnet-8", 64, 30))
    ),
    *(
        Choice(backbone, size, epochs, 1_200)
        for backbone, size, epochs in (("plain-16", 32, 30), ("resnet-8", 32, 10), ("resnet-8", 32, 30), ("resnet-8", 64, 10))
    ),
    Choice("plain-16", 32, 30, 5_000),
    Choice("resnet-8", 32, 10, 5_000),
)


def run(choices: tuple[Choice, ...] = CHOICES, seeds: tuple[int, ...] = SEEDS) -> None:
    """Train every choice once with each seed, on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for seed in seeds:
            for choice in choices:
                record(NAME, f"{choice.pictures:,} pictures", measured(choice, seed))
    finally:
        torch.set_num_threads(before)


def measured(choice: Choice, seed: int) -> dict[str, object]:
    """Train with the recipe that folders of pictures get, and measure on other pictures; seconds are those of the processor."""
    data = f"flora:species={SPECIES},genera={GENERA},abundance=balanced,size={choice.size},test={TEST}"
    data += f",train={choice.pictures},val={max(60, choice.pictures // 10)}"
    recipe = find_recipe("pictures").with_path(data)
    recipe = recipe.with_settings(method="cross-entropy", rule="top-k:3", monitor="top-1", seed=seed, compile=False)
    recipe = recipe.with_settings(backbone=choice.backbone, size=choice.size, epochs=choice.epochs)
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        found = train(recipe, Path(folder) / "run", device="cpu")
        seconds = time.process_time() - started
    test, best = found.predictions["test"], found.posterior
    assert test.target is not None
    assert best is not None
    hits = test.scores.topk(3, dim=1).indices == test.target[:, None]
    numbers = {f"top-{k}": round(100 * float(hits[:, :k].any(1).float().mean()), 2) for k in (1, 3)}
    limit = {f"best-{k}": round(100 * float(best.topk(3, dim=1).values[:, :k].sum(1).mean()), 2) for k in (1, 3)}
    return asdict(choice) | {"seed": seed, "cpu_seconds": round(seconds, 1)} | numbers | limit
