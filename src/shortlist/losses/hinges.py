"""Hinge losses between the true score and the k-th largest, plain and smoothed (Garcin 2022, Table 1).

Shapes: scores (N, C), target integers (N,). Papers: Lapin et al. 2015 and 2016, Yang and Koyejo 2020, Garcin et al. 2022.
"""

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.checks import check_each_class, number, one_of, per_class, whole
from shortlist.errors import InputError
from shortlist.kernels.choice import fused
from shortlist.kernels.noised import Setting, noised_hinge_loss, takes_draws
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import WEIGHTING, class_weight, excess, labelled_rows, reduce_rows, reduce_weighted, single_labels
from shortlist.operators import expected_top_value, soft_top_value
from shortlist.operators.arguments import negligible
from shortlist.operators.noised import noised_top_draws
from shortlist.tensors import Reduction, Scores, Target, pick

Smoothing: TypeAlias = Literal["noised", "antithetic", "expected", "soft"]

SMOOTHINGS = ("noised", "antithetic", "expected", "soft")
COUNT = whole(1)


def check_rivals(scores: Scores, k: int) -> None:
    """The scores have a (k+1)-th largest."""
    if k + 1 > scores.shape[1]:
        raise InputError(f"k: expected at most {scores.shape[1] - 1}, one less than the classes of scores, got {k}")


@domains(k=COUNT, margin=number(least=0), **WEIGHTING)
def topk_hinge_loss(
    scores: Scores,
    target: Target,
    *,
    k: int,
    margin: float = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Hinge between the true score and the k-th largest of the others.

    .. math:: (margin + \mathrm{top}_k(scores_{\setminus target}) - scores_{target})_+

    Elicits: nothing: it is not top-k calibrated (``tests/losses/test_elicitation.py`` has a counterexample). Link: none.

    Args:
        scores: (N, C).
        target: integers (N,).
        k: 1 to C - 1.
        margin: by how much the true score should exceed the other; default 1.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=1)
    tensor(2.)

    Lapin, Hein, Schiele, "Top-k multiclass SVM", 2015, eq. 7.
    """
    labels, scores = labelled_rows(scores, target, ignore_index)
    check_rivals(scores, k)
    others = scores.scatter(1, labels.target[:, None], -torch.inf)
    rival = others.topk(k, dim=1).values[:, -1]
    hinge = torch.relu(margin + excess(rival, pick(scores, labels.target)))
    return reduce_rows(hinge, labels, weight, reduction, scores)


class TopkHingeLoss(Loss):
    """Module form of :func:`topk_hinge_loss`."""

    function = staticmethod(topk_hinge_loss)

    def __init__(
        self,
        *,
        k: int,
        margin: float = 1.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(k=k, margin=margin, weight=weight, ignore_index=ignore_index, reduction=reduction)


@domains(k=COUNT, margin=number(least=0), **WEIGHTING)
def convex_topk_hinge_loss(
    scores: Scores,
    target: Target,
    *,
    k: int,
    margin: float = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Hinge between the true score and the mean of the k largest, the others raised by the margin.

    .. math:: \Big(\frac1k \sum_{i \le k} \mathrm{top}_i(scores + margin \cdot (1 - e_{target})) - scores_{target}\Big)_+

    Elicits: nothing: it is not top-k calibrated (``tests/losses/test_elicitation.py`` has a counterexample). Link: none.

    Args:
        scores: (N, C).
        target: integers (N,).
        k: 1 to C - 1.
        margin: by how much the true score should exceed the other; default 1.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> convex_topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2)
    tensor(1.)

    Lapin, Hein, Schiele, 2015 (top-k hinge α); Garcin 2022, Table 1.
    """
    labels, scores = labelled_rows(scores, target, ignore_index)
    check_rivals(scores, k)
    own = pick(scores, labels.target)
    raised = (scores + margin).scatter(1, labels.target[:, None], own[:, None])
    hinge = torch.relu(raised.topk(k, dim=1).values.mean(1) - own)
    return reduce_rows(hinge, labels, weight, reduction, scores)


class ConvexTopkHingeLoss(Loss):
    """Module form of :func:`convex_topk_hinge_loss`."""

    function = staticmethod(convex_topk_hinge_loss)

    def __init__(
        self,
        *,
        k: int,
        margin: float = 1.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(k=k, margin=margin, weight=weight, ignore_index=ignore_index, reduction=reduction)


@domains(k=COUNT, margin=number(least=0), **WEIGHTING)
def calibrated_topk_hinge_loss(
    scores: Scores,
    target: Target,
    *,
    k: int,
    margin: float = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Hinge between the true score and the (k+1)-th largest of all.

    .. math:: (margin + \mathrm{top}_{k+1}(scores) - scores_{target})_+

    Elicits: the top-k set. It cannot train deep networks: its gradient is 0 where the true class is itself the (k+1)-th
    largest. :func:`noised_topk_hinge_loss` is its smooth form. Link: none.

    Args:
        scores: (N, C).
        target: integers (N,).
        k: 1 to C - 1.
        margin: by how much the true score should exceed the other; default 1.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> calibrated_topk_hinge_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([2]), k=1)
    tensor(2.)

    Yang, Koyejo, "On the consistency of top-k surrogate losses", 2020; Garcin 2022, eq. 17.
    """
    return noised_topk_hinge_loss(
        scores, target, k=k, epsilon=0.0, margin=margin, weight=weight, ignore_index=ignore_index, reduction=reduction
    )


class CalibratedTopkHingeLoss(Loss):
    """Module form of :func:`calibrated_topk_hinge_loss`."""

    function = staticmethod(calibrated_topk_hinge_loss)
    elicits = "top-k set"

    def __init__(
        self,
        *,
        k: int,
        margin: float = 1.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(k=k, margin=margin, weight=weight, ignore_index=ignore_index, reduction=reduction)


@domains(
    k=COUNT,
    epsilon=number(least=0),
    samples=COUNT,
    margin=per_class(or_number=True),
    scale=number(above=0),
    smoothing=one_of(*SMOOTHINGS),
    **WEIGHTING,
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
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Hinge between the true score and a smoothed (k+1)-th largest of all.

    .. math:: (scale \cdot (margin_{target} + t - scores_{target}))_+, \quad
              t = \frac{1}{samples} \sum_b \mathrm{top}_{k+1}(scores + epsilon \cdot Z_b)

    For balanced classes the margin is one number; for imbalanced ones use :func:`class_margins` and cosine scores, with scale
    60 and epsilon 0.01.

    Elicits: the top-k set, as long as epsilon times the expected maximum of k + 1 standard normal numbers (0.85 for k = 2, 1.03
    for k = 3, 1.27 for k = 5) is below the margin; beyond that, k + 1 labels can tie at no cost. With a margin for each class,
    the top-k set of ``margin_j · p_j``, which favours rarer classes on purpose. Link: none.

    Args:
        scores: (N, C).
        target: integers (N,).
        k: 1 to C - 1.
        epsilon: scale of the noise, which is added to the scores before ``scale`` is applied. 0 gives the calibrated hinge;
            0.2 suits CIFAR-100, 1.0 Pl@ntNet-300K.
        samples: draws per row; 5 to 10.
        margin: one number, or (C,), one for each class.
        scale: multiplies the argument of the hinge.
        smoothing: "noised" as in the paper; "antithetic" draws pairs of opposite noise; "expected" is the exact expectation
            (for small C); "soft" is the deterministic :func:`soft_top_value`, without variance.
        noise: the draws, (samples, N, C), instead of fresh ones.
        generator: source of fresh draws.
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0]])
    >>> noised_topk_hinge_loss(scores, torch.tensor([2]), k=1, smoothing="soft", epsilon=0.2)
    tensor(2.)

    Garcin, Servajean, Joly, Salmon, 2022, eqs. 10 (balanced) and 13 (imbalanced).
    """
    margins = check_each_class(margin, scores, "margin") if isinstance(margin, Tensor) and margin.ndim else None
    drawn = smoothing == "noised" and noise is None and not negligible(epsilon, torch.float32)
    if drawn and takes_draws(scores, k + 1, samples):
        check_rivals(scores, k)
        return noised_hinge_loss(
            scores,
            single_labels(scores, target, ignore_index),
            Setting(k + 1, epsilon, samples, 0.0 if margins is not None else float(margin), scale, ignore_index),
            margins=margins,
            weight=class_weight(weight, scores),
            generator=generator,
            reduction=reduction,
        )
    if smoothing == "soft" and _takes_soft(scores, epsilon, margin):
        return _fused_soft(scores, target, k, epsilon, margin, scale, noise, weight, ignore_index, reduction)
    labels, scores = labelled_rows(scores, target, ignore_index)
    check_rivals(scores, k)
    if smoothing in ("noised", "antithetic"):
        pairs = smoothing == "antithetic"
        draws = noised_top_draws(scores, k + 1, epsilon, samples, antithetic=pairs, noise=noise, generator=generator)
        rival, true = _mean_and_true(scores, *draws, labels.target)
    else:
        _check_no_noise(noise, smoothing)
        smooth = expected_top_value if smoothing == "expected" else soft_top_value
        rival, true = smooth(scores, k + 1, epsilon), pick(scores, labels.target)
    own = margin if margins is None else margins.to(scores)[labels.target]
    finite = drawn and _known_finite(scores)
    gap = own + (rival - true if finite else excess(rival, true))
    hinge = torch.relu(gap if scale == 1 else scale * gap)
    return reduce_rows(hinge, labels, weight, reduction, scores, no_nan=finite)


def _known_finite(scores: Scores) -> bool:
    """Whether all scores are finite, as far as one look on the CPU tells: each mask that is not needed spares a gradient."""
    if scores.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return math.isfinite(scores.detach().sum().item())


def _takes_soft(scores: Scores, epsilon: float, margin: float | Tensor) -> bool:
    """Whether the kernel of the soft hinge takes these arguments: it has no gradient in the margin."""
    fixed = not isinstance(margin, Tensor) or not margin.requires_grad
    return scores.ndim == 2 and fused("soft", scores) and fixed and not negligible(epsilon, torch.float32)


def _fused_soft(
    scores: Scores,
    target: Target,
    k: int,
    epsilon: float,
    margin: float | Tensor,
    scale: float,
    noise: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
) -> Tensor:
    from shortlist.kernels.soft import soft_hinge_rows

    target = single_labels(scores, target, ignore_index)
    check_rivals(scores, k)
    _check_no_noise(noise, "soft")
    if isinstance(margin, Tensor):
        margin = check_each_class(margin if margin.ndim else margin.expand(scores.shape[1]), scores, "margin")
    weight = class_weight(weight, scores)
    values, shares = soft_hinge_rows(
        scores, target, k=k, epsilon=epsilon, margin=margin, scale=scale, weight=weight, ignore_index=ignore_index
    )
    return reduce_weighted(values, shares, reduction)


def _mean_and_true(scores: Scores, places: Tensor, shifts: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """The mean over draws of the noised scores at these places, and the true scores, (N,) each.

    Both are read at once: each reading has a gradient of the size of the scores, and adding two would take as long again.
    """
    read = scores.gather(1, torch.cat((places, target[:, None]), 1))
    return (read[:, :-1] + shifts).mean(1), read[:, -1]


def _check_no_noise(noise: Tensor | None, smoothing: str) -> None:
    if noise is not None:
        raise InputError(f"noise: expected none with smoothing {smoothing!r}, which draws nothing")


class NoisedTopkHingeLoss(Loss):
    """Module form of :func:`noised_topk_hinge_loss`."""

    function = staticmethod(noised_topk_hinge_loss)
    elicits = "top-k set"

    def __init__(
        self,
        *,
        k: int,
        epsilon: float = 1.0,
        samples: int = 5,
        margin: float | Tensor = 1.0,
        scale: float = 1.0,
        smoothing: Smoothing = "noised",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(
            k=k,
            epsilon=epsilon,
            samples=samples,
            margin=margin,
            scale=scale,
            smoothing=smoothing,
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
        )

    def forward(
        self,
        scores: Scores,
        target: Target,
        *,
        noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss of these scores, with the given noise or with draws from the generator."""
        return noised_topk_hinge_loss(scores, target, **self.keywords, noise=noise, generator=generator)
