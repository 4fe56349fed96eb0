"""The splits of a training: rows to train on, to choose the epoch and calibrate on, and to test on.

Everything that can be checked without decoding a picture is checked here, before any time is spent; pictures are opened only to
find near duplicates, where the recipe asks for that.
"""

import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace

import torch

from shortlist.data.dataset import ALL, EMPTY_CLASS, MISSING_CLASS, TRAIN, Dataset, Split, classes_without_rows
from shortlist.data.deduplication import with_duplicates
from shortlist.data.label_noise import superclass_noise
from shortlist.data.problems import Problem, describe_problems
from shortlist.data.shared_files import in_two_splits, rows_together, with_two_labels
from shortlist.data.splits import grouped_split, stratified_split
from shortlist.errors import InputError, ShortlistWarning
from shortlist.methods import find_method
from shortlist.tensors import Target, is_single_label, one_hot
from shortlist.training.link_and_rule import check_link_and_rule
from shortlist.training.recipe import Recipe
from shortlist.training.setting_checks import checked_parameters, default_k
from shortlist.words import counted, listed

VAL, CALIBRATION, TEST = "val", "calibration", "test"
HELD_OUT = 0.1  # share of the rows for validation and for test each, if the data come without these splits
FEW = 0.5  # share of its intended rows below which a split is drawn again without stratification


@dataclass(frozen=True)
class TrainingSplits:
    """The splits of one training, with remarks on them.

    Args:
        dataset: the dataset they were made from.
        splits: ``train``, ``val`` (to choose the epoch and fit the link), ``calibration`` (to fit the rule; absent if it is
            fitted on val) and ``test``.
        remarks: notes on the splits, in sentences.
        warnings: those of the remarks that are likely mistakes: problems that the reader found, and numbered classes without a
            training row.
        drawn: the splits that were set aside from the training rows, rather than given with the data.
    """

    dataset: Dataset
    splits: Mapping[str, Split]
    remarks: Sequence[str]
    warnings: list[str] = field(default_factory=list)
    drawn: frozenset[str] = frozenset()

    @property
    def train_counts(self) -> torch.Tensor:
        """The number of training rows of each class."""
        return self.splits[TRAIN].counts(len(self.dataset.classes))

    @property
    def single_label(self) -> bool:
        """Whether every row has exactly one label."""
        return is_single_label(self.splits[TRAIN].labels)


def split_for_training(dataset: Dataset, recipe: Recipe) -> TrainingSplits:
    """Make the splits that a recipe needs, and check that it can be trained on them."""
    dataset.check_labelled((TRAIN, VAL, TEST, ALL))
    dataset = with_duplicates(dataset, recipe.duplicates)
    remarks = list(dataset.notes)
    splits = _held_out(dataset, recipe, remarks)
    _check_method(dataset, recipe)
    _check_schedule(recipe)
    if recipe.label_noise:  # before labels="any": noise is drawn within the superclass of a single label
        splits[TRAIN] = _noisy(dataset, splits[TRAIN], recipe)
    if recipe.labels == "any":
        splits = {name: split.with_target(one_hot(split.labels, len(dataset.classes))) for name, split in splits.items()}
    if recipe.calibration_share:
        splits = _with_calibration(dataset, splits, recipe)
    for name, split in splits.items():
        if not len(split):
            raise InputError(f"{dataset.name}: expected rows in the split {name}, got none")
    data = TrainingSplits(dataset, splits, remarks, drawn=_drawn(dataset))
    _report_problems(data, remarks)
    _check_trainable(data, recipe, remarks)
    return data


def _drawn(dataset: Dataset) -> frozenset[str]:
    """The splits that are set aside from the training rows; calibration rows come from val."""
    return frozenset(name for name in (VAL, CALIBRATION, TEST) if (VAL if name == CALIBRATION else name) not in dataset.splits)


def drawn_again(data: TrainingSplits, readable: Mapping[str, Split], recipe: Recipe) -> TrainingSplits | None:
    """Splits of the readable rows, if a class has no training row while readable ones were set aside; None if none has.

    Splits are drawn before pictures are opened. Where all training pictures of a class turn out to be unreadable, drawing
    again from the readable ones gives it some, because a class goes to training first.

    Args:
        data: the splits as they were drawn.
        readable: their rows that can be read.
        recipe: the recipe that is trained on them.
    """
    classes = data.dataset.classes
    aside = sum((readable[name].counts(len(classes)) for name in data.drawn if name in readable), torch.zeros(len(classes)))
    lost = (readable[TRAIN].counts(len(classes)) == 0) & (aside > 0)
    source = data.dataset.splits.get(TRAIN, data.dataset.splits.get(ALL))
    if not lost.any() or source is None or len(set(source.ids)) < len(source):
        return None
    left = {name for split in (TRAIN, *data.drawn) if split in readable for name in readable[split].ids}
    kept = torch.tensor([name in left for name in source.ids])
    others = {name: split for name, split in data.dataset.splits.items() if split is not source}
    rows = {TRAIN if TRAIN in data.dataset.splits else ALL: source.rows(kept), **others}
    again = split_for_training(data.dataset.with_splits(rows), recipe)
    names = [name for name, gone in zip(classes, lost.tolist(), strict=True) if gone]
    told = f"all training pictures of {_listed(names).rsplit(' ', 1)[0]} were unreadable: splits were drawn again without these"
    return replace(again, remarks=[told, *(remark for remark in again.remarks if remark not in data.remarks)])


def remarks_on_readable(data: TrainingSplits, splits: Mapping[str, Split], recipe: Recipe) -> list[str]:
    """Check the splits again without the rows that cannot be read, which may have been all rows of a class.

    Args:
        data: the splits as they were, with the remarks on them.
        splits: the rows that can be read.
        recipe: the recipe that is trained on them.

    Returns:
        The remarks that are new; an error is raised where :func:`split_for_training` would raise one.
    """
    remarks: list[str] = []
    _check_trainable(TrainingSplits(data.dataset, splits, remarks), recipe, remarks)
    return [remark for remark in remarks if remark not in data.remarks]


def _check_trainable(data: TrainingSplits, recipe: Recipe, remarks: list[str]) -> None:
    """Raise an error if a recipe cannot be trained on these rows; report classes that some split lacks."""
    _check_classes(data, recipe, remarks)
    kind = {"single": data.single_label, "pictures": not isinstance(data.splits[TRAIN].inputs, torch.Tensor)}
    fitted_on = data.splits.get(CALIBRATION, data.splits[VAL])
    empty = 0 if data.single_label else int((~fitted_on.labels.any(1)).sum())
    check_link_and_rule(recipe, data.train_counts, **kind, without_label=empty, superclasses=data.dataset.superclasses)


def _held_out(dataset: Dataset, recipe: Recipe, remarks: list[str]) -> dict[str, Split]:
    """train, val and test as the data have them; missing ones are drawn from the training rows."""
    if not any(len(split) for split in dataset.splits.values()):
        raise InputError(f"{dataset.name}: expected rows to train on, got none")
    splits = dict(dataset.splits)
    if TRAIN not in splits:
        if list(splits) != [ALL]:
            raise InputError(f"{dataset.name}: expected a split called train, got {listed(list(splits))}")
        splits = {TRAIN: splits[ALL]}
    missing = [name for name in (VAL, TEST) if name not in splits]
    if missing:
        shares = {TRAIN: 1 - HELD_OUT * len(missing)} | dict.fromkeys(missing, HELD_OUT)
        drawn = _cut(dataset, splits[TRAIN], shares, recipe.seed, remarks)
        _check_drawn(dataset, splits[TRAIN], drawn)
        splits |= drawn
        held = " and ".join(f"{len(splits[name]):,} for {name}" for name in missing)
        remarks.append(f"set aside from the training rows: {held} (stratified, seed {recipe.seed})")
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
    """Draw parts of a split by shares, stratified by its target or by another one."""
    labels = split.labels if target is None else target
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortlistWarning)
        groups = rows_together(split)
        if groups is not None:
            rows: Mapping[str, torch.Tensor] = grouped_split(labels, groups, shares, seed=seed, names=dataset.classes)
        else:
            rows = stratified_split(labels, shares, seed=seed, names=dataset.classes)
    remarks += [str(warning.message) for warning in caught]
    return {name: split.rows(part.sort().values) for name, part in rows.items()}


def _check_drawn(dataset: Dataset, source: Split, parts: Mapping[str, Split]) -> None:
    """Raise an error if rows that stay together leave a split without any."""
    empty = [name for name, part in parts.items() if not len(part)]
    together = rows_together(source) if empty else None
    if together is not None:
        raise InputError(
            f"{dataset.name}: expected rows for {', '.join(parts)}, got none for {' and '.join(empty)}: rows of one group or "
            f"one picture file stay together, and there are {counted(len(source), 'row')} in "
            f"{counted(len(set(together)), 'group')}: use smaller groups, or give the data these splits"
        )


def _with_calibration(dataset: Dataset, splits: dict[str, Split], recipe: Recipe) -> dict[str, Split]:
    if len(splits[VAL]) < 2:
        raise InputError(
            f"{dataset.name}: expected at least two validation rows, one of them to calibrate on, got {len(splits[VAL])}"
        )
    shares = {VAL: 1 - recipe.calibration_share, CALIBRATION: recipe.calibration_share}
    seed = (recipe.seed + 1) % 2**63  # wraps around at the largest seed
    parts = _cut(dataset, splits[VAL], shares, seed, [])  # warnings about classes of one row were given above
    if any(len(part) < FEW * shares[name] * len(splits[VAL]) for name, part in parts.items()):
        # Classes of one row all go to the larger part; without stratification they are divided at random.
        alike = torch.zeros(len(splits[VAL]), dtype=torch.int64)
        parts = _cut(dataset, splits[VAL], shares, seed, [], target=alike)
        _check_drawn(dataset, splits[VAL], parts)
    return {TRAIN: splits[TRAIN], **parts, TEST: splits[TEST]}


def _noisy(dataset: Dataset, split: Split, recipe: Recipe) -> Split:
    if dataset.superclasses is None:
        raise InputError(f"label_noise: expected data with superclasses, but {dataset.name} has none")
    if not is_single_label(split.labels):
        raise InputError(f"label_noise: expected data with one label per row, but rows of {dataset.name} may have any number")
    return split.with_target(superclass_noise(split.labels, dataset.superclass_of, recipe.label_noise, seed=recipe.seed))


def _check_method(dataset: Dataset, recipe: Recipe) -> None:
    """Raise an error if the method does not suit the targets, or its k the number of classes."""
    method, classes = recipe.chosen_method, len(dataset.classes)
    if classes < 2:
        raise InputError(f"{dataset.name}: expected at least two classes, got {classes} ({', '.join(dataset.classes)})")
    if method.labels == "one" and (dataset.multi_label or recipe.labels == "any"):
        raise InputError(
            f"method {method.name} is for exactly one label per row, but rows of {dataset.name} may have any number: "
            "use spa, spa-label-pair, bce, asy, two-way or quasibinary"
        )
    if method.labels == "any" and not dataset.multi_label and recipe.labels == "as-given":
        raise InputError(
            f"method {method.name} is for any number of labels per row, but every row of {dataset.name} has exactly one: use "
            "average-k, noised-topk or cross-entropy, or set labels=any to use this method anyway"
        )
    k = recipe.parameters.get("k")
    if k is not None and not 0 < float(k) < classes:
        default = checked_parameters(find_method(recipe.method)).get("k")
        unless = f" (the default of {recipe.method})" if k == default else ""
        raise InputError(
            f"k: expected a number from 1 to {classes - 1} for the {classes} classes of {dataset.name}, got {k}{unless}: set "
            f"k to a smaller number, such as {default_k(classes)}"
        )


def _check_schedule(recipe: Recipe) -> None:
    """Raise an error if a step schedule has no milestone within the epochs, as when epochs was reduced."""
    if recipe.schedule == "step" and recipe.milestones[0] >= recipe.epochs:
        raise InputError(
            f"milestones: expected at least one before the last of the {recipe.epochs} epochs, got "
            f"{', '.join(map(str, recipe.milestones))}: change milestones too, or set schedule=constant"
        )


def _report_problems(data: TrainingSplits, remarks: list[str]) -> None:
    """Report what the reader found wrong; classes without rows are reported elsewhere, for the final splits."""
    found = [problem for problem in data.dataset.problems if problem.kind not in (EMPTY_CLASS, MISSING_CLASS)]
    found += [*_unused(data.dataset), *in_two_splits(data.splits), *with_two_labels(data.splits)]
    if found:
        remarks.insert(0, f"{data.dataset.name}: {describe_problems(found)}")
        data.warnings.append(remarks[0])


def _unused(dataset: Dataset) -> list[Problem]:
    """Splits with labels that training does not use: perhaps val or test under another name."""
    used = (TRAIN, VAL, TEST) if TRAIN in dataset.splits else (ALL,)
    return [
        Problem("split not used", name, f"{counted(len(split), 'row')}, in none of train, val and test: left out")
        for name, split in dataset.splits.items()
        if name not in used and split.target is not None and len(split)
    ]


def _check_classes(data: TrainingSplits, recipe: Recipe, remarks: list[str]) -> None:
    """Report classes that some split lacks; raise an error if training needs them."""
    classes = data.dataset.classes
    counts = data.train_counts
    untrained = [name for name, count in zip(classes, counts.tolist(), strict=True) if not count]
    if len(untrained) > len(classes) - 2:
        raise InputError(
            f"{data.dataset.name}: expected training rows of at least two classes, got {len(classes) - len(untrained)}"
        )
    if untrained and recipe.chosen_method.needs_counts:
        raise InputError(
            f"method {recipe.method} derives its margins from class counts, but {_listed(untrained)} no training row: remove "
            "such classes or use another method"
        )
    if untrained:
        remarks.append(f"{_listed(untrained)} no training row, so the classifier cannot learn {_one(untrained, 'it', 'them')}")
        if list(classes) == [str(label) for label in range(len(classes))]:  # numbers without names: counted from 1, perhaps
            data.warnings.append(remarks[-1])
    absent = {problem.where: problem for problem in classes_without_rows(data.splits, classes) if _elsewhere(problem)}
    absent = {name: problem for name, problem in absent.items() if name not in untrained}
    if absent and len(absent) <= len(classes):
        remarks.append(
            f"{_listed(list(absent))} no row in some of val, calibration and test, so {_one(absent, 'its', 'their')} metrics "
            "are unknown there"
        )


def _elsewhere(problem: Problem) -> bool:
    return problem.kind != EMPTY_CLASS


def _listed(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'class', 'classes')} ({listed(names, 5)}) {_one(names, 'has', 'have')}"


def _one(names: Sized, one: str, several: str) -> str:
    """The singular or the plural form."""
    return one if len(names) == 1 else several
