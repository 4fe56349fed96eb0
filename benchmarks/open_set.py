"""One label or none on CIFAR60+40: the four losses of Liao's Table II, ResNet-18, in minutes on one GPU.

``python -m benchmarks.open_set PATH [METHOD …]`` trains each method by the recipe ``cifar60-40``, but for 100 epochs in batches
of 512 with a one-cycle schedule and weight decay 5e-4, the same for all: the numbers are comparable with each other rather than
with the paper's. PATH is the folder that ``cifar100:PATH`` reads.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import record
from shortlist.recipes import find_recipe
from shortlist.report import evaluate
from shortlist.training.run import train

METHODS = ("quasibinary", "bce", "softmax-uniform", "softmax-confidence")
NUMBERS = ("top1_in", "confidence_in", "confidence_out", "auroc_confidence", "auroc_any_label", "fpr95")
SETTINGS: dict[str, Any] = {
    "epochs": 100,
    "batch_size": 512,
    "lr": 0.2,
    "weight_decay": 5e-4,
    "schedule": "one-cycle",
    "milestones": (),
    "compile": True,
}


def one(path: str, method: str, seed: int, **settings: Any) -> None:
    """Train one method and record its numbers on the test rows."""
    recipe = find_recipe("cifar60-40").with_path(path).with_settings(seed=seed, **(SETTINGS | settings))
    if method != recipe.method:
        recipe = recipe.with_settings(method=method)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trained = train(recipe, Path(folder) / "run")
        numbers = evaluate(trained.predictions["test"]).numbers()
    found = {name: numbers[name] for name in NUMBERS}
    record("open-set", method, {"seed": seed, "epochs": recipe.epochs, "test": found, "seconds": time.perf_counter() - start})
    print(method, seed, {name: round(value, 4) for name, value in found.items()}, flush=True)


def run(path: str, methods: tuple[str, ...] = METHODS, seeds: tuple[int, ...] = (0,)) -> None:
    """Every method with every seed."""
    for seed in seeds:
        for method in methods:
            one(path, method, seed)


if __name__ == "__main__":
    run(sys.argv[1], tuple(sys.argv[2:]) or METHODS)
