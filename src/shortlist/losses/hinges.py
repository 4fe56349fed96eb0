"""Hinges between the true score and the k-th largest, hard and smoothed (Garcin 2022, Table 1).

Shapes: scores (N, C), target int64 (N,). Papers: Lapin et al. 2015 and 2016, Yang and Koyejo 2020, Garcin et al. 2022.
"""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.checks import check_each_class, number, one_of, per_class, whole
from shortlist.errors import InputError
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value
from shortlist.tensors import Reduction, Scores, Target, check_single_label, pick, reduce, working

Smoothing: TypeAlias = Literal["noised", "antithetic", "expected", "soft"]

WHOLE = whole(1)


def check_rivals(scores: Scores, k: int) -> None:
    """There is a (k+1)-th score."""
    if k + 1 > scores.shape[1]:
        raise InputError(f"k: expected at most {scores.shape[1] - 1}, one less than the classes of scores, got {k}")


@domains(k=WHOLE, margin=number(least=0))
def topk_hinge_loss(scores: Scores, target: Target, *, k: int, margin: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    r"""Hinge between the true score and the k-th largest of the others.

    .. math:: (margin + \mathrm{top}_k(scores_{\setminus target}) - scores_{target})_+

    Elicits: nothing (not top-k calibrated; ``tests/losses/test_elicitation.py`` shows a law where it fails). Link: none.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: 1 to C - 1.
        margin: by how much the true score should win.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=1)
    tensor(2.)

    Lapin, Hein, Schiele, "Top-k multiclass SVM", 2015, eq. 7.
    """
    check_single_label(scores, target)
    check_rivals(scores, k)
    scores = working(scores)
    others = scores.scatter(1, target[:, None], -torch.inf)
    rival = others.topk(k, dim=1).values[:, -1]
    return reduce(torch.relu(margin + rival - pick(scores, target)), reduction)


class TopkHingeLoss(Loss):
    """Module form of :func:`topk_hinge_loss`."""

    function = staticmethod(topk_hinge_loss)


@domains(k=WHOLE, margin=number(least=0))
def convex_topk_hinge_loss(
    scores: Scores, target: Target, *, k: int, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    r"""Hinge between the true score and the mean of the k largest, the others raised by the margin.

    .. math:: \Big(\frac1k \sum_{i \le k} \mathrm{top}_i(scores + margin \cdot (1 - e_{target})) - scores_{target}\Big)_+

    Elicits: nothing (not top-k calibrated; ``tests/losses/test_elicitation.py`` shows a law where it fails). Link: none.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: 1 to C - 1.
        margin: by how much the true score should win.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> convex_topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2)
    tensor(1.)

    Lapin, Hein, Schiele, 2015 (top-k hinge α); Garcin 2022, Table 1.
    """
    check_single_label(scores, target)
    check_rivals(scores, k)
    scores = working(scores)
    own = pick(scores, target)
    raised = (scores + margin).scatter(1, target[:, None], own[:, None])
    return reduce(torch.relu(raised.topk(k, dim=1).values.mean(1) - own), reduction)


class ConvexTopkHingeLoss(Loss):
    """Module form of :func:`convex_topk_hinge_loss`."""

    function = staticmethod(convex_topk_hinge_loss)


@domains(k=WHOLE, margin=number(least=0))
def calibrated_topk_hinge_loss(
    scores: Scores, target: Target, *, k: int, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    r"""Hinge between the true score and the (k+1)-th largest of all.

    .. math:: (margin + \mathrm{top}_{k+1}(scores) - scores_{target})_+

    Elicits: the top-k set. It does not train deep networks: where the true class is itself the (k+1)-th its gradient is 0.
    :func:`noised_topk_hinge_loss` is its smooth form. Link: none.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: 1 to C - 1.
        margin: by how much the true score should win.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> calibrated_topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([2]), k=1)
    tensor(2.)

    Yang, Koyejo, "On the consistency of top-k surrogate losses", 2020; Garcin 2022, eq. 17.
    """
    return noised_topk_hinge_loss(scores, target, k=k, epsilon=0.0, margin=margin, reduction=reduction)


class CalibratedTopkHingeLoss(Loss):
    """Module form of :func:`calibrated_topk_hinge_loss`."""

    function = staticmethod(calibrated_topk_hinge_loss)
    elicits = "top-k set"


SMOOTHINGS = ("noised", "antithetic", "expected", "soft")


@domains(
    k=WHOLE,
    epsilon=number(least=0),
    samples=WHOLE,
    margin=per_class(or_number=True),
    scale=number(above=0),
    smoothing=one_of(*SMOOTHINGS),
)
def noised_topk_hinge_loss(
    scores: Scores,
    target: Target,
    *,
    k: int,
    epsilon: float = 1.0,
    samples: int = 5,
    margin: float | Tensor = 1.0,
    scale: float = 1.0,
    smoothing: Smoothing = "noised",
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Hinge between the true score and a smoothed (k+1)-th largest of all.

    .. math:: (scale \cdot (margin_{target} + t - scores_{target}))_+, \quad
              t = \frac{1}{samples} \sum_b \mathrm{top}_{k+1}(scores + epsilon \cdot Z_b)

    Balanced with a number as margin; imbalanced with :func:`class_margins` and cosine scores, scale 60, epsilon 0.01.

    Elicits: the top-k set, as long as epsilon is small enough beside the margin: epsilon times the expected largest of k + 1
    normal numbers below it (0.85 for k = 2, 1.03 for k = 3, 1.27 for k = 5); beyond that k + 1 labels can tie at no cost.
    With a margin for each class, the top-k set of ``margin_j · p_j``: rarer classes are favoured, as is meant. Link: none.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: 1 to C - 1.
        epsilon: scale of the noise, on the scores before ``scale``. With 0 the calibrated hinge. 0.2 suits CIFAR-100, 1.0
            Pl@ntNet-300K.
        samples: draws a row; 5 to 10.
        margin: one number, or (C,), one for each class.
        scale: multiplies the whole.
        smoothing: "noised" as in the paper; "antithetic" draws pairs of opposite noise; "expected" is the expectation
            itself (small C); "soft" the deterministic :func:`soft_top_value`, with no variance.
        noise: the draws, (samples, N, C), in place of fresh ones.
        generator: where fresh draws come from.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0]])
    >>> noised_topk_hinge_loss(scores, torch.tensor([2]), k=1, smoothing="soft", epsilon=0.2)
    tensor(2.)

    Garcin, Servajean, Joly, Salmon, 2022, eqs. 10 (balanced) and 13 (imbalanced).
    """
    check_single_label(scores, target)
    check_rivals(scores, k)
    scores = working(scores)
    rival = _smoothed(scores, k + 1, epsilon, samples, smoothing, noise, generator)
    own = check_each_class(margin, scores, "margin")[target] if isinstance(margin, Tensor) and margin.ndim else margin
    return reduce(torch.relu(scale * (own + rival - pick(scores, target))), reduction)


def _smoothed(
    scores: Scores,
    rank: int,
    epsilon: float,
    samples: int,
    smoothing: str,
    noise: Tensor | None,
    generator: torch.Generator | None,
) -> Tensor:
    if smoothing in ("noised", "antithetic"):
        pairs = smoothing == "antithetic"
        return noised_top_value(scores, rank, epsilon, samples, antithetic=pairs, noise=noise, generator=generator)
    if noise is not None:
        raise InputError(f"noise: expected none with smoothing {smoothing!r}, which draws nothing")
    smooth = expected_top_value if smoothing == "expected" else soft_top_value
    return smooth(scores, rank, epsilon)


class NoisedTopkHingeLoss(Loss):
    """Module form of :func:`noised_topk_hinge_loss`."""

    function = staticmethod(noised_topk_hinge_loss)
    elicits = "top-k set"
