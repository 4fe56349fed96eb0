"""The expectation of the noised k-th largest, by quadrature: exact, and the judge of the others."""

import math

import torch
from torch import Tensor

from shortlist.operators.arguments import check_level, negligible
from shortlist.operators.counts import count_probs
from shortlist.tensors import Scores, working

# Beyond this many deviations nothing is left in float64, and steps of this share of epsilon integrate what is smooth at the
# scale of epsilon to its last digits (the trapezoid rule converges faster than any power where both ends are flat).
TAIL, STEP = 8.5, 1 / 8


def expected_top_value(scores: Scores, k: int, epsilon: float = 1.0) -> Tensor:
    r"""The expectation of the k-th largest score with normal noise.

    .. math:: E[\mathrm{top}_k(scores + epsilon \cdot Z)] =
              t_0 + \int_{t_0}^{∞} P(\#\{j : scores_j + epsilon \cdot Z_j > t\} \ge k)\, dt

    The number that exceeds t is a sum of independent events (Poisson-binomial), so that value and gradient are integrals
    in one dimension. The gradient in score j is the probability that j is the k-th largest. It costs some two hundred
    times O(k C) a row: for small C, and to judge :func:`noised_top_value` and :func:`soft_top_value` by.

    Args:
        scores: (N, C).
        k: 1 to C.
        epsilon: the scale of the noise; with 0 the k-th largest itself.

    Shape: (N,).

    >>> expected_top_value(torch.tensor([[0.0, 0.0]]), 1)
    tensor([0.5642])
    """
    k, epsilon = check_level(scores, k, epsilon), float(epsilon)
    scores = working(scores)
    if negligible(epsilon, scores.dtype):
        return scores.topk(k, dim=1).values[:, -1]
    classes = scores.shape[1]
    # The k-th largest moves by no more than the largest noise does.
    reach = epsilon * (math.sqrt(2 * math.log(classes)) + TAIL)
    centre = scores.detach().topk(k, dim=1).values[:, -1:]
    steps = math.ceil(2 * reach / (epsilon * STEP))
    offsets = torch.linspace(-reach, reach, steps + 1, dtype=scores.dtype, device=scores.device)
    rows = [_integrated(row, middle, offsets, k, epsilon) for row, middle in zip(scores, centre, strict=True)]
    return torch.stack(rows) if rows else scores.sum(1)


def _integrated(row: Tensor, centre: Tensor, offsets: Tensor, k: int, epsilon: float) -> Tensor:
    x = (row - centre - offsets[:, None]) / epsilon
    most = k - 1
    happens, fails = torch.special.ndtr(x), torch.special.ndtr(-x)
    if 2 * k <= len(row) + 1:
        enough = 1 - count_probs(happens, fails, most).sum(0)
    else:  # at least k happen where at most C - k fail
        enough = count_probs(fails, happens, len(row) - k).sum(0)
    step = offsets[1] - offsets[0]
    return centre[0] + offsets[0] + step * (enough.sum() - (enough[0] + enough[-1]) / 2)
