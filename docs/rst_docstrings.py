"""Docstrings are written for readers of the source; this shows their roles, formulas and examples on the API page."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
MATH = re.compile(r"^( *)\.\. math:: (.*(?:\n\1 +.*)*)", re.M)
EXAMPLE = re.compile(r"^( *)(>>> .*(?:\n.*\S.*)*)", re.M)


class PlainRoles(griffe.Extension):
    """Turns ``:func:`name``` into code, ``.. math::`` and ``>>>`` into blocks of code."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            text = MATH.sub(lambda found: _block(found, "latex"), obj.docstring.value)
            text = EXAMPLE.sub(lambda found: _block(found, "pycon"), text)
            obj.docstring.value = ROLE.sub(r"`\1`", text)


def _block(found: re.Match[str], language: str) -> str:
    indent, body = found[1], found[2]
    return f"{indent}```{language}\n{indent}{body}\n{indent}```"
