"""MkDocs hook: the public names of a package, as a table of summaries and as entries made from the docstrings.

A page asks for them with a comment, ``<!-- names of shortlist.sets -->``. Each object is documented on one page; other packages
that export it too link to that page.
"""

import importlib
import inspect
import re
from typing import Any

from docs.rst_docstrings import ROLE

MARK = re.compile(r"^<!-- names of (\S+) -->$", re.M)
PACKAGES = [  # those that come first document the names that several export
    "shortlist",
    "shortlist.sets",
    "shortlist.shift",
    "shortlist.links",
    "shortlist.metrics",
    "shortlist.evaluation",
    "shortlist.predictions",
    "shortlist.report",
    "shortlist.operators",
    "shortlist.kernels",
    "shortlist.losses",
    "shortlist.methods",
    "shortlist.models",
    "shortlist.data",
    "shortlist.data.votes",
    "shortlist.training",
    "shortlist.recipes",
    "shortlist.runs",
    "shortlist.retrieval",
    "shortlist.claims",
    "shortlist.web",
    "shortlist.cluster",
    "shortlist.sklearn",
    "shortlist.errors",
]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comments by the names."""
    return MARK.sub(lambda found: names_of(found[1]), markdown)


def names_of(package: str) -> str:
    """The table of a package's public names, and the entries of those that belong to its page."""
    names = public_names(package)
    rows = [f"| [`{name}`][{home(package, name)}] | {summary(_object(package, name))} |" for name in names]
    entries = [f"::: {package}.{name}" for name in names if home(package, name) == f"{package}.{name}"]
    return "\n".join(["| Name | |", "|---|---|", *rows, "", *entries])


def public_names(package: str) -> list[str]:
    """The names that a package exports, without its modules: classes first, each kind in alphabetical order."""
    module = importlib.import_module(package)
    exported = getattr(module, "__all__", None) or [n for n, v in vars(module).items() if _defined_in(v, package)]
    names = [n for n in exported if not n.startswith("_") and not inspect.ismodule(getattr(module, n))]
    return sorted(names, key=lambda name: (not inspect.isclass(getattr(module, name)), name.lower()))


def home(package: str, name: str) -> str:
    """The full name under which an object is documented."""
    found = _object(package, name)
    for other in PACKAGES:
        if name in public_names(other) and _object(other, name) is found:
            return f"{other}.{name}"
    raise LookupError(f"{package}.{name}: no page documents {package}; add it to PACKAGES")


def summary(found: Any) -> str:
    """The first sentence of the docstring, in Markdown."""
    paragraph = " ".join((inspect.getdoc(found) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z])", paragraph)[0].rstrip(":")
    return ROLE.sub(r"`\1`", sentence).replace("``", "`").replace("|", "\\|")


def _object(package: str, name: str) -> Any:
    return getattr(importlib.import_module(package), name)


def _defined_in(value: Any, package: str) -> bool:
    return getattr(value, "__module__", None) == package
