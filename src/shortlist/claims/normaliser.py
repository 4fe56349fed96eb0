"""What the normaliser of scores does while a network learns: one for all rows (quasibinary), or one a row (softmax)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from shortlist.claims.experiment import Arm, Numbers

SETTINGS: dict[str, Any] = {"rows": 3000, "batch": 256, "epochs": 24, "rate": 4e-3, "variation": 0.4, "tenths": 10}


def normaliser_arms() -> dict[str, Arm]:
    """The quasibinary classifier, and the softmax trained alike."""
    return {name: Arm(normaliser_numbers, {**SETTINGS, "loss": name}) for name in ("quasibinary", "softmax")}


def normaliser_numbers(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """How the logarithm of the normaliser of a batch, Σ exp(scores) over its rows and classes, divided by its labels, varies.

    ``spread`` is its standard deviation over the batches of the last tenth of training, ``drift`` how far its mean moved from
    the tenth before. ``above 1`` is the share of probabilities of test rows, in percent, that have to be cut to 1, and
    ``rows above 1`` the share of rows with such a one.
    """
    from shortlist.data import Flora
    from shortlist.links import Quasibinary
    from shortlist.losses import CrossEntropyLoss, QuasibinaryLoss
    from shortlist.models import InputSpec, Network

    garden = Flora(100, 20, seed, abundance="balanced", variation=settings["variation"])
    table, target, _ = garden.measurements(settings["rows"], seed=1)
    test, _, _ = garden.measurements(settings["rows"], seed=3)
    torch.manual_seed(seed)
    columns = table.shape[1]
    network = Network("mlp-128x2", "linear", InputSpec("features", columns, (0.0,) * columns, (1.0,) * columns), 100)
    loss = QuasibinaryLoss() if settings["loss"] == "quasibinary" else CrossEntropyLoss()
    link = Quasibinary()
    steps = settings["epochs"] * (-(-len(table) // settings["batch"]))
    optimizer = torch.optim.AdamW(network.parameters(), settings["rate"], weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings["rate"], total_steps=steps)
    levels = []
    for _ in range(settings["epochs"]):
        for rows in torch.randperm(len(table)).split(settings["batch"]):
            scores = network(table[rows])
            levels.append(float(scores.detach().double().flatten().logsumexp(0)) - torch.tensor(float(len(rows))).log().item())
            link.update(scores.detach(), target[rows])
            optimizer.zero_grad()
            loss(scores, target[rows]).backward()
            optimizer.step()
            schedule.step()
    network.eval()
    with torch.no_grad():
        above = link.exceeds_one(network(test))
    level, tenth = torch.tensor(levels), max(2, len(levels) // settings["tenths"])
    return {
        "spread": float(level[-tenth:].std()),
        "drift": float((level[-tenth:].mean() - level[-2 * tenth : -tenth].mean()).abs()),
        "above 1": 100 * float(above.double().mean()),
        "rows above 1": 100 * float(above.any(1).double().mean()),
    }
