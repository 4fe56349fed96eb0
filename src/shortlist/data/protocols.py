"""What a published protocol does to a dataset after it is read: options that every dataset has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from shortlist.checks import one_of, optional
from shortlist.data.dataset import TEST, TRAIN, Dataset
from shortlist.data.long_tail import Profile, long_tailed
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.words import counted, listed

TestRows: TypeAlias = Literal["val"]
VAL = "val"


def apply_protocol(
    dataset: Dataset,
    *,
    test: TestRows | None = None,
    imbalance: float | None = None,
    imbalance_profile: Profile | None = None,
    imbalance_seed: int | None = None,
) -> Dataset:
    """The dataset as a protocol uses it.

    Args:
        dataset: as its reader returns it.
        test: ``"val"`` tests on the official validation rows, see :func:`val_as_test`; by default the splits stay as they are.
        imbalance: keep a long-tailed subsample of the training rows, see :func:`~shortlist.data.long_tailed`; by default all.
        imbalance_profile: ``"exponential"``, the default, or ``"step"``.
        imbalance_seed: seed of the subsample, 0 by default.
    """
    optional(one_of(VAL))("test", test)
    optional(one_of(*get_args(Profile)))("imbalance_profile", imbalance_profile)
    if test is not None:
        dataset = val_as_test(dataset)
    for name, value in (("imbalance_profile", imbalance_profile), ("imbalance_seed", imbalance_seed)):
        if value is not None and imbalance is None:
            raise InputError(f"{name}: expected imbalance beside it, such as imbalance=100, got {value!r} alone")
    if imbalance is None:
        return dataset
    return long_tailed(dataset, imbalance, imbalance_profile or "exponential", seed=imbalance_seed or 0)


def protocol_options() -> dict[str, Any]:
    """The options that every dataset has, with their types.

    >>> "test" in protocol_options()
    True
    """
    return {name: hint for name, hint in get_type_hints(apply_protocol).items() if name not in ("dataset", "return")}


def val_as_test(dataset: Dataset) -> Dataset:
    """The official validation rows as the test split, for data whose test labels are not published.

    The dataset then has no validation split, so that training sets some of the training rows aside to choose the epoch.
    A test split that the data already have is left out, which is recorded in ``problems`` if its rows have labels.

    Args:
        dataset: with the splits train and val.

    >>> import torch
    >>> from shortlist.data import Split
    >>> rows = Split(torch.zeros(2, 1), torch.tensor([0, 1]), ["a", "b"])
    >>> val_as_test(Dataset("leaves", ["ash", "oak"], {"train": rows, "val": rows}))
    Dataset('leaves, val as test', 2 classes; train 2, test 2)
    """
    splits = dataset.splits
    if TRAIN not in splits or VAL not in splits:
        raise InputError(f"test: expected a dataset with the splits train and val, got {dataset.name} with {listed([*splits])}")
    kept = {name: split for name, split in splits.items() if name not in (VAL, TEST)}
    problems = [*dataset.problems, *_unused_test(splits)]
    note = f"the {len(splits[VAL]):,} official validation rows are the test split"
    return replace(
        dataset,
        name=f"{dataset.name}, val as test",
        splits={**kept, TEST: splits[VAL]},
        problems=problems,
        notes=[*dataset.notes, note],
    )


def _unused_test(splits: Mapping[str, Any]) -> list[Problem]:
    test = splits.get(TEST)
    if test is None or test.target is None or not len(test):
        return []
    return [Problem("split not used", TEST, f"{counted(len(test), 'row')}, as val is the test split: left out")]
