"""``shortlist report``: the options. What it does is in ``reporting.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in

PICTURE_MB = 2.0  # that of shortlist.report.pictures


@written_in("reporting")
def report(
    scores: options.ManyScores,
    rule: options.Rules = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the page to this file; by default report.html, in the folder of a run for its own rule.",
        ),
    ] = None,
    calibration: options.Calibration = None,
    split: options.Split = None,
    seed: options.Seed = 0,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    calibration_bins: options.CalibrationBins = options.BINS,
    top_n: options.TopN = None,
    shots: options.Shots = None,
    by: options.By = None,
    ids_key: options.IdsKey = None,
    quality_key: options.QualityKey = None,
    weights_key: options.WeightsKey = None,
    votes_key: options.VotesKey = None,
    no_label: options.NoLabel = None,
    classes: options.Classes = None,
    human: Annotated[
        Path | None,
        typer.Option(
            "--human",
            metavar="FILE",
            help="Sets given by people: a table with the columns id, labels (separated by |) and, if several people answered, "
            "person. They are drawn among the classifiers, which are then measured on the same rows.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = None,
    pictures: Annotated[
        str | None,
        typer.Option(
            "--pictures",
            metavar="DATA",
            help="Show pictures of the rows from this folder or dataset, found by the ids of the scores. A run has its own.",
        ),
    ] = None,
    no_pictures: Annotated[bool, typer.Option("--no-pictures", help="Leave the pictures of a run out.")] = False,
    picture_mb: Annotated[
        float, typer.Option("--picture-mb", metavar="MB", help="Megabytes of the page that all pictures together may take.")
    ] = PICTURE_MB,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    strict: options.Strict = False,
) -> None:
    """Write one self-contained HTML page about the sets of a rule; several files or rules are compared."""
