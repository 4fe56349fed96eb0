"""Logistic regression of many labels at once, each on features of its own."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from shortlist.errors import NotConvergedError

STEPS, HALVINGS = 100, 40
ROUNDING = 1e-12  # differences that are a smaller share of a feature say nothing: weights would fit the rounding of log-odds


def smoothed(marks: Tensor) -> Tensor:
    """Platt's targets, ``(n₊ + 1) / (n₊ + 2)`` and ``1 / (n₋ + 2)``, with which an optimum always exists; float64 (n, L)."""
    positives = marks.sum(0).double()
    return torch.where(marks, (positives + 1) / (positives + 2), 1 / (len(marks) - positives + 2))


def fit_logistic(features: Tensor, outcome: Tensor, name: str) -> Tensor:
    """Weights and intercept, float64 (K + 1, L), that maximise the likelihood of each column.

    Args:
        features: float64 (K, n, L); the weight of one that is constant, up to rounding, is 0.
        outcome: float64 (n, L), above 0 and below 1.
        name: the link, for the message.
    """
    centre, spread = features.mean(1), features.std(1, correction=0)
    useful = spread > ROUNDING * features.abs().amax(1)
    spread = torch.where(useful, spread, 1.0)
    x = torch.where(useful[:, None], (features - centre[:, None]) / spread[:, None], 0.0)
    x = torch.cat([x, torch.ones_like(x[:1])])
    moves = torch.cat([useful, torch.ones_like(useful[:1])])
    weights = x.new_zeros(len(x), x.shape[2])
    weights[-1] = torch.logit(outcome.mean(0))
    for _ in range(STEPS):
        p = torch.sigmoid(torch.einsum("kl,knl->nl", weights, x))
        gradient = torch.einsum("nl,knl->kl", p - outcome, x) / len(outcome)
        if gradient.abs().amax() < 1e-12:
            break
        curvature = torch.einsum("nl,jnl,knl->ljk", p * (1 - p), x, x) / len(outcome)
        # The pseudo-inverse: features may be constant, or multiples of each other.
        step = torch.einsum("ljk,kl->jl", torch.linalg.pinv(curvature, hermitian=True), gradient)
        step = torch.where(moves, step, 0.0)  # on some processors the pseudo-inverse leaves 1e-17 where it should be 0
        weights = weights - _length(x, outcome, weights, step) * step
    else:
        if gradient.abs().amax() > 1e-8:
            raise NotConvergedError(f"{name}: Newton's method did not converge in {STEPS} steps")
    slopes = weights[:-1] / spread
    return torch.cat([slopes, weights[-1:] - (slopes * centre).sum(0, keepdim=True)])


def logistic_loss(x: Tensor, weights: Tensor, outcome: Tensor) -> Tensor:
    """The mean cross-entropy of each column, (L,)."""
    z = torch.einsum("kl,knl->nl", weights, x)
    return (softplus(z) - outcome * z).mean(0)


def _length(x: Tensor, outcome: Tensor, weights: Tensor, step: Tensor) -> Tensor:
    """How far each column goes along its step: halved until it is no worse than before."""
    length, before = torch.ones_like(step[0]), logistic_loss(x, weights, outcome)
    for _ in range(HALVINGS):
        worse = logistic_loss(x, weights - length * step, outcome) > before + 1e-15
        if not worse.any():
            break
        length = torch.where(worse, length / 2, length)
    return length
