"""Recipes: one function for each experiment, with the paper's settings and numbers; and the search over their settings."""

from shortlist.recipes.grids import parse_grid
from shortlist.recipes.menu import all_recipes, find_recipe
from shortlist.recipes.tuning import Trial, Tuned, tune

__all__ = ["Trial", "Tuned", "all_recipes", "find_recipe", "parse_grid", "tune"]
