"""The published numbers that a run can be compared with, beside what it measured."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from shortlist.data.sources import path_and_options
from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantities import QUANTITIES
from shortlist.metrics import calibration_error, top_n_f1
from shortlist.metrics.accuracy import class_hits, class_shares, coverage_by_shot
from shortlist.predictions import Predictions
from shortlist.recipes.menu import all_recipes
from shortlist.recipes.published import CLASSES, SHOT, Published, published_numbers
from shortlist.report.published import Compared, Comparison
from shortlist.sets import top_k
from shortlist.training.recipe import PATH, Recipe

# Settings that do not change what is measured, apart from chance.
NO_MATTER = ("data", "seed", "precision", "compile", "fused_head", "accumulate", "skip_nonfinite", "tolerance")
EDGES = (10, 50, 500, 2000)  # of the groups of Garcin's thesis, Table 3.1
LIAO_BINS = 10  # of Liao's reliability diagrams

Measure = Callable[[Published, Evaluation, Predictions], float | None]


def compare_with_published(
    recipe: Recipe, evaluation: Evaluation, predictions: Predictions, history: Sequence[Mapping[str, Any]] = ()
) -> Comparison | None:
    """The published numbers of the experiment that a run repeats, beside those that the run measured.

    A number is shown if the method, the label noise and the data, by name and number of classes, are those of the publication
    and if metric, k, classes and rows are those that were measured. Other settings that differ are named.

    Args:
        recipe: the recipe of the run.
        evaluation: of the test rows, with the rule of the run.
        predictions: the same rows.
        history: the history of the training, for numbers on validation rows.

    Returns:
        None if nothing published can be compared.
    """
    template = next((one for one in all_recipes() if one.name == recipe.name), None)
    if template is None or not _same_data(template.data, recipe.data):
        return None
    rows: list[Compared] = []
    differences: dict[str, tuple[Any, Any]] = {}
    for candidates in _by_quantity(recipe).values():
        number = _fitting(candidates, recipe, template) if CLASSES[candidates[0].dataset] == len(evaluation.classes) else None
        measured = None if number is None else _measured(number, evaluation, predictions, history)
        if number is None or measured is None or math.isnan(measured):
            continue
        rows.append(_compared(number, measured))
        differences |= _differences(number, recipe, template)
    return Comparison(rows, differences) if rows else None


def _same_data(template: str, data: str) -> bool:
    """Whether data are those of the recipe, wherever they lie."""
    wanted, found = ((name, path_and_options(rest)) for name, _, rest in (template.partition(":"), data.partition(":")))
    if PATH not in template:
        return template == data
    return wanted[0] == found[0] and wanted[1][1] == found[1][1]


def _by_quantity(recipe: Recipe) -> dict[tuple[Any, ...], list[Published]]:
    """The numbers of the recipe's method and label noise, those of the same quantity together."""
    found: dict[tuple[Any, ...], list[Published]] = {}
    for number in published_numbers(recipe=recipe.name, method=recipe.method):
        if number.noise == recipe.label_noise:
            found.setdefault((number.metric, number.k, number.group, number.split), []).append(number)
    return found


def _fitting(candidates: Sequence[Published], recipe: Recipe, template: Recipe) -> Published | None:
    """The number whose settings are closest to those of the recipe.

    Of numbers that differ in their settings, such as those of a series of ε, only one whose settings the recipe has will do.
    """
    settings = recipe.settings()
    exact = [
        number
        for number in candidates
        if all(_experiment(number, template).settings()[name] == settings[name] for name in number.settings)
    ]
    fitting = exact or (candidates if len(candidates) == 1 else [])
    return min(fitting, key=lambda number: len(_differences(number, recipe, template)), default=None)


def _experiment(number: Published, template: Recipe) -> Recipe:
    """The recipe of the published experiment."""
    return template.with_settings(method=number.method, label_noise=number.noise, **number.settings)


def _differences(number: Published, recipe: Recipe, template: Recipe) -> dict[str, tuple[Any, Any]]:
    found = recipe.differences(_experiment(number, template))
    return {name: values for name, values in found.items() if name not in NO_MATTER}


def _compared(number: Published, measured: float) -> Compared:
    percent = number.unit == "percent"
    scale = 100 if percent else 1
    spread = None if number.spread is None else number.spread / scale
    return Compared(number.quantity, number.value / scale, spread, measured, number.source, number.decimals, percent)


def _measured(
    number: Published, evaluation: Evaluation, predictions: Predictions, history: Sequence[Mapping[str, Any]]
) -> float | None:
    if number.split == "test":
        measure = MEASURES.get(number.metric)
        return None if measure is None else measure(number, evaluation, predictions)
    kept = [line for line in history if line.get("best")]
    if number.split != "val" or not kept or number.group or number.k is None:
        return None
    value = kept[-1].get("metrics", {}).get(number.metric.replace("-k", f"-{number.k:g}"))
    return None if value is None else float(value)


def _top_k(number: Published, evaluation: Evaluation, predictions: Predictions) -> float | None:
    """Accuracy of the k most probable labels, whatever the rule of the run: over rows, or over classes or a group of them."""
    curve, size = evaluation.rank_curve, int(number.k or 0)
    if curve is None or predictions.target is None or size > len(evaluation.classes):
        return None
    if number.metric == "top-k" and not number.group:
        return float(curve.accuracies[size])
    return _of_classes(class_hits(top_k(size).sets(predictions.plausibility()), predictions.target), number, evaluation)


def _average_k(number: Published, evaluation: Evaluation, _: Predictions) -> float | None:
    """Coverage of the sets of the run, if they hold k labels on average."""
    assert number.k is not None
    if evaluation.rule_text != f"average-k:{number.k:g}" or not evaluation.single_label:
        return None
    return _of_classes(evaluation.hits, number, evaluation) if number.group else evaluation.coverage


def _of_classes(hits: Tensor, number: Published, evaluation: Evaluation) -> float | None:
    """Mean of the shares of hits of all classes present, or of those in the group."""
    if not number.group:
        return float(class_shares(hits).nanmean())
    if evaluation.train_counts is None:
        return None
    return float(coverage_by_shot(hits, evaluation.train_counts, None if number.group in SHOT else EDGES)[number.group])


def _top_1_error(number: Published, evaluation: Evaluation, _: Predictions) -> float | None:
    if evaluation.single_label:
        value = QUANTITIES["top1"].value(evaluation)
        return None if value is None else 1 - value
    # The labels of rows that are treated as multi-label: of the one label returned, the share that is wrong.
    return 1 - evaluation.precision if evaluation.rule_text == "top-k:1" else None


def _quantity(name: str) -> Measure:
    return lambda number, evaluation, predictions: QUANTITIES[name].value(evaluation)


def _ece_of_top(number: Published, evaluation: Evaluation, predictions: Predictions) -> float | None:
    if predictions.link is None or predictions.target is None or number.k is None:
        return None
    return float(calibration_error(predictions.probs(), predictions.target, bins=LIAO_BINS, over=int(number.k)))


def _f1_of_top(number: Published, evaluation: Evaluation, predictions: Predictions) -> float | None:
    if predictions.target is None or evaluation.single_label or number.k is None:
        return None
    return float(top_n_f1(predictions.plausibility(), predictions.target, n=int(number.k)))


MEASURES: Mapping[str, Measure] = {
    "top-k": _top_k,
    "macro-top-k": _top_k,
    "average-k": _average_k,
    "top-1 error": _top_1_error,
    "top-1 in": _quantity("top1_in"),
    "confidence out": _quantity("confidence_out"),
    "AUROC": _quantity("auroc_confidence"),
    "mAP@y": _quantity("map_class"),
    "mAP@x": _quantity("map_example"),
    "ACE": lambda number, evaluation, predictions: evaluation.calibration_error("all", "average"),
    "MCE": lambda number, evaluation, predictions: evaluation.calibration_error("all", "max"),
    "ECE": _ece_of_top,
    "macro-F1": _f1_of_top,
}
