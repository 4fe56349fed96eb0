"""Recipes: one function per experiment, with the settings of its paper; the published numbers; grid search over settings."""

from shortlist.recipes.grids import paper_values, parse_grid
from shortlist.recipes.menu import all_recipes, find_recipe
from shortlist.recipes.published import Published, published_numbers
from shortlist.recipes.trials import Trial
from shortlist.recipes.tuning import TuningResult, tune

__all__ = [
    "Published",
    "Trial",
    "TuningResult",
    "all_recipes",
    "find_recipe",
    "paper_values",
    "parse_grid",
    "published_numbers",
    "tune",
]
