"""Gradients written over the scores they belong to, for a caller who needs these scores no more: half the memory.

Every kernel that writes a gradient reads an entry of the scores just before it writes the same entry, so the two may share
their memory. ``torch.autograd`` does not know of it: whoever asks for it has to know that nothing else will read the scores.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from shortlist.kernels.registry import ORDINARY

_expendable: set[int] = set()  # addresses; the backward pass runs in threads of its own, which see them too


@contextmanager
def overwriting(*scores: Tensor) -> Iterator[None]:
    """Inside, kernels write the gradients in these scores over them.

    Args:
        scores: (N, C) each, in dense memory of their own.
    """
    places = {part.data_ptr() for part in scores if part.is_contiguous()}
    _expendable.update(places)
    try:
        yield
    finally:
        _expendable.difference_update(places)


def room_for_gradient(scores: Tensor) -> Tensor:
    """Where a kernel writes the gradient in these scores, dense (N, C): new memory, or the scores themselves."""
    if _expendable and type(scores) in ORDINARY and scores.is_contiguous() and scores.data_ptr() in _expendable:
        return scores
    return torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)


def has_one_reader(scores: Tensor, result: Tensor) -> bool:
    """Whether one function alone passes a gradient from the result to the scores.

    Args:
        scores: a leaf that requires a gradient.
        result: what was computed from it.
    """
    readers, seen, waiting = 0, set[Any](), [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if getattr(following, "variable", None) is scores:
                readers += 1
            else:
                waiting.append(following)
    return readers == 1
