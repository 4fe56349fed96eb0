"""Votes beside scores: the rows that have votes, with a column of counts for each class, for ``--votes-key``."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shortlist.cli.console import say
from shortlist.cli.prepare import Reading, check_there
from shortlist.data.votes import Votes
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.predictions.added_columns import check_added, check_copy, copy_with_columns
from shortlist.predictions.stored import Keys
from shortlist.words import counted


@dataclass(frozen=True)
class Counting:
    """Where votes are counted.

    Args:
        out: the file to write.
        path: of the scores.
        rows: what was read of it.
        keys: by which it was read.
        votes_key: the names of the columns of counts, with a ``*`` for the class.
    """

    out: Path
    path: Path
    rows: Predictions
    keys: Keys
    votes_key: str

    @staticmethod
    def of(out: Path | None, path: Path | None, reading: Reading, votes_key: str) -> "Counting":
        """By the options; the scores are read before any vote."""
        if out is None or path is None:
            given, missing = ("--counts", "--scores") if path is None else ("--scores", "--counts")
            raise InputError(f"{given}: expected {missing} FILE beside it, got none: votes are counted for the rows of scores")
        if "*" not in votes_key:
            raise InputError(f"--votes-key: expected a name with a * for the class, such as votes_*, got {votes_key!r}")
        check_there(path)
        try:
            check_copy(path, out)
        except InputError as error:
            raise InputError(f"--counts: {error}") from error
        rows = reading.with_columns(path, ())
        if rows.ids is None:
            raise InputError(f"{path}: expected rows with ids, which are the items of the votes, got none: name them --ids-key")
        found = Counting(out, path, rows, reading.keys(), votes_key)
        try:
            check_added(path, found.columns, found.keys)
        except InputError as error:
            raise InputError(f"--votes-key: {str(error).removeprefix('columns: ')}") from error
        return found

    @property
    def columns(self) -> list[str]:
        """The name of the column of counts of each class."""
        return [self.votes_key.replace("*", name) for name in self.rows.class_names]

    def write(self, votes: Votes) -> None:
        """Write the rows that have votes."""
        try:
            counts = votes.counts(self.rows.ids, self.rows.class_names)
        except InputError as error:
            first = (self.rows.ids or ("",))[0]
            raise InputError(f"{self.path}: {str(error).removeprefix('items: ')} among its ids, such as {first!r}") from error
        kept = np.flatnonzero(counts.any(1))
        if not len(kept):
            raise InputError(
                f"{self.path}: expected classes that the votes are for, got none of {counted(len(votes.labels), 'label')}"
            )
        columns = {name: counts[kept, place] for place, name in enumerate(self.columns)}
        copy_with_columns(self.path, self.out, self.rows, columns, self.keys, kept)
        others = len(self.rows) - len(kept)
        left = f", {others:,} without votes left out" if others else ""
        known = set(self.rows.ids or ())
        elsewhere = sum(str(item) not in known for item in votes.items.tolist())
        left += f", votes on {counted(elsewhere, 'other item')} left out" if elsewhere else ""
        say(
            f"{counted(int(counts.sum()), 'vote')} for {counted(len(kept), 'row')}{left} → {self.out}; next: "
            f"shortlist sets NEW -c {self.out} --votes-key '{self.votes_key}' --rule lac:0.1"
        )
