"""What metrics return: tensors for tensors, plain numbers and arrays for everything else."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias

from torch import Tensor

P = ParamSpec("P")

# A tensor if any argument is one; otherwise a float, or an array where there are several values.
Answer: TypeAlias = Any


def like_input(function: Callable[P, Any]) -> Callable[P, Any]:
    """Decorator: the metric returns tensors for tensors, and numpy floats and arrays for arrays, lists and data frames.

    >>> import numpy as np, torch
    >>> double = like_input(lambda values: 2 * torch.as_tensor(values))
    >>> double(np.array(1.5)), double([1.0, 2.0]), double(torch.tensor(1.5))
    (np.float64(3.0), array([2., 4.], dtype=float32), tensor(3.))
    """

    @functools.wraps(function)
    def converted(*positional: P.args, **keywords: P.kwargs) -> Any:
        answer = function(*positional, **keywords)
        given = (*positional, *keywords.values())
        return answer if any(isinstance(value, Tensor) for value in given) else _plain(answer)

    return converted


def _plain(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: _plain(value) for name, value in answer.items()}
    if isinstance(answer, tuple):  # a named tuple, such as a curve
        return type(answer)(*map(_plain, answer))
    if isinstance(answer, Tensor):
        return answer.cpu().numpy()[()]  # no dimension: np.float64, which is a float
    return answer
