"""Answers from a tree: the class where it is sure, its superclass where only that is, otherwise every class.

With two levels above each class (its superclass and everything), a row has a path: its most probable class, the superclass of
that class, everything. The answer is the first node of the path whose probability exceeds the threshold.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shortlist.class_names import superclass_by_class
from shortlist.errors import InputError
from shortlist.sets.orderings import Ordering
from shortlist.tensors import Probs, shape_of, working


class SurestNode(Ordering):
    """The probability of the last node of the row's path that does not hold the label; 0 for the most probable class.

    A label is in the answer exactly if that is at most the threshold: all nodes below the answer were too improbable.

    Args:
        superclasses: the superclass of each class, C names or numbers.

    >>> SurestNode(["oak", "oak", "elm"])(torch.tensor([[0.5, 0.25, 0.25]]))
    tensor([[0.0000, 0.5000, 0.7500]], dtype=torch.float64)
    """

    kind = "surest-node"
    parameter_names = ()  # the groups are a buffer
    groups: Tensor

    def __init__(self, superclasses: Any = ()):
        super().__init__()
        self.register_buffer("groups", superclass_numbers(superclasses))

    def check_buffers(self) -> None:
        """As declared by :class:`Ordering`."""
        if self.groups.ndim != 1 or self.groups.dtype != torch.int64 or bool((self.groups < 0).any()):
            raise InputError(
                f"groups: expected the number of a superclass for each class, int64 (C,), got {shape_of(self.groups)}"
            )

    def span(self, classes: int) -> tuple[float, float]:
        """As declared by :class:`Ordering`."""
        return 0.0, 1.0

    def forward(self, probs: Probs) -> Tensor:
        """0 for the most probable class, its probability for the others of its superclass, that one's for all others."""
        if len(self.groups) != probs.shape[1]:
            raise InputError(f"superclasses: expected one for each of {probs.shape[1]} classes, got {len(self.groups)}")
        exact = working(probs).double()
        first = probs.argmax(1, keepdim=True)  # the first one if there are ties
        groups = self.groups.to(probs.device)
        beside = groups == groups[first]
        above = torch.where(beside, exact, 0.0).sum(1, keepdim=True)
        values = torch.where(beside, exact.gather(1, first), above)
        return values.scatter(1, first, 0.0)


def superclass_numbers(superclasses: Any, classes: Sequence[str] | None = None) -> Tensor:
    """The number of the superclass of each class, in the order of their first class, int64 (C,).

    Args:
        superclasses: the superclass of each class, C names or numbers; a dict by class where their names are known. A class
            without one (None, NaN) is its own superclass.
        classes: the names of the classes, if they are known.

    >>> superclass_numbers(["oak", "elm", "oak"])
    tensor([0, 1, 0])
    """
    names = superclass_by_class(superclasses, classes)
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return torch.tensor([places[name] for name in names], dtype=torch.int64)
