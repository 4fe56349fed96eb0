"""A search with a training that costs nothing, for the tests of searches."""

import json
import math
from types import SimpleNamespace

from shortlist.recipes import tune
from shortlist.training import Recipe

DATA = "flora:species=6,genera=2,train=64,val=32,test=32,size=8"
RECIPE = Recipe("tiny", DATA, backbone="plain-8", epochs=1, batch_size=32, parameters={"k": 2})
GRID = {"lr": (0.1, 0.3), "alpha": (0.5, 1.0)}
NAMES = ["trial-000", "trial-001", "trial-002", "trial-003"]


class Killed(BaseException):
    """The process ends here."""


class FakeTraining:
    """Trains nothing: validation values by lr and alpha, and a record of every call."""

    def __init__(self, values, monitor="average-2"):
        self.values, self.monitor, self.calls = values, monitor, []

    def __call__(self, recipe, folder, *, resume, device, callback, dataset):
        key = (recipe.lr, recipe.parameters["alpha"])
        self.calls.append((folder.name, key, resume))
        assert resume == (folder / "recipe.json").exists()
        folder.mkdir(exist_ok=True)
        (folder / "recipe.json").write_text("{}")
        answer = self.values[key]
        if isinstance(answer, BaseException):
            raise answer
        return SimpleNamespace(history=history(*answer, monitor=self.monitor))

    @property
    def folders(self):
        return [call[0] for call in self.calls]


def history(*values, monitor="average-2"):
    """An epoch a value; None: an epoch without validation."""
    lines, best = [], None
    for epoch, value in enumerate(values, 1):
        line = {"epoch": epoch, "step": epoch, "loss": 1.0, "seconds": 0.5}
        if value is not None:
            lower = monitor in ("nll", "ace")
            better = not math.isnan(value) and (best is None or (value < best if lower else value > best))
            best = value if better else best
            line |= {"monitor": monitor, "value": value, "best": better, "metrics": {monitor: value}}
        lines.append(line)
    return lines


VALUES = {(0.1, 0.5): (0.6, 0.7), (0.1, 1.0): (0.9, 0.8), (0.3, 0.5): (0.2,), (0.3, 1.0): (0.5, 0.9)}


def lines(folder):
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def search(folder, values=VALUES, recipe=RECIPE, grid=GRID, monitor="average-2", **options):
    fake = FakeTraining(values, monitor)
    return fake, tune(recipe, folder, grid=grid, train=fake, **options)
