"""Classifiers that answer with a set of labels: none, one, a short list, many.

>>> import shortlist
>>> rule = shortlist.sets.average_k(2)
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shortlist import data, links, losses, methods, metrics, models, operators, recipes, report, retrieval, sets, training
    from shortlist.models import Classifier
    from shortlist.predictions import Predictions

ROOMS = (
    "data",
    "links",
    "losses",
    "methods",
    "metrics",
    "models",
    "operators",
    "recipes",
    "report",
    "retrieval",
    "sets",
    "training",
)
CLASSES = {"Classifier": "models", "Predictions": "predictions"}

__all__ = [
    "Classifier",
    "Predictions",
    "data",
    "links",
    "losses",
    "methods",
    "metrics",
    "models",
    "operators",
    "recipes",
    "report",
    "retrieval",
    "sets",
    "training",
]


def __getattr__(name: str) -> Any:
    """Parts are imported when they are first used: ``import shortlist`` costs little more than nothing."""
    if name in CLASSES:
        return getattr(importlib.import_module(f"shortlist.{CLASSES[name]}"), name)
    if name in ROOMS:
        return importlib.import_module(f"shortlist.{name}")
    raise AttributeError(f"module 'shortlist' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
