"""The link and the rule of a recipe, built from their texts and checked before training starts."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.errors import InputError, ShortlistWarning
from shortlist.links import Link, parse_link
from shortlist.links.choice import CALIBRATIONS, ONE_LABEL
from shortlist.sets import SetRule, parse_rule
from shortlist.sets.gates import SHARPNESS
from shortlist.training.recipe import Recipe
from shortlist.training.setting_checks import rule_size

TRIED = 64  # artificial rows that a rule is tried on


def base_link(recipe: Recipe, own: Link | None, *, single: bool) -> Link | None:
    """The link of a recipe before calibration: the one it names, otherwise that of the method if it suits such rows.

    Args:
        recipe: may name a link.
        own: the link of the method.
        single: whether every row has exactly one label.
    """
    if recipe.link is not None:
        return parse_link(recipe.link)
    return None if own is None else own.for_rows(single=single)


def default_rule(recipe: Recipe, classes: int) -> str:
    """The rule that the method is designed for.

    >>> default_rule(Recipe("mine", "flora", method="noised-topk", parameters={"k": 3}), classes=100)
    'top-k:3'
    """
    method, k = recipe.chosen_method, min(recipe.k_for(classes), classes)
    if method.rule:
        return method.rule.format(**method.parameters)
    if method.sets_of_k:
        return f"top-k:{round(k)}"
    return "threshold:0.5" if method.labels == "any" or recipe.labels == "any" else f"average-k:{k:g}"


def rule_without_probabilities(recipe: Recipe, classes: int) -> str:
    """The rule for scores that only rank the labels of a row.

    >>> rule_without_probabilities(Recipe("mine", "flora", method="two-way"), classes=6)
    'top-k:3'
    """
    return f"top-k:{min(max(1, round(recipe.k_for(classes))), classes)}"


def make_rule(recipe: Recipe, classes: int, prior: Tensor | None, superclasses: Sequence[str] | None = None) -> SetRule:
    """The recipe's rule, by default that of the method, not yet fitted.

    Args:
        recipe: names the rule.
        classes: number of classes.
        prior: class frequencies of the training rows, for rules that divide by them.
        superclasses: the superclass of each class, for rules that answer with them.
    """
    text = recipe.rule or default_rule(recipe, classes)
    return parse_rule(text, prior=prior, generator=recipe.seed, superclasses=superclasses)


def check_link_and_rule(
    recipe: Recipe,
    counts: Tensor,
    *,
    single: bool,
    pictures: bool,
    without_label: int,
    superclasses: Sequence[str] | None = None,
) -> None:
    """Raise an error if the link or the rule cannot work with such rows, as far as that is known before training.

    Args:
        recipe: names the link and the rule.
        counts: number of training rows of each class.
        single: whether every row has exactly one label.
        pictures: whether rows are pictures.
        without_label: how many of the rows that the rule will be fitted on have no label.
        superclasses: the superclass of each class, if there are any.
    """
    _check_calibration(recipe, single=single)
    classes = len(counts)
    text = recipe.rule or default_rule(recipe, classes)
    size = rule_size(text)
    if size is not None and size > classes:
        raise _too_many(f"rule {text}", size, classes)
    try:
        rule = make_rule(recipe, classes, counts.double() / counts.sum(), superclasses)
    except InputError as error:
        raise error if str(error).startswith("rule") else InputError(f"rule {text}: {error}") from error
    if rule.least > classes:
        raise _too_many("floor", rule.least, classes)
    if (
        rule.needs_probabilities
        and recipe.calibration == "none"
        and base_link(recipe, _own(recipe, counts), single=single) is None
    ):
        raise InputError(
            f"rule {text} needs probabilities, but there is no link and calibration is none: set calibration=auto, or a rule "
            f"that does not need them, such as {rule_without_probabilities(recipe, classes)}"
        )
    if rule.gate is not None and rule.needs_quality and not (pictures and rule.gate.by == SHARPNESS):
        raise InputError(
            f"rule {text} compares rows by a quality that training does not know: "
            + ("use sharpness, or " if pictures else "")
            + "train with another rule, and fit this one afterwards on predictions with a quality"
        )
    if rule.column is not None:
        raise InputError(
            f"rule {text} groups rows by {rule.column}, which classifiers are not given with their inputs: train with another "
            "rule, and fit this one afterwards on predictions with that column"
        )
    _try(rule, classes, single)
    if rule.gate is not None and without_label < rule.gate.fewest_rows:
        raise InputError(
            f"rule {text}: expected at least {rule.gate.fewest_rows:,} calibration rows without a label, got "
            f"{without_label:,}: "
            "raise calibration_share, or refuse a smaller share"
        )


def _check_calibration(recipe: Recipe, *, single: bool) -> None:
    kind = CALIBRATIONS.get(recipe.calibration)
    if kind in ONE_LABEL and not single:
        raise InputError(
            f"calibration: expected one for rows with any number of labels, got {recipe.calibration}, which is for one "
            "label per row: set calibration=platt or calibration=beta"
        )


def _own(recipe: Recipe, counts: Tensor) -> Link | None:
    return recipe.chosen_method.link(counts)


def _try(rule: SetRule, classes: int, single: bool) -> None:
    """Fit the rule on artificial rows, so that one for another kind of labels fails now and not after training."""
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(TRIED, classes, generator=generator).softmax(1)
    target = torch.arange(TRIED) % classes
    labels = target if single else torch.nn.functional.one_hot(target, classes).bool()
    if rule.gate is not None and not single:  # which needs rows without a label, and refuses these
        probs = torch.cat([probs, torch.zeros(rule.gate.fewest_rows, classes)])
        labels = torch.cat([labels, torch.zeros(rule.gate.fewest_rows, classes, dtype=torch.bool)])
    quality = None if single or not rule.needs_quality else labels.any(1).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortlistWarning)  # the rows are artificial
        try:
            rule.fit(probs, labels, quality=quality)
        except InputError as error:
            raise InputError(f"rule {rule.text}: {error}") from error


def _too_many(what: str, number: float, classes: int) -> InputError:
    return InputError(f"{what}: expected at most the number of classes, {classes}, got {number:g}")
