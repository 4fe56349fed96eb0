"""Operators of this library in torch's registry, so that ``torch.compile`` and CUDA graphs take them as they are."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

LIBRARY = torch.library.Library("shortlist", "FRAGMENT")


def operator(schema: str, shapes: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function, which launches kernels, as the operator ``torch.ops.shortlist.NAME``.

    It is called with the GPU of its first argument, a tensor, as the current one.

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
        found: F = getattr(torch.ops.shortlist, name)
        return found

    return registered
