"""``shortlist data votes``: the options. What it does is in ``voting.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in

VOTES = (
    "A .csv or .parquet of votes (user, item, label, author); or the votes of `serve`: the folder of its run, or votes.sqlite."
)
OUT = (
    "File for the labels: .csv or .parquet. For the votes of `serve` a name without a suffix is a new folder, with the "
    "photographs and labels.csv, which `train` takes."
)


@written_in("voting")
def votes(
    table: Annotated[Path, typer.Argument(metavar="VOTES", help=VOTES)],
    rule: Annotated[
        str | None, typer.Option("--rule", "-r", metavar="RULE", help="adaptive (the default), majority or dawid-skene.")
    ] = None,
    b0: Annotated[
        float | None, typer.Option("--b0", help="adaptive: the weight of a new user. There is no published value.")
    ] = None,
    theta: Annotated[
        float | None,
        typer.Option("--theta", help="A label is valid if its support (weights, votes or probability) exceeds this."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help=OUT)] = None,
    users: Annotated[Path | None, typer.Option("--users", help="File for the weights of the users: .csv or .parquet.")] = None,
    user_column: Annotated[str, typer.Option("--user-column", help="Column of users.")] = "user",
    item_column: Annotated[str, typer.Option("--item-column", help="Column of items.")] = "item",
    label_column: Annotated[str, typer.Option("--label-column", help="Column of labels.")] = "label",
    author_column: Annotated[
        str | None,
        typer.Option("--author-column", help="Column that marks authors; by default author, if it exists."),
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", metavar="HOW", help="Rows with an empty cell: refuse (fail) or drop.")
    ] = "refuse",
    counts: Annotated[
        Path | None,
        typer.Option(
            "--counts",
            metavar="FILE",
            help="Write the rows of --scores that have votes, with the number of votes for each class in columns votes_CLASS, "
            "which a rule is fitted on with --votes-key 'votes_*' of `sets`. Alone, it needs no rule of aggregation.",
        ),
    ] = None,
    scores: Annotated[
        Path | None, typer.Option("--scores", metavar="FILE", help="--counts: scores whose rows are called as the items.")
    ] = None,
    votes_key: Annotated[
        str,
        typer.Option("--votes-key", metavar="NAME", help="--counts: the names of the columns, with a * for the class."),
    ] = "votes_*",
    scores_key: options.ScoresKey = None,
    ids_key: options.IdsKey = None,
    classes: options.Classes = None,
    strict: options.Strict = False,
) -> None:
    """Aggregate votes into one label for each item: by an adaptive weighted majority, a plain majority, or Dawid-Skene."""
