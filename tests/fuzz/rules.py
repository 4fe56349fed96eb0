"""Rules against their definition in exact arithmetic (tests.references.sets)."""

import random
from pathlib import Path

import numpy as np

from shortlist import sets
from tests.fuzz.values import many_labels, one_label, probabilities
from tests.references import sets as ref

Array = np.ndarray


def rule_equals_its_definition(draw: random.Random, folder: Path) -> None:
    """A rule with random settings, fitted on random rows with ties, gives exactly the sets of the literal definition."""
    classes, n = draw.randint(1, 8), draw.choice([1, 2, 5, 9, 10, 30, 100])
    kind = draw.choice(list(KINDS))
    several = kind in SEVERAL_LABELS and draw.random() < 0.7
    calibration = probabilities(draw, n, classes, sum_to_1=not several)
    new = probabilities(draw, 40, classes, sum_to_1=not several)
    target = (many_labels if several else one_label)(draw, n, classes)
    if several and not target.any():
        target[draw.randrange(n), draw.randrange(classes)] = True  # rules that need labels refuse rows that have none
    prior = np.random.default_rng(draw.getrandbits(32)).uniform(0.1, 1.0, classes)
    rule, expected = KINDS[kind](draw, calibration.astype(float), target, new.astype(float), prior)
    if draw.random() < 0.5:
        rule, expected = _bounded(draw, rule, expected, new.astype(float), prior if kind in WITH_PRIOR else None)
    # The reference is in float64: what float32 holds is exact there, and its sums are rounded differently.
    given = (calibration.astype(float), target, new.astype(float))
    np.testing.assert_array_equal(rule.fit(*given[:2])(given[2]), expected, err_msg=rule.text)
    path = folder / "rule.safetensors"
    rule.save(path)
    np.testing.assert_array_equal(sets.SetRule.load(path)(given[2]), expected, err_msg=f"{rule.text}, saved")


def _level(draw: random.Random) -> float:
    any_share = round(draw.uniform(0.001, 0.999), draw.randint(1, 6))
    return draw.choice([0.01, 0.05, 0.1, 0.2, 1 / 3, 0.5, 0.9, any_share if 0 < any_share < 1 else 0.1])


def _size(draw: random.Random, classes: int) -> float:
    return draw.choice([1, classes, round(draw.uniform(0.1, 1) * classes, draw.randint(0, 3)) or 1])


def _bounded(draw, rule, expected, new, prior):
    """The rule with at most, or at least, so many labels."""
    if not isinstance(rule.ordering, sets.Probability):
        return rule, expected
    size = draw.randint(1, new.shape[1])
    plausible = new if prior is None else new / prior
    if draw.random() < 0.5:
        return sets.cap(rule, size), ref.bounded(expected, plausible, most=size)
    return sets.floor(rule, size), ref.bounded(expected, plausible, least=size)


def _top_k(draw, calibration, target, new, prior):
    k = draw.randint(1, new.shape[1])
    return sets.top_k(k), ref.top_k(new, k)


def _threshold(draw, calibration, target, new, prior):
    p = draw.choice([0.0, 1.0, float(draw.choice(new.ravel().tolist())), draw.random()])
    return sets.threshold(p), ref.threshold(new, p)


def _average_k(draw, calibration, target, new, prior):
    k = _size(draw, new.shape[1])
    return sets.average_k(k), ref.average_k(calibration, new, k)


def _average_k_prior(draw, calibration, target, new, prior):
    k = _size(draw, new.shape[1])
    return sets.average_k(k, prior), ref.average_k(calibration, new, k, prior)


def _lac(draw, calibration, target, new, prior):
    alpha = _level(draw)
    return sets.lac(alpha), ref.conformal(ref.lac_scores, calibration, target, new, alpha)


def _pas(draw, calibration, target, new, prior):
    alpha = _level(draw)
    return sets.pas(alpha, prior), ref.conformal(ref.pas_scores, calibration, target, new, alpha, prior)


def _classwise(draw, calibration, target, new, prior):
    alpha = _level(draw)
    return sets.classwise(sets.lac(alpha)), ref.classwise(ref.lac_scores, calibration, target, new, alpha)


def _risk(draw, calibration, target, new, prior):
    alpha = _level(draw)
    return sets.risk_control("recall", alpha), ref.risk_control(calibration, target, new, alpha)


def _per_label(draw, calibration, target, new, prior):
    objective = draw.choice(["f1", "recall", "precision"])
    how = (objective,) if objective == "f1" else (objective, _level(draw))
    return sets.per_label(*how), new >= ref.per_label_cuts(calibration, target, *how)


KINDS = {
    "top-k": _top_k,
    "threshold": _threshold,
    "average-k": _average_k,
    "average-k-prior": _average_k_prior,
    "lac": _lac,
    "pas": _pas,
    "classwise": _classwise,
    "risk": _risk,
    "per-label": _per_label,
}
SEVERAL_LABELS = ("top-k", "threshold", "average-k", "classwise", "risk", "per-label")
WITH_PRIOR = ("average-k-prior", "pas")
