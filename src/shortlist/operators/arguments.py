"""Checks of the arguments that all smooth forms of the k-th largest share."""

import torch

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.tensors import Scores, check_scores


def check_level(scores: Scores, k: int, epsilon: float) -> int:
    """Check scores (N, C), k from 1 to C, and epsilon from 0; return k as an int."""
    check_scores(scores)
    k = whole(1)("k", k)
    if k > scores.shape[1]:
        raise InputError(f"k: expected at most the {scores.shape[1]} classes of scores, got {k}")
    number(least=0)("epsilon", epsilon)
    return k


def negligible(epsilon: float, dtype: torch.dtype) -> bool:
    """Whether scores divided by epsilon would overflow, so that epsilon is treated as 0."""
    return epsilon**2 < torch.finfo(dtype).tiny
