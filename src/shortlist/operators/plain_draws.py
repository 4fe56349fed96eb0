"""Draws of the k-th largest noised score with noise for every class: for GPUs, antithetic pairs, and unusual rows."""

import torch
from torch import Tensor

from shortlist.operators.kth import kth_place
from shortlist.tensors import Scores, uncompiled


@uncompiled
def plain_top_draws(
    scores: Scores, k: int, epsilon: float, samples: int, antithetic: bool, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The index of the k-th largest noised score in each draw, (N, samples), and the noise there, epsilon included.

    One draw at a time, so that at most two tensors of the size of the scores are held.
    """
    places, shifts = [], []
    z = scores
    for b in range(samples):
        fresh = not (antithetic and b % 2)
        z = torch.randn(scores.shape, generator=generator, dtype=scores.dtype, device=scores.device) if fresh else -z
        place = kth_place(torch.add(scores, z, alpha=epsilon), k)  # noise breaks ties
        places.append(place)
        shifts.append(epsilon * z.gather(1, place))
    return torch.cat(places, 1), torch.cat(shifts, 1)
