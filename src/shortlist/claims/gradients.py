"""How many coordinates the gradient of a loss in the scores has, while a network learns its first epoch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from shortlist.claims.experiment import Arm, Numbers

SETTINGS: dict[str, Any] = {"rows": 3000, "batch": 64, "k": 5, "samples": 3, "noise": 0.25, "variation": 0.4}


def gradient_arms() -> dict[str, Arm]:
    """The noised hinge by ε, cross-entropy and the smooth hinge."""
    noised = {f"ε = {e:g}": {"loss": "noised", "epsilon": e} for e in (0.01, 0.1, 1.0)}
    others = {"cross-entropy": {"loss": "cross-entropy"}, "smooth hinge": {"loss": "smooth"}}
    return {name: Arm(nonzero_coordinates, {**SETTINGS, **loss}) for name, loss in (noised | others).items()}


def nonzero_coordinates(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """The mean share of scores, in percent, that get a gradient from a row whose loss is not zero."""
    from shortlist.data import Flora
    from shortlist.losses import CrossEntropyLoss, Loss, NoisedTopkHingeLoss, SmoothTopkHingeLoss
    from shortlist.models import InputSpec, Network

    makers: dict[str, Any] = {
        "noised": lambda: NoisedTopkHingeLoss(k=settings["k"], epsilon=settings["epsilon"], samples=settings["samples"]),
        "smooth": lambda: SmoothTopkHingeLoss(k=settings["k"]),
        "cross-entropy": CrossEntropyLoss,
    }
    loss: Loss = makers[settings["loss"]]()
    garden = Flora(100, 20, seed, abundance="balanced", variation=settings["variation"])
    table, target, _ = garden.measurements(settings["rows"], seed=1, noise=settings["noise"])
    torch.manual_seed(seed)
    columns = table.shape[1]
    inputs = InputSpec("features", columns, (0.0,) * columns, (1.0,) * columns)
    network = Network("mlp-128x2", "linear", inputs, len(garden.classes))
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    nonzero, rows = 0, 0
    for batch, labels in zip(table.split(settings["batch"]), target.split(settings["batch"]), strict=True):
        scores = network(batch)
        scores.retain_grad()
        optimizer.zero_grad()
        loss(scores, labels).backward()
        optimizer.step()
        found = (scores.grad != 0).sum(1)
        nonzero, rows = nonzero + int(found.sum()), rows + int((found > 0).sum())
    return {"nonzero": 100 * nonzero / (rows * len(garden.classes)), "rows": float(rows)}
