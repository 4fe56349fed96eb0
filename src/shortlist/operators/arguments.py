"""What every smoothing of the k-th largest asks of its arguments."""

import math

import torch

from shortlist.checks import whole_number
from shortlist.errors import InputError
from shortlist.tensors import Scores, check_scores


def check_level(scores: Scores, k: int, epsilon: float) -> None:
    """Scores (N, C), k from 1 to C, epsilon from 0."""
    check_scores(scores)
    if whole_number(k, "k", 1) > scores.shape[1]:
        raise InputError(f"k: expected at most the {scores.shape[1]} classes of scores, got {k}")
    check_epsilon(epsilon)


def check_epsilon(epsilon: float) -> None:
    """The width of a smoothing."""
    if not 0 <= epsilon < math.inf:
        raise InputError(f"epsilon: expected a number from 0, got {epsilon}")


def negligible(epsilon: float, dtype: torch.dtype) -> bool:
    """Whether scores divided by epsilon would overflow: then it is as good as 0."""
    return epsilon**2 < torch.finfo(dtype).tiny
