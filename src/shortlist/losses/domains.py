"""Domains of parameters, declared once at a loss's function: it checks them at each call, its module when it is made."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import Scores, shape_of

P = ParamSpec("P")
# Given the name and the value of a parameter, the value to work with, or an error.
Check: TypeAlias = Callable[[str, Any], Any]


def number(*, least: float = -math.inf, above: float = -math.inf, below: float = math.inf, whole: bool = False) -> Check:
    """A check that a parameter is a finite number within these bounds."""
    bounds = [f"from {least:g}"] if least > -math.inf else []
    bounds += [f"above {above:g}"] if above > -math.inf else []
    bounds += [f"below {below:g}"] if below < math.inf else []
    wanted = " ".join(["a whole number" if whole else "a number", *bounds])

    def check(name: str, value: Any) -> Any:
        try:
            good = not isinstance(value, bool) and math.isfinite(value) and value >= least and above < value < below
            good = good and (not whole or int(value) == value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            good = False
        if not good:
            raise InputError(f"{name}: expected {wanted}, got {_shown(value)}")
        return int(value) if whole else value

    return check


def _shown(value: Any) -> str:
    return (repr(value) if isinstance(value, str) else str(value))[:40]


def one_of(*names: str) -> Check:
    """A check that a parameter is one of these words."""

    def check(name: str, value: Any) -> Any:
        if value not in names:
            raise InputError(f"{name}: expected one of {', '.join(map(repr, names))}; got {value!r}")
        return value

    return check


def per_class(*, or_number: bool = False) -> Check:
    """A check that a parameter is a tensor with one finite number for each class (or one number for all)."""

    def check(name: str, value: Any) -> Any:
        if or_number and (not isinstance(value, Tensor) or value.ndim == 0):
            return value if isinstance(value, Tensor) else number(least=0)(name, value)
        if not isinstance(value, Tensor) or value.ndim != 1 or not value.is_floating_point():
            came = shape_of(value) if isinstance(value, Tensor) else repr(value)[:40]
            raise InputError(f"{name}: expected floating point (C,), one for each class, got {came}")
        visible = value.device.type == "cpu" and not torch.compiler.is_compiling()
        if visible and not value.isfinite().all():
            raise InputError(f"{name}: expected finite numbers, got {value[~value.isfinite()][0].item()}")
        return value

    return check


def for_each_class(values: Tensor, scores: Scores, name: str) -> Tensor:
    """The values of as many classes as the scores have, in the scores' dtype."""
    if len(values) != scores.shape[1]:
        raise InputError(f"{name}: expected floating point ({scores.shape[1]},), one for each class, got {shape_of(values)}")
    return values.to(scores)


def domains(**checks: Check) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Declares the domain of each parameter of a loss; the function checks them at each call, the module when it is made."""

    def declare(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}

        @functools.wraps(function)
        def checked(*positional: P.args, **keywords: P.kwargs) -> Tensor:
            for name, check in checks.items():
                value = keywords.get(name, defaults[name])
                if value is not inspect.Parameter.empty:  # what is missing, the function itself complains about
                    keywords[name] = check(name, value)
            return function(*positional, **keywords)

        checked.checks = checks  # type: ignore[attr-defined]
        return checked

    return declare
