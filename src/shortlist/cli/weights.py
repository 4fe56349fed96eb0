"""``shortlist weights``: the options. What it does is in ``weighing.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in


@written_in("weighing")
def weights(
    new: Annotated[Path, typer.Argument(metavar="NEW", help="File of scores of new rows; their labels, if any, are not read.")],
    calibration: Annotated[
        Path, typer.Option("--calibration", "-c", metavar="FILE", help="Scores of the calibration rows, with their labels.")
    ],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="What changed: classes, where only their shares did and rows of a class look as before; or inputs, where rows "
            "look different and those that look alike have labels alike.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write the calibration rows here, as they are, with a weight for each."
        ),
    ],
    weights_key: Annotated[
        str, typer.Option("--weights-key", metavar="NAME", help="Name of the new array or column, for --weights-key of `sets`.")
    ] = "weight",
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            metavar="METHOD",
            help="--by classes: em (the default, for calibrated probabilities), black-box or soft.",
        ),
    ] = None,
    features_key: Annotated[
        str | None,
        typer.Option(
            "--features-key",
            metavar="NAME",
            help="--by inputs: array or columns (emb_*) of both files that tell rows apart; by default the log-odds of all "
            "labels.",
        ),
    ] = None,
    least: Annotated[
        float,
        typer.Option(
            "--least", metavar="N", help="Refuse weights with which the calibration rows count like fewer rows than this."
        ),
    ] = 100,
    seed: options.DrawSeed = 0,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    classes: options.Classes = None,
) -> None:
    """Write calibration rows with a weight for each, so that they count like new rows without labels."""
