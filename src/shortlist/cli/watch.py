"""``shortlist watch``: the options. What it does is in ``watching.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in


@written_in("watching")
def watch(
    rule: Annotated[
        Path,
        typer.Argument(
            metavar="RULE", help="A fitted rule, written with --save-rule, or the folder of a run, which has its own."
        ),
    ],
    new: Annotated[list[Path], typer.Argument(metavar="NEW…", help="Files of scores of new rows, in their order.")],
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            help="Scores of rows that are as they should be; by default the calibration rows of a run, otherwise earlier rows.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="FILE", help="Continue the watch in this file (.safetensors), or begin it, and write it again."
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option("--level", metavar="P", help="The probability that there is ever a false alarm, of a new watch: 0.01."),
    ] = None,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    ids_key: options.IdsKey = None,
    classes: options.Classes = None,
    as_json: options.Json = False,
    strict: options.Strict = False,
) -> None:
    """Say whether new rows are still what the calibration rows were; if not, since when, and what to do."""
