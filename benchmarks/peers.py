"""Conformal rules beside those of mapie, crepes, puncc and nonconformist: coverage, sizes, worst class, worst size, and time.

The same probabilities, the same 20 seeded splits, an error of 10 %. ``SHORTLIST_SCORES`` names a folder with probabilities of
two networks on the test rows of CIFAR-10 (``predictions``, ``ground_truth`` in ``*.npz``); without it Flora alone is measured.
puncc takes part if it is installed, with ``pip install --no-deps puncc``: it asks for a numpy below 2, and does without.
"""

import os
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conformal import Given
from benchmarks.harness import record
from shortlist.data import Flora
from shortlist.metrics import coverage, set_size, size_stratified_coverage
from shortlist.sets import AverageError, Rank, SetRule, parse_rule

NAME = "peers"
SPLITS, CALIBRATION, TEST, ALPHA = 20, 1_000, 4_000, 0.1
SCORES = "SHORTLIST_SCORES"
FILES = {"WideResNet-16-4 on CIFAR-10": "wideresnet-16-4-cifar-10.npz", "LeNet-5 on CIFAR-10": "lenet-5-cifar-10.npz"}
# A rule by what it is called, and who offers it: rows and labels to fit on, rows to answer → sets.
Contender = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def ours(text: str) -> Contender:
    return lambda fit, labels, rows: np.asarray(parse_rule(text).fit(fit, labels).predict(rows))


def ranked(fit: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The k most probable labels, k chosen for the coverage: an ordering and a constraint of ours that have no text."""
    return np.asarray(SetRule("rank", Rank(), AverageError(ALPHA)).fit(fit, labels).predict(rows))


def by_mapie(score: str, **more: Any) -> Contender:
    def run(fit: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        from mapie.classification import SplitConformalClassifier

        rule = SplitConformalClassifier(
            Given(fit.shape[1]), confidence_level=1 - ALPHA, conformity_score=score, prefit=True, random_state=0
        )
        rule.conformalize(fit, labels)
        return np.asarray(rule.predict_set(rows, conformity_score_params=more or None)[1][:, :, 0])

    return run


def by_nonconformist() -> Contender:
    def run(fit: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        from nonconformist.base import ClassifierAdapter
        from nonconformist.icp import IcpClassifier
        from nonconformist.nc import ClassifierNc, InverseProbabilityErrFunc

        rule = IcpClassifier(ClassifierNc(ClassifierAdapter(Given(fit.shape[1])), InverseProbabilityErrFunc()), smoothing=False)
        rule.fit(fit, labels)
        rule.calibrate(fit, labels)
        return np.asarray(rule.predict(rows, significance=ALPHA))

    return run


def by_crepes(*, classwise: bool = False) -> Contender:
    def run(fit: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        from crepes import WrapClassifier

        rule = WrapClassifier(Given(fit.shape[1]))
        rule.calibrate(fit, labels, class_cond=classwise)
        return np.asarray(rule.predict_set(rows, labels=False, confidence=1 - ALPHA, smoothing=False)) > 0

    return run


def by_puncc(name: str, **more: Any) -> Contender:
    def run(fit: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        from deel.puncc import classification
        from deel.puncc.api.prediction import IdPredictor

        rule = getattr(classification, name)(IdPredictor(), train=False, **more)
        rule.fit(X_calib=fit, y_calib=labels)
        lists = rule.predict(rows, alpha=ALPHA)[1]
        sets = np.zeros(rows.shape, bool)
        sets[np.repeat(np.arange(len(rows)), list(map(len, lists))), np.concatenate(lists).astype(int)] = True
        return sets

    return run


def puncc_if_here(name: str, called: str = "puncc", **more: Any) -> dict[str, Contender]:
    return {called: by_puncc(name, **more)} if find_spec("deel") else {}


CONTENDERS: dict[str, dict[str, Contender]] = {
    "LAC": {
        "shortlist `lac:0.1`": ours("lac:0.1"),
        "mapie": by_mapie("lac"),
        "crepes": by_crepes(),
        "nonconformist": by_nonconformist(),
        **puncc_if_here("LAC"),
    },
    "APS": {
        "shortlist `aps:0.1`": ours("aps:0.1"),
        "shortlist `aps:0.1:random`": ours("aps:0.1:random"),
        "mapie": by_mapie("aps"),
        "mapie, randomised": by_mapie("aps", include_last_label="randomized"),
        **puncc_if_here("APS", "puncc, randomised"),
    },
    "RAPS": {
        "shortlist `raps:0.1`": ours("raps:0.1"),
        "shortlist `raps:0.1:auto`": ours("raps:0.1:auto"),
        "mapie, chosen by it": by_mapie("raps"),
        **puncc_if_here("RAPS", "puncc, randomised, as `raps:0.1`", lambd=0.01, k_reg=5),
    },
    "class by class": {  # mapie 1 has none
        "shortlist `lac:0.1,classwise`": ours("lac:0.1,classwise"),
        "crepes": by_crepes(classwise=True),
        **puncc_if_here("ClasswiseLAC"),
    },
    "top k": {"shortlist": ranked, "mapie": by_mapie("top_k")},
}


def data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Probabilities that sum to 1 in float64, as mapie insists, and labels."""
    found = {}
    folder = os.environ.get(SCORES)
    for name, file in FILES.items() if folder else ():
        arrays = np.load(Path(folder) / file)  # type: ignore[arg-type]
        found[name] = arrays["predictions"].astype(np.float64), arrays["ground_truth"]
    target, posterior = Flora(species=20, genera=6, abundance="balanced").observe(CALIBRATION + TEST, seed=1)
    found["Flora, 20 species, its posterior"] = posterior.double().numpy(), target.numpy()
    return {name: (probs / probs.sum(1, keepdims=True), labels) for name, (probs, labels) in found.items()}


def run() -> None:
    warnings.simplefilter("ignore")
    for setting, (probs, labels) in data().items():
        found: dict[str, dict[str, list[dict[str, float]]]] = {
            rule: {who: [] for who in contenders} for rule, contenders in CONTENDERS.items()
        }
        for contender in [one for contenders in CONTENDERS.values() for one in contenders.values()]:
            contender(probs[:500], labels[:500], probs[500:520])  # what is loaded on the first call
        for seed in range(SPLITS):
            rows = np.random.default_rng(seed).permutation(len(labels))
            fit, test = rows[:CALIBRATION], rows[CALIBRATION : CALIBRATION + TEST]
            for rule, contenders in CONTENDERS.items():
                for who, contender in contenders.items():
                    found[rule][who].append(measured(contender, probs[fit], labels[fit], probs[test], labels[test]))
        record(NAME, setting, {"splits": SPLITS, "rules": {rule: summary(numbers) for rule, numbers in found.items()}})


def measured(
    contender: Contender, fit: np.ndarray, labels: np.ndarray, rows: np.ndarray, target: np.ndarray
) -> dict[str, float]:
    start = time.process_time()
    sets = contender(fit, labels, rows)
    seconds = time.process_time() - start
    return {
        "coverage": float(coverage(sets, target)),
        "size": float(set_size(sets)),
        "worst class": float(np.nanmin(coverage(sets, target, average="none"))),
        "worst size": float(size_stratified_coverage(sets, target, edges=(1, 3, 10, 100), min_rows=20)),
        "seconds": seconds,
    }


def summary(numbers: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Mean and standard deviation over splits; of times, the median of the ratios to our first and their range."""
    first, found = next(iter(numbers.values())), {}
    for who, splits in numbers.items():
        found[who] = {
            name: [statistics.mean(one[name] for one in splits), statistics.stdev(one[name] for one in splits)]
            for name in splits[0]
            if name != "seconds"
        }
        ratios = [one["seconds"] / own["seconds"] for one, own in zip(splits, first, strict=True)]
        found[who]["time"] = [statistics.median(ratios), min(ratios), max(ratios)]
    return found
