"""From trained weights to a classifier: predictions, the link that calibrates them, the rule, the numbers."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shortlist.data.dataset import TRAIN, Split
from shortlist.errors import NotConvergedError, ShortlistWarning
from shortlist.links import Isotonic, Link, Platt, Temperature
from shortlist.links.fitted import FittedLink
from shortlist.models.classifier import Classifier
from shortlist.models.network import Network
from shortlist.predictions import Predictions
from shortlist.sets import SetRule, parse_rule
from shortlist.tensors import Scores, is_single_label
from shortlist.training.division import CALIBRATION, TEST, VAL
from shortlist.training.link_and_rule import base_link, make_rule, rule_without_probabilities
from shortlist.training.recipe import Recipe

FITTED: Mapping[str, type[FittedLink]] = {"temperature": Temperature, "platt": Platt, "isotonic": Isotonic}


def scored(
    scores: Scores, split: Split, classes: list[str], counts: torch.Tensor, superclasses: Sequence[str] | None = None
) -> Predictions:
    """Scores of a split as predictions, still without a link."""
    ids = list(split.ids)
    unique = ids if len(set(ids)) == len(ids) else None
    return Predictions(scores, split.target, classes, None, unique, counts, superclasses)


def fitted_link(recipe: Recipe, base: Link | None, validation: Predictions, remarks: list[str]) -> Link | None:
    """The base, or what is fitted on top of it on validation rows."""
    assert validation.target is not None
    wanted = recipe.calibration
    if wanted == "auto":
        single = is_single_label(validation.target)
        wanted = "temperature" if single else "platt" if base is None else "none"
    if wanted == "none":
        return base
    try:
        return FITTED[wanted](base).fit(validation.scores, validation.target)
    except NotConvergedError as error:
        remarks.append(f"the link could not be calibrated: {error}")
        return base


def fitted_rule(recipe: Recipe, calibration: Predictions, remarks: list[str]) -> SetRule:
    """The rule, fitted on the calibration rows.

    A rule on probabilities, where no link could be fitted to give them, is replaced by the most plausible labels: a training
    that has come this far does not end without a classifier.
    """
    rule = make_rule(recipe, calibration.num_classes, calibration.prior)
    if calibration.link is None and rule.needs_probabilities:
        instead = rule_without_probabilities(recipe, calibration.num_classes)
        remarks.append(f"{rule.text} needs probabilities, which these scores do not give: the classifier has {instead} instead")
        rule = parse_rule(instead)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortlistWarning)
        rule.fit(calibration)
    remarks += [str(warning.message) for warning in caught]
    return rule


def finish(
    recipe: Recipe, network: Network, own: Link | None, found: Mapping[str, Predictions], about: dict[str, Any]
) -> tuple[Classifier, dict[str, Predictions], list[str]]:
    """The classifier, every split's predictions with the link, and what a person should know."""
    remarks: list[str] = []
    base = base_link(recipe, own)
    link = fitted_link(recipe, base, found[VAL], remarks)
    predictions = {name: part.with_link(link) for name, part in found.items() if name != TRAIN}
    calibration = predictions.get(CALIBRATION, predictions[VAL])
    rule = fitted_rule(recipe, calibration, remarks)
    if rule.needs_labels and CALIBRATION not in predictions:
        remarks.append(f"{rule.text} was fitted on the rows that chose the epoch, so its guarantee does not hold exactly")
    test = predictions[TEST]
    classifier = Classifier(
        network,
        list(test.class_names),
        link=link,
        rule=rule,
        train_counts=test.train_counts,
        superclasses=test.superclasses,
        single_label=test.target is not None and is_single_label(test.target),
        about=about,
    )
    return classifier, predictions, remarks
