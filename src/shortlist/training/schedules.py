"""Learning rate schedules: functions of the step, without state to save."""

import math
from collections.abc import Callable

from shortlist.training.recipe import Recipe

ONE_CYCLE_WARMUP = 0.25  # share of all steps


def learning_rate(recipe: Recipe, steps_per_epoch: int) -> Callable[[int], float]:
    """The learning rate as a function of the step, counted from 0.

    It is ``lr`` times the following, with ``t`` the share of the steps after the warm-up that are done:

    ========= =====================================================
    constant  1
    step      ``decay`` to the power of the number of milestones passed
    cosine    (1 + cos π t) / 2
    one-cycle the same after a warm-up of a quarter of all steps
    ========= =====================================================

    During a warm-up of ``w`` steps it is ``lr`` times (step + 1) / (w + 1).

    >>> rate = learning_rate(Recipe("r", "flora", epochs=4, lr=1.0, schedule="step", milestones=(2, 3)), 10)
    >>> [round(rate(step), 4) for step in (0, 19, 20, 30)]
    [1.0, 1.0, 0.1, 0.01]

    Loshchilov, Hutter, "SGDR", 2017, eq. 5; Smith, Topin, "Super-convergence", 2018.
    """
    total = recipe.epochs * steps_per_epoch
    if recipe.warmup is not None:
        warmup = round(recipe.warmup * steps_per_epoch)
    else:
        warmup = round(ONE_CYCLE_WARMUP * total) if recipe.schedule == "one-cycle" else 0
    warmup = min(warmup, total - 1)

    def rate(step: int) -> float:
        if step < warmup:
            return recipe.lr * (step + 1) / (warmup + 1)
        if recipe.schedule == "constant":
            return recipe.lr
        if recipe.schedule == "step":
            passed = sum(step >= milestone * steps_per_epoch for milestone in recipe.milestones)
            return recipe.lr * recipe.decay**passed
        done = (step - warmup) / max(1, total - warmup)
        return recipe.lr * (1 + math.cos(math.pi * done)) / 2

    return rate
