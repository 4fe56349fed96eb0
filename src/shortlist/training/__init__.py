"""Training: one loop, from a recipe to a classifier, its predictions and its history."""

import importlib
from typing import TYPE_CHECKING, Any

from shortlist.training.recipe import Recipe

if TYPE_CHECKING:
    from shortlist.training.run import Trained, run_recipe, train
    from shortlist.training.watching import Watcher

# The loop brings accelerate with it, so it is loaded when it is first used.
HOMES = {"Trained": "run", "Watcher": "watching", "run_recipe": "run", "train": "run"}

__all__ = ["Recipe", "Trained", "Watcher", "run_recipe", "train"]


def __getattr__(name: str) -> Any:
    """Parts are loaded when they are first used."""
    if name in HOMES:
        return getattr(importlib.import_module(f"shortlist.training.{HOMES[name]}"), name)
    raise AttributeError(f"module 'shortlist.training' has no attribute {name!r}")
