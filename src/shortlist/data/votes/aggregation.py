"""What votes amount to: a label for every item, whether it is valid, and what each user weighed."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shortlist.csv_files import write_csv_frame
from shortlist.errors import InputError
from shortlist.files import written_whole
from shortlist.tensors import Array
from shortlist.words import counted

if TYPE_CHECKING:
    import pandas as pd

    from shortlist.data.votes.table import Votes

NONE = -1


@dataclass(frozen=True, eq=False)
class Round:
    """What one round changed against the one before; the first is compared with no labels at all.

    Args:
        items: the items whose label or validity changed, ``int32``.
        users: the users whose weight changed, ``int32``.
        labels_changed: how many items changed their label.
        validity_changed: how many items became valid or ceased to be.
    """

    items: Array
    users: Array
    labels_changed: int
    validity_changed: int

    @property
    def weights_changed(self) -> int:
        """How many users changed their weight."""
        return len(self.users)

    def __repr__(self) -> str:
        return (
            f"Round({self.labels_changed:,} labels, validity of {self.validity_changed:,} items, "
            f"{self.weights_changed:,} weights changed)"
        )


@dataclass(frozen=True, eq=False)
class Changes:
    """What differs between two aggregations.

    Args:
        items: a row for each item whose label or validity differs, with both before and after.
        users: a row for each user whose weight differs, with both weights.
    """

    items: "pd.DataFrame"
    users: "pd.DataFrame"

    def __repr__(self) -> str:
        return f"Changes({len(self.items):,} items, {len(self.users):,} users)"


@dataclass(frozen=True, eq=False, repr=False)
class Aggregation:
    """A label for every item. Whatever the rule, an item is valid if it has votes and ``support > theta``.

    Args:
        label: ``int64 (I,)``, the number of the label among ``labels``, -1 for an item without votes.
        valid: bool (I,).
        support: float64 (I,), what spoke for the label: votes, weights or a posterior; 0 without votes.
        confidence: float64 (I,), the share of the support in all votes on the item, or the posterior; 0 without
            votes.
        tied: bool (I,), whether another label had the same support and lost by coming later in ``labels``.
        weight: float64 (U,), what a vote of each user weighed, or how often the user is right (Dawid–Skene).
        items: names of the items. ``labels``, ``users``: names of labels and users.
        rounds: how many rounds were computed.
        converged: whether the last round changed nothing.
        cycle: the length of the cycle in which the rounds ended, 0 for none.
        notes: warnings, in sentences.
        history: what each round changed, where there are rounds.
        objective: the penalised log-likelihood after each round, where there is one.
        known: int64 (U,), the n of each user, where weights come from it (the adaptive majority).
    """

    label: Array
    valid: Array
    support: Array
    confidence: Array
    tied: Array
    weight: Array
    items: Array
    labels: Array
    users: Array
    rounds: int = 1
    converged: bool = True
    cycle: int = 0
    notes: tuple[str, ...] = ()
    history: tuple[Round, ...] = ()
    objective: tuple[float, ...] = ()
    known: Array | None = None

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        labelled = int((self.label != NONE).sum())
        ending = "settled" if self.converged else f"cycle of {self.cycle}" if self.cycle else "not settled"
        counts = f"{len(self):,} items, {labelled:,} labelled, {int(self.valid.sum()):,} valid"
        return f"Aggregation({counts}; rounds {self.rounds}, {ending})"

    @property
    def unsettled(self) -> Array:
        """The items that still change: anywhere in the cycle, or in the last round before the cap; none once converged.

        Numbers of items, ``int64``, ascending.
        """
        if self.converged or not self.history:
            return np.empty(0, np.int64)
        last = self.history[-max(1, self.cycle) :]
        return np.unique(np.concatenate([round_.items for round_ in last])).astype(np.int64)

    def frame(self) -> "pd.DataFrame":
        """A row for each item: ``item``, ``label``, ``valid``, ``support``, ``confidence``, ``tied``, with names.

        The label of an item without votes is missing. Where the labels did not settle there is a column ``unsettled``.
        """
        import pandas as pd

        columns = {"valid": self.valid, "support": self.support, "confidence": self.confidence, "tied": self.tied}
        if len(self.unsettled):
            columns["unsettled"] = np.isin(np.arange(len(self)), self.unsettled)
        return pd.DataFrame({"item": self.items, "label": _named(self.label, self.labels), **columns})

    def user_frame(self) -> "pd.DataFrame":
        """A row for each user: ``user``, ``weight``, and ``n`` where the weight comes from it."""
        import pandas as pd

        known = {} if self.known is None else {"n": self.known}
        return pd.DataFrame({"user": self.users, "weight": self.weight, **known})

    def save(self, path: str | Path) -> None:
        """Write :meth:`frame` to a ``.csv`` or ``.parquet`` file, whole or not at all."""
        write_frame(self.frame(), path)

    def save_users(self, path: str | Path) -> None:
        """Write :meth:`user_frame` to a ``.csv`` or ``.parquet`` file, whole or not at all."""
        write_frame(self.user_frame(), path)

    def changed(self, other: "Aggregation") -> Changes:
        """What is different in ``other``: items by label or validity, users by weight, matched by their names.

        Items and users that only one of the two knows are different too.
        """
        mine, theirs = (part.frame()[["item", "label", "valid"]] for part in (self, other))
        items = mine.merge(theirs, on="item", how="outer", suffixes=("_before", "_after"))
        label = (items.label_before == items.label_after) | (items.label_before.isna() & items.label_after.isna())
        same = label & (items.valid_before == items.valid_after)  # missing, where only one knows the item: never equal
        mine, theirs = (part.user_frame()[["user", "weight"]] for part in (self, other))
        users = mine.merge(theirs, on="user", how="outer", suffixes=("_before", "_after"))
        equal = users.weight_before == users.weight_after
        return Changes(items[~same].reset_index(drop=True), users[~equal].reset_index(drop=True))


@dataclass(frozen=True, eq=False)
class Found:
    """What a rule found for the items with votes, (J,) each, in the order of ``votes.tally.voted``."""

    label: Array
    valid: Array
    support: Array
    confidence: Array
    tied: Array


def aggregation_of(
    votes: "Votes",
    found: Found,
    *,
    weight: Array,
    rounds: int = 1,
    converged: bool = True,
    cycle: int = 0,
    notes: tuple[str, ...] = (),
    history: tuple[Round, ...] = (),
    objective: tuple[float, ...] = (),
    known: Array | None = None,
) -> Aggregation:
    """The aggregation of all items; those without votes have no label and no support."""

    def placed(values: Array, empty: Array) -> Array:
        empty[votes.tally.voted] = values
        return empty

    count = len(votes.items)
    return Aggregation(
        label=placed(found.label, np.full(count, NONE, np.int64)),
        valid=placed(found.valid, np.zeros(count, bool)),
        support=placed(found.support, np.zeros(count)),
        confidence=placed(found.confidence, np.zeros(count)),
        tied=placed(found.tied, np.zeros(count, bool)),
        weight=weight,
        items=votes.items,
        labels=votes.labels,
        users=votes.users,
        rounds=rounds,
        converged=converged,
        cycle=cycle,
        notes=(*votes.notes, *_item_notes(votes, found.tied), *notes),
        history=history,
        objective=objective,
        known=known,
    )


def _item_notes(votes: "Votes", tied: Array) -> tuple[str, ...]:
    """Sentences on items without votes and on ties."""
    silent, ties = len(votes.items) - len(votes.tally.voted), int(tied.sum())
    notes: tuple[str, ...] = ()
    if silent:
        notes += (f"no votes: {silent:,} of {len(votes.items):,} items, which stay without a label",)
    if ties:
        verb = "takes" if ties == 1 else "take"
        notes += (
            f"ties: {counted(ties, 'item has', 'items have')} several labels with the largest support and {verb} the first",
        )
    return notes


def write_frame(frame: "pd.DataFrame", path: str | Path) -> None:
    """Write a table to ``.csv`` or ``.parquet``, whole or not at all."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"{Path(path).name}: expected a name that ends in .csv or .parquet")
    with written_whole(path) as temporary:
        if suffix == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                write_csv_frame(frame, file)
        else:
            frame.to_parquet(temporary, index=False)


def _named(label: Array, labels: Array) -> "pd.Series":
    """Names of the labels, missing where there is none."""
    import pandas as pd

    names = pd.Series(labels, dtype="Int64" if labels.dtype.kind == "i" else "str")
    return names.reindex(label).reset_index(drop=True)
