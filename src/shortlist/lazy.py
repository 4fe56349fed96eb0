"""Packages whose parts are loaded when they are first used, so that nobody waits for what is not asked for."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def loaded_on_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package (PEP 562).

    Args:
        package: its name.
        homes: for each name that it offers, the file that holds it.

    >>> loaded_on_use("json", {"JSONDecoder": "decoder"})("JSONDecoder").__module__
    'json.decoder'
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
