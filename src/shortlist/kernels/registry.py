"""Operators of this library in torch's registry, so that ``torch.compile`` and CUDA graphs take them as they are."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

LIBRARY = torch.library.Library("shortlist", "FRAGMENT")
ORDINARY = (Tensor, torch.nn.Parameter)  # not the fake tensors with which torch traces


def operator(schema: str, shapes: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function, which launches kernels, as the operator ``torch.ops.shortlist.NAME``.

    What is returned calls the operator while torch traces or compiles, and the function itself otherwise.

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
        registered_operator, floats = getattr(torch.ops.shortlist, name), _float_places(schema)

        def called(first: Tensor, *others: Any) -> Any:
            if torch.compiler.is_compiling() or type(first) not in ORDINARY:
                return registered_operator(first, *others)
            # An ordinary call needs no registry, whose way through C++ and back costs as much as launching a small kernel; only
            # its conversion of numbers, since kernels are compiled for each type.
            return on_device(first, *(float(value) if place in floats else value for place, value in enumerate(others, 1)))

        return cast(F, functools.wraps(launch)(called))

    return registered


def _float_places(schema: str) -> frozenset[int]:
    """The places of the arguments that are floating-point numbers.

    >>> _float_places("scaled(Tensor scores, float scale, int k) -> Tensor")
    frozenset({1})
    """
    arguments = schema[schema.index("(") + 1 : schema.index(") ->")].split(",")
    return frozenset(place for place, argument in enumerate(arguments) if argument.strip().startswith("float "))
