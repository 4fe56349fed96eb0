"""Quantities about where coverage differs: by set size, by class, and in the worst slab of the probabilities."""

import math

import torch

from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.quantity import Quantity
from shortlist.evaluation.size_strata import ENOUGH
from shortlist.metrics.strata import SIZE_EDGES, lowest_share, mean_gap, strata
from shortlist.sets import AverageError


def _size_stratified(evaluation: Evaluation) -> float | None:
    hits = evaluation.totals.get("size_hits")
    if hits is None:
        return None
    return float(lowest_share(strata(torch.cat([hits, evaluation.sizes[None]]), SIZE_EDGES), ENOUGH))


def coverage_asked_for(evaluation: Evaluation) -> float | None:
    """The coverage that the rule was fitted for; None for other rules, and without labels or with several a row."""
    rule = evaluation.rule
    if rule is None or rule.alpha is None or not isinstance(rule.constraint, AverageError):
        return None
    return 1 - rule.alpha if evaluation.single_label and evaluation.labelled else None


def _class_gap(evaluation: Evaluation) -> float | None:
    level = coverage_asked_for(evaluation)
    return None if level is None else float(mean_gap(evaluation.hits, level))


def _worst_slab(evaluation: Evaluation) -> float | None:
    found = evaluation.worst_slab
    if found is None:
        return None
    hits, labels = found
    return hits / labels if labels else math.nan


def _worst_slab_error(evaluation: Evaluation) -> float:
    share = _worst_slab(evaluation)
    if evaluation.worst_slab is None or share is None or math.isnan(share):
        return math.nan
    return math.sqrt(share * (1 - share) / evaluation.worst_slab[1])


CONDITIONAL = (
    Quantity(
        "size_stratified",
        "lowest by size",
        "size-stratified coverage (SSC): lowest coverage of the rows with 0–1, 2–3, 4–10, 11–100, 101–1000 and more labels in "
        f"their set, as far as there are at least {ENOUGH} rows",
        _size_stratified,
        headline=lambda evaluation: evaluation.single_label,
    ),
    Quantity(
        "worst_slab",
        "worst slab",
        "worst-slab coverage (WSC): coverage of a tenth of the rows, those between two parallel planes in the space of the "
        "probabilities; one half of the rows chooses the worst along 200 directions, the other measures it",
        _worst_slab,
        _worst_slab_error,
        headline=lambda evaluation: evaluation.single_label,
    ),
    Quantity(
        "class_gap",
        "class gap",
        "CovGap: mean over the classes present of the distance of their coverage from the one that was asked for",
        _class_gap,
    ),
)
