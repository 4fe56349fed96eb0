"""What ``shortlist calibrate`` does: fit a link, and write scores or a classifier with it."""

from dataclasses import replace
from pathlib import Path

from shortlist.cli.alike import check_alike, check_apart
from shortlist.cli.console import say, show, warn
from shortlist.cli.counting import CountKeys
from shortlist.cli.engines import Engine
from shortlist.cli.linking import AUTO, METHODS, fitted_link
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Reading, check_there
from shortlist.cli.recalibrate import holds_classifier, recalibrate
from shortlist.errors import InputError
from shortlist.metrics import calibration_definition, calibration_error
from shortlist.predictions import Predictions
from shortlist.predictions.arrays import labels_beside
from shortlist.report import Table
from shortlist.words import expected_one_of


def calibrate(
    scores: Path,
    out: Path,
    on: Path | None,
    method: str | None,
    rule: str | None,
    network: str | None,
    overwrite: bool,
    same_rows: bool,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    keep: list[str] | None,
    weights_key: str | None,
    votes_key: str | None,
    engine: str,
    address: str | None,
    workers: int | None,
) -> None:
    """Fit a link on labelled scores and write a file of scores with it: the scores stay, their probabilities improve.

    For a classifier (or the folder of a run), the link, the set rule or both are fitted again, and the classifier is written to
    a new folder.
    """
    who = Engine(engine, address, workers)
    check_there(scores)
    folder = holds_classifier(scores)
    if link == AUTO and method in (None, AUTO):  # it names the link that is fitted, not the one that scores come with
        method, link = AUTO, None
    counts = CountKeys(weights_key, votes_key)
    known = [*METHODS, "none"] if folder else list(METHODS)
    method = method or ("none" if folder else "temperature")
    if method not in known:
        raise InputError(f"--method: {expected_one_of(method, known)}, got {method!r}")
    if folder:
        for name, given in (("--link", link), ("--scores-key", scores_key), ("--target-key", target_key), ("--keep", keep)):
            if given is not None:
                raise InputError(f"{name} applies only to score files, got a classifier, which has its own")
        for flag, wanted in (("--same-rows", same_rows), ("--overwrite", overwrite)):
            if wanted:
                raise InputError(f"{flag} applies only to score files, got a classifier")
        return recalibrate(scores, out, on, None if method == "none" else method, rule, network, who, counts)
    if counts:
        raise InputError("--weights-key and --votes-key apply only to the rule of a classifier or a run, got a file of scores")
    if network is not None:
        raise InputError("--network applies only to a classifier, got a file of scores")
    if rule is not None:
        raise InputError("--rule applies only to a classifier or a run, got a file of scores: use shortlist sets")
    if on is None:
        raise InputError("--on: expected a file of labelled scores to fit the link on, got none")
    check_outputs([out], [scores, on, *(labels_beside(path, target_key) for path in (scores, on) if target_key)])
    if out.exists() and not overwrite:
        raise InputError(f"--out: {out} exists already: choose another name, or pass --overwrite to replace it")
    reading = Reading(scores_key, target_key, link)
    reading.check_labels_apart([scores], [on])
    kept = replace(reading, columns=tuple(keep or ()))
    predictions, labelled = kept.load(scores), reading.load(on)
    if labelled.without_rows().target is None:
        raise InputError(f"{on}: expected labelled scores to fit the link on, got a file without labels")
    check_alike(on, labelled, scores, predictions)
    if same_rows:
        warn(f"{scores}: fitted and measured on the same rows, so that errors look smaller than they are")
    else:
        check_apart(on, labelled, scores, predictions)
    with who.pool() as pool:
        fitted = fitted_link(method, labelled.link, labelled, pool, reading.rows(on))
    calibrated = predictions.with_link(fitted)
    calibrated.save(out)
    kept.say_unread(scores)
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
