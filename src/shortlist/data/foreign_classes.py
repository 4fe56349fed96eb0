"""Class names of torch datasets, and of those that are made of others: ``Subset``, ``ConcatDataset``, in any depth."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data.class_lists import target_among
from shortlist.data.label_encoding import encode_labels
from shortlist.errors import InputError
from shortlist.words import quoted, shown


def labels_and_classes(dataset: Any, labels: Any | None) -> tuple[Any | None, list[str] | None]:
    """The labels of a torch dataset, numbered by one list of classes, and that list; None if the classes have no names.

    Parts of a ``ConcatDataset`` may have classes of their own, which are then matched by name.

    Args:
        dataset: map-style; names come from ``classes``, of itself or of what it is made of.
        labels: one for each row, as the dataset gives them; None if there are none.
    """
    parts = _parts(dataset)
    lists = list(dict.fromkeys(None if names is None else tuple(names) for names, _ in parts))
    if len(lists) == 1 or labels is None:
        return labels, list(lists[0]) if len(lists) == 1 and lists[0] is not None else None
    known = [names for names in lists if names is not None]
    if len(known) < len(lists):
        raise InputError(
            f"dataset: expected class names in every part of a ConcatDataset, or in none, got {quoted(known[0], 3)} in one and "
            "no classes in another: give each part an attribute classes"
        )
    common = sorted({name for names in known for name in names})
    return _renumbered(labels, parts, common), common


def _parts(dataset: Any) -> list[tuple[list[str] | None, Sequence[int]]]:
    """The class names of each dataset that this one is made of, and the rows that come from it."""
    names = _own_classes(dataset)
    if names is None and hasattr(dataset, "datasets"):  # a ConcatDataset
        found: list[tuple[list[str] | None, Sequence[int]]] = []
        start = 0
        for one in dataset.datasets:
            found += [(known, [start + row for row in rows]) for known, rows in _parts(one)]
            start += len(one)
        return found
    if names is None and hasattr(dataset, "dataset") and hasattr(dataset, "indices"):  # a Subset
        within = _parts(dataset.dataset)
        part_of = {row: part for part, (_, rows) in enumerate(within) for row in rows}
        chosen: list[list[int]] = [[] for _ in within]
        for place, row in enumerate(dataset.indices):
            chosen[part_of[int(row)]].append(place)
        return [(known, rows) for (known, _), rows in zip(within, chosen, strict=True)]
    if names is not None:
        _check_transform(dataset, names)
    return [(names, range(len(dataset)))]


def _own_classes(dataset: Any) -> list[str] | None:
    names = getattr(dataset, "classes", None)
    if isinstance(names, Sequence) and not isinstance(names, str) and names:
        return [", ".join(map(str, name)) if isinstance(name, tuple | list) else str(name) for name in names]
    return None


def _renumbered(labels: Any, parts: Sequence[tuple[list[str] | None, Sequence[int]]], classes: list[str]) -> Tensor:
    """The labels of all parts, numbered by these classes."""
    found: dict[int, Tensor] = {}
    for names, rows in parts:
        (target,), known = encode_labels([[labels[row] for row in rows]], names)
        if rows and target is not None:
            found |= dict(zip(rows, target_among(target, known, classes), strict=True))
    if len({label.shape for label in found.values()}) > 1:
        raise InputError("labels: expected the same kind of labels in every part of a ConcatDataset, got different kinds")
    return torch.stack([found[row] for row in range(len(found))])


def stored_column(dataset: Any) -> Any | None:
    """The labels that a dataset keeps as ``targets`` or ``labels``, before any ``target_transform``; None if it keeps none."""
    columns = (getattr(dataset, name, None) for name in ("targets", "labels"))
    return next((found for found in columns if _is_column(found)), None)


def _is_column(found: Any) -> bool:
    return found is not None and not callable(found) and hasattr(found, "__len__") and hasattr(found, "__getitem__")


def _check_transform(dataset: Any, names: Sequence[str]) -> None:
    """Raise an error if the ``target_transform`` of a dataset gives its classes other numbers than those of their names."""
    transform = getattr(dataset, "target_transform", None)
    if transform is None:
        return
    for label in _examples(dataset, len(names)):
        try:
            given = transform(label)
        except Exception:  # the user's code, which need not know every class
            given = None
        if not _means(given, label, len(names)):
            became = "no label" if given is None else shown(given)
            raise InputError(
                f"dataset: expected labels that are places of its classes ({quoted(names, 3)}), got a target_transform that "
                f"turns {shown(label)} into {became}, so the names of the labels are unknown: leave it out; or remove the "
                "names (dataset.classes = None) and pass those of the new numbers as classes"
            )


def _examples(dataset: Any, classes: int) -> list[Any]:
    """The labels that a dataset keeps, each number once; the places of the classes if it keeps none."""
    stored = stored_column(dataset)
    if stored is None:
        return list(range(classes))
    labels = list(stored.tolist() if hasattr(stored, "tolist") else stored)
    return sorted(set(labels)) if all(isinstance(label, int) for label in labels) else labels


def _means(given: Any, label: Any, classes: int) -> bool:
    """Whether a transformed label means the same class: the same, a name, which is looked up later, or a one in its place."""
    if isinstance(given, str):
        return True
    try:
        if np.array_equal(np.asarray(given), np.asarray(label)):
            return True
        return isinstance(label, int) and np.array_equal(np.asarray(given), np.eye(classes)[label])
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
