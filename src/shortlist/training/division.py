"""A dataset → the rows that train, those that choose and calibrate, those that measure; refused in plain words if it cannot be.

Everything that can be known without decoding a picture is checked here, before anything is spent.
"""

import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass

import torch

from shortlist.data.dataset import ALL, TRAIN, Dataset, Split, classes_without_rows
from shortlist.data.label_noise import superclass_noise
from shortlist.data.problems import Problem
from shortlist.data.splits import grouped_split, stratified_split
from shortlist.errors import InputError, ShortlistWarning
from shortlist.methods import find_method
from shortlist.tensors import Target, is_single_label, one_hot
from shortlist.training.link_and_rule import check_reading
from shortlist.training.recipe import Recipe
from shortlist.training.settings import method_numbers
from shortlist.words import counted, listed

VAL, CALIBRATION, TEST = "val", "calibration", "test"
HELD_OUT = 0.1  # share of the rows that validation and test each get where the data do not say
FEW = 0.5  # of the rows that a split was to get; with fewer, classes are too small to be divided one by one


@dataclass(frozen=True)
class Division:
    """The splits of one training, and what a person should know about them.

    Args:
        dataset: what it came from.
        splits: ``train``, ``val`` (chooses the epoch, fits the link), ``calibration`` (fits the rule; absent where val does
            that too) and ``test``.
        remarks: sentences.
    """

    dataset: Dataset
    splits: Mapping[str, Split]
    remarks: Sequence[str]

    @property
    def train_counts(self) -> torch.Tensor:
        """Training rows of each class."""
        return self.splits[TRAIN].counts(len(self.dataset.classes))


def divide(dataset: Dataset, recipe: Recipe) -> Division:
    """The splits that a recipe trains, chooses, calibrates and measures on."""
    remarks: list[str] = []
    dataset.check_labelled((TRAIN, VAL, TEST, ALL))
    splits = _held_out(dataset, recipe, remarks)
    _check_method(dataset, recipe)
    _check_schedule(recipe)
    if recipe.label_noise:  # of labels as given: one a row has a superclass
        splits[TRAIN] = _noisy(dataset, splits[TRAIN], recipe)
    if recipe.labels == "any":
        splits = {name: split.with_target(one_hot(split.labels, len(dataset.classes))) for name, split in splits.items()}
    if recipe.calibration_share:
        splits = _with_calibration(dataset, splits, recipe)
    for name, split in splits.items():
        if not len(split):
            raise InputError(f"{dataset.name}: expected rows in the split {name}, got none")
    division = Division(dataset, splits, remarks)
    _check_classes(division, recipe, remarks)
    check_reading(recipe, division.train_counts, single=single_label(division))
    return division


def _held_out(dataset: Dataset, recipe: Recipe, remarks: list[str]) -> dict[str, Split]:
    """train, val and test as the data have them, or cut from the training rows."""
    if not any(len(split) for split in dataset.splits.values()):
        raise InputError(f"{dataset.name}: expected pictures or rows to train on, got none")
    splits = dict(dataset.splits)
    if TRAIN not in splits:
        if list(splits) != [ALL]:
            raise InputError(f"{dataset.name}: expected a split called train, got {', '.join(splits)}")
        splits = {TRAIN: splits[ALL]}
    missing = [name for name in (VAL, TEST) if name not in splits]
    if missing:
        shares = {TRAIN: 1 - HELD_OUT * len(missing)} | dict.fromkeys(missing, HELD_OUT)
        splits |= _cut(dataset, splits[TRAIN], shares, recipe.seed, remarks)
        held = " and ".join(f"{len(splits[name]):,} for {name}" for name in missing)
        remarks.append(f"of the training rows {held} were set aside (stratified, seed {recipe.seed})")
    return {name: splits[name] for name in (TRAIN, VAL, TEST)}


def _cut(
    dataset: Dataset,
    split: Split,
    shares: Mapping[str, float],
    seed: int,
    remarks: list[str],
    *,
    target: Target | None = None,
) -> dict[str, Split]:
    """Parts of a split by shares, stratified by its target or by another."""
    labels = split.labels if target is None else target
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortlistWarning)
        if split.groups is not None:
            rows: Mapping[str, torch.Tensor] = grouped_split(labels, split.groups, shares, seed=seed, names=dataset.classes)
        else:
            rows = stratified_split(labels, shares, seed=seed, names=dataset.classes)
    remarks += [str(warning.message) for warning in caught]
    return {name: split.rows(part.sort().values) for name, part in rows.items()}


def _with_calibration(dataset: Dataset, splits: dict[str, Split], recipe: Recipe) -> dict[str, Split]:
    if len(splits[VAL]) < 2:
        raise InputError(
            f"{dataset.name}: expected at least two validation rows, to choose and to calibrate, got {len(splits[VAL])}"
        )
    shares = {VAL: 1 - recipe.calibration_share, CALIBRATION: recipe.calibration_share}
    seed = (recipe.seed + 1) % 2**63  # the largest seed has a next one too
    parts = _cut(dataset, splits[VAL], shares, seed, [])  # classes of one row are no news here
    if any(len(part) < FEW * shares[name] * len(splits[VAL]) for name, part in parts.items()):
        # Classes of one row all go to the larger share; as rows of one class they are divided at random.
        alike = torch.zeros(len(splits[VAL]), dtype=torch.int64)
        parts = _cut(dataset, splits[VAL], shares, seed, [], target=alike)
    return {TRAIN: splits[TRAIN], **parts, TEST: splits[TEST]}


def _noisy(dataset: Dataset, split: Split, recipe: Recipe) -> Split:
    if dataset.superclasses is None:
        raise InputError(f"label_noise: expected data with superclasses, and {dataset.name} has none")
    if not is_single_label(split.labels):
        raise InputError(f"label_noise: expected data with one label a row, and rows of {dataset.name} may have any number")
    return split.with_target(superclass_noise(split.labels, dataset.superclass_of, recipe.label_noise, seed=recipe.seed))


def _check_method(dataset: Dataset, recipe: Recipe) -> None:
    """The method is for such targets, and its k for so many classes."""
    method, classes = recipe.chosen_method, len(dataset.classes)
    if classes < 2:
        raise InputError(
            f"{dataset.name}: expected at least two classes to tell apart, got {classes} ({', '.join(dataset.classes)})"
        )
    if method.labels == "one" and (dataset.multi_label or recipe.labels == "any"):
        raise InputError(
            f"method {method.name} is for exactly one label a row, and rows of {dataset.name} may have any number: "
            "use spa, spa-label-pair, bce, asy, two-way or quasibinary"
        )
    if method.labels == "any" and not dataset.multi_label and recipe.labels == "as-given":
        raise InputError(
            f"method {method.name} is for any number of labels a row, and every row of {dataset.name} has exactly one: use "
            "average-k, noised-topk or cross-entropy, or set labels=any to train it all the same"
        )
    k = recipe.parameters.get("k")
    most = classes - 1 if method.sets_of_k else classes
    if k is not None and not 0 < float(k) <= most:
        usual = method_numbers(find_method(recipe.method)).get("k")
        came = f"{k}, which it is unless given: say how many with -k, such as -k {min(2, most)}" if k == usual else str(k)
        raise InputError(f"k: expected a number from 1 to {most} for the {classes} classes of {dataset.name}, got {came}")


def _check_schedule(recipe: Recipe) -> None:
    """A step schedule has a step within the epochs: a recipe made shorter may have lost all of them."""
    if recipe.schedule == "step" and recipe.milestones[0] >= recipe.epochs:
        raise InputError(
            f"milestones: expected one before the last of {recipe.epochs} epochs, got "
            f"{', '.join(map(str, recipe.milestones))}: set milestones too, or schedule=constant"
        )


def _check_classes(division: Division, recipe: Recipe, remarks: list[str]) -> None:
    """Classes that some split lacks."""
    classes = division.dataset.classes
    counts = division.train_counts
    untrained = [name for name, count in zip(classes, counts.tolist(), strict=True) if not count]
    if len(untrained) > len(classes) - 2:
        raise InputError(
            f"{division.dataset.name}: expected training rows of at least two classes, got {len(classes) - len(untrained)}"
        )
    if untrained and recipe.chosen_method.needs_counts:
        raise InputError(
            f"method {recipe.method} makes its margins from training rows, and {_listed(untrained)} no training row: leave "
            "such classes out or use another method"
        )
    if untrained:
        remarks.append(f"{_listed(untrained)} no training row, so the classifier cannot learn {_one(untrained, 'it', 'them')}")
    absent = {problem.where: problem for problem in classes_without_rows(division.splits, classes) if _elsewhere(problem)}
    absent = {name: problem for name, problem in absent.items() if name not in untrained}
    if absent and len(absent) <= len(classes):
        remarks.append(
            f"{_listed(list(absent))} no row in some of val, calibration and test, so {_one(absent, 'its', 'their')} numbers "
            "are not known there"
        )


def _elsewhere(problem: Problem) -> bool:
    return problem.kind != "empty class"


def _listed(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'class', 'classes')} ({listed(names, 5)}) {_one(names, 'has', 'have')}"


def _one(names: Sized, one: str, several: str) -> str:
    """The word for one of them, or for several."""
    return one if len(names) == 1 else several


def single_label(division: Division) -> bool:
    """Whether every row has exactly one label."""
    return is_single_label(division.splits[TRAIN].labels)
