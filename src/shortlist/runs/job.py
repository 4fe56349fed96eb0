"""Job: what a call of ``train`` asks for, resolved: a complete recipe, the folder of the run, and the data if already open."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shortlist.data import Dataset, as_dataset
from shortlist.data.sources import path_and_options
from shortlist.errors import InputError
from shortlist.recipes import all_recipes, find_recipe
from shortlist.training.beginning import Resume
from shortlist.training.recipe import PATH, Recipe
from shortlist.training.run_folder import RunFolder
from shortlist.training.setting_checks import default_k, rule_of_size, rule_size
from shortlist.training.settings import parse_value

RUNS = Path("runs")  # default folder of runs
PICTURE_SOURCES = ("flora", "cifar10", "cifar100")  # known to contain pictures; opening them takes a while


@dataclass(frozen=True)
class Job:
    """One training to do.

    Args:
        recipe: complete, with its data.
        folder: where the run goes.
        dataset: the data, if they had to be opened to choose the recipe.
    """

    recipe: Recipe
    folder: Path
    dataset: Dataset | None = None


def resolve_job(
    data: Any = None,
    recipe: str | Recipe | None = None,
    settings: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    *,
    resume: Resume = False,
) -> Job:
    """The job that data, a recipe and settings describe; a run that is resumed without data keeps its own recipe.

    Args:
        data: a folder, a table, ``NAME:PATH``, a :class:`~shortlist.data.Dataset`, or anything that
            :func:`~shortlist.data.as_dataset` takes; for a recipe that needs a path, that path.
        recipe: the name of a recipe, or a recipe; by default ``pictures`` or ``table``, depending on the data.
        settings: settings of the recipe or of its method, as values or as text; ``k`` applies to the method, the rule and the
            metric; by default 5, or half of the classes if they are fewer than ten.
        folder: the folder of the run; ``runs/NAME`` by default.
        resume: continue the run in ``folder``; ``"auto"``: if there is one.
    """
    changes = dict(settings or {})
    if resume and data is None and recipe is None:
        if folder is None:
            raise InputError("resume: expected the folder of the run, got None")
        if resume == "auto" and not RunFolder.holds_run(folder):
            raise InputError(f"{folder} holds no run to continue: to begin one, data or a recipe are needed")
        return Job(apply_settings(RunFolder(folder).recipe, changes), Path(folder))
    base, dataset = _base(data, recipe)
    k_given = "k" in changes or "k" in (changes.get("parameters") or {})
    chosen = apply_settings(base, changes)
    if dataset is not None and recipe is None and not k_given:
        chosen = _with_default_k(chosen, len(dataset.classes))
    if data is not None and recipe is None:
        chosen = chosen.with_settings(name=_run_name(data, dataset, chosen))
    return Job(chosen, RUNS / chosen.name if folder is None else Path(folder), dataset)


def apply_settings(base: Recipe, changes: dict[str, Any]) -> Recipe:
    """The recipe with these settings; ``k`` applies to the method, the rule and the metric, if they have a set size."""
    size = changes.pop("k", None)
    recipe = base.with_settings(**changes)
    if size is None:
        return recipe
    number = float(parse_value("k", size, float))
    sized: dict[str, Any] = {"k": int(number) if number.is_integer() else number} if "k" in recipe.parameters else {}
    if recipe.rule is not None and rule_size(recipe.rule) is not None and "rule" not in changes:
        sized["rule"] = rule_of_size(recipe.rule, number)
    elif not sized and recipe.rule is None:
        sized["rule"] = f"average-k:{number:g}"
    elif not sized and "rule" in changes:
        raise InputError(
            f"k: method {recipe.method} has no set size, and the rule is given as {recipe.rule}: leave k out, or write it into "
            f"the rule, such as average-k:{number:g}"
        )
    if recipe.monitor is not None and "monitor" not in changes and recipe.monitor.rpartition("-")[2].isdigit():
        sized["monitor"] = None
    given = {name: getattr(recipe, name) for name in ("rule", "monitor") if name in changes}  # they do not follow k
    return recipe.with_settings(**given, **sized)


def _with_default_k(recipe: Recipe, classes: int) -> Recipe:
    """The recipe with a k that suits this number of classes, if its method has one."""
    k = recipe.parameters.get("k")
    if k is None:
        return recipe
    return recipe.with_settings(k=min(k, default_k(classes)), rule=recipe.rule, monitor=recipe.monitor)  # as they were given


def _base(data: Any, recipe: str | Recipe | None) -> tuple[Recipe, Dataset | None]:
    """The recipe before any setting, and the dataset if it had to be opened."""
    if recipe is not None:
        return _given_recipe(data, find_recipe(recipe) if isinstance(recipe, str) else recipe)
    if data is None:
        raise InputError("data: expected data to train on, or a recipe, got neither")
    if isinstance(data, str | Path):
        return _recipe_for_source(str(data))
    dataset = as_dataset(data)
    return find_recipe("pictures" if dataset.input_kind == "pictures" else "table").with_path(dataset.name), dataset


def _given_recipe(data: Any, recipe: Recipe) -> tuple[Recipe, Dataset | None]:
    if data is None and PATH in recipe.data:
        raise InputError(
            f"data: expected the path of the data of recipe {recipe.name} ({recipe.data.replace(PATH, 'PATH')}), got None"
        )
    if data is None or isinstance(data, str | Path):
        return (recipe if data is None else recipe.with_path(str(data))), None
    dataset = as_dataset(data)
    return (recipe.with_path(dataset.name) if PATH in recipe.data else recipe.with_settings(data=dataset.name)), dataset


def _recipe_for_source(source: str) -> tuple[Recipe, Dataset | None]:
    names = {recipe.name for recipe in all_recipes() if PATH not in recipe.data}
    if not Path(source).exists() and source in names:
        raise InputError(f"data: expected data to train on, got the name of a recipe: use recipe={source!r}")
    if re.split("[:,]", source)[0].strip().lower() in PICTURE_SOURCES:
        return find_recipe("pictures").with_path(source), None
    dataset = as_dataset(source)
    return find_recipe("pictures" if dataset.input_kind == "pictures" else "table").with_path(source), dataset


def _run_name(data: Any, dataset: Dataset | None, recipe: Recipe) -> str:
    if not isinstance(data, str | Path):
        return f"{dataset.name if dataset is not None else 'data'}-{recipe.method}"
    source, _, rest = str(data).partition(":")
    place = path_and_options(rest)[0]
    stem = Path(place if place and "=" not in place else path_and_options(source)[0]).name or "data"
    return f"{stem}-{recipe.method}"
