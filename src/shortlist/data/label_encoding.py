"""Labels as users have them (names, numbers, lists, zeros and ones) → a target and class names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import Array, Target, as_text
from shortlist.words import did_you_mean, quoted, shown

Form: TypeAlias = Literal["names", "numbers", "lists", "marks"]
EXPECTED = "expected a class name or a class number for each row, a list of them for each row, or a bool array (N, C)"


def encode_labels(given: Sequence[Any | None], classes: Sequence[str] | None = None) -> tuple[list[Target | None], list[str]]:
    """Labels of several splits → their targets, numbered alike, and the class names.

    Class names become classes in sorted order. Class numbers count from 0 and are named ``"0"``, ``"1"``, … unless ``classes``
    names them. Rows with any number of labels are lists of names or numbers, or zeros and ones (N, C).

    Args:
        given: the labels of each split; None for a split without labels.
        classes: the class names, in the order of the labels.

    Shape: each target ``int64 (N,)``, one label a row, or ``bool (N, C)``.

    >>> encode_labels([["oak", "elm"], ["elm"]])
    ([tensor([1, 0]), tensor([0])], ['elm', 'oak'])
    >>> encode_labels([[["sky"], [], ["sea", "sky"]]])[0]
    [tensor([[False,  True],
            [False, False],
            [ True,  True]])]
    """
    columns = [None if labels is None else _read(labels) for labels in given]
    there = [column for column in columns if column is not None]
    if len({(column.form, column.named) for column in there}) > 1:
        raise InputError("labels: expected the same kind of labels in every split, got different kinds")
    names = [str(name) for name in classes] if classes is not None else _own_classes(there)
    return [None if column is None else column.target(names) for column in columns], names


def are_numbers(given: Sequence[Any | None]) -> bool:
    """Whether these labels of several splits are numbers of classes, or zeros and ones (N, C), and come without any name.

    >>> are_numbers([[0, 2], None]), are_numbers([["0", "2"]])
    (True, False)
    """
    columns = [_read(labels) for labels in given if labels is not None]
    return not any(column.named or column.classes is not None for column in columns)


@dataclass(frozen=True, eq=False)
class _Labels:
    """The labels of one split.

    Args:
        form: one name or number a row, a list of them a row, or zeros and ones (N, C).
        values: a list for names and lists, an array for numbers and marks.
        named: whether classes go by name rather than by number.
        classes: class names that come with the labels.
    """

    form: Form
    values: Any
    named: bool = False
    classes: Sequence[str] | None = None

    def target(self, classes: Sequence[str]) -> Target:
        """The labels, numbered by their place among the classes."""
        place = {name: label for label, name in enumerate(classes)}
        if self.form == "names":
            return torch.tensor([_place(name, place) for name in self.values], dtype=torch.int64)
        if self.form == "numbers":
            return torch.from_numpy(np.array(self.values, np.int64))
        if self.form == "marks":
            return torch.from_numpy(np.array(self.values, bool))
        target = torch.zeros(len(self.values), len(classes), dtype=torch.bool)
        for row, labels in enumerate(self.values):
            for label in labels:
                target[row, _place(label, place) if self.named else _checked_number(label, len(classes))] = True
        return target

    def carried(self) -> set[Any]:
        """The names or numbers that occur."""
        if self.form == "lists":
            return {label for labels in self.values for label in labels}
        return set(self.values) if self.form == "names" else set(np.unique(self.values).tolist())


def _own_classes(columns: Sequence[_Labels]) -> list[str]:
    if not columns:
        return []
    own = next((list(column.classes) for column in columns if column.classes is not None), None)
    if own is not None:
        return own
    if columns[0].form == "marks":
        return [str(label) for label in range(columns[0].values.shape[1])]
    carried = set().union(*(column.carried() for column in columns))
    return sorted(carried) if columns[0].named else [str(label) for label in range(max(carried, default=-1) + 1)]


def _place(name: str, place: dict[str, int]) -> int:
    if name not in place:
        known = quoted(list(place))
        raise InputError(f"labels: {did_you_mean(name, place)}expected names among the classes ({known}), got {name!r}")
    return place[name]


def _checked_number(label: int, classes: int) -> int:
    if not 0 <= label < classes:
        raise InputError(f"labels: expected class numbers from 0 to {classes - 1}, got {label}")
    return label


def _read(labels: Any) -> _Labels:
    if hasattr(labels, "columns") and hasattr(labels, "to_numpy"):  # a data frame, one column a class
        return _marks(np.asarray(labels.to_numpy()), [str(name) for name in labels.columns])
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    elif hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return _of_array(labels)
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise InputError(f"labels: {EXPECTED}, got {type(labels).__name__}")
    return _of_items([_plain(item) for item in labels])


def _of_array(labels: Array) -> _Labels:
    labels = as_text(labels, "labels") if labels.dtype.kind == "S" else labels
    kind = labels.dtype.kind
    if labels.ndim == 2 and kind in "biuf":
        return _marks(labels, None)
    if labels.ndim == 1 and kind == "U":
        return _Labels("names", labels.tolist(), named=True)
    if labels.ndim == 1 and kind == "b":
        return _Labels("numbers", labels.astype(np.int64), classes=["False", "True"])
    if labels.ndim == 1 and kind in "iu":
        if len(labels) and int(labels.min()) < 0:
            raise InputError(f"labels: expected class numbers from 0, got {int(labels.min())}")
        return _Labels("numbers", labels)
    raise InputError(f"labels: {EXPECTED}, got {labels.dtype} {labels.shape}")


def _marks(labels: Array, classes: Sequence[str] | None) -> _Labels:
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all() or (labels.shape[1] == 1 and labels.dtype != bool):
        hint = ": give labels[:, 0]" if labels.ndim == 2 and labels.shape[1] == 1 else ""
        raise InputError(f"labels: expected zeros and ones in an array (N, C), got {labels.dtype} {labels.shape}{hint}")
    return _Labels("marks", labels.astype(bool), classes=classes)


def _plain(item: Any) -> Any:
    """One row's labels without tensors and numpy scalars."""
    if isinstance(item, Tensor):
        item = item.detach().cpu().numpy()
    if isinstance(item, np.ndarray) and item.ndim:
        return item
    return item.item() if isinstance(item, np.generic | np.ndarray) else item


def _of_items(items: list[Any]) -> _Labels:
    if all(isinstance(item, str) for item in items) and items:
        return _Labels("names", items, named=True)
    if all(isinstance(item, int) for item in items):
        return _of_array(np.array(items, dtype=bool if items and all(isinstance(item, bool) for item in items) else np.int64))
    if all(isinstance(item, np.ndarray) for item in items) and len({item.shape for item in items}) == 1:
        return _of_array(np.stack(items))
    if all(isinstance(item, list | tuple | set | frozenset | np.ndarray) for item in items):
        return _of_lists([item.tolist() if isinstance(item, np.ndarray) else list(item) for item in items])
    row = next(place for place, item in enumerate(items) if type(item) is not type(items[0]) or not isinstance(item, str | int))
    missing = items[row] is None or items[row] != items[row]
    advice = ": leave such rows out, or give all rows without labels" if missing else ""
    raise InputError(f"labels: {EXPECTED}, got {shown(items[row])} in row {row}{advice}")


def _of_lists(rows: list[list[Any]]) -> _Labels:
    flat = [_plain(label) for row in rows for label in row]
    if all(isinstance(label, str) for label in flat) and flat:
        return _Labels("lists", rows, named=True)
    same = len({len(row) for row in rows}) == 1
    if flat and same and all(isinstance(label, bool) for label in flat):
        return _of_array(np.array(rows, dtype=bool))
    if not all(isinstance(label, int) and not isinstance(label, bool) for label in flat):
        raise InputError(f"labels: {EXPECTED}, got lists of {type(next(x for x in flat if type(x) is not str)).__name__}")
    if len(rows[0]) > 1 and same and set(flat) <= {0, 1}:
        raise InputError(
            "labels: expected lists of class numbers or a bool array (N, C), got lists of 0 and 1, which could be either: "
            "give a bool array, or lists of class names"
        )
    if any(label < 0 for label in flat):
        raise InputError(f"labels: expected class numbers from 0, got {min(flat)}")
    return _Labels("lists", [[int(label) for label in row] for row in rows])
