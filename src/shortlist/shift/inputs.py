"""Shift of inputs: what each calibration row counts among new rows, learned from what tells the two apart."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from shortlist.checks import check_values, number, whole
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.shift.effective import LEAST, enough_rows
from shortlist.tensors import Array, as_tensor, check_scores

STEPS = 100
ERRORS = 3  # standard errors by which the mean ratio of densities may fall short of 1 by chance
SMALLEST = 1e-9  # probability, so that log-odds are finite


@dataclass(frozen=True)
class InputWeights:
    """Weights of calibration rows.

    Args:
        weights: (N,), 1 on average.
        effective: how many rows of equal weight tell as much; the missing part of the new rows counts as one more row.
        rows: the number of new rows.
        missing: the share of the new rows that look like no calibration row, beyond what chance explains. Sets can miss the
            labels of all these.
    """

    weights: Array
    effective: float
    rows: int
    missing: float = 0.0


def input_weights(
    calibration: Any, new: Any, *, folds: int = 5, penalty: float = 1.0, least: float = LEAST, seed: int = 0
) -> InputWeights:
    """Learn weights with which calibration rows look like new rows.

    A logistic regression learns to tell the two kinds of rows apart; the odds that a row is new, times the ratio of their
    numbers, estimate how much denser new rows are there. The odds of a calibration row come from a regression that has not seen
    it. The assumption is that rows that look alike have labels alike, and the estimate is as good as the regression. The ratio
    averages 1 over calibration rows that are found wherever new rows are; what it falls short of that is the share of new rows
    for which no calibration row speaks.

    Args:
        calibration: features (N, D) of the calibration rows: embeddings, or any that tell rows apart; or predictions, of which
            the log-odds are taken.
        new: the same of new rows, without labels.
        folds: how many parts the calibration rows are divided into.
        penalty: of the squared coefficients, for standardised features; larger values bring the weights nearer to 1, and hide
            what is missing.
        least: the effective number of rows below which the weights are refused.
        seed: of the division into folds.

    >>> random = np.random.default_rng(0)
    >>> found = input_weights(random.normal(0, 1, (2000, 1)), random.normal(0.5, 1, (2000, 1)))
    >>> 1000 < found.effective < 2000
    True

    Bickel, Brückner, Scheffer, "Discriminative learning for differing training and test distributions", 2007; conformal sets
    with such weights: Tibshirani, Barber, Candès, Ramdas, "Conformal prediction under covariate shift", 2019.
    """
    folds, seed = whole(2)("folds", folds), whole(0)("seed", seed)
    penalty, least = float(number(above=0)("penalty", penalty)), float(number(least=0)("least", least))
    old, later = _features(calibration, "calibration"), _features(new, "new")
    if old.shape[1] != later.shape[1]:
        raise InputError(f"new: expected {old.shape[1]} features, got {later.shape[1]}")
    if len(old) < folds:
        raise InputError(f"calibration: expected at least a row for each of {folds} folds, got {len(old)}")
    both = np.concatenate([old, later])
    spread = both.std(0)
    old, later = ((part - both.mean(0)) / np.where(spread > 0, spread, 1) for part in (old, later))
    part = np.random.default_rng(seed).permutation(len(old)) % folds
    odds = np.empty(len(old))
    for fold in range(folds):
        seen = old[part != fold]
        odds[part == fold] = _log_odds(seen, later, old[part == fold], penalty) - np.log(len(later) / len(seen))
    weights = np.exp(odds - odds.max())
    missing = _missing(odds)
    weights /= weights.mean()
    return InputWeights(weights, enough_rows(weights, least, missing), len(later), missing)


def _missing(log_ratios: Array) -> float:
    """What the mean ratio of densities falls short of 1, beyond a chance of the calibration rows.

    Rows that a regression separates perfectly have ratios near 0 that are nearly equal: their sizes alone look like no shift.
    """
    largest = float(log_ratios.max())
    relative = np.exp(log_ratios - largest)
    log_mean = largest + float(np.log(relative.mean()))
    error = float(relative.std() / relative.mean()) / math.sqrt(len(relative))
    return max(0.0, 1 - math.exp(min(log_mean, 0.0)) * (1 + ERRORS * error))


def _log_odds(old: Array, new: Array, asked: Array, penalty: float) -> Array:
    """The log-odds that rows are new, by a logistic regression with a penalty, fitted by Newton's method."""
    rows = np.concatenate([old, new])
    rows = np.column_stack([np.ones(len(rows)), rows])
    label = np.concatenate([np.zeros(len(old)), np.ones(len(new))])
    ridge = np.full(rows.shape[1], penalty)
    ridge[0] = 0

    def loss(at: Array) -> float:
        odds = rows @ at
        return float(np.logaddexp(0, odds).sum() - label @ odds + ridge @ at**2 / 2)

    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-np.clip(rows @ found, -500, 500)))
        slope = rows.T @ (share - label) + ridge * found
        curve = (rows * np.maximum(share * (1 - share), 1e-12)[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        size, before = 1.0, loss(found)
        while size > 1e-8 and loss(found - size * step) > before:
            size /= 2
        found = found - size * step
        if np.abs(size * step).max() < 1e-10:
            break
    answer: Array = np.column_stack([np.ones(len(asked)), asked]) @ found
    return answer


def _log_odds_of(rows: Predictions) -> Tensor:
    """The log-odds of all labels, finite; the scores themselves if there is no link."""
    return rows.scores if rows.link is None else rows.probs().double().clamp(SMALLEST, 1 - SMALLEST).logit()


def _features(values: Any, name: str) -> Array:
    values = _log_odds_of(values) if isinstance(values, Predictions) else values
    rows = as_tensor(values, name)
    check_scores(rows, name)
    check_values(rows, "finite", name)
    found: Array = rows.double().cpu().numpy()
    if not len(found):
        raise InputError(f"{name}: expected rows, got none")
    return found
