"""NewRows: inputs to answer for, with their labels where all are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.data.pictures import Pictures
from shortlist.data.problems import Problem
from shortlist.tensors import Target, is_single_label

Kind: TypeAlias = Literal["pictures", "features"]


@dataclass(frozen=True, eq=False)
class NewRows:
    """Inputs, and their labels where all are known.

    Args:
        inputs: pictures, or features ``float32 (N, D)``.
        ids: what a person calls each row.
        target: ``int64 (N,)`` or ``bool (N, K)``, in the order of ``classes``; None where labels are not known.
        classes: the K names that the target is about.
        unlabelled: why labels that are there cannot be used; None where there are none, or where they can.
        columns: what the features are called.
        problems: rows that are left out, and why.

    >>> rows = NewRows(torch.zeros(2, 1), ["a", "b"], torch.tensor([0, 1]), ["elm", "oak"])
    >>> rows.target_among(["oak", "ash", "elm"])
    (tensor([2, 0]), None)
    """

    inputs: Pictures | Tensor
    ids: Sequence[str]
    target: Target | None = None
    classes: Sequence[str] = ()
    unlabelled: str | None = None
    columns: Sequence[str] = ()
    problems: Sequence[Problem] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def target_among(self, classes: Sequence[str]) -> tuple[Target | None, str | None]:
        """The target in the order of these classes, found by name, or None; and if labels are left out, why.

        Names that no row carries need not be among them.

        Args:
            classes: C names.

        Shape: ``int64 (N,)`` or ``bool (N, C)``, as the target.
        """
        if self.target is None:
            return None, self.unlabelled
        number = {name: place for place, name in enumerate(classes)}
        single = is_single_label(self.target)
        carried = (self.target.unique() if single else self.target.any(0).nonzero()[:, 0]).tolist()
        unknown = [self.classes[label] for label in carried if self.classes[label] not in number]
        if unknown:
            some = (
                f"{len(unknown):,} of the {len(carried):,} names of the labels" if len(carried) > 1 else "the name of the label"
            )
            known = (
                f"none of the {len(classes):,} classes ({', '.join(map(repr, classes[:3]))}{', …' if len(classes) > 3 else ''})"
            )
            return None, f"{some}, {unknown[0]!r}{' first' if len(unknown) > 1 else ''}, {_are(unknown)} {known}"
        if single:
            return torch.tensor([number.get(name, -1) for name in self.classes], dtype=torch.int64)[self.target], None
        target = torch.zeros(len(self.target), len(classes), dtype=torch.bool)
        for label in carried:
            target[:, number[self.classes[label]]] = self.target[:, label]
        return target, None


def _are(things: Sequence[Any]) -> str:
    return "is" if len(things) == 1 else "are"
