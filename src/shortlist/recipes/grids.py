"""Grids: settings with the values to try, checked before training starts."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from shortlist.errors import InputError
from shortlist.training.monitor import make_monitor
from shortlist.training.recipe import Recipe
from shortlist.training.setting_checks import rule_of_size, rule_size
from shortlist.words import expected_one_of, listed

MOST_TRIALS = 1000
# Settings whose values contain commas; their values are separated by semicolons.
WITH_COMMAS = ("milestones", "rule")
# Settings that cannot be searched over, with the reason.
NOT_SEARCHABLE = {
    "name": "only names the recipe",
    "summary": "only describes the recipe",
    "reference": "only describes the recipe",
    "data": "determines the validation rows, and numbers of different rows cannot be compared",
    "duplicates": "determines the validation rows, and numbers of different rows cannot be compared",
    "calibration_share": "determines the validation rows, and numbers of different rows cannot be compared",
    "labels": "determines the validation metric, and different metrics cannot be compared",
    "monitor": "is the metric that trials are compared by",
}
MANY = 2**31  # classes: more than any k
PAPER = "paper"  # in place of values: those that the papers tried

# The values that the papers tried or report, by method and parameter.
PAPER_VALUES: Mapping[str, Mapping[str, tuple[float, ...]]] = MappingProxyType(
    {
        "noised-topk": {
            "epsilon": (0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0),  # Garcin 2022, Table 2
            "samples": (1, 2, 3, 5, 10, 50, 100),  # Table 3
        },
        # Garcin 2022, appendix E and section 4.5, which chose other scales than the appendix advises.
        "noised-topk-imbalanced": {
            "epsilon": (0.01, 0.05, 0.1),
            "max_margin": (0.2, 0.3, 0.4, 0.5),
            "scale": (50.0, 60.0),
        },
        "ldam": {"max_margin": (0.2, 0.3, 0.4, 0.5), "scale": (30.0, 40.0)},
        "focal": {"gamma": (0.5, 1.0, 2.0, 5.0)},
        "smooth-topk": {"temperature": (0.1, 1.0)},
        "average-k": {"alpha": (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)},  # thesis, Fig. 5.5: the decades of its axis
        "expected-positive": {"beta": (0.001, 0.01)},  # thesis, Tables 5.3 and 5.4
        "role": {"estimates_rate": (1.0, 10.0)},  # thesis, Table 5.3; Cole 2021
    }
)
PAPER_SETTINGS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"label_noise": (0.0, 0.1, 0.2, 0.3, 0.4)}  # Garcin 2022, Table 4, for any method
)


def paper_values(method: str, setting: str) -> tuple[float, ...]:
    """The values of a setting that the papers tried or report with this method.

    >>> paper_values("noised-topk", "samples")
    (1, 2, 3, 5, 10, 50, 100)
    """
    known = {**PAPER_VALUES.get(method, {}), **PAPER_SETTINGS}
    if setting not in known:
        raise InputError(f"grid: the papers have no values of {setting!r} with {method}, only of {listed(list(known))}")
    return known[setting]


def parse_grid(texts: Iterable[str], recipe: Recipe) -> dict[str, tuple[Any, ...]]:
    """Parse a grid from texts such as ``alpha=0.1,0.3,1``: settings of the recipe or of its method, each with its values.

    Values of ``milestones`` and ``rule``, which contain commas, are separated by semicolons: ``milestones=10,15;12,18``.
    ``epsilon=paper`` stands for the values that the papers tried, see :func:`paper_values`.

    Args:
        texts: one text per setting.
        recipe: the recipe that the settings belong to.

    >>> recipe = Recipe("mine", data="flora")
    >>> parse_grid(["alpha=0.1,0.3,1", "milestones=10,15;20"], recipe)
    {'alpha': (0.1, 0.3, 1.0), 'milestones': ((10, 15), (20,))}
    """
    grid: dict[str, Sequence[Any]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise InputError(f"grid: expected a setting and its values, such as lr=0.1,0.3, got {text!r}")
        if name in grid:
            raise InputError(f"grid: expected each setting once, got {name!r} twice: give all its values at once")
        parts = [part.strip() for part in values.split(";" if name in WITH_COMMAS else ",")]
        if not all(parts):
            raise InputError(f"grid: expected values of {name!r}, such as {name}=VALUE,VALUE, got {text!r}")
        grid[name] = PAPER if parts == [PAPER] else tuple(parts)
    return checked_grid(grid, recipe)


def checked_grid(grid: Mapping[str, Sequence[Any]], recipe: Recipe) -> dict[str, tuple[Any, ...]]:
    """Check a grid, and convert every value to the type of its setting; ``"paper"`` stands for the values of the papers.

    >>> checked_grid({"batch_size": ["32", 64]}, Recipe("mine", data="flora"))
    {'batch_size': (32, 64)}
    """
    if not grid:
        raise InputError(
            f"grid: expected settings with values to try, such as lr=0.1,0.3, got none, and recipe {recipe.name} has no grid"
        )
    checked = {name: _values(name, values, recipe) for name, values in grid.items()}
    number = math.prod(map(len, checked.values()))
    if number > MOST_TRIALS:
        lengths = " x ".join(f"{len(values)} of {name}" for name, values in checked.items())
        raise InputError(f"grid: expected at most {MOST_TRIALS:,} combinations, got {number:,} ({lengths}): try fewer values")
    return checked


def _values(name: str, values: Any, recipe: Recipe) -> tuple[Any, ...]:
    known = [setting for setting in recipe.settings() if setting not in NOT_SEARCHABLE]
    if name in NOT_SEARCHABLE:
        raise InputError(f"grid: {name!r} {NOT_SEARCHABLE[name]}: expected one of {listed(known)}")
    if name == "k" and name not in known:
        raise InputError(f"grid: method {recipe.method} has no k: search over the rule, such as rule=average-k:3;average-k:5")
    if name not in known:
        raise InputError(f"grid: {expected_one_of(name, known, 'shortlist recipes ' + recipe.name)}; got {name!r}")
    if values == PAPER:
        values = paper_values(recipe.method, name)
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError(f"grid: expected a list of values of {name!r}, got {values!r}")
    taken = tuple(_taken(name, value, recipe) for value in values)
    twice = next((value for place, value in enumerate(taken) if value in taken[:place]), None)
    if len(set(map(_text, taken))) < len(taken):
        raise InputError(f"grid: expected each value of {name!r} once, got {twice!r} twice")
    return taken


def _taken(name: str, value: Any, recipe: Recipe) -> Any:
    """The value, converted; whether it fits the other settings is checked for each combination."""
    if name == "milestones":
        return recipe.with_settings(schedule="step", milestones=value).milestones
    if name == "schedule" and value == "step":
        return value
    changed = recipe.with_settings(**{name: value}).settings()[name]
    # 1 and 1.0 are the same value where the default is a float.
    return float(changed) if isinstance(recipe.settings()[name], float) and type(changed) is int else changed


def _text(value: Any) -> str:
    return json.dumps(value)


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations; the last setting changes fastest.

    >>> combinations({"lr": (0.1, 0.3), "k": (3, 5)})
    [{'lr': 0.1, 'k': 3}, {'lr': 0.1, 'k': 5}, {'lr': 0.3, 'k': 3}, {'lr': 0.3, 'k': 5}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def trial_recipes(recipe: Recipe, grid: Mapping[str, Sequence[Any]], classes: int = MANY) -> list[Recipe]:
    """The recipe of every combination; an error if one is invalid, or if they would be compared by different metrics.

    With k in the grid, a rule with a size has that size, unless the grid gives the rule too.

    Args:
        recipe: the recipe to start from.
        grid: settings with their values, checked.
        classes: number of classes, if known.

    >>> [trial.lr for trial in trial_recipes(Recipe("mine", data="flora"), {"lr": (0.1, 0.3)})]
    [0.1, 0.3]
    """
    trials = []
    for values in combinations(grid):
        try:
            trial = recipe.with_settings(**_following_k(recipe, values), **values)
            trial.chosen_method.loss([2, 1])  # checks its parameters; class counts for methods that need them
        except InputError as error:
            raise InputError(f"grid: {written(values)} is not a valid combination: {error}") from error
        trials.append(trial)
    deciding = list(dict.fromkeys(_deciding(trial, classes) for trial in trials))
    if len(deciding) > 1:
        raise InputError(
            f"grid: expected trials with the same validation metric, got {' and '.join(deciding[:3])}: set a monitor that all "
            "of them have, such as top-1"
        )
    return trials


def _following_k(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """The rule of a trial that has a k of its own: that of the recipe with this size, unless the grid gives the rule."""
    if "k" not in values or "rule" in values or recipe.rule is None or rule_size(recipe.rule) is None:
        return {}
    return {"rule": rule_of_size(recipe.rule, float(values["k"]))}


def _deciding(recipe: Recipe, classes: int) -> str:
    return recipe.monitor or make_monitor(recipe, None, classes).deciding


def written(values: Mapping[str, Any]) -> str:
    """The values as they would be typed.

    >>> written({"lr": 0.1, "milestones": (10, 15), "ema": None})
    'lr=0.1 milestones=10,15 ema=none'
    """
    return " ".join(f"{name}={'own' if name == 'link' and value is None else _typed(value)}" for name, value in values.items())


def _typed(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
