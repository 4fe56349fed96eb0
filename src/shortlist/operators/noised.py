"""The k-th largest score of a row with noise, averaged over draws (Garcin 2022)."""

import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.operators.arguments import check_level, negligible
from shortlist.operators.kth import kth_place
from shortlist.operators.lazy_draws import lazy_top_draws
from shortlist.operators.plain_draws import plain_top_draws
from shortlist.tensors import Scores, by_device, shape_of, working

DRAWS = {"cpu": lazy_top_draws, "any": plain_top_draws}


def noised_top_value(
    scores: Scores,
    k: int,
    epsilon: float = 1.0,
    samples: int = 5,
    *,
    antithetic: bool = False,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""The mean over draws of the k-th largest noised score: a k-th largest with a useful gradient.

    .. math:: \frac{1}{samples} \sum_b \mathrm{top}_k(scores + epsilon \cdot Z_b), \quad Z_b \sim N(0, I)

    Its gradient is the mean of the one-hot vectors at the k-th index of each draw, an unbiased estimate of the
    probability that each class is the k-th; none flows to epsilon or to the noise.

    Args:
        scores: (N, C).
        k: 1 to C.
        epsilon: scale of the noise; 0 gives the k-th largest itself, ties by lower index.
        samples: draws per row.
        antithetic: draw pairs of opposite noise. This reduces the variance of the value, but hardly that of the gradient.
        noise: the draws themselves, (samples, N, C), instead of fresh ones; ``samples`` is then ignored.
        generator: source of the draws.

    Shape: (N,).

    On the CPU only classes that can be the k-th are drawn in full, with the same distribution (see ``lazy_draws.py``), and no
    tensor of shape (samples, N, C) is allocated.

    >>> z = torch.tensor([[.2, -.1, .1, .3], [.1, .1, -.1, .1], [-.1, -.1, .1, -.1]])[:, None]
    >>> noised_top_value(torch.tensor([[2.4, 2.6, 2.3, 0.5]]), 2, 1.0, noise=z)
    tensor([2.4667])

    Garcin, Servajean, Joly, Salmon, "Stochastic smoothing of the top-K calibrated hinge loss for deep imbalanced
    classification", 2022, section 3.2.
    """
    scores = working(scores)
    places, shifts = noised_top_draws(scores, k, epsilon, samples, antithetic=antithetic, noise=noise, generator=generator)
    return (scores.gather(1, places) + shifts).mean(1)


def noised_top_draws(
    scores: Scores,
    k: int,
    epsilon: float,
    samples: int,
    *,
    antithetic: bool = False,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """The index of the k-th largest noised score in each draw, int64 (N, samples), and the noise there, epsilon included.

    Arguments as for :func:`noised_top_value`, scores not in half precision. Neither result has a gradient.
    """
    k, epsilon = check_level(scores, k, epsilon), float(epsilon)
    samples = whole(1)("samples", samples)
    if antithetic and samples % 2:
        raise InputError(f"samples: expected an even number for antithetic pairs, got {samples}")
    if noise is not None:
        return _given_draws(scores.detach(), k, epsilon, _checked_noise(noise, scores))
    if negligible(epsilon, scores.dtype):
        return _given_draws(scores.detach(), k, 0.0, scores.new_zeros(1, 1, 1))
    return by_device(DRAWS, scores)(scores.detach(), k, epsilon, samples, antithetic, generator)


def _checked_noise(noise: Tensor, scores: Scores) -> Tensor:
    if noise.ndim != 3 or noise.shape[1:] != scores.shape or not noise.is_floating_point() or not len(noise):
        raise InputError(
            f"noise: expected floating point (samples, {', '.join(map(str, scores.shape))}), got {shape_of(noise)}"
        )
    return noise.detach().to(scores)


def _given_draws(scores: Scores, k: int, epsilon: float, noise: Tensor) -> tuple[Tensor, Tensor]:
    """The index of the k-th largest in each draw, (N, samples), and the noise there."""
    places, shifts = [], []
    for z in noise:
        place = kth_place(scores + epsilon * z, k, by_index=True)
        places.append(place)
        shifts.append(epsilon * z.expand_as(scores).gather(1, place))
    return torch.cat(places, 1), torch.cat(shifts, 1)
