"""The domains of a loss's parameters, declared once at its function: checked at each call, and when the module is built."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from torch import Tensor

from shortlist.checks import Check

P = ParamSpec("P")


def domains(**checks: Check) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Declare the domain of each parameter of a loss function; :class:`~shortlist.losses.Loss` uses the same checks."""

    def declare(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}

        @functools.wraps(function)
        def checked(*positional: P.args, **keywords: P.kwargs) -> Tensor:
            for name, check in checks.items():
                value = keywords.get(name, defaults[name])
                if value is not inspect.Parameter.empty:  # Python reports missing arguments itself
                    keywords[name] = check(name, value)
            return function(*positional, **keywords)

        checked.domains = checks  # type: ignore[attr-defined]
        return checked

    return declare
