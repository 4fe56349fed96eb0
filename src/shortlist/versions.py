"""Versions of this package and of those it stands on, for whoever wants to know what computed a number."""

import sys
from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str | None:
    """The version of an installed package, None where it is not installed; of this one also where it runs from its source.

    >>> version_of("no-such-package") is None
    True
    """
    if package == "shortlist":
        own: str = sys.modules["shortlist"].__version__
        return own
    try:
        return version(package)
    except PackageNotFoundError:
        return None
