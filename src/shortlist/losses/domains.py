"""The domains of a loss's parameters, declared once at its function: checked at each call, and when the module is built.

Numbers and texts that have passed are remembered: on a GPU, checking them again at each step would cost as much as a kernel.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from torch import Tensor

from shortlist.checks import Check

P = ParamSpec("P")

PLAIN = (int, float, bool, str, type(None))
MOST_REMEMBERED = 1000


def domains(**checks: Check) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Declare the domain of each parameter of a loss function; :class:`~shortlist.losses.Loss` uses the same checks."""

    def declare(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}

        passed: dict[tuple[str, type, Any], Any] = {}

        @functools.wraps(function)
        def checked(*positional: P.args, **keywords: P.kwargs) -> Tensor:
            for name, check in checks.items():
                value = keywords.get(name, defaults[name])
                if type(value) not in PLAIN:
                    if value is not inspect.Parameter.empty:  # Python reports missing arguments itself
                        keywords[name] = check(name, value)
                    continue
                key = name, type(value), value
                if key not in passed:
                    if len(passed) >= MOST_REMEMBERED:
                        passed.clear()
                    passed[key] = check(name, value)
                keywords[name] = passed[key]
            return function(*positional, **keywords)

        checked.domains = checks  # type: ignore[attr-defined]
        return checked

    return declare
