"""Votes ordered once by item and label, so that every count afterwards is a sum over neighbours."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shortlist.tensors import Array

if TYPE_CHECKING:
    from shortlist.data.votes.table import Votes


@dataclass(frozen=True, eq=False)
class Tally:
    """Votes in the order of item, label and user. A *pair* is an item and a label that it was given.

    Args:
        user: who voted, ``int32 (V,)``.
        pair_start: the first vote of each pair, ``int64 (P,)``.
        pair_label: the label of each pair, ``int32 (P,)``.
        item_start: the first pair of each item with votes, ``int64 (J,)``.
        voted: the items with votes, ``int32 (J,)``, ascending.
    """

    user: Array
    pair_start: Array
    pair_label: Array
    item_start: Array
    voted: Array

    @staticmethod
    def of(votes: "Votes") -> "Tally":
        """Order the votes: one sort of one number a vote where item, label and user fit into 63 bits."""
        item, label, user = _ordered(votes)
        new_item = np.append(True, item[1:] != item[:-1])
        new_pair = new_item.copy()
        new_pair[1:] |= label[1:] != label[:-1]
        pair_start = np.flatnonzero(new_pair)
        return Tally(
            user=user,
            pair_start=pair_start,
            pair_label=label[pair_start],
            item_start=np.flatnonzero(new_item[pair_start]),
            voted=item[new_item],
        )

    @cached_property
    def pair_votes(self) -> Array:
        """How many votes each pair has, ``int64 (P,)``."""
        return np.diff(self.pair_start, append=len(self.user))

    @cached_property
    def item_pairs(self) -> Array:
        """How many labels each item with votes was given, ``int64 (J,)``."""
        return np.diff(self.item_start, append=len(self.pair_start))

    def by_pair(self, of_user: Array) -> Array:
        """The sum over the votes of each pair of a number that each user has, (P,)."""
        sums: Array = np.add.reduceat(of_user[self.user], self.pair_start)
        return sums

    def by_item(self, of_pair: Array) -> Array:
        """The sum over the pairs of each item with votes, (J,)."""
        sums: Array = np.add.reduceat(of_pair, self.item_start)
        return sums

    def best(self, of_pair: Array) -> tuple[Array, Array]:
        """The pair with the largest number of each item, the lower label where several tie, and whether several do."""
        most = np.maximum.reduceat(of_pair, self.item_start)
        reached = of_pair == np.repeat(most, self.item_pairs)
        places = np.flatnonzero(reached)
        before = np.cumsum(reached)[self.item_start] - reached[self.item_start]  # how many reached it in earlier items
        count = np.diff(before, append=len(places))
        return places[before], count > 1


def _ordered(votes: "Votes") -> tuple[Array, Array, Array]:
    """Items, labels and users of the votes in that order of importance."""
    columns = (votes.item, votes.label, votes.user)
    names = (votes.items, votes.labels, votes.users)
    item_bits, label_bits, user_bits = (max(1, (len(name) - 1).bit_length()) for name in names)
    if item_bits + label_bits + user_bits > 63:
        order = np.lexsort(columns[::-1])
        return columns[0][order], columns[1][order], columns[2][order]
    packed = votes.item.astype(np.int64)
    for column, bits in ((votes.label, label_bits), (votes.user, user_bits)):
        packed <<= bits
        packed |= column
    packed.sort()
    user = (packed & ((1 << user_bits) - 1)).astype(np.int32)
    packed >>= user_bits
    label = (packed & ((1 << label_bits) - 1)).astype(np.int32)
    packed >>= label_bits
    return packed.astype(np.int32), label, user
