"""One vote of a user on an item: rows that repeat or contradict an earlier one are settled here, and counted."""

from dataclasses import dataclass

import numpy as np

from shortlist.data.votes.encoding import plain
from shortlist.errors import InputError
from shortlist.tensors import Array


@dataclass(frozen=True)
class Settled:
    """Which rows count, the author flags after all rows were heard, and what was left out."""

    rows: Array | None  # None: all of them
    author: Array
    repeated: int = 0
    replaced: int = 0
    first_replaced: int = -1  # a row that counts instead of an earlier one


def settle(user: Array, item: Array, label: Array, author: Array) -> Settled:
    """Keep the last row of each user on each item; its author flag is true if it is in any of their rows there.

    Of the rows left out, ``repeated`` have the label of the row that counts and ``replaced`` another one.

    >>> one = np.zeros(3, np.int32)
    >>> settled = settle(one, one, np.array([4, 5, 5]), np.array([True, False, False]))
    >>> settled.rows, settled.author, settled.repeated, settled.replaced
    (array([2]), array([ True]), 1, 1)
    """
    users = int(user.max()) + 1
    key = item.astype(np.int64) * users + user
    found = np.sort(key)
    twice = np.unique(found[1:][found[1:] == found[:-1]])
    del found
    if not len(twice):
        return Settled(None, author)
    # Only the rows that share their user and item with others are ordered, which keeps the usual table cheap.
    place = np.minimum(np.searchsorted(twice, key), len(twice) - 1)
    rows = np.flatnonzero(twice[place] == key)
    rows = rows[np.argsort(place[rows], kind="stable")]
    group = place[rows]
    ends = np.flatnonzero(np.append(group[1:] != group[:-1], True))
    counts = rows[ends]
    left_out = np.delete(rows, ends)
    other = label[left_out] != label[counts[place[left_out]]]
    heard = author.copy()
    heard[counts] = np.bincount(group, weights=author[rows]) > 0
    keep = np.ones(len(user), bool)
    keep[left_out] = False
    return Settled(
        rows=np.flatnonzero(keep),
        author=heard[keep],
        repeated=int((~other).sum()),
        replaced=int(other.sum()),
        first_replaced=int(counts[place[left_out[other]]].min()) if other.any() else -1,
    )


def item_authors(user: Array, item: Array, author: Array, users: Array, items: Array) -> Array:
    """The user who authored each item, -1 for none, ``int32 (I,)``; two authors of one item are refused."""
    rows = np.flatnonzero(author)
    authors = np.full(len(items), -1, np.int32)
    authors[item[rows]] = user[rows]
    others = np.flatnonzero(authors[item[rows]] != user[rows])
    if len(others):
        row = rows[others[0]]
        both = sorted((int(user[row]), int(authors[item[row]])))
        raise InputError(
            f"author: expected at most one author of an item, got {plain(users[both[0]])!r} and {plain(users[both[1]])!r} "
            f"for item {plain(items[item[row]])!r}"
        )
    return authors
