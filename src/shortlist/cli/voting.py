"""What ``shortlist data votes`` does: one label for each item, from a table of votes or from those of the page."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from shortlist.cli.console import Outcome, noticed, say, show, warn
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Reading
from shortlist.cli.vote_counts import Counting
from shortlist.data.votes import Aggregation, Votes, adaptive_majority, dawid_skene, plain_majority
from shortlist.errors import InputError
from shortlist.report import Table
from shortlist.words import counted

if TYPE_CHECKING:
    from shortlist.web.labels import PageVotes
    from shortlist.web.votes import VoteStore

RULES = ("adaptive", "majority", "dawid-skene")
SUFFIXES = (".csv", ".parquet")
MISSING: dict[str, Literal["refuse", "drop"]] = {"refuse": "refuse", "drop": "drop"}


def votes(
    table: Path,
    rule: str | None,
    b0: float | None,
    theta: float | None,
    out: Path | None,
    users: Path | None,
    user_column: str,
    item_column: str,
    label_column: str,
    author_column: str | None,
    missing: str,
    counts: Path | None,
    scores: Path | None,
    votes_key: str,
    scores_key: str | None,
    ids_key: str | None,
    classes: Path | None,
    strict: bool,
) -> None:
    """Aggregate votes into one label for each item: by an adaptive weighted majority, a plain majority, or Dawid-Skene."""
    store = _page_votes(table)
    as_dataset = store is not None and out is not None and not out.suffix
    for option, path in (("--out", None if as_dataset else out), ("--users", users)):
        if path is not None and path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{option}: expected a name that ends in .csv or .parquet, got {path}")
    if missing not in MISSING:
        raise InputError(f"--missing: expected {' or '.join(MISSING)}, got {missing}")
    check_outputs([out, users, counts], [table, scores, classes])
    counting = None
    if counts is not None or scores is not None:
        counting = Counting.of(counts, scores, Reading(scores_key, ids_key=ids_key, classes=classes), votes_key)
    only_counts = counting is not None and (rule, b0, theta, out, users) == (None,) * 5
    found: list[str] = []
    page: PageVotes | None = None
    with noticed(found):
        if store is not None:
            page = _read_page_votes(store)
            read = page.votes
        else:
            columns = {"user": user_column, "item": item_column, "label": label_column, "author": author_column}
            read = Votes.read(table, **columns, missing=MISSING[missing])  # type: ignore[arg-type]
        if counting is not None:
            counting.write(read)
        result = None if only_counts else _aggregated(read, rule or RULES[0], b0, theta)
    if result is None:
        for note in dict.fromkeys([*read.notes, *found]):
            warn(note)
        if strict and (found or read.notes):
            raise typer.Exit(Outcome.WARNED)
        return
    result = result if page is None else page.settled(result)
    if out is not None and store is not None and as_dataset:
        _write_dataset(store, result, out)
    elif out is not None:
        result.save(out)
    if users is not None:
        result.save_users(users)
    show(_summary(result))
    for note in dict.fromkeys([*result.notes, *found]):
        warn(note)
    where = "".join(f" → {path}" for path in (out, users) if path is not None)
    labels = f"{int((result.label >= 0).sum()):,} labelled, {int(result.valid.sum()):,} valid"
    given = f"{counted(len(read), 'vote')} by {counted(len(read.users), 'user')}"
    say(f"{given}: {counted(len(result), 'item')}, {labels}, {counted(result.rounds, 'round')}{where}")
    if strict and (found or result.notes):
        raise typer.Exit(Outcome.WARNED)


def _page_votes(path: Path) -> "VoteStore | None":
    """The votes of the page, given as their file or as the folder of the run; None for a table."""
    from shortlist.web.opening import VOTES as NAME
    from shortlist.web.votes import VoteStore, is_vote_file

    file = path / NAME if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise InputError(f"{path}: expected the folder of a run whose page has votes, got one without {NAME}")
    return VoteStore(file) if is_vote_file(file) else None


def _read_page_votes(store: "VoteStore") -> "PageVotes":
    from shortlist.web.labels import read_votes

    found = read_votes(store)
    if found.unsure:
        say(f"left out {counted(found.unsure, 'vote')} of people who were not sure")
    return found


def _write_dataset(store: "VoteStore", result: Aggregation, out: Path) -> None:
    from shortlist.web.labels import LABELS, write_dataset

    written = write_dataset(store, result, out)
    say(
        f"{counted(len(written), 'photograph')}, {int(written.valid.sum()):,} with a valid label; next: "
        f"shortlist train {out / LABELS}"
    )


def _aggregated(read: Votes, rule: str, b0: float | None, theta: float | None) -> Aggregation:
    if rule not in RULES:
        raise InputError(f"--rule: expected {', '.join(RULES)}, got {rule}")
    if rule == "adaptive":
        if b0 is None or theta is None:
            raise InputError(
                "--rule adaptive: expected --b0 and --theta, which have no published values; try --b0 0.7 --theta 2"
            )
        return adaptive_majority(read, b0=b0, theta=theta)
    if b0 is not None:
        raise InputError(f"--b0: expected only with --rule adaptive, got it with --rule {rule}")
    return (plain_majority if rule == "majority" else dawid_skene)(read, theta=0.0 if theta is None else theta)


def _summary(result: Aggregation) -> Table:
    """What each round changed, or the counts if there were no rounds."""
    if result.history:
        lines = [
            [number, each.labels_changed, each.validity_changed, each.weights_changed]
            for number, each in enumerate(result.history, 1)
        ]
        return Table(["round", "labels changed", "validity changed", "weights changed"], lines, ["", ",", ",", ","])
    counts = [len(result), int((result.label >= 0).sum()), int(result.valid.sum()), int(result.tied.sum())]
    return Table(["items", "labelled", "valid", "tied"], [counts], [","] * 4)
