"""The expectation of the noised k-th largest by quadrature: exact, as a reference for the other forms."""

import math

import torch
from torch import Tensor

from shortlist.operators.arguments import check_level, negligible
from shortlist.operators.counts import count_probs
from shortlist.operators.kth import kth_value
from shortlist.tensors import Scores, working

# Beyond this many standard deviations the tails vanish in float64. Steps of this fraction of epsilon integrate functions that
# are smooth at the scale of epsilon to the last digits (the trapezoidal rule converges exponentially if both ends are flat).
TAIL, STEP = 8.5, 1 / 8


def expected_top_value(scores: Scores, k: int, epsilon: float = 1.0) -> Tensor:
    r"""The expectation of the k-th largest score with normal noise.

    .. math:: E[\mathrm{top}_k(scores + epsilon \cdot Z)] =
              t_0 + \int_{t_0}^{∞} P(\#\{j : scores_j + epsilon \cdot Z_j > t\} \ge k)\, dt

    The number of scores that exceed t has a Poisson-binomial distribution, so value and gradient are integrals in one
    dimension. The gradient in score j is the probability that j is the k-th largest. It costs about two hundred times O(k C)
    per row: use it for small C, and as a reference for :func:`noised_top_value` and :func:`soft_top_value`.

    A row with fewer than k classes above -inf has -inf, without a gradient.

    Args:
        scores: (N, C).
        k: 1 to C.
        epsilon: scale of the noise; 0 gives the k-th largest itself.

    Shape: (N,).

    >>> expected_top_value(torch.tensor([[0.0, 0.0]]), 1)
    tensor([0.5642])
    """
    k, epsilon = check_level(scores, k, epsilon), float(epsilon)
    scores = working(scores)
    if negligible(epsilon, scores.dtype):
        return kth_value(scores, k)
    classes = scores.shape[1]
    # The k-th largest changes by at most the largest noise.
    reach = epsilon * (math.sqrt(2 * math.log(classes)) + TAIL)
    centre = kth_value(scores.detach(), k)[:, None]
    masked = centre == -torch.inf  # fewer than k classes are not: -inf, without a gradient
    scores, centre = scores.masked_fill(masked, 0.0), centre.masked_fill(masked, 0.0)
    steps = math.ceil(2 * reach / (epsilon * STEP))
    offsets = torch.linspace(-reach, reach, steps + 1, dtype=scores.dtype, device=scores.device)
    rows = [_integrated(row, middle, offsets, k, epsilon, reach) for row, middle in zip(scores, centre, strict=True)]
    return torch.stack(rows).masked_fill(masked[:, 0], -torch.inf) if rows else scores.sum(1)


def _integrated(row: Tensor, centre: Tensor, offsets: Tensor, k: int, epsilon: float, reach: float) -> Tensor:
    x = (row - centre - offsets[:, None]) / epsilon
    most = k - 1
    happens, fails = torch.special.ndtr(x), torch.special.ndtr(-x)
    if 2 * k <= len(row) + 1:
        enough = 1 - count_probs(happens, fails, most).sum(0)
    else:  # at least k happen if at most C - k fail
        enough = count_probs(fails, happens, len(row) - k).sum(0)
    # The left end, half of the interval, is taken from every term: the integral as a whole would nearly cancel it. Nor
    # is the step the difference of two offsets, which would lose digits.
    beyond, step = enough - 0.5, 2 * reach / (len(offsets) - 1)
    return centre[0] + step * (beyond.sum() - (beyond[0] + beyond[-1]) / 2)
