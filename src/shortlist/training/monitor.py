"""Which validation number decides which epoch is kept."""

import copy
import math
from dataclasses import dataclass

from shortlist.errors import InputError
from shortlist.evaluation import validation_numbers
from shortlist.evaluation.selections import LOWER_IS_BETTER, OF_OUTLIERS, OF_PROBABILITIES, validation_names, whole_size
from shortlist.links import Link
from shortlist.predictions import Predictions
from shortlist.tensors import Scores, Target
from shortlist.training.recipe import Recipe
from shortlist.words import expected_one_of


@dataclass(frozen=True)
class Monitor:
    """The number that decides between epochs, and how validation is measured.

    Args:
        deciding: name of the deciding number, one of those of :func:`~shortlist.evaluation.validation_numbers`.
        k: set size of the numbers that have one.
        link: turns validation scores into probabilities; None if they cannot be interpreted as such.
    """

    deciding: str
    k: float
    link: Link | None

    @property
    def rising(self) -> bool:
        """Whether higher is better."""
        return self.deciding not in LOWER_IS_BETTER

    def better(self, value: float, best: float | None) -> bool:
        """Whether this value beats the best so far; NaN never does."""
        if value != value:
            return False
        return best is None or (value > best if self.rising else value < best)

    def measure(self, scores: Scores, target: Target) -> dict[str, float]:
        """The numbers of these validation scores."""
        # In training the link is on the device of the network, validation scores are on the CPU.
        link = copy.deepcopy(self.link).cpu() if self.link is not None and self.link.fitted else None
        numbers = validation_numbers(Predictions(scores, target, link=link), self.k)
        if link is None and self.link is not None and self.deciding in (*OF_PROBABILITIES, *OF_OUTLIERS):
            numbers[self.deciding] = math.nan  # a running link that no labelled row has updated yet
        return numbers


def make_monitor(recipe: Recipe, link: Link | None, classes: int, *, outliers: bool = False) -> Monitor:
    """The monitor of a recipe: its own, or else the number that its method is designed for.

    Args:
        recipe: may name the deciding number.
        link: turns scores into probabilities; None if they cannot be interpreted as such.
        classes: number of classes.
        outliers: whether some validation rows have a label and some have none.
    """
    k = min(recipe.k, classes)
    method = recipe.chosen_method
    single = not (method.labels == "any" or recipe.labels == "any")
    probabilities = link is not None and (link.fitted or method.trains_link)
    names = validation_names(k, classes, single_label=single, probabilities=probabilities, outliers=outliers)
    usual = (f"macro-top-{whole_size(k, classes)}" if method.sets_of_k else f"average-{k:g}") if single else "map"
    if recipe.monitor is not None and recipe.monitor not in names:
        absent = recipe.monitor in OF_OUTLIERS and probabilities and not single
        hint = ", which needs validation rows with a label and validation rows without one" if absent else ""
        raise InputError(f"monitor: {expected_one_of(recipe.monitor, names)}; got {recipe.monitor!r}{hint}")
    return Monitor(recipe.monitor or usual, k, link)
