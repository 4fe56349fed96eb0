"""Operators of this library in torch's registry, so that ``torch.compile`` and CUDA graphs take them as they are."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

F = TypeVar("F", bound=Callable[..., Any])

LIBRARY = torch.library.Library("shortlist", "FRAGMENT")


def operator(schema: str, shapes: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function, which launches kernels, as the operator ``torch.ops.shortlist.NAME``.

    It is called with the GPU of its first argument, a tensor, as the current one. Where nothing is traced, the result calls the
    function itself: on its way through torch's registry a call takes longer than its kernel does on a small batch.

    Args:
        schema: its name, arguments and results, in torch's notation.
        shapes: a function of the same arguments that only allocates the results: all that ``torch.compile`` has to know.
    """

    def registered(launch: F) -> F:
        name = schema.split("(", 1)[0]

        def on_device(first: Tensor, *others: Any) -> Any:
            if not first.is_cuda or first.get_device() == torch.cuda.current_device():
                return launch(first, *others)
            with torch.cuda.device(first.device):
                return launch(first, *others)

        LIBRARY.define(schema)
        LIBRARY.impl(name, on_device, "CompositeExplicitAutograd")
        torch.library.register_fake(f"shortlist::{name}", shapes, lib=LIBRARY)
        traced: Callable[..., Any] = getattr(torch.ops.shortlist, name)

        @wraps(launch)
        def called(first: Tensor, *others: Any) -> Any:
            return traced(first, *others) if _is_traced(first) else on_device(first, *others)

        return cast(F, called)

    return registered


def _is_traced(tensor: Tensor) -> bool:
    """Whether something other than the kernels themselves has to see the operator: a compiler, a mode, a kind of tensor."""
    if torch.compiler.is_compiling():
        return True
    return type(tensor) not in (Tensor, nn.Parameter) or torch._C._len_torch_dispatch_stack() > 0
