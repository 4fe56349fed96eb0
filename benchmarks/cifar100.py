"""Average-k against cross-entropy on real CIFAR-100: ResNet-18, the recipe ``cifar100-resnet18``, several seeds.

``python -m benchmarks.cifar100 PATH`` takes two minutes a training on one GPU; PATH is the folder that ``cifar100:PATH`` reads.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import record
from shortlist.links import parse_link
from shortlist.metrics import average_k_accuracy, set_size, top_k_accuracy
from shortlist.predictions import Predictions
from shortlist.recipes import find_recipe
from shortlist.report import evaluate, write_report
from shortlist.sets import average_k
from shortlist.training.run import TrainingResult, train

METHODS, SEEDS = ("average-k", "cross-entropy"), (0, 1, 2)


def measured(trained: TrainingResult, k: int = 5) -> dict[str, Any]:
    """Test accuracies in percent, thresholds from validation; by softmax and by sigmoid of the same scores."""
    calibration, test = trained.predictions["calibration"], trained.predictions["test"]
    found: dict[str, Any] = {f"top-{n}": _percent(top_k_accuracy(test.scores, test.target, n)) for n in (1, 5)}
    for link in ("softmax", "sigmoid"):
        known, new = _probs(calibration, link), _probs(test, link)
        found[f"average-{k} {link}"] = _percent(average_k_accuracy(new, test.target, k, calibration=known))
        found[f"size {link}"] = float(set_size(average_k(k).fit(known)(new)))
    return found


def _probs(predictions: Predictions, link: str) -> torch.Tensor:
    return predictions.with_link(parse_link(link)).probs()


def _percent(share: Any) -> float:
    return round(100 * float(share), 3)


def one(path: str, method: str, seed: int, epochs: int | None = None) -> dict[str, Any]:
    """One training, from the files to the report."""
    recipe = find_recipe("cifar100-resnet18").with_path(path)
    changes: dict[str, Any] = {"seed": seed} | ({} if epochs is None else {"epochs": epochs})
    recipe = recipe.with_settings(**changes)
    if method != recipe.method:
        recipe = recipe.with_settings(method=method, rule="average-k:5")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trained = train(recipe, Path(folder) / "run")
        rule = trained.classifier.rule
        assert rule is not None
        evaluation = evaluate(trained.predictions["test"], rule=rule, name=f"{method}, seed {seed}")
        write_report(evaluation, Path(folder) / "report.html", history=trained.history)
    seconds = time.perf_counter() - start
    found = measured(trained) | {"accuracy": _percent(evaluation.coverage), "size": evaluation.size.mean, "seconds": seconds}
    epoch = sorted(line["seconds"] for line in trained.history)[len(trained.history) // 2]
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    result = {"seed": seed, "epochs": recipe.epochs, "test": found, "epoch_seconds": epoch, "accelerator": accelerator}
    record("cifar100", method, result)
    print(method, seed, {name: round(value, 2) for name, value in found.items()}, f"{epoch:.2f} s an epoch", flush=True)
    return result


def run(path: str, methods: tuple[str, ...] = METHODS, seeds: tuple[int, ...] = SEEDS, epochs: int | None = None) -> None:
    for seed in seeds:
        for method in methods:
            one(path, method, seed, epochs)


if __name__ == "__main__":
    run(sys.argv[1])
