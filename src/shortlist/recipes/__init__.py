"""Recipes: one function per experiment, with the settings and numbers of its paper; and grid search over settings."""

from shortlist.recipes.grids import paper_values, parse_grid
from shortlist.recipes.menu import all_recipes, find_recipe
from shortlist.recipes.tuning import Trial, TuningResult, tune

__all__ = ["Trial", "TuningResult", "all_recipes", "find_recipe", "paper_values", "parse_grid", "tune"]
