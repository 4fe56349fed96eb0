"""Gradients that are differentiated again (``create_graph=True``): refused in a sentence where they are known as numbers only.

torch's ``once_differentiable`` refuses only where the incoming gradient itself requires one. That of a loss is a constant, so
its gradient would be taken for a constant as well, and second derivatives would be wrong without a word.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import torch
from torch import Tensor

from shortlist.errors import InputError

Backward: TypeAlias = Callable[..., Any]

PLAINLY = 'compute it inside shortlist.kernels.use_kernels("never"), where all derivatives are there'


def differentiates_again() -> bool:
    """Inside a backward pass: whether it may itself be differentiated; what ``torch.compile`` makes never is."""
    return not torch.compiler.is_compiling() and torch.is_grad_enabled()


def differentiable_once(what: str, instead: str = PLAINLY) -> Callable[[Backward], Backward]:
    """Decorate the backward of an autograd function that computes first derivatives only.

    Every input with a gradient has to be among its saved tensors: with ``create_graph=True`` the gradient is tied to them, and
    to the incoming one, so that whoever differentiates it gets a sentence instead of a wrong number.

    Args:
        what: what has first derivatives only, for the message.
        instead: what to do instead.
    """

    def decorated(backward: Backward) -> Backward:
        @wraps(backward)
        def called(ctx: Any, *upstream: Tensor) -> Any:
            if not differentiates_again():
                return backward(ctx, *upstream)
            with torch.no_grad():
                found = backward(ctx, *upstream)
            given = [part for part in (*upstream, *ctx.saved_tensors) if part is not None and part.requires_grad]
            sentence = f"cannot differentiate the gradient of {what} again: {instead}"
            if isinstance(found, tuple):
                return tuple(part if part is None else _tied(part, sentence, given) for part in found)
            return _tied(found, sentence, given)

        return called

    return decorated


def _tied(gradient: Tensor, sentence: str, given: list[Tensor]) -> Tensor:
    tied: Tensor = _Refused.apply(gradient, sentence, *given)  # type: ignore[no-untyped-call]
    return tied


class _Refused(torch.autograd.Function):
    """The gradient as it is, as something that depends on what was given but has no derivative."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, sentence: str, *given: Tensor) -> Tensor:
        ctx.sentence = sentence
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise InputError(ctx.sentence)
