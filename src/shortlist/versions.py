"""Versions of this package and of its dependencies, recorded with results."""

import sys
from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str | None:
    """The version of an installed package; None if it is not installed. That of this package is known without installation.

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
