"""A table of votes: who gave which label to what, and who authored it."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from shortlist.data.names import check_names
from shortlist.data.votes.cleaning import Settled, item_authors, settle
from shortlist.data.votes.encoding import encode, plain
from shortlist.data.votes.reading import read_columns
from shortlist.data.votes.tally import Tally
from shortlist.errors import InputError, ShortlistWarning
from shortlist.tensors import Array, as_tensor
from shortlist.words import counted, shown

Missing: TypeAlias = Literal["refuse", "drop"]


@dataclass(frozen=True, eq=False, repr=False)
class Votes:
    """One row for each vote, in the order in which they came; made by :meth:`from_arrays` or :meth:`read`.

    A user has one vote on an item. Rows that repeat it count once; where the labels differ the last row counts, and a warning
    says how many did. ``notes`` holds what was found.

    Args:
        user: codes of the users, ``int32 (V,)``, into ``users``.
        item: codes of the items, ``int32 (V,)``, into ``items``.
        label: codes of the labels, ``int32 (V,)``, into ``labels``.
        authors: the user who authored each item, ``int32 (I,)``, -1 for none.
        users: names of the users, text or integers.
        items: names of all items, including those without a vote if they were listed.
        labels: names of the labels; ties go to the one that comes first here.
        notes: what was settled on the way in, in sentences.

    >>> votes = Votes.from_arrays(user=["ann", "bob", "ann"], item=[7, 7, 8], label=["oak", "ash", "oak"])
    >>> votes
    Votes(3 votes of 2 users on 2 items, 2 labels)
    >>> votes.label, votes.labels
    (array([1, 0, 1], dtype=int32), array(['ash', 'oak'], dtype=object))
    """

    user: Array
    item: Array
    label: Array
    authors: Array
    users: Array
    items: Array
    labels: Array
    notes: tuple[str, ...] = ()

    @staticmethod
    def from_arrays(
        *,
        user: Any,
        item: Any,
        label: Any,
        author: Any = None,
        users: Any = None,
        items: Any = None,
        labels: Any = None,
    ) -> "Votes":
        """Votes from columns of one length.

        Args:
            user: who voted: text or integers, (V,).
            item: on what, (V,).
            label: which label they gave, (V,).
            author: whether this user authored this item, bool (V,); by default no author is known. An
                author's proposal is a vote like any other.
            users: all users, in an order of your own, with those who never voted; None: those that occur, sorted.
            items: all items, likewise; those without votes stay, and get no label.
            labels: all labels, likewise; ties go to the one listed first.

        >>> Votes.from_arrays(user=[1, 2], item=["a", "a"], label=[0, 0], items=["a", "b"])
        Votes(2 votes of 2 users on 2 items, 1 label)
        """
        (by, users), (on, items), (given, labels) = (
            encode(values, name, known, f"{name}s")
            for values, name, known in ((user, "user", users), (item, "item", items), (label, "label", labels))
        )
        wrote = _flags(author, len(by))
        for name, codes in (("item", on), ("label", given), ("author", wrote)):
            if len(codes) != len(by):
                raise InputError(f"{name}: expected one value for each of the {len(by):,} votes, got {len(codes):,}")
        if not len(by):
            raise InputError("votes: expected at least one vote, got an empty table")
        settled = settle(by, on, given, wrote)
        row = settled.first_replaced
        notes = _notes(settled, plain(users[by[row]]), plain(items[on[row]]))
        if settled.replaced:
            warnings.warn(notes[-1], ShortlistWarning, stacklevel=2)
        notes += _names_alike(labels)
        if settled.rows is not None:
            by, on, given = by[settled.rows], on[settled.rows], given[settled.rows]
        authors = item_authors(by, on, settled.author, users, items)
        return Votes(by, on, given, authors, users, items, labels, notes)

    @staticmethod
    def read(
        path: str | Path,
        *,
        user: str = "user",
        item: str = "item",
        label: str = "label",
        author: str | None = None,
        items: Any = None,
        labels: Any = None,
        missing: Missing = "refuse",
    ) -> "Votes":
        """Votes from a ``.csv`` or ``.parquet`` file, one row a vote.

        The columns of a CSV file are parted by commas, semicolons or tabs, whichever its first line has.

        Args:
            path: the file.
            user: the column of users.
            item: the column of items.
            label: the column with the label.
            author: the column that says whether this user authored this item (true or false, 1 or 0); None: the column
                ``author`` if there is one.
            items: all items, including those without a vote; by default those in the file.
            labels: all labels, in the order of their numbers; None: those in the file, sorted.
            missing: what to do about rows with an empty cell in one of these columns: ``"refuse"`` the file, or ``"drop"``
                them; how many were dropped is in ``notes``.
        """
        wanted = {"user": user, "item": item, "label": label, "author": author}
        columns, dropped = read_columns(Path(path), wanted, missing)
        votes = Votes.from_arrays(**columns, items=items, labels=labels)
        if not dropped:
            return votes
        return replace(
            votes, notes=(f"{counted(dropped, 'row has', 'rows have')} an empty cell: dropped, as asked", *votes.notes)
        )

    def counts(self, items: Any, labels: Any) -> Array:
        """How many votes there are on each of these items for each of these labels, ``float64 (N, C)``, to fit a rule on.

        Items without votes have zeros. Votes on other items are left out; so are those for other labels, with a warning.

        Args:
            items: names of the items, in the order of the rows: the ids of predictions.
            labels: names of the labels, in the order of the columns: the classes of predictions.

        >>> votes = Votes.from_arrays(user=["ann", "bob", "ann"], item=[7, 7, 8], label=["oak", "ash", "oak"])
        >>> votes.counts(["8", "7", "9"], ["ash", "oak"])
        array([[0., 1.],
               [1., 1.],
               [0., 0.]])
        """
        rows, columns = _places(self.items, items)[self.item], _places(self.labels, labels)[self.label]
        if (rows < 0).all():
            raise InputError(f"items: expected items of the votes, such as {shown(plain(self.items[self.item[0]]))}, got none")
        known = rows >= 0
        other = known & (columns < 0)
        if other.any():
            name = shown(plain(self.labels[self.label[int(other.argmax())]]))
            left = counted(int(other.sum()), "vote is for a label", "votes are for labels")
            warnings.warn(f"{left} that the classes lack, the first for {name}: left out", ShortlistWarning, stacklevel=2)
        found = np.zeros((len(items), len(labels)))
        np.add.at(found, (rows[known & ~other], columns[known & ~other]), 1)
        return found

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        counts = (len(self), "vote"), (len(self.users), "user"), (len(self.items), "item"), (len(self.labels), "label")
        voted, users, items, labels = (counted(*count) for count in counts)
        return f"Votes({voted} of {users} on {items}, {labels})"

    @cached_property
    def tally(self) -> Tally:
        """The same votes ordered by item and label, ordered when first asked for."""
        return Tally.of(self)


def _places(names: Array, wanted: Any) -> Array:
    """The place of each name among those that are wanted, as texts; -1 if it is not there."""
    places = {str(name): place for place, name in enumerate(wanted)}
    return np.array([places.get(str(name), -1) for name in names.tolist()], np.int64)


def _flags(author: Any, rows: int) -> Array:
    if author is None:
        return np.zeros(rows, bool)
    flags: Array = as_tensor(author, "author").cpu().numpy()
    if flags.ndim != 1 or flags.dtype.kind not in "biu" or not np.isin(flags, (0, 1)).all():
        raise InputError(f"author: expected true or false (or 1 and 0) for each vote, got {flags.dtype} {flags.shape}")
    return flags.astype(bool)


def _notes(settled: Settled, user: Any, item: Any) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if settled.repeated:
        rows = counted(settled.repeated, "row repeats", "rows repeat")
        notes += (f"{rows} a vote of the same user on the same item: each vote counts once",)
    if settled.replaced:
        rows = counted(settled.replaced, "row is", "rows are")
        notes += (
            f"{rows} replaced by a later vote of the same user on the same item for another label, "
            f"the first by user {user!r} on item {item!r}: the last row counts",
        )
    return notes


def _names_alike(labels: Array) -> tuple[str, ...]:
    """A sentence on labels that are probably one in two spellings."""
    alike = [] if labels.dtype.kind == "i" else list(check_names(labels.tolist()))
    if not alike:
        return ()
    more = f"; and {counted(len(alike) - 1, 'label')} more like this" if len(alike) > 1 else ""
    return (f"label {alike[0].where!r} {alike[0].what}{more}",)
