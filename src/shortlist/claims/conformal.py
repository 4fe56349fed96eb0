"""Sets that cover the label with a given probability, on a long tail: one threshold for all classes, or one a class."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shortlist.claims.experiment import Arm, Numbers
from shortlist.claims.set_numbers import SetJudge
from shortlist.claims.training import recipe_settings, train_recipe
from shortlist.sets import classwise, interpolated, lac, pas
from shortlist.training.recipe import Recipe
from shortlist.training.splits import CALIBRATION, TEST

MARGINAL, CLASSWISE, INTERPOLATED, ADJUSTED = "marginal", "class-wise", "interpolated", "prevalence-adjusted"


def conformal_numbers(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """Train ``settings["recipe"]``, fit sets of error ``settings["alpha"]`` by four rules, and measure them.

    By rule, in percent: its coverage, expected under the true class probabilities; before it, ``macro-`` is the mean over
    classes, and behind it ``few`` and ``many`` the mean over those with so many training rows; ``size`` is the mean number of
    labels.
    """
    trained = train_recipe(settings["recipe"], seed, folder)
    known, test, truth = trained.predictions[CALIBRATION], trained.predictions[TEST], trained.posterior
    assert truth is not None
    assert test.train_counts is not None
    counts = test.train_counts.double()
    prior = (counts + (counts == 0)) / (counts + (counts == 0)).sum()
    alpha = settings["alpha"]
    rules = {
        MARGINAL: lac(alpha),
        CLASSWISE: classwise(lac(alpha)),
        INTERPOLATED: interpolated(lac(alpha), settings["weight"]),
        ADJUSTED: pas(alpha, prior),
    }
    judge, probs = SetJudge(truth.double(), test.train_counts), test.probs()
    numbers: Numbers = {}
    for name, rule in rules.items():
        numbers |= judge.numbers(name, rule.fit(known.probs(), known.target)(probs))
    return numbers


def conformal_arm(recipe: Recipe, alpha: float = 0.1, weight: float = 0.5) -> Arm:
    """An arm that trains a recipe and measures sets of this error; ``weight`` is that of the class-wise thresholds."""
    return Arm(conformal_numbers, {"recipe": recipe_settings(recipe), "alpha": alpha, "weight": weight})
