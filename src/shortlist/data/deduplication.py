"""What to do about pictures that are there twice: keep them, keep them on one side of every split, or leave copies out."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import one_of
from shortlist.data.dataset import Dataset
from shortlist.data.duplicates import POLICIES, DuplicatePolicy, NearDuplicates, near_duplicates
from shortlist.data.inspection import inspect_pictures
from shortlist.data.problems import Problem
from shortlist.data.shared_files import Joined
from shortlist.errors import InputError
from shortlist.tensors import Array, is_single_label
from shortlist.words import counted, listed

KEPT_FIRST = ("test", "val")  # splits whose copy stays, so that results remain comparable; then the others in their order


@dataclass(frozen=True, eq=False)
class Copies:
    """Pictures of a dataset that have a near duplicate in it.

    Args:
        ids: the id of every row of every split, one split after another.
        splits: the split of every row.
        cluster: a number for every row, equal for rows that a chain of near duplicates joins, int64 (N,).
        labels: the labels of every row, as one text each; None where rows have none.
        found: the near duplicates.
    """

    ids: list[str]
    splits: list[str]
    cluster: Tensor
    labels: list[str] | None
    found: NearDuplicates

    def members(self) -> list[list[int]]:
        """The rows of every cluster of two or more, in order of first appearance."""
        rows: dict[int, list[int]] = {}
        for row, cluster in enumerate(self.cluster.tolist()):
            rows.setdefault(cluster, []).append(row)
        return [cluster for cluster in rows.values() if len(cluster) > 1]

    def parted(self) -> list[list[int]]:
        """The clusters with rows in more than one split."""
        return [cluster for cluster in self.members() if len({self.splits[row] for row in cluster}) > 1]

    def sentences(self) -> list[str]:
        """How many pictures are there twice, and how many of these in two classes; nothing if there are none."""
        clusters = self.members()
        if not clusters:
            return []
        rows, pair = sum(map(len, clusters)), " and ".join(self.ids[row] for row in clusters[0][:2])
        told = [
            f"{rows} of {len(self.ids)} pictures have a near duplicate, such as {pair}: duplicates=together keeps them in one "
            "split, duplicates=drop leaves copies out"
        ]
        labels = self.labels
        if labels is None:
            return told
        mixed = [cluster for cluster in clusters if len({labels[row] for row in cluster}) > 1]
        if mixed:
            first, other = mixed[0][0], next(row for row in mixed[0] if labels[row] != labels[mixed[0][0]])
            names = f"{self.ids[first]} ({labels[first]}) and {self.ids[other]} ({labels[other]})"
            told.append(
                f"{counted(len(mixed), 'group of near duplicates is', 'groups of near duplicates are')} in two classes, such "
                f"as {names}: one of the labels may be wrong"
            )
        return told


def find_copies(dataset: Dataset, prints: Mapping[str, Array]) -> Copies:
    """The near duplicates of a dataset.

    Args:
        dataset: of pictures.
        prints: the fingerprint of each row of each split.
    """
    found = near_duplicates(np.concatenate([prints[name] for name in dataset.splits]))
    splits = [name for name, split in dataset.splits.items() for _ in range(len(split))]
    ids = [identity for split in dataset.splits.values() for identity in split.ids]
    labels = [_labels(dataset, name) for name in dataset.splits]
    known = None if any(part is None for part in labels) else [label for part in labels for label in part or ()]
    return Copies(ids, splits, found.clusters(), known, found)


def _labels(dataset: Dataset, name: str) -> list[str] | None:
    target = dataset.splits[name].target
    if target is None:
        return None
    if is_single_label(target):
        return [dataset.classes[label] for label in target.tolist()]
    return ["|".join(dataset.classes[label] for label in row.nonzero()[:, 0].tolist()) for row in target]


def with_duplicates(
    dataset: Dataset, policy: DuplicatePolicy | str, *, progress: Callable[[int], None] | None = None
) -> Dataset:
    """The dataset with near duplicates treated as asked; every picture is opened once, unless they are kept.

    Args:
        dataset: of pictures.
        policy: ``"keep"`` changes nothing; ``"together"`` makes near duplicates a group, so that splits that are drawn do not
            part them, and warns of those in two given splits; ``"drop"`` leaves out all but one of those with the same labels:
            that in test stays, then that in val.
        progress: callback, called with the number of pictures done.
    """
    one_of(*POLICIES)("duplicates", policy)
    if policy == "keep":
        return dataset
    if dataset.input_kind != "pictures":
        raise InputError(f"duplicates: expected keep, as {dataset.name} holds features rather than pictures, got {policy}")
    return treated(dataset, find_copies(dataset, inspect_pictures(dataset, progress=progress).prints), policy)


def treated(dataset: Dataset, copies: Copies, policy: DuplicatePolicy | str) -> Dataset:
    """As :func:`with_duplicates`, where the near duplicates are known."""
    if policy == "keep":
        return dataset
    return _together(dataset, copies) if policy == "together" else _without_copies(dataset, copies)


def _together(dataset: Dataset, copies: Copies) -> Dataset:
    groups = _merged_groups(dataset, copies)
    splits = {
        name: split if groups[name] is None else replace(split, groups=groups[name]) for name, split in dataset.splits.items()
    }
    parted = copies.parted()
    rows = sum(map(len, copies.members())) - sum(map(len, parted))
    notes = [f"{counted(rows, 'picture has a near duplicate', 'pictures have near duplicates')}, kept together"] if rows else []
    problems = [*dataset.problems, *([_on_two_sides(copies, parted)] if parted else [])]
    return replace(dataset, splits=splits, notes=[*dataset.notes, *notes], problems=problems)


def _on_two_sides(copies: Copies, parted: Sequence[Sequence[int]]) -> Problem:
    """What keeping together cannot do: splits that are given stay as they are."""
    first = parted[0][0]
    other = next(row for row in parted[0] if copies.splits[row] != copies.splits[first])
    where = f"{copies.ids[first]} ({copies.splits[first]}) and {copies.ids[other]} ({copies.splits[other]})"
    rows = counted(sum(map(len, parted)), "picture has", "pictures have")
    what = f"{rows} a near duplicate in another of the given splits, which duplicates=together leaves as they are"
    advice = "so that results are too good: duplicates=drop leaves copies out"
    return Problem("near duplicates in two splits", where, f"{what}, {advice}")


def _merged_groups(dataset: Dataset, copies: Copies) -> dict[str, list[str] | None]:
    """The group of each row of each split: one for all rows of a split that a group or near duplicates join.

    A group of the data has one name in all splits, its own or that of a group that it was merged with, so that one with rows
    in two of them is still noticed. Near duplicates in two splits are reported by themselves: here they join nothing.
    """
    joined, keys, start = Joined(), dict[str, list[tuple[str, ...]]](), 0
    for name, split in dataset.splits.items():
        clusters = copies.cluster[start : start + len(split)].tolist()
        start += len(split)
        if split.groups is None and len(set(clusters)) == len(clusters):
            continue  # nothing belongs together
        keys[name] = [(name, f"picture {cluster}") for cluster in clusters]
        for group, key in zip(split.groups or (), keys[name], strict=False):
            joined.join((group,), key)
    given = dict.fromkeys(group for split in dataset.splits.values() for group in split.groups or ())
    called: dict[Hashable, str] = {}
    for group in given:
        called.setdefault(joined.leader((group,)), group)
    for key in (key for own in keys.values() for key in own):
        called.setdefault(joined.leader(key), _free(" ".join(key), given))
    return {name: [called[joined.leader(key)] for key in keys[name]] if name in keys else None for name in dataset.splits}


def _free(name: str, taken: Collection[str]) -> str:
    """The name, with a mark behind it where it is taken."""
    while name in taken:
        name += "'"
    return name


def _without_copies(dataset: Dataset, copies: Copies) -> Dataset:
    order = {name: place for place, name in enumerate(dict.fromkeys([*KEPT_FIRST, *dataset.splits]))}
    gone: set[int] = set()
    like: list[str] = []
    for cluster in copies.members():
        stays: dict[str, int] = {}
        for row in sorted(cluster, key=lambda row: (order[copies.splits[row]], row)):
            label = "" if copies.labels is None else copies.labels[row]
            if label in stays:
                gone.add(row)
                like.append(f"{copies.ids[row]} (like {copies.ids[stays[label]]})")
            else:
                stays[label] = row
    if not gone:
        return dataset
    splits, start = {}, 0
    for name, split in dataset.splits.items():
        kept = torch.tensor([start + row not in gone for row in range(len(split))], dtype=torch.bool)
        splits[name] = split if kept.all() else split.rows(kept)
        start += len(split)
    counts = Counter(copies.splits[row] for row in gone)
    by_split = ", ".join(f"{name} {counts[name]:,}" for name in dataset.splits if counts[name])
    note = f"{counted(len(gone), 'near duplicate')} left out ({by_split}): {listed(like, 3)}"
    return replace(dataset, splits=splits, notes=[*dataset.notes, note])
