"""Fitted links for rows with several labels, on Mulan's tables: ``python -m benchmarks.label_links PATH``.

PATH is a folder with one folder per table (``NAME-train.arff``, ``NAME-test.arff``, ``NAME.xml``). A linear network is trained
on a random two thirds of the training rows, with binary cross-entropy and with the asymmetric focal loss; links are fitted on
the other third and measured on the test rows.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.harness import record
from shortlist.data.readers.arff import read_mulan
from shortlist.links import Beta, FocalRecovery, Isotonic, Link, Platt, Sigmoid, Temperature, VennAbers
from shortlist.losses import asymmetric_focal_loss
from shortlist.metrics import calibration_error, evaluate_retrieval, log_loss, logs_of, mean_average_precision
from shortlist.predictions import Predictions

NAME, SPLITS, STEPS, DECAY = "label-links", 5, 300, 1e-3
GAMMA, SHIFTS = 4.0, (0.0, 0.05)
FITTED = (Temperature, Platt, Beta, Isotonic, VennAbers)
QUERIES = {"length": 3, "most": 300, "sample": 300}
Loss = Callable[[Tensor, Tensor], Tensor]


def losses() -> dict[str, tuple[Loss, Link]]:
    """By name, a loss and the link that belongs to it."""

    def focal(shift: float) -> Loss:
        return lambda scores, target: asymmetric_focal_loss(scores, target, gamma_pos=0.0, gamma_neg=GAMMA, shift=shift)

    found: dict[str, tuple[Loss, Link]] = {
        "binary cross-entropy": (lambda scores, target: binary_cross_entropy_with_logits(scores, target.float()), Sigmoid())
    }
    return found | {
        f"asymmetric focal, γ = {GAMMA:g}, shift {shift:g}": (focal(shift), FocalRecovery(0.0, GAMMA, shift))
        for shift in SHIFTS
    }


def readings(own: Link) -> dict[str, Link]:
    """By name, the links that are compared: fixed ones, and fitted ones on the log-odds of the sigmoid and of the own link."""
    found: dict[str, Link] = {"sigmoid": Sigmoid(), **{kind.kind: kind(Sigmoid()) for kind in FITTED}}
    if isinstance(own, FocalRecovery):
        found |= {"recovery": own, **{f"{kind.kind} of recovery": kind(own) for kind in FITTED}}
    return found


def trained(rows: Tensor, target: Tensor, loss: Loss) -> torch.nn.Linear:
    network = torch.nn.Linear(rows.shape[1], target.shape[1])
    torch.nn.init.zeros_(network.weight)
    torch.nn.init.zeros_(network.bias)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.02, weight_decay=DECAY)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (loss(network(rows), target) + DECAY * network.weight.square().sum() / target.shape[1]).backward()
        optimizer.step()
    return network


def run(folder: Path) -> None:
    warnings.simplefilter("ignore")
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        splits = read_mulan(table).splits
        rows, test = (splits[name].inputs.float() for name in ("train", "test"))
        middle, spread = rows.mean(0), rows.std(0)
        spread[spread < 1e-6] = 1  # constant in training
        rows, test = (rows - middle) / spread, (test - middle) / spread
        compare(table.name, rows, splits["train"].target, test, splits["test"].target)


def compare(name: str, rows: Tensor, target: Tensor, test: Tensor, truth: Tensor) -> None:
    for what, (loss, own) in losses().items():
        found: dict[str, list[dict[str, float]]] = {}
        held = 0
        for split in range(SPLITS):
            order = torch.from_numpy(np.random.default_rng(split).permutation(len(rows)))
            fit, rest = order[: len(rows) // 3], order[len(rows) // 3 :]
            held = len(fit)
            network = trained(rows[rest], target[rest], loss)
            with torch.no_grad():
                given, scores = network(rows[fit]), network(test)
            for reading, link in readings(own).items():
                fitted = link.fit(given, target[fit]) if hasattr(link, "fit") else link
                found.setdefault(reading, []).append(measured(Predictions(scores, truth, link=fitted)))
        record(NAME, f"{name}, {what}", {"splits": SPLITS, "rows": held, "labels": target.shape[1], "links": found})
        for reading, splits in found.items():
            print(
                f"{name:10} {what:40} {reading:22}",
                *(f"{key} {np.mean([s[key] for s in splits]):.4f}" for key in splits[0]),
                flush=True,
            )


def measured(predictions: Predictions) -> dict[str, float]:
    probs, target = predictions.probs(), predictions.target
    assert target is not None
    asked = evaluate_retrieval(
        *logs_of(predictions), target, max_length=QUERIES["length"], most=QUERIES["most"], sample=QUERIES["sample"]
    )
    return {
        "loss": float(log_loss(probs, target)),
        "ece": float(calibration_error(probs, target, over="all")),
        "map": float(mean_average_precision(probs, target)),
        "retrieval": float(asked.by_length[-1].map),
    }


if __name__ == "__main__":
    run(Path(sys.argv[1]))
