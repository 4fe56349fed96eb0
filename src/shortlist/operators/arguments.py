"""What every smoothing of the k-th largest asks of its arguments."""

import math

import torch

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.tensors import Scores, check_scores


def check_level(scores: Scores, k: int, epsilon: float) -> int:
    """Scores (N, C), k from 1 to C, epsilon from 0; gives k as an int."""
    check_scores(scores)
    k = whole(1)("k", k)
    if k > scores.shape[1]:
        raise InputError(f"k: expected at most the {scores.shape[1]} classes of scores, got {k}")
    if not 0 <= epsilon < math.inf:
        raise InputError(f"epsilon: expected a number from 0, got {epsilon}")
    return k


def negligible(epsilon: float, dtype: torch.dtype) -> bool:
    """Whether scores divided by epsilon would overflow: then it is as good as 0."""
    return epsilon**2 < torch.finfo(dtype).tiny
