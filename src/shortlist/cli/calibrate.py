"""``shortlist calibrate``: the options. What it does is in ``calibrating.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in


@written_in("calibrating")
def calibrate(
    scores: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="File of scores; or the folder of a classifier or of a run.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PATH", help="Write the scores or the classifier with the new link here.")
    ],
    on: Annotated[
        Path | None, typer.Option("--on", metavar="FILE", help="Labelled scores to fit on; a run has its own by default.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            metavar="METHOD",
            help="temperature (the default for scores), platt, beta, vector-scaling, dirichlet, isotonic, venn-abers, or auto: "
            "the best of them by cross-validation (also as --link auto); for a classifier also none (its default).",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            "-r",
            metavar="RULE",
            help="For a classifier: a new rule, such as lac:0.1; by default the old one is fitted again.",
        ),
    ] = None,
    network: options.NetworkPath = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file at --out, if there is one.")] = False,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    keep: options.Keep = None,
    weights_key: options.WeightsKey = None,
    votes_key: options.VotesKey = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Fit a link on labelled scores and write a file of scores with it: the scores stay, their probabilities improve.

    For a classifier (or the folder of a run), the link, the set rule or both are fitted again, and the classifier is written to
    a new folder.
    """
