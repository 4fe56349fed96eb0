"""Training: one loop, from a recipe to a classifier, its predictions and its history."""

from typing import TYPE_CHECKING

from shortlist.lazy import loaded_on_use
from shortlist.training.recipe import Recipe

if TYPE_CHECKING:
    from shortlist.training.run import Trained, run_recipe, train
    from shortlist.training.watching import Watcher

# The loop brings accelerate with it, so it is loaded when it is first used.
HOMES = {"Trained": "run", "Watcher": "watching", "run_recipe": "run", "train": "run"}

__all__ = ["Recipe", "Trained", "Watcher", "run_recipe", "train"]

__getattr__ = loaded_on_use(__name__, HOMES)
