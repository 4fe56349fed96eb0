"""Docstrings are written for readers of the source; this shows their roles and formulas as plain code on the API page."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
MATH = re.compile(r"^( *)\.\. math:: (.*(?:\n\1 +.*)*)", re.M)


class PlainRoles(griffe.Extension):
    """Turns ``:func:`name``` into code, and ``.. math::`` into a block of code."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            text = MATH.sub(lambda found: f"{found[1]}```latex\n{found[1]}{found[2]}\n{found[1]}```", obj.docstring.value)
            obj.docstring.value = ROLE.sub(r"`\1`", text)
