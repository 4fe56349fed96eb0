"""Fitted links beside netcal and scikit-learn on the scores of two CIFAR-10 networks: ``python -m benchmarks.links PATH``.

PATH is a folder of npz files with ``predictions`` (N, C), which are probabilities, and ``ground_truth``. Each contender is
fitted on n random rows and measured on the last half of the shuffled rows.
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.conformal import Given
from benchmarks.harness import record
from shortlist.links import Beta, Dirichlet, Identity, Isotonic, Platt, Temperature, VectorScaling, VennAbers, choose_link
from shortlist.metrics import calibration_error

SPLITS, ROWS, LEAST = 3, (100, 500, 5000), 1e-12  # what log-loss takes for probabilities that are exactly 0
OURS = (Temperature, Platt, Beta, VectorScaling, Dirichlet, Isotonic, VennAbers)
Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]


def contenders() -> dict[str, Fit]:
    """By name, what fits on probabilities and labels and returns a function of probabilities."""
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    found = {"shortlist " + kind.kind: _ours(lambda p, y, kind=kind: kind(Identity()).fit(p, y)) for kind in OURS}
    found["shortlist auto"] = _ours(lambda p, y: choose_link(p, y, Identity()).link)
    for name in ("temperature", "sigmoid", "isotonic"):
        found["scikit-learn " + name] = _scikit_learn(name)
    for name, kind in (("temperature", TemperatureScaling), ("vector", LogisticCalibration), ("beta", BetaCalibration)):
        found["netcal " + name] = _netcal(kind)
    return found


def _ours(fit: Callable[..., Any]) -> Fit:
    def fitted(probs: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        link = fit(torch.from_numpy(probs), torch.from_numpy(labels))
        return lambda new: link.probs(torch.from_numpy(new)).numpy()

    return fitted


def _scikit_learn(name: str) -> Fit:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    def fitted(probs: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        model = CalibratedClassifierCV(FrozenEstimator(Given(probs.shape[1])), method=name).fit(probs, labels)
        return model.predict_proba

    return fitted


def _netcal(kind: Any) -> Fit:
    def fitted(probs: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        link = kind()
        link.fit(probs.astype(np.float64), labels)  # in float32 its optimiser stops where it began
        return lambda new: link.transform(new.astype(np.float64))

    return fitted


def run(folder: Path) -> None:
    warnings.simplefilter("ignore")
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            probs, labels = file["predictions"], file["ground_truth"].ravel().astype(np.int64)
        for rows in ROWS:
            compare(path.stem, rows, probs, labels)


def compare(name: str, rows: int, probs: np.ndarray, labels: np.ndarray) -> None:
    """All contenders on the same splits, one after the other."""
    found: dict[str, list[dict[str, float]]] = {}
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(probs))
        fit, test = order[:rows], order[len(order) // 2 :]
        for contender, fitting in contenders().items():
            start = time.process_time()
            answer = fitting(probs[fit], labels[fit])
            seconds = time.process_time() - start
            found.setdefault(contender, []).append(measured(answer(probs[test]), labels[test]) | {"fit_s": seconds})
    record("links", f"{name}, {rows:,} rows", {"splits": SPLITS, "contenders": found})
    for contender, splits in found.items():
        print(f"{name:24} {rows:5} {contender:26}", *(f"{key} {np.mean([s[key] for s in splits]):.4f}" for key in splits[0]))


def measured(probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    own = probs[np.arange(len(labels)), labels]
    marks = np.eye(probs.shape[1])[labels]
    return {
        "nll": float(-np.log(np.maximum(own, LEAST)).mean()),
        "ece": float(calibration_error(torch.from_numpy(probs).clamp(0, 1), torch.from_numpy(labels))),
        "brier": float(((probs - marks) ** 2).sum(1).mean()),
        "zeros": float((own == 0).sum()),
    }


if __name__ == "__main__":
    run(Path(sys.argv[1]))
