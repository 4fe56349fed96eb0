"""Labels of one list of classes, numbered by another: classes are matched by name."""

from collections.abc import Sequence

import torch

from shortlist.errors import InputError
from shortlist.tensors import Target, is_single_label
from shortlist.words import counted, quoted


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


def _unknown_labels(unknown: Sequence[str], carried: int, classes: Sequence[str]) -> str:
    known = f"the {counted(len(classes), 'class', 'classes')} ({quoted(classes, 3)})"
    if carried == 1:
        return f"the label {unknown[0]!r} is not among {known}"
    which = f"{unknown[0]!r}{' first' if len(unknown) > 1 else ''}"
    return f"{len(unknown):,} of the {carried:,} labels ({which}) {'is' if len(unknown) == 1 else 'are'} not among {known}"
