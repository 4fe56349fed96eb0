"""``shortlist shares``: the options. What it does is in ``sharing.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in


@written_in("sharing")
def shares(
    new: Annotated[Path, typer.Argument(metavar="NEW", help="File of scores of new rows; their labels, if any, are not read.")],
    calibration: Annotated[
        Path, typer.Option("--calibration", "-c", metavar="FILE", help="Scores of rows from before, with labels for black-box.")
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", metavar="METHOD", help="em (the default, for calibrated probabilities), black-box or soft."
        ),
    ] = "em",
    confidence: Annotated[float, typer.Option("--confidence", metavar="P", help="Of the interval of each share.")] = 0.95,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the new rows re-weighted by these shares here.")
    ] = None,
    seed: options.DrawSeed = 0,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    keep: options.Keep = None,
    classes: options.Classes = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
) -> None:
    """Estimate the shares of the classes among new rows without labels, where only these shares changed."""
