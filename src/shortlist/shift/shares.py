"""Shift of labels: the shares of the classes among new rows without labels, and probabilities and rows re-weighted by them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import number, one_of, whole
from shortlist.errors import InputError
from shortlist.links import Identity, Link, Reweighted, Softmax
from shortlist.predictions import Predictions
from shortlist.sets import Batches
from shortlist.sets.batches import Source
from shortlist.tensors import Array, is_single_label
from shortlist.words import shown

Method = Literal["em", "black-box", "soft"]
STEPS = 5000
SAMPLES = 100
CLOSE = 1e-9  # change of a share in one step, below which expectation maximisation stops
CLOSE_SAMPLES = 1e-5  # the same for bootstrap samples, which start at the estimate
SMALLEST = 1e-9  # share of a class, so that no probability becomes exactly 0


@dataclass(frozen=True)
class ClassShares:
    """Shares of the classes among new rows, with intervals.

    Args:
        shares: the estimate, (C,), which sums to 1.
        low: lower ends of the intervals, each for its class alone, (C,).
        high: upper ends, (C,).
        old: the shares among the calibration rows, (C,).
        rows: the number of new rows.
        method: how they were estimated.
    """

    shares: Array
    low: Array
    high: Array
    old: Array
    rows: int
    method: str

    @property
    def weights(self) -> Array:
        """New over old shares, (C,): what a calibration row with this label counts among new rows."""
        found: Array = np.maximum(self.shares, SMALLEST) / self.old
        return found

    def reweight(self, probs: Any) -> Any:
        """Probabilities for the new shares: each times new over old share of its class, divided by their sum.

        Args:
            probs: probabilities (N, C) by the old shares, which sum to 1; or predictions. Predictions with the link softmax
                keep it, with the logarithm of the weights added to their scores; others get the link identity.
        """
        if isinstance(probs, Predictions):
            return self._predictions(probs)
        values = _probs_of(probs)
        self._check_classes(values.shape[1])
        found = values * self.weights
        found /= found.sum(1, keepdims=True)
        return torch.from_numpy(found).to(probs.dtype) if isinstance(probs, Tensor) else found

    def link(self, base: Link | None = None) -> Reweighted:
        """The same as a link on top of another, for a classifier that is then asked, served and exported.

        Args:
            base: the link whose probabilities are right for the old shares, such as ``classifier.link``; softmax by default.

        >>> half, found = np.array([0.5, 0.5]), np.array([0.25, 0.75])
        >>> shares = ClassShares(found, found, found, half, rows=100, method="em")
        >>> shares.link().probs(torch.zeros(1, 2))
        tensor([[0.2500, 0.7500]])
        """
        return Reweighted(base, self.weights)

    def _predictions(self, rows: Predictions) -> Predictions:
        self._check_classes(rows.num_classes)
        if isinstance(rows.link, Softmax):
            log_weights = torch.from_numpy(np.log(self.weights))
            return replace(rows, scores=(rows.scores.double() + log_weights).float())
        return replace(rows, scores=torch.from_numpy(self.reweight(rows.probs().double().numpy())).float(), link=Identity())

    def _check_classes(self, classes: int) -> None:
        if classes != len(self.shares):
            raise InputError(f"probs: expected {len(self.shares)} classes, got {classes}")


def class_shares(
    new: Source,
    calibration: Source,
    target: Any = None,
    *,
    method: Method = "em",
    confidence: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
) -> ClassShares:
    """Estimate the shares of the classes among new rows that have no labels.

    The assumption is that only the shares changed: rows of a class look as they did. The data cannot confirm it.

    Args:
        new: probabilities (N, C), predictions or batches; labels are not looked at.
        calibration: rows from before, with labels for ``black-box`` and ``soft``.
        target: their labels, where they are a matrix.
        method: ``"em"`` maximises the likelihood, and needs calibrated probabilities that sum to 1; the old shares are the mean
            probabilities of the calibration rows. ``"black-box"`` inverts the confusions of the most probable class on the
            calibration rows, and needs their labels, but no calibrated probabilities; ``"soft"`` does so with probabilities in
            place of the most probable class. What these cannot tell stays as it was.
        confidence: of the intervals, which are quantiles over bootstrap samples of both kinds of rows: of B samples the
            ``(B + 1) · (1 - confidence) / 2``-th from either end.
        resamples: how many samples; by default 100, or as many as the confidence needs, ``2 / (1 - confidence) - 1`` (199 for
            0.99). With fewer the intervals reach from the smallest to the largest, and hold less often.
        seed: of the samples.

    >>> random = np.random.default_rng(0)
    >>> labels, later = random.choice(2, 4000), random.choice(2, 4000, p=[0.9, 0.1])
    >>> def probs(labels):  # exact for equal shares
    ...     odds = random.normal(2 * labels - 1, 1)
    ...     return np.stack([1 / (1 + np.exp(2 * odds)), 1 / (1 + np.exp(-2 * odds))], 1)
    >>> found = class_shares(probs(later), probs(labels))
    >>> found.shares.round(1), bool((found.low <= [0.9, 0.1]).all() and (found.high >= [0.9, 0.1]).all())
    (array([0.9, 0.1]), True)

    Saerens, Latinne, Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002; old shares as
    in Alexandari, Kundaje, Shrikumar, "Maximum likelihood with bias-corrected calibration is hard-to-beat at label shift
    adaptation", 2020; Lipton, Wang, Smola, "Detecting and correcting for label shift with black box predictors", 2018.
    """
    one_of("em", "black-box", "soft")("method", method)
    confidence = float(number(above=0, below=1)("confidence", confidence))
    resamples, seed = _samples(resamples, confidence), whole(0)("seed", seed)
    rows, old_rows = _probs_of(new), _probs_of(calibration)
    if rows.shape[1] != old_rows.shape[1]:
        raise InputError(f"new: expected {old_rows.shape[1]} classes, got {rows.shape[1]}")
    counts = _resampled(len(rows), resamples, seed), _resampled(len(old_rows), resamples, seed + 1)
    if method == "em":
        found, old = _by_likelihood(rows, old_rows, *counts)
    else:
        if method == "soft":
            _check_sums(rows)
        labels = _labels_of(calibration, target, method)
        found, old = _by_confusion(rows, old_rows, labels, *counts, soft=method == "soft")
    tail = (1 - confidence) / 2
    # Plain quantiles interpolate towards the middle: of 100 samples, intervals of 95 % would hold in 93 %.
    low, high = np.quantile(found[1:], [tail, 1 - tail], axis=0, method="weibull")
    return ClassShares(found[0], np.minimum(low, found[0]), np.maximum(high, found[0]), old, len(rows), method)


def _samples(resamples: int | None, confidence: float) -> int:
    return max(SAMPLES, math.ceil(2 / (1 - confidence)) - 1) if resamples is None else whole(2)("resamples", resamples)


def thinned(weights: Any, seed: int = 0, largest: float | None = None) -> Tensor:
    """Which rows to keep so that those kept are as if drawn with these weights, bool (N,): each with probability w / max w.

    A rule that is fitted on the rows kept has its guarantee for new rows with these weights, also one for every calibration
    (``pac``, ``learn_then_test``). Of n rows, n · mean w / max w are kept on average.

    Args:
        weights: numbers from 0, one for each row: ``shares.weights[labels]``, or those of :func:`input_weights`.
        seed: of the draw.
        largest: the largest weight that a row can have, where that is known: the rows kept are then exactly as if drawn with
            these weights, and there may be fewer. By default the largest of these.

    von Neumann, "Various techniques used in connection with random digits", 1951 (rejection); Park, Dobriban, Lee, Bastani,
    "PAC prediction sets under covariate shift", 2022.
    """
    values = np.asarray(weights, np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (values < 0).any() or not values.max() > 0:
        raise InputError(f"weights: expected finite numbers from 0, one for each row and not all 0, got {shown(weights)}")
    top = float(values.max()) if largest is None else float(number(least=float(values.max()))("largest", largest))
    drawn = np.random.default_rng(whole(0)("seed", seed)).uniform(size=len(values))
    return torch.from_numpy(drawn * top < values)


def _by_likelihood(rows: Array, old_rows: Array, counts: Array, old_counts: Array) -> tuple[Array, Array]:
    """Shares for all rows and for each sample, (B + 1, C), by expectation maximisation side by side; and the old shares."""
    _check_sums(rows)
    _check_sums(old_rows)
    old = np.maximum(old_counts @ old_rows / len(old_rows), SMALLEST)
    best = _climbed(rows, old[:1], old[:1], counts[:1], CLOSE)
    samples = _climbed(rows, old[1:], np.repeat(best, len(old) - 1, axis=0), counts[1:], CLOSE_SAMPLES)
    return np.concatenate([best, samples]), old[0] / old[0].sum()


def _climbed(rows: Array, old: Array, shares: Array, counts: Array, close: float) -> Array:
    """Shares (B, C) from which a step of expectation maximisation moves none by more than a little."""
    for _ in range(STEPS):
        density = rows @ (shares / old).T  # (N, B)
        # a row outside a sample counts 0, also where it alone shows a class that the sample gives the share 0
        after = (
            shares / old * (np.divide(counts.T, density, out=np.zeros_like(density), where=counts.T > 0).T @ rows) / len(rows)
        )
        moved, shares = np.abs(after - shares).max(), after
        if moved < close:
            break
    found: Array = shares / shares.sum(1, keepdims=True)
    return found


def _by_confusion(
    rows: Array, old_rows: Array, labels: Array, counts: Array, old_counts: Array, *, soft: bool
) -> tuple[Array, Array]:
    """The same from the confusions: new over old shares that explain the mean answer to new rows."""
    classes = rows.shape[1]
    answers: Callable[[Array], Array] = (lambda part: part) if soft else (lambda part: np.eye(classes)[part.argmax(1)])
    true, before = np.eye(classes)[labels], answers(old_rows)
    means = counts @ answers(rows) / len(rows)
    found = np.empty((len(counts), classes))
    for n, (mean, weights) in enumerate(zip(means, old_counts, strict=True)):
        confusion = (before * weights[:, None]).T @ true / len(old_rows)
        old = (true * weights[:, None]).mean(0)
        ratio = 1 + np.linalg.lstsq(confusion, mean - confusion.sum(1), rcond=1e-10)[0]
        shares = np.maximum(ratio, 0) * old
        found[n] = shares / shares.sum() if shares.sum() > 0 else old
    return found, np.maximum(true.mean(0), SMALLEST)


def _resampled(rows: int, resamples: int, seed: int) -> Array:
    """How often each row counts: once, then in each bootstrap sample, (B + 1, N)."""
    random = np.random.default_rng(seed)
    drawn = random.multinomial(rows, np.full(rows, 1 / rows), resamples).astype(np.float64)
    return np.concatenate([np.ones((1, rows)), drawn])


def _probs_of(source: Any) -> Array:
    """The probabilities of rows, float64 (N, C)."""
    if isinstance(source, Predictions) and source.link is None:
        raise InputError("probs: expected probabilities, got scores without a link")
    parts = [probs.double().cpu().numpy() for probs, _ in Batches(source, probabilities=True)]
    if not sum(map(len, parts)):
        raise InputError("probs: expected rows, got none")
    found: Array = np.concatenate(parts)
    return found


def _labels_of(source: Any, target: Any, method: str) -> Array:
    labels = []
    for batch in Batches(source, target, probabilities=True).whole_rows():
        if batch.target is None:
            raise InputError(f"target: expected labels of the calibration rows, which {method!r} needs, got none")
        labels.append(batch.target)
    if not all(map(is_single_label, labels)):
        raise InputError("target: expected one label a row, got many labels")
    found: Array = torch.cat(labels).cpu().numpy()
    return found


def _check_sums(probs: Array) -> None:
    wrong = np.abs(probs.sum(1) - 1) > 1e-2
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"probs: expected rows that sum to 1, got {probs[row].sum():.4g} in row {row}: shares of classes need labels that "
            "exclude each other"
        )
