"""Successive halving: trials begin together, and after some epochs only the best of them go on.

With n trials of E epochs and a factor f, the trials pause after about E / f^s, …, E / f² and E / f epochs, s being as large
as n and E allow; after the first pause ⌈n / f⌉ go on, then ⌈n / f²⌉, and so forth. Every trial keeps the schedule of all E
epochs, so the ones that go on end as they would have in a search of the whole grid. A round waits for all of its trials, so
that who goes on depends on their values alone, and never on who was faster.

Jamieson, Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", 2016, Algorithm 1.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shortlist.errors import InputError
from shortlist.recipes.trials import Trial, best_of
from shortlist.training.recipe import Recipe


@dataclass(frozen=True)
class Round:
    """A pause, and how many trials go on after it.

    Args:
        until: the epoch after which trials pause.
        keep: how many go on.
    """

    until: int
    keep: int


def rounds(trials: int, epochs: int, factor: int, validate_every: int = 1) -> list[Round]:
    """All pauses, in order. They are at epochs that are validated.

    >>> rounds(9, 27, 3)
    [Round(until=3, keep=3), Round(until=9, keep=1)]
    >>> rounds(5, 10, 2)
    [Round(until=3, keep=3), Round(until=5, keep=2)]
    """
    number = 0
    while factor ** (number + 1) <= min(trials, epochs):
        number += 1
    found: dict[int, Round] = {}
    for place in range(1, number + 1):
        least = math.ceil(epochs / factor ** (number + 1 - place))
        until = -(-least // validate_every) * validate_every
        if until < epochs:
            found[until] = Round(until, math.ceil(trials / factor**place))
    return list(found.values())


def rounds_of(recipes: Sequence[Recipe], factor: int) -> list[Round]:
    """Those of a search; an error if there are none."""
    settings = {(recipe.epochs, recipe.validate_every) for recipe in recipes}
    if len(settings) > 1:
        raise InputError(
            "halving: expected a grid without epochs and validate_every, as trials are compared after the same epochs"
        )
    ((epochs, validate_every),) = settings
    found = rounds(len(recipes), epochs, factor, validate_every)
    if not found:
        raise InputError(
            f"halving: expected at least {factor} trials of {factor} epochs that are validated, got {len(recipes)} trials of "
            f"{epochs}: leave it out"
        )
    return found


def going_on(trials: Iterable[Trial], keep: int) -> set[str]:
    """The folders of the best trials; of equals the first, in the order of the grid."""
    left, kept = list(trials), set[str]()
    while len(kept) < keep and (best := best_of(left)) is not None:
        kept.add(best.folder)
        left.remove(best)
    return kept
