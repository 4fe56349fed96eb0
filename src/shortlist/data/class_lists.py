"""Labels of one list of classes, numbered by another: classes are matched by name."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import Target, is_single_label
from shortlist.words import counted, listed, quoted

SHOWN = 5  # labels that a message names


def target_among(target: Target, names: Sequence[str], classes: Sequence[str], *, need_all: bool = False) -> Target:
    """The same labels, numbered by their place in another list of classes; classes are matched by name.

    A label that some row carries and that is not among the classes is an error; names that no row carries do not matter.

    Args:
        target: ``int64 (N,)`` or ``bool (N, K)``.
        names: the K class names that the target refers to.
        classes: the C class names to refer to.
        need_all: raise an error if rows may have several labels and some class is not among the names: whether the rows
            carry it is unknown then. By default they do not.

    Shape: ``int64 (N,)`` or ``bool (N, C)``, as the target.

    >>> target_among(torch.tensor([0, 1]), ["elm", "oak"], ["oak", "ash", "elm"])
    tensor([2, 0])
    """
    number = {name: place for place, name in enumerate(classes)}
    single = is_single_label(target)
    carried = (target.unique() if single else target.any(0).nonzero()[:, 0]).tolist()
    unknown = [names[label] for label in carried if names[label] not in number]
    if unknown:
        raise InputError(_unknown_labels(unknown, len(carried), classes))
    missing = [name for name in classes if name not in set(names)] if need_all and not single else []
    if missing:
        raise InputError(
            f"expected labels of every class, got none of {quoted(missing)}, so it is unknown which rows have them"
        )
    if single:
        return torch.tensor([number.get(name, -1) for name in names], dtype=torch.int64)[target]
    renumbered = torch.zeros(len(target), len(classes), dtype=torch.bool)
    for label in carried:
        renumbered[:, number[names[label]]] = target[:, label]
    return renumbered


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Labels of one list of classes that are among another.

    Args:
        target: ``int64 (N,)`` or ``bool (N, C)``, numbered by the other list; 0 where the only label of a row is not in it.
        known: whether each row has its label, bool (N,); always, if rows may have several: other labels are taken from them.
        unknown: the labels that some row carries and that are not in the list, and how many rows carry each.
    """

    target: Target
    known: Tensor
    unknown: dict[str, int]

    def sentence(self, classes: Sequence[str]) -> str:
        """Which labels are not used, and of how many rows."""
        each = listed([f"{name!r} ({counted(count, 'row')})" for name, count in self.unknown.items()], SHOWN)
        return f"{each} {'is' if len(self.unknown) == 1 else 'are'} not among {_listed_classes(classes)}"

    @property
    def any_left(self) -> bool:
        """Whether some label is known."""
        return bool(self.known.any()) if is_single_label(self.target) else bool(self.target.any())


def known_labels(target: Target, names: Sequence[str], classes: Sequence[str], *, need_all: bool = False) -> KnownLabels:
    """As :func:`target_among`, but labels that are not among the classes are left out and counted.

    Args:
        target: ``int64 (N,)`` or ``bool (N, K)``.
        names: the K class names that the target refers to.
        classes: the C class names to refer to.
        need_all: as in :func:`target_among`.

    >>> found = known_labels(torch.tensor([0, 1, 1]), ["elm", "yew"], ["oak", "elm"])
    >>> found.target, found.known, found.unknown
    (tensor([1, 0, 0]), tensor([ True, False, False]), {'yew': 2})
    """
    there = set(classes)
    kept = torch.tensor([name in there for name in names], dtype=torch.bool)
    single = is_single_label(target)
    counts = torch.bincount(target, minlength=len(names)) if single else target.sum(0)
    unknown = {name: int(count) for name, count, known in zip(names, counts, kept.tolist(), strict=True) if count and not known}
    if not single:
        numbered = target_among(target & kept, names, classes, need_all=need_all)
        return KnownLabels(numbered, torch.ones(len(target), dtype=torch.bool), unknown)
    known = kept[target]
    numbered = torch.zeros_like(target)
    numbered[known] = target_among(target[known], names, classes)
    return KnownLabels(numbered, known, unknown)


def _unknown_labels(unknown: Sequence[str], carried: int, classes: Sequence[str]) -> str:
    known = _listed_classes(classes)
    if carried == 1:
        return f"the label {unknown[0]!r} is not among {known}"
    which = f"{unknown[0]!r}{' first' if len(unknown) > 1 else ''}"
    return f"{len(unknown):,} of the {carried:,} labels ({which}) {'is' if len(unknown) == 1 else 'are'} not among {known}"


def _listed_classes(classes: Sequence[str]) -> str:
    return f"the {counted(len(classes), 'class', 'classes')} ({quoted(classes, 3)})"
