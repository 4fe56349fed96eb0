"""Domains of parameters, declared once at a loss's function: it checks them at each call, its module when it is made."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from torch import Tensor

from shortlist.checks import Check

P = ParamSpec("P")


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
