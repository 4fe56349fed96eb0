"""From trained weights to a classifier: predictions, a calibrated link, a fitted rule."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from shortlist.data.dataset import TRAIN, Split
from shortlist.errors import NotConvergedError, ShortlistWarning
from shortlist.links import Link, choose_link
from shortlist.links.choice import unfitted
from shortlist.models.classifier import Classifier
from shortlist.models.network import Network
from shortlist.predictions import Predictions
from shortlist.sets import SetRule, parse_rule
from shortlist.tensors import Scores, is_single_label
from shortlist.training.link_and_rule import base_link, make_rule, rule_without_probabilities
from shortlist.training.recipe import Recipe
from shortlist.training.splits import CALIBRATION, TEST, VAL

FOLDS = 5  # of a calibration that is cross-validated


def as_predictions(
    scores: Scores,
    split: Split,
    classes: list[str],
    counts: torch.Tensor,
    superclasses: Sequence[str] | None = None,
    quality: torch.Tensor | None = None,
) -> Predictions:
    """The scores of a split as predictions, without a link."""
    ids = list(split.ids)
    unique = ids if len(set(ids)) == len(ids) else None
    return Predictions(scores, split.target, classes, None, unique, counts, superclasses, quality=quality)


def fit_link(recipe: Recipe, base: Link | None, validation: Predictions, remarks: list[str]) -> Link | None:
    """The base link, or the calibration fitted on top of it on validation rows."""
    assert validation.target is not None
    wanted = recipe.calibration
    if wanted == "auto":
        single = is_single_label(validation.target)
        wanted = "temperature" if single else "platt" if base is None else "none"
    if wanted == "none":
        return base
    if wanted == "cross-validated" and len(validation) < FOLDS:  # which is no reason to lose a training
        remarks.append(
            f"the scores could not be calibrated: {wanted} needs {FOLDS} validation rows, and there are {len(validation)}"
        )
        return base
    try:
        if wanted == "cross-validated":
            return choose_link(validation.scores, validation.target, base, folds=FOLDS, seed=recipe.seed).link
        single = is_single_label(validation.target)
        return unfitted(wanted, base, single=single).fit(validation.scores, validation.target)
    except NotConvergedError as error:
        remarks.append(f"the scores could not be calibrated: {error}")
        return base


def fit_rule(recipe: Recipe, calibration: Predictions, remarks: list[str]) -> SetRule:
    """The recipe's rule, fitted on the calibration rows.

    If the rule needs probabilities and no link could be fitted, top-k is used instead, so that a finished training always ends
    with a classifier.
    """
    rule = make_rule(recipe, calibration.num_classes, calibration.prior, calibration.superclasses)
    if calibration.link is None and rule.needs_probabilities:
        instead = rule_without_probabilities(recipe, calibration.num_classes)
        remarks.append(
            f"{rule.text} needs probabilities, which these scores do not give: the classifier uses {instead} instead"
        )
        rule = parse_rule(instead)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortlistWarning)
        rule.fit(calibration)
    remarks += [str(warning.message) for warning in caught]
    return rule


def assemble_classifier(
    recipe: Recipe, network: Network, own: Link | None, found: Mapping[str, Predictions], about: dict[str, Any]
) -> tuple[Classifier, dict[str, Predictions], list[str]]:
    """Fit link and rule on held-out predictions.

    Args:
        recipe: names the link, the calibration and the rule.
        network: the trained network.
        own: the link of the method, if it has one.
        found: predictions without a link, by split.
        about: facts for the model card.

    Returns:
        The classifier, the predictions of every split with its link, and remarks.
    """
    remarks: list[str] = []
    target = found[VAL].target
    base = base_link(recipe, own, single=target is not None and is_single_label(target))
    link = fit_link(recipe, base, found[VAL], remarks)
    digest = network.digest()
    predictions = {name: replace(part, link=link, network_digest=digest) for name, part in found.items() if name != TRAIN}
    calibration = predictions.get(CALIBRATION, predictions[VAL])
    rule = fit_rule(recipe, calibration, remarks)
    if rule.needs_labels and CALIBRATION not in predictions:
        remarks.append(f"{rule.text} was fitted on the rows that chose the epoch, so its guarantee holds only approximately")
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
