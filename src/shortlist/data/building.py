"""Build a benchmark from an archive as Pl@ntNet-300K was built: whole superclasses, no small classes, a fixed split.

Whole superclasses are kept because their classes are easily confused; sampling single classes would separate them.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version

import torch
from torch import Tensor

from shortlist.checks import one_of, share as checked_share, whole
from shortlist.data.dataset import ALL, EMPTY_CLASS, Dataset, Split
from shortlist.data.deduplication import find_copies, treated
from shortlist.data.duplicates import POLICIES, DuplicatePolicy
from shortlist.data.inspection import inspect_pictures, warn_duplicates
from shortlist.data.pictures import PictureFiles
from shortlist.data.problems import Problem, check_tolerance
from shortlist.data.randomness import Draws, Purpose
from shortlist.data.splits import ceil_split, grouped_split
from shortlist.errors import InputError, ShortlistWarning
from shortlist.tensors import is_single_label
from shortlist.words import listed

FEWEST = 5


def pooled(dataset: Dataset) -> Dataset:
    """All splits as one, called all, to be divided again.

    >>> split = Split(torch.zeros(2, 1), torch.tensor([0, 0]), ["a", "b"])
    >>> len(pooled(Dataset("twice", ["oak"], {"train": split, "test": split})).splits["all"])
    4
    """
    splits = list(dataset.splits.values())
    if len(splits) == 1:
        return dataset.with_splits({ALL: splits[0]})
    if all(isinstance(split.inputs, Tensor) for split in splits):
        inputs: Tensor | PictureFiles = torch.cat([split.inputs for split in splits])  # type: ignore[misc]
    else:
        inputs = _one_folder(splits)
    groups = None
    if all(split.groups is not None for split in splits):
        groups = [group for split in splits for group in split.groups or ()]
    ids = [identity for split in splits for identity in split.ids]
    target = None
    if any(split.target is not None for split in splits):
        dataset.check_labelled()
        target = torch.cat([split.labels for split in splits])
    shared = [name for name in splits[0].columns if all(name in split.columns for split in splits)]
    columns = {name: [value for split in splits for value in split.columns[name]] for name in shared}
    return dataset.with_splits({ALL: Split(inputs, target, ids, groups, columns=columns)})


def _one_folder(splits: Sequence[Split]) -> PictureFiles:
    roots = {split.inputs.root for split in splits if isinstance(split.inputs, PictureFiles)}
    if len(roots) != 1 or not all(isinstance(split.inputs, PictureFiles) for split in splits):
        raise InputError("inputs: expected picture files under one folder, or features, got pictures in memory or in a table")
    return PictureFiles(roots.pop(), [path for split in splits for path in split.inputs.ids])  # type: ignore[union-attr]


def choose_classes(dataset: Dataset, *, superclasses: float = 1.0, fewest: int = FEWEST, seed: int = 0) -> Dataset:
    """Some superclasses, drawn at random, with all of their classes that have at least ``fewest`` rows; the rest is left out.

    Args:
        dataset: with one label a row; its splits are pooled.
        superclasses: the share of the superclasses to keep, rounded up (Pl@ntNet-300K: 0.1).
        fewest: classes with fewer rows are left out (Pl@ntNet-300K: 5, "more than 4").
        seed: of the draw of superclasses.
    """
    share = checked_share("superclasses", superclasses)
    whole(1)("fewest", fewest)
    dataset.check_labelled()
    rows = pooled(dataset).splits[ALL]
    labels = rows.labels
    if not is_single_label(labels):
        raise InputError(f"{dataset.name}: expected one label a row, got any number: the split by class needs one")
    drawn = _draw_superclasses(dataset, share, seed)
    counts = rows.counts(len(dataset.classes))
    kept = [label for label in drawn if counts[label] >= fewest]
    if not kept:
        raise InputError(f"{dataset.name}: no class that was drawn has {fewest} rows: lower that or draw more")
    empty = {problem.where for problem in dataset.problems if problem.kind == EMPTY_CLASS}
    notes = [
        Problem("class too small", dataset.classes[label], f"has {int(counts[label])} of at least {fewest} rows: left out")
        for label in drawn
        if counts[label] < fewest and dataset.classes[label] not in empty
    ]
    number = torch.full((len(dataset.classes),), -1)
    number[torch.tensor(kept)] = torch.arange(len(kept))
    chosen = rows.rows((number[labels] >= 0).nonzero()[:, 0])
    classes = [dataset.classes[label] for label in kept]
    return replace(
        dataset,
        classes=classes,
        splits={ALL: chosen.with_target(number[chosen.labels], classes)},
        numbered=False,
        superclasses=None if dataset.superclasses is None else [dataset.superclasses[label] for label in kept],
        problems=[*dataset.problems, *notes],
    )


def _draw_superclasses(dataset: Dataset, share: float, seed: int) -> list[int]:
    """The classes of the superclasses drawn, in the order of the labels."""
    if share == 1:
        return list(range(len(dataset.classes)))
    if dataset.superclasses is None:
        raise InputError(
            f"{dataset.name} has no superclasses to draw {share:.0%} of: set superclass='first-word' or 'last-word' to take "
            "them from the class names, or keep all classes"
        )
    names = sorted(set(dataset.superclasses))
    count = -(-Fraction(str(share)) * len(names) // 1)
    drawn = {names[place] for place in Draws(seed, Purpose.SUPERCLASSES).shuffled(len(names))[:count]}
    return [label for label, name in enumerate(dataset.superclasses) if name in drawn]


def divide(dataset: Dataset, *, share: float = 0.1, seed: int = 0, by_group: bool = False) -> Dataset:
    """Train, val and test: ⌈share · n⌉ of each class for val, as many for test; or whole groups, as near to that as they allow.

    Args:
        dataset: with one split.
        share: of each class for val, and for test.
        seed: of the division.
        by_group: keep the rows of a group (a plant, an observer) on one side.
    """
    if len(dataset.splits) != 1:
        raise InputError(f"{dataset.name}: expected one split to divide, got {listed(list(dataset.splits))}: pool them first")
    dataset.check_labelled()
    (rows,) = dataset.splits.values()
    part = _checked_division(dataset, rows, share, by_group)
    if by_group:
        parts = {"train": 1 - 2 * part, "val": part, "test": part}
        found: dict[str, Tensor] = grouped_split(rows.labels, rows.groups, parts, seed=seed, names=dataset.classes)
    else:
        found = ceil_split(rows.labels, part, seed=seed, names=dataset.classes)
    return dataset.with_splits({name: rows.rows(places) for name, places in found.items()})


def _checked_division(dataset: Dataset, rows: Split, share: float, by_group: bool) -> Fraction:
    part = Fraction(str(checked_share("share", share)))
    if not 0 < part < Fraction(1, 2):
        raise InputError(f"share: expected a number between 0 and 1/2, such as 0.1; got {share}")
    if by_group and rows.groups is None:
        raise InputError(f"{dataset.name} does not say which rows belong together: give a table with a column of groups")
    return part


@dataclass(frozen=True, eq=False)
class Built:
    """A benchmark, ready to be written.

    Args:
        dataset: with splits train, val and test.
        made: how it was made, in sentences.
        notes: what to know before using it, in sentences.
    """

    dataset: Dataset
    made: Sequence[str]
    notes: Sequence[str]


def build_benchmark(
    archive: Dataset,
    *,
    superclasses: float = 1.0,
    fewest: int = FEWEST,
    share: float = 0.1,
    by_group: bool = False,
    duplicates: DuplicatePolicy | str = "keep",
    tolerance: float = 0.01,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Built:
    """Choose, open every picture, divide, and look for pictures that are on both sides.

    Args:
        archive: pictures with one label each; its own splits, if any, are pooled.
        superclasses: the share of the superclasses to draw.
        fewest: classes with fewer pictures are left out.
        share: of each class for val, and for test, rounded up.
        by_group: keep the pictures of a group on one side.
        duplicates: what to do about near duplicates: ``"keep"``, ``"together"`` (in one split) or ``"drop"``.
        tolerance: the share of unreadable pictures above which this fails; below, they are left out and named.
        seed: of the draw of superclasses and of the division.
        progress: callback, called with the number of pictures opened.
    """
    checked_share("tolerance", tolerance)
    one_of(*POLICIES)("duplicates", duplicates)
    drawn = choose_classes(archive, superclasses=superclasses, fewest=fewest, seed=seed)
    rows = drawn.splits[ALL]
    _checked_division(archive, rows, share, by_group)  # before every picture is opened, which may take hours
    opened = inspect_pictures(drawn, progress=progress)
    check_tolerance(opened.unreadable, len(rows), tolerance)
    # Rows go by their number through what follows: ids need not differ.
    numbered = replace(rows, ids=[str(number) for number in range(len(rows))])
    usable = replace(drawn, splits={ALL: numbered.rows(opened.readable[ALL])}, problems=[*drawn.problems, *opened.unreadable])
    if duplicates != "keep":
        copies = find_copies(usable, {ALL: opened.prints[ALL][opened.readable[ALL].numpy()]})
        usable = treated(usable, replace(copies, ids=list(rows.rows(opened.readable[ALL]).ids)), duplicates)
    by_group = by_group or (duplicates == "together" and usable.splits[ALL].groups is not None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortlistWarning)
        divided = divide(choose_classes(usable, fewest=fewest), share=share, seed=seed, by_group=by_group)
        numbers = {name: [int(number) for number in split.ids] for name, split in divided.splits.items()}
        divided = divided.with_splits(
            {name: replace(split, ids=[rows.ids[int(n)] for n in split.ids]) for name, split in divided.splits.items()}
        )
        warn_duplicates(divided, {name: opened.prints[ALL][numbers[name]] for name in divided.splits})
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, ShortlistWarning)]
    return Built(divided, _how(archive, divided, superclasses, fewest, share, by_group, seed), notes)


def _how(
    archive: Dataset, built: Dataset, superclasses: float, fewest: int, share: float, by_group: bool, seed: int
) -> list[str]:
    rows = sum(len(split) for split in archive.splits.values())
    above = ", ".join(built.superclass_names)
    drawn = f"{superclasses:.0%} of the superclasses, drawn with seed {seed}: all of their classes"
    groups = f"whole groups, about {share:.0%} of each class for val and for test"
    divided = groups if by_group else f"⌈{share:g} n⌉ of each class for val, as many for test"
    return [
        f"From {archive.name}: {rows:,} pictures of {len(archive.classes):,} classes.",
        f"Kept: {drawn if superclasses < 1 else 'all classes'} that have at least {fewest} pictures.",
        *([f"Superclasses drawn: {above}."] if superclasses < 1 else []),
        *(f"{note}." for note in built.notes),
        f"Split with seed {seed}: {divided}, the rest train.",
        f"Every picture was opened once by shortlist {version('shortlist')}; those that cannot be read were left out.",
    ]
