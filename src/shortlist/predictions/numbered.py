"""Labels by the names of their classes: texts, or numbers that are names and not the places of columns."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shortlist.class_names import as_number, misnumbered
from shortlist.errors import InputError
from shortlist.words import quoted


@dataclass(frozen=True)
class Numbered:
    """Names of classes, by which labels are looked up.

    Args:
        names: the names, in the order of the columns.

    >>> Numbered.of(["0", "1", "other"]) is None
    True
    >>> Numbered.of(["1.0", "0.0"]).place("1")
    0
    """

    names: Sequence[str]

    @staticmethod
    def of(names: Sequence[str]) -> "Numbered | None":
        """These names if one of them is a number other than its place, so that numbers cannot be places; otherwise None."""
        return None if misnumbered(names) is None else Numbered(names)

    def places_of(self, labels: pa.Array) -> pa.Array:
        """The places of the classes with these names: texts, integers, or lists of them."""
        if pa.types.is_list(labels.type):
            return pa.ListArray.from_arrays(labels.offsets, self.places_of(labels.values))
        if labels.null_count:
            raise InputError(f"target: expected names of classes, got {labels.null_count} empty ones")
        encoded = labels.cast(pa.string()).dictionary_encode()
        places = np.array([self.place(label) for label in encoded.dictionary.to_pylist()], np.int64)
        return pa.array(places[encoded.indices.to_numpy(zero_copy_only=False)])

    def places(self, labels: Sequence[str] | Sequence[int]) -> Tensor:
        """The places of the classes with these names, int64 (N,).

        >>> Numbered(["4", "2"]).places([2, 2, 4])
        tensor([1, 1, 0])
        """
        place = {label: self.place(str(label)) for label in dict.fromkeys(labels)}
        return torch.tensor([place[label] for label in labels], dtype=torch.int64)

    def place(self, label: str) -> int:
        """The place of the class with this name, written as here or as another form of the same number."""
        if label in self._places:
            return self._places[label]
        found = self._alike.get(as_number(label), [])
        if len(found) == 1:
            return self._places[found[0]]
        if found:
            raise InputError(f"target: expected the name of one class, got {label!r}, which could be any of {quoted(found)}")
        hint = "" if label else ": set no_label if such rows have no label"
        raise InputError(f"target: expected names of classes ({quoted(self.names, 4)}), got {label!r}{hint}")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def _alike(self) -> dict[Decimal | None, list[str]]:
        """The names that are the same number, by that number."""
        found: dict[Decimal | None, list[str]] = defaultdict(list)
        for name in self.names:
            if as_number(name) is not None:
                found[as_number(name)].append(name)
        return found
