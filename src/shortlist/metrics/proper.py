"""Proper scores of probabilities: log-loss, the Brier score, and the parts that the Brier score is made of."""

from typing import Any

import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.binned_pairs import bins_by
from shortlist.metrics.calibration import NO_CLASSES, bin_of
from shortlist.metrics.inputs import checked
from shortlist.metrics.totals import ratio
from shortlist.tensors import Probs, Target, is_single_label, one_hot, pick, summed, working
from shortlist.words import understands

LARGEST_LOSS = 745.0  # -log p of a probability of exactly 0: that of the smallest number above 0
PARTS = ("brier", "reliability", "resolution", "uncertainty", "within_variance", "within_covariance")


@understands(num_classes=NO_CLASSES)
@like_input
def log_loss(probs: Any, target: Any) -> Answer:
    """Mean of -log p of the labels (negative log-likelihood, NLL); with several labels a row, the mean over all (row, label)
    pairs of -log p of a label that is present and -log(1 - p) of one that is absent (binary cross-entropy).

    A probability of exactly 0 counts as e⁻⁷⁴⁵, the smallest number above 0. Probabilities that were rounded to 0 or 1 have
    lost what scores still know: :func:`shortlist.evaluate` takes the loss of such rows from the scores, where it has them.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).

    >>> log_loss(torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64), torch.tensor([0, 1]))
    tensor(0.4904, dtype=torch.float64)
    """
    return ratio(log_losses(*checked(probs, target, "probabilities")))


@understands(num_classes=NO_CLASSES)
@like_input
def brier_score(probs: Any, target: Any) -> Answer:
    """Squared error of the probabilities.

    With one label a row, the mean over rows of Σ_c (p_c - y_c)², where y is 1 for the label and 0 elsewhere: from 0 to 2, as
    Brier defined it. With several labels a row, the mean of (p - y)² over all (row, label) pairs.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).

    >>> brier_score(torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64), torch.tensor([0, 1]))
    tensor(0.3125, dtype=torch.float64)

    Brier, "Verification of forecasts expressed in terms of probability", 1950.
    """
    return ratio(squared_errors(*checked(probs, target, "probabilities")))


@understands(n_bins="bins", num_bins="bins", num_classes=NO_CLASSES)
@like_input
def brier_decomposition(probs: Any, target: Any, *, bins: int | None = 15) -> Answer:
    """The Brier score and what it is made of: reliability, resolution, uncertainty, and what bins hide.

    Each class is a forecast by itself: its probabilities are put into bins, and in bin k there are n_k pairs with mean
    probability f_k, of which a share o_k is right; a share o of all pairs of the class is. Of each class

    - ``reliability`` = Σ n_k (f_k - o_k)² / N, how far probabilities are from frequencies: less is better;
    - ``resolution`` = Σ n_k (o_k - o)² / N, how far apart the frequencies of the bins are: more is better;
    - ``uncertainty`` = o (1 - o), which no forecast changes;
    - ``within_variance`` = Σ (p - f_k)² / N and ``within_covariance`` = 2 Σ (p - f_k)(y - o_k) / N, sums over pairs: what
      probabilities that differ within a bin add and take away.

    ``brier`` = reliability - resolution + uncertainty + within_variance - within_covariance, up to rounding. As in
    :func:`brier_score`, the parts of the classes are added up with one label a row, and averaged with several.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        bins: number of bins of equal width, [a, b), the last one closed; None for a bin of each different probability, in
            which case nothing varies within bins. With few rows a bin the share of right pairs is mostly chance, which adds
            as much to reliability as to resolution.

    >>> parts = brier_decomposition([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2], [0.4, 0.6]], [0, 1, 0, 1], bins=2)
    >>> {name: round(float(value), 4) for name, value in parts.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'brier': 0.35, 'reliability': 0.1067, 'resolution': 0.1667, 'uncertainty': 0.5, 'within_variance': 0.01,
    'within_covariance': 0.1}

    Murphy, "A new vector partition of the probability score", 1973; Stephenson, Coelho, Jolliffe, "Two extra components in the
    Brier score decomposition", 2008.
    """
    bins = check_bins(bins)
    probs, target = checked(probs, target, "probabilities")
    return distinct_parts(probs, target) if bins is None else brier_parts(pair_products(probs, target, bins))


def check_bins(bins: Any) -> int | None:
    """A number of bins, or None for a bin of each different probability."""
    return None if bins is None else whole(1)("bins", bins)


def log_losses(probs: Probs, target: Target) -> Tensor:
    """Sum of -log p of the labels (of labels and non-labels where a row has several), and the number of terms."""
    if is_single_label(target):
        losses = -pick(probs, target).double().log()
    else:
        exact = probs.double()
        losses = -torch.where(target, exact.log(), (-exact).log1p())
    return _with_count(summed(losses.clamp(max=LARGEST_LOSS)), losses.numel())


def squared_errors(probs: Probs, target: Target) -> Tensor:
    """Sum of (p - y)² over all pairs, and the number of rows, or of pairs where a row has several labels."""
    errors = probs.to(torch.float64, copy=True)
    if is_single_label(target):
        errors[torch.arange(len(target), device=target.device), target] -= 1
    else:
        errors -= target.double()
    return _with_count(summed(errors.square_()), len(target) if is_single_label(target) else target.numel())


def _with_count(total: Tensor, count: int) -> Tensor:
    return torch.stack([total, torch.tensor(float(count), dtype=torch.float64, device=total.device)])


def pair_products(probs: Probs, target: Target, bins: int) -> Tensor:
    """For each class and bin: pairs, Σ p, right pairs, Σ p (1 - p), Σ p y, and pairs of rows with several labels.

    float64 (6, C, bins).
    """
    table = bins_by("class", probs, target, bins)
    several = torch.zeros_like(table[0]) if is_single_label(target) else table[0]
    return torch.stack([*table, right_mass(probs, target, bins), several])


def right_mass(probs: Probs, target: Target, bins: int) -> Tensor:
    """Σ p of the right pairs of each class and bin, float64 (C, bins)."""
    if is_single_label(target):
        right, label = pick(working(probs), target), target
    else:
        row, label = target.nonzero(as_tuple=True)
        right = working(probs)[row, label]
    found = torch.zeros(probs.shape[1], bins, dtype=torch.float64, device=probs.device)
    return found.view(-1).index_add_(0, label * bins + bin_of(right, bins), right.double()).view_as(found)


def brier_parts(table: Tensor) -> dict[str, Tensor]:
    """The parts by name, from (6, C, bins) of :func:`pair_products`."""
    pairs, several = float(table[0].sum()), float(table[5].sum())
    if 0 < several < pairs:
        raise InputError("target: expected one label a row in every batch or several in every batch, got both")
    return _over_classes(_class_parts(table[:5]), several=several > 0)


def distinct_parts(probs: Probs, target: Target) -> dict[str, Tensor]:
    """The parts by name, with a bin of each different probability of a class."""
    exact, marks = working(probs).double(), one_hot(target, probs.shape[1]).double()
    found = []
    for p, y in zip(exact.unbind(1), marks.unbind(1), strict=True):
        value, place, count = p.unique(return_inverse=True, return_counts=True)
        right = torch.zeros_like(value).index_add_(0, place, y)
        sums = value * count
        found.append(_class_parts(torch.stack([count.double(), sums, right, sums * (1 - value), value * right])))
    return _over_classes(torch.stack(found, 1), several=not is_single_label(target))


def _class_parts(table: Tensor) -> Tensor:
    """The parts of each class, (6, …); ``table`` is (5, …, bins) of pairs, Σ p, right pairs, Σ p (1 - p) and Σ p y."""
    count, expected, right, variance, both = table
    rows = count.sum(-1)
    squares = expected - variance  # Σ p²
    filled, share = count > 0, right.sum(-1) / rows
    divisor = count.where(filled, 1.0)
    mean, frequency = expected / divisor, right / divisor
    reliability = (count * (mean - frequency).square()).sum(-1) / rows
    resolution = (count * (frequency - share[..., None]).square()).sum(-1) / rows
    within_variance = (squares - expected * mean).clamp(min=0).sum(-1) / rows
    within_covariance = 2 * (both - expected * frequency).sum(-1) / rows
    brier = (squares - 2 * both + right).sum(-1) / rows
    return torch.stack([brier, reliability, resolution, share * (1 - share), within_variance, within_covariance])


def _over_classes(parts: Tensor, *, several: bool) -> dict[str, Tensor]:
    return dict(zip(PARTS, parts.mean(1) if several else parts.sum(1), strict=True))
