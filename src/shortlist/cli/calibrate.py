"""``shortlist calibrate``: fit a link, so that probabilities become frequencies."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.console import say, show, warn
from shortlist.cli.prepare import Reading, check_alike, check_apart, check_outputs
from shortlist.errors import InputError
from shortlist.links import Isotonic, Platt, Temperature
from shortlist.links.fitted import FittedLink
from shortlist.metrics import calibration_definition, calibration_error
from shortlist.predictions import Predictions
from shortlist.report import Table

METHODS: dict[str, type[FittedLink]] = {link.kind: link for link in (Temperature, Platt, Isotonic)}


def calibrate(
    scores: options.Scores,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the scores go with their new link.")],
    on: Annotated[Path, typer.Option("--on", metavar="FILE", help="Labelled scores to fit the link on.")],
    method: Annotated[str, typer.Option("--method", "-m", help="temperature, platt or isotonic.")] = "temperature",
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
) -> None:
    """Fit a link on labelled scores and write other scores with it: the same scores, better probabilities."""
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"--method: {hint}expected one of {', '.join(METHODS)}, got {method!r}")
    check_outputs([out], [scores, on])
    reading = Reading(scores_key, target_key, link)
    predictions, labelled = reading.load(scores), reading.load(on)
    if labelled.target is None:
        raise InputError(f"{on}: expected labelled scores to fit the link on, and the file holds no labels")
    check_alike(on, labelled, scores, predictions)
    if same_rows:
        warn(f"{scores}: fitted and measured on the same rows, so errors look smaller than they are")
    else:
        check_apart(on, labelled, scores, predictions)
    fitted = METHODS[method](labelled.link).fit(labelled.scores, labelled.target)
    calibrated = predictions.with_link(fitted)
    calibrated.save(out)
    if predictions.target is not None and predictions.link is not None:
        show(_errors(predictions, calibrated))
    say(f"{fitted!r}, fitted on {len(labelled):,} rows → {out}")


def _errors(before: Predictions, after: Predictions) -> Table:
    rows = [
        [
            calibration_definition("expected", over=over),
            float(calibration_error(before.probs(), before.target, over=over)),
            float(calibration_error(after.probs(), after.target, over=over)),
        ]
        for over in ("top", "all")
    ]
    return Table(["calibration error", "before", "after"], rows, ["", ".2%", ".2%"])
