"""What metrics take: sets, scores or probabilities, and labels, as tensors whose values have been checked once."""

from typing import Any, overload

from torch import Tensor

from shortlist.checks import Kind, check_rows
from shortlist.class_names import check_same_names, labels_by_name
from shortlist.tensors import Target, as_target, as_tensor


@overload
def checked(values: Any, target: None, kind: Kind) -> tuple[Tensor, None]: ...
@overload
def checked(values: Any, target: Any, kind: Kind) -> tuple[Tensor, Target]: ...
def checked(values: Any, target: Any, kind: Kind) -> tuple[Tensor, Target | None]:
    """The values and the target as tensors; :func:`~shortlist.checks.check_rows` says what is refused and what is clipped.

    Every public function of this package calls this first, and every streaming metric for each batch. What they call in turn
    checks nothing again.

    >>> import torch
    >>> checked([[0.5, 50.0]], [0], "probabilities")
    Traceback (most recent call last):
    shortlist.errors.InputError: probs: expected probabilities from 0 to 1, got 50 in row 0, column 1: apply the link of the \
scores (softmax, sigmoid, …) first, or divide percentages by 100
    """
    target = labels_by_name(target, values)
    check_same_names(values, target)
    name = "sets" if kind == "sets" else "probs"
    values, target = as_tensor(values, name), None if target is None else as_target(target)
    return check_rows(values, target, kind=kind, name=name), target
