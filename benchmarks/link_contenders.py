"""Fitted links by name, ours and those of netcal, scikit-learn, betacal and venn-abers, for ``benchmarks.links``.

Each fits on probabilities (n, C) and labels (n,), and gives a function of new probabilities.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.conformal import Given
from shortlist.links import (
    Beta,
    Dirichlet,
    Identity,
    Isotonic,
    Link,
    Platt,
    Sigmoid,
    Softmax,
    Temperature,
    VectorScaling,
    VennAbers,
    choose_link,
)

Answer = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Answer]
OURS = (Temperature, Platt, Beta, VectorScaling, Dirichlet, Isotonic, VennAbers)
SMALLEST = 2.0**-149  # of float32: what stands for 0 in logarithms
GIVEN, FLOOR = "as they are", "the true probabilities"
ALONE, CENTRED = "shortlist platt, log-odds one by one", "centred isotonic"  # tried, not offered
RAISED, LOWEST = ", p raised to 2e-16", 2.0**-52  # as betacal and netcal have it
# Those of other libraries that do what ours does, or stand for it.
RIVALS: dict[str, tuple[str, ...]] = {
    "shortlist temperature": ("scikit-learn temperature", "netcal temperature"),
    "shortlist platt": ("scikit-learn sigmoid", "scikit-learn sigmoid on log p"),
    "shortlist beta": ("netcal beta", "betacal"),
    "shortlist vector-scaling": ("netcal vector",),
    "shortlist dirichlet": ("scikit-learn logistic regression on log p",),
    "shortlist isotonic": ("scikit-learn isotonic",),
    "shortlist venn-abers": ("venn-abers, pairs", "venn-abers, one against the rest"),
    "shortlist auto": ("scikit-learn temperature", "netcal temperature"),
}


def contenders() -> dict[str, Fit]:
    """All by name, ours first."""
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    found: dict[str, Fit] = {GIVEN: lambda probs, labels: lambda new: new}
    found |= {"shortlist " + kind.kind: _ours(lambda p, y, kind=kind: kind(Identity()).fit(p, y)) for kind in OURS}
    found["shortlist auto"] = _ours(lambda p, y: choose_link(p, y, Identity()).link)
    for name in ("temperature", "sigmoid", "isotonic"):
        found["scikit-learn " + name] = _scikit_learn(name)
    found["scikit-learn sigmoid on log p"] = _of_logs(_scikit_learn("sigmoid"))
    found["scikit-learn logistic regression on log p"] = _of_logs(_logistic_regression)
    for name, kind in (("temperature", TemperatureScaling), ("vector", LogisticCalibration), ("beta", BetaCalibration)):
        found["netcal " + name] = _netcal(kind)
    found["betacal"] = _betacal
    for name, way in (("pairs", "one_vs_one"), ("one against the rest", "one_vs_rest")):
        found["venn-abers, " + name] = _venn_abers(way)
    found |= {f"shortlist {kind.kind}{RAISED}": _raised(found[f"shortlist {kind.kind}"]) for kind in (Platt, Beta, Dirichlet)}
    found[ALONE] = _platt_alone
    found[CENTRED] = _centred
    return found


def _ours(fit: Callable[..., Link]) -> Fit:
    def fitted(probs: np.ndarray, labels: np.ndarray) -> Answer:
        link = fit(torch.from_numpy(probs), torch.from_numpy(labels))
        return lambda new: link.probs(torch.from_numpy(new)).numpy()

    return fitted


def _scikit_learn(name: str) -> Fit:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    def fitted(probs: np.ndarray, labels: np.ndarray) -> Answer:
        model = CalibratedClassifierCV(FrozenEstimator(Given(probs.shape[1])), method=name).fit(probs, labels)
        return model.predict_proba

    return fitted


def _logistic_regression(logs: np.ndarray, labels: np.ndarray) -> Answer:
    """Dirichlet calibration as scikit-learn's own regression: its penalty pulls all weights to 0."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=10_000).fit(logs, labels).predict_proba


def _of_logs(fit: Fit) -> Fit:
    def logs(probs: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(probs.astype(np.float64), SMALLEST))

    def fitted(probs: np.ndarray, labels: np.ndarray) -> Answer:
        answer = fit(logs(probs), labels)
        return lambda new: answer(logs(new))

    return fitted


def _netcal(kind: Any) -> Fit:
    def fitted(probs: np.ndarray, labels: np.ndarray) -> Answer:
        link = kind()
        link.fit(probs.astype(np.float64), labels)  # in float32 its optimiser stops where it began
        return lambda new: link.transform(new.astype(np.float64))

    return fitted


def _betacal(probs: np.ndarray, labels: np.ndarray) -> Answer:
    """It is for two classes: each against the rest, divided by their sum."""
    from betacal import BetaCalibration

    maps = [BetaCalibration().fit(own.astype(np.float64), labels == label) for label, own in enumerate(probs.T)]
    return lambda new: _shares(np.stack([fit.predict(own.astype(np.float64)) for fit, own in zip(maps, new.T, strict=True)], 1))


def _venn_abers(way: str) -> Fit:
    from venn_abers.venn_abers import predict_proba_prefitted_va

    def fitted(probs: np.ndarray, labels: np.ndarray) -> Answer:  # it fits when it answers
        return lambda new: predict_proba_prefitted_va(
            probs.astype(np.float64), labels, np.maximum(new.astype(np.float64), SMALLEST), va_tpe=way
        )[0]

    return fitted


def _platt_alone(probs: np.ndarray, labels: np.ndarray) -> Answer:
    """Platt scaling of log-odds of each probability by itself, so that 1 is as far as the smallest number from 0."""

    def odds(given: np.ndarray) -> torch.Tensor:
        wide = given.astype(np.float64)
        return torch.from_numpy(np.log(np.maximum(wide, SMALLEST)) - np.log(np.maximum(1 - wide, SMALLEST)))

    link = Platt(Sigmoid()).fit(odds(probs), torch.from_numpy(labels))
    return lambda new: link.probs(odds(new)).numpy()


def _raised(fit: Fit) -> Fit:
    def raised(probs: np.ndarray) -> np.ndarray:
        return _shares(np.maximum(probs.astype(np.float64), LOWEST))

    def fitted(probs: np.ndarray, labels: np.ndarray) -> Answer:
        answer = fit(raised(probs), labels)
        return lambda new: answer(raised(new))

    return fitted


def _centred(probs: np.ndarray, labels: np.ndarray) -> Answer:
    """Isotonic regression with our two added rows, joined at the centres of its flat pieces (Oron, Flournoy 2017)."""
    odds = _row_odds(probs)
    maps = [_centres(own, labels == label) for label, own in enumerate(odds.T)]
    return lambda new: _shares(
        np.stack([np.interp(own, *places) for own, places in zip(_row_odds(new).T, maps, strict=True)], 1)
    )


def _row_odds(probs: np.ndarray) -> np.ndarray:
    """The log-odds of each label, from those of the others of its row."""
    return Softmax().log_odds(torch.from_numpy(np.log(np.maximum(probs.astype(np.float64), SMALLEST)))).numpy()


def _centres(odds: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.optimize import isotonic_regression

    order = np.argsort(odds, kind="stable")
    at = np.concatenate([odds[order[:1]], odds[order], odds[order[-1:]]])
    fitted = isotonic_regression(np.concatenate([[1.0], marks[order], [0.0]]))
    starts, levels = fitted.blocks[:-1], fitted.x[fitted.blocks[:-1]]
    return np.add.reduceat(at, starts) / np.diff(fitted.blocks), levels


def _shares(each: np.ndarray) -> np.ndarray:
    return each / each.sum(1, keepdims=True)
