"""Fitted links beside those of other libraries, on two CIFAR-10 networks and on Flora: ``python -m benchmarks.links PATH``.

PATH is a folder of npz files with ``predictions`` (N, C), which are probabilities, and ``ground_truth``. Each contender is
fitted on n random rows and measured on 5,000 others. Flora has rows for which the best log-loss is known: a contender sees the
cube of the true probabilities, divided by their sum, so that the temperature 3 is right.

``python -m benchmarks.links PATH CONTENDER …`` measures these alone, on the same splits, and keeps the others as they were.
"""

import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.harness import record
from benchmarks.link_contenders import FLOOR, contenders
from benchmarks.results_files import newest
from shortlist.data import Flora
from shortlist.metrics import calibration_error

NAME, SPLITS, TEST, LEAST = "links", 10, 5_000, 1e-12  # what log-loss takes for probabilities that are exactly 0
ROWS, FLORA_ROWS = (100, 500, 5_000), (500, 5_000)  # of 20 species, 100 rows lack some, which several contenders refuse
SLOW, SLOW_SPLITS = ("netcal vector", "netcal beta", "scikit-learn logistic regression on log p"), 3  # on 5,000 rows


def run(folder: Path, only: Sequence[str] = ()) -> None:
    warnings.simplefilter("ignore")
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            probs, labels = file["predictions"], file["ground_truth"].ravel().astype(np.int64)
        for rows in ROWS:
            compare(path.stem, rows, probs, labels, only=only)
    target, posterior = Flora(species=20, genera=6, abundance="balanced").observe(10_000, seed=1)
    cubed = posterior.double().numpy() ** 3
    for rows in FLORA_ROWS:
        compare(
            "flora, 20 species, overconfident",
            rows,
            (cubed / cubed.sum(1, keepdims=True)).astype(np.float32),
            target.numpy(),
            posterior.numpy(),
            only,
        )


def compare(
    name: str, rows: int, probs: np.ndarray, labels: np.ndarray, true: np.ndarray | None = None, only: Sequence[str] = ()
) -> None:
    """All contenders on the same splits, one after the other; the last half of the shuffled rows is what they answer."""
    setting = f"{name}, {rows:,} rows"
    found: dict[str, list[dict[str, float]]] = {}
    known = {contender: fit for contender, fit in contenders().items() if not only or contender in only}
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(probs))
        fit, test = order[:rows], order[-TEST:]
        for contender, fitting in known.items():
            if contender in SLOW and rows == max(ROWS) and split >= SLOW_SPLITS:
                continue
            start = time.process_time()
            answer = fitting(probs[fit], labels[fit])
            fitted = time.process_time()
            answered = answer(probs[test])
            seconds = {"fit_s": fitted - start, "answer_s": time.process_time() - fitted}
            found.setdefault(contender, []).append(rounded(measured(answered, labels[test]) | seconds))
        if true is not None:
            found.setdefault(FLOOR, []).append(rounded(measured(true[test], labels[test])) | {"fit_s": 0.0, "answer_s": 0.0})
    before = next((line for line in newest(NAME) if only and line["setting"] == setting), {})
    again = (
        {"again": [*before.get("again", []), *only], "others_at": before.get("others_at", before.get("commit"))} if only else {}
    )
    record(NAME, setting, {"splits": SPLITS, "contenders": before.get("contenders", {}) | found} | again)
    for contender, splits in found.items():
        print(f"{name:24} {rows:5} {contender:26}", *(f"{key} {np.mean([s[key] for s in splits]):.4f}" for key in splits[0]))


def measured(probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    probs = probs.astype(np.float64)
    own = probs[np.arange(len(labels)), labels]
    marks = np.eye(probs.shape[1])[labels]
    return {
        "nll": float(-np.log(np.maximum(own, LEAST)).mean()),
        "ece": float(calibration_error(torch.from_numpy(probs).clamp(0, 1), torch.from_numpy(labels))),
        "brier": float(((probs - marks) ** 2).sum(1).mean()),
        "zeros": float((own == 0).sum()),
    }


def rounded(numbers: dict[str, float]) -> dict[str, float]:
    """Six decimals, which is more than anything here is known to."""
    return {name: round(number, 6) for name, number in numbers.items()}


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
