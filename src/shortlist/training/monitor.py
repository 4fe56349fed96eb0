"""Which validation number decides which epoch is kept."""

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.errors import InputError
from shortlist.evaluation import validation_numbers
from shortlist.evaluation.selections import LOWER_IS_BETTER, OF_OUTLIERS, OF_PROBABILITIES, validation_names, whole_size
from shortlist.links import Link
from shortlist.predictions import Predictions
from shortlist.tensors import Scores, Target
from shortlist.training.recipe import Recipe
from shortlist.words import expected_one_of

# Numbers that decide between epochs whose deciding numbers are equal: the first that both have and that differs.
TIE_BREAKERS = ("nll", "top-1")


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

    def better(self, numbers: Mapping[str, float | None], best: Mapping[str, float | None] | None) -> bool:
        """Whether these validation numbers beat the best so far.

        The deciding number decides, between equals the log-loss, and without it top-1 accuracy: accuracies of few rows or few
        classes are often equal, above all at 100 %. A deciding number that is NaN beats nothing.

        Args:
            numbers: those of :meth:`measure`; None, as in JSON, stands for NaN.
            best: those of the best epoch so far; None if there is none.

        >>> monitor = Monitor("top-1", 1, None)
        >>> monitor.better({"top-1": 1.0, "nll": 0.2}, {"top-1": 1.0, "nll": 0.7})
        True
        """
        if _missing(numbers.get(self.deciding)):
            return False
        for name in (self.deciding, *TIE_BREAKERS):
            new, old = numbers.get(name), None if best is None else best.get(name)
            if new is not None and old is not None and new != old and not (_missing(new) or _missing(old)):
                return new < old if name in LOWER_IS_BETTER else new > old
        return best is None

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

    Accuracies of sets of all classes are 100 % in every epoch and decide nothing: in their place the log-loss decides, or top-1
    accuracy if there are no probabilities.

    Args:
        recipe: may name the deciding number.
        link: turns scores into probabilities; None if they cannot be interpreted as such.
        classes: number of classes.
        outliers: whether some validation rows have a label and some have none.
    """
    k = min(recipe.k_for(classes), classes)
    method = recipe.chosen_method
    single = not (method.labels == "any" or recipe.labels == "any")
    probabilities = link is not None and (link.fitted or method.trains_link)
    names = validation_names(k, classes, single_label=single, probabilities=probabilities, outliers=outliers)
    usual = (f"macro-top-{whole_size(k, classes)}" if method.sets_of_k else f"average-{k:g}") if single else "map"
    if _constant(usual, classes):
        usual = "nll" if "nll" in names else "top-1"
    informative = [name for name in names if not _constant(name, classes)]
    if recipe.monitor is not None and recipe.monitor not in informative:
        absent = recipe.monitor in OF_OUTLIERS and probabilities and not single
        why = ", which needs validation rows with a label and validation rows without one" if absent else ""
        why = f", which is 100 % in every epoch with {classes} classes" if recipe.monitor in names else why
        raise InputError(f"monitor: {expected_one_of(recipe.monitor, informative)}; got {recipe.monitor!r}{why}")
    return Monitor(recipe.monitor or usual, k, link)


def _constant(name: str, classes: int) -> bool:
    """Whether a number is the accuracy of sets of all classes."""
    size = re.search(r"-([\d.]+)$", name)
    return size is not None and float(size[1]) >= classes


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)
