"""The metrics that every law is tried on. A new metric is one line in CASES."""

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torchmetrics import Metric

from shortlist import metrics
from tests.references import metrics as ref

CLASSES = 6
SYNONYMS = {"set_accuracy": "coverage", "shot_accuracy": "shot_coverage"}  # the papers' names for the same functions


def camel(name):
    return "".join(part[0].upper() + part[1:] for part in name.split("_"))


def pairs():
    """Every public function with a streaming metric of its name, and that metric."""
    names = [name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name)) and name not in SYNONYMS]
    classes = {name: getattr(metrics, camel(name), None) for name in names}
    return {name: (getattr(metrics, name), c) for name, c in classes.items() if c and issubclass(c, Metric)}


@dataclass(frozen=True)
class Case:
    """A metric with its keywords, what it is given, and what the literal formula gives."""

    name: str
    keywords: dict[str, Any] = field(default_factory=dict)
    takes: str = "probs"
    constant_size: bool = True

    def __str__(self):
        return "-".join([self.name, *(str(v) for v in self.keywords.values() if not isinstance(v, np.ndarray))])

    def function(self, values, target):
        return getattr(metrics, self.name)(values, target, **self.keywords)

    def streaming(self):
        return getattr(metrics, camel(self.name))(**self.keywords)

    def expected(self, values, target):
        return getattr(ref, self.name)(values, target, **self.keywords)


CALIBRATION = np.random.default_rng(99).uniform(size=(30, CLASSES))
PRIOR = np.array([0.3, 0.1, 0.2, 0.15, 0.2, 0.05])
SUPERCLASSES = ["rose", "oak", "rose", "elm", "elm", "oak"]
COUNTS = np.array([5, 19, 20, 100, 101, 500])

CASES = [
    *(Case("coverage", {"average": average}, "sets") for average in ("micro", "macro", "none")),
    Case("shot_coverage", {"train_counts": COUNTS}, "sets"),
    Case("shot_coverage", {"train_counts": COUNTS, "edges": (5, 20, 400)}, "sets"),
    *(Case("superclass_coverage", {"superclasses": SUPERCLASSES, "average": a}, "sets") for a in ("micro", "macro", "none")),
    Case("set_size", {}, "sets"),
    Case("empty_rate", {}, "sets"),
    Case("set_precision", {}, "sets"),
    Case("size_stratified_coverage", {}, "sets"),
    Case("size_stratified_coverage", {"edges": (1, 3)}, "sets"),
    Case("size_stratified_coverage", {"edges": (0, 2, 4, 5), "min_rows": 4}, "sets"),
    *(Case("class_coverage_gap", {"alpha": alpha}, "sets") for alpha in (0.1, 0.7)),
    Case("top_k_accuracy", {"k": 2}),
    *(Case("top_k_accuracy", {"k": 2, "average": average}) for average in ("macro", "none")),
    Case("average_k_accuracy", {"k": 1.5}, constant_size=False),
    Case("average_k_accuracy", {"k": 1.5, "calibration": CALIBRATION}),
    Case("average_k_accuracy", {"k": 1.5, "average": "none"}, constant_size=False),
    Case("average_k_accuracy", {"k": 2, "calibration": CALIBRATION, "prior": PRIOR, "average": "macro"}),
    *(Case("calibration_error", {"norm": norm}) for norm in ("expected", "average", "max")),
    *(Case("calibration_error", {"norm": "average", "bins": 10, "over": over}) for over in ("top", "all", 4, 99)),
    *(Case("calibration_error", {"norm": n, "binning": "mass"}, constant_size=False) for n in ("expected", "average", "max")),
    Case("calibration_error", {"bins": 4, "binning": "mass", "over": 2}, constant_size=False),
    Case("classwise_calibration_error"),
    *(Case("classwise_calibration_error", {"norm": n, "bins": 4, "average": "none"}) for n in ("expected", "average", "max")),
    *(Case("smooth_calibration_error", {"over": over}) for over in (None, 2)),
    Case("log_loss"),
    Case("brier_score"),
    *(Case("brier_decomposition", {"bins": bins}) for bins in (1, 4, 15)),
    Case("brier_decomposition", {"bins": None}, constant_size=False),
    Case("mean_average_precision", {}, constant_size=False),
    Case("mean_average_precision", {"average": "none"}, constant_size=False),
    Case("mean_average_precision", {"axis": "example"}),
    Case("top_n_f1", {}),
    Case("top_n_f1", {"n": 2}),
    Case("mean_max_confidence", {}, "many"),
    *(Case("outlier_auroc", {"by": by}, "many", constant_size=False) for by in ("confidence", "any-label")),
    *(Case("outlier_fpr", {"tpr": tpr}, "many", constant_size=False) for tpr in (0.95, 0.7, 1)),
    Case("outlier_fpr", {"by": "any-label"}, "many", constant_size=False),
    Case("retrieval_map", {"max_length": 2}, constant_size=False),
]


def draw(case, *, many_labels=False, rows=40, seed=0):
    """Values and target; of many labels some rows have none, and class 4 never occurs."""
    random = np.random.default_rng(seed)
    probs = random.uniform(size=(rows, CLASSES))
    target = np.where((labels := random.integers(CLASSES, size=rows)) == 4, 1, labels)
    if many_labels or case.takes == "many":
        target = random.uniform(size=probs.shape) < 0.4 * probs
        target[:, 4] = False
        target[:3] = False
    return (probs > 0.6 if case.takes == "sets" else probs), target


def as_numbers(value):
    """A metric's answer as a plain array, whatever it is."""
    parts = list(value.values()) if isinstance(value, dict) else [value]
    return np.concatenate([np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in parts])


def tensors(values, target):
    return torch.from_numpy(values), torch.from_numpy(target)
