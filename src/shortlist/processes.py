"""Reductions over all processes of a distributed training, with gradients; with one process they do nothing.

A loss that couples the rows of a batch is computed on the global batch, and every process gets its value. The gradient that a
process gets for its own rows is multiplied by the number of processes, because data-parallel training averages gradients.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from shortlist.errors import InputError

Value = TypeVar("Value")


def processes() -> int:
    """The number of processes that share the batch."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if processes() > 1 else 0


def total(values: Tensor) -> Tensor:
    """The sum over all processes of a tensor that has the same shape on each."""
    if processes() == 1:
        return values
    summed: Tensor = _Total.apply(values)  # type: ignore[no-untyped-call]
    return summed


def total_logsumexp(values: Tensor, dim: int = 0) -> Tensor:
    """``log Σ exp`` along a dimension and over all processes; -inf for an empty sum, with gradient 0."""
    largest = gathered(values.detach().amax(dim) if values.shape[dim] else _empty_max(values, dim)).amax(0)
    level = torch.where(largest.isinf(), 0.0, largest)
    summed = total((values - level.unsqueeze(dim)).exp().sum(dim))
    empty = summed == 0
    return torch.where(empty, -torch.inf, torch.where(empty, 1.0, summed).log() + level)


def gathered(values: Tensor) -> Tensor:
    """The tensors of all processes, stacked, without gradient."""
    values = values.detach()
    if processes() == 1:
        return values[None]
    parts = [torch.empty_like(values) for _ in range(processes())]
    distributed.all_gather(parts, values.contiguous())
    return torch.stack(parts)


def all_rows(values: Tensor, fill: float) -> Tensor:
    """The values (N,) of all processes one after the other, with gradient; shorter ones are filled up to the longest."""
    if processes() == 1:
        return values
    lengths = gathered(torch.tensor(len(values), device=values.device))
    longest = int(lengths.max())
    own = torch.nn.functional.pad(values, (0, longest - len(values)), value=fill)
    grid = torch.cat([own[None] if n == rank() else own.new_zeros(1, longest) for n in range(processes())])
    return total(grid).flatten()


def decided_by_first(answers: list[bool]) -> list[bool]:
    """The answers of the first process, in every process."""
    if processes() == 1:
        return answers
    shared: list[Any] = [answers]
    distributed.broadcast_object_list(shared)
    return list(shared[0])


def asked_of_first(question: Callable[[], Value]) -> Value:
    """The answer of the first process, which alone is asked, in every process; if it is an error, that is one in each.

    Args:
        question: called in the first process; its answer is anything that can be pickled, its error an ``InputError``.
    """
    if processes() == 1:
        return question()
    told: list[Any] = [None, None]
    refusal: InputError | None = None
    if rank() == 0:
        try:
            told[0] = question()
        except InputError as error:
            told[1], refusal = str(error), error
    distributed.broadcast_object_list(told)
    if told[1] is not None:
        raise refusal or InputError(told[1])
    answer: Value = told[0]
    return answer


def from_all(value: Value) -> list[Value]:
    """The values of all processes, in the order of the processes; anything that can be pickled."""
    if processes() == 1:
        return [value]
    found: list[Any] = [None] * processes()
    distributed.all_gather_object(found, value)
    return found


def same_everywhere(value: str) -> bool:
    """Whether every process has the same text."""
    return len(set(from_all(value))) == 1


def _empty_max(values: Tensor, dim: int) -> Tensor:
    shape = [size for n, size in enumerate(values.shape) if n != dim % values.ndim]
    return values.new_full(shape, -torch.inf)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        summed = values.clone()
        distributed.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # Every process holds the same loss, so the sum of their gradients is the gradient times their number.
        return total(gradient)
