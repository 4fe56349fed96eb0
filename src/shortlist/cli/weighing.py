"""What ``shortlist weights`` does: calibration rows with a weight for each, so that they count like new rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from shortlist.cli.alike import check_alike
from shortlist.cli.console import noticed, say, warn
from shortlist.cli.features import feature_names, features
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Reading
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.predictions.added_columns import check_added, check_copy, copy_with_columns
from shortlist.shift import class_shares, input_weights
from shortlist.shift.effective import enough_rows
from shortlist.tensors import Array, is_single_label
from shortlist.words import expected_one_of

KINDS = ("classes", "inputs")


def weights(
    new: Path,
    calibration: Path,
    by: str,
    out: Path,
    weights_key: str,
    method: str | None,
    features_key: str | None,
    least: float,
    seed: int,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    classes: Path | None,
) -> None:
    """Write calibration rows with a weight for each, so that they count like new rows without labels."""
    if by not in KINDS:
        raise InputError(f"--by: {expected_one_of(by, KINDS)}, got {by!r}")
    if method is not None and by != "classes":
        raise InputError("--method: expected only with --by classes, got it with --by inputs")
    if features_key is not None and by != "inputs":
        raise InputError("--features-key: expected only with --by inputs, got it with --by classes")
    if not least >= 0:
        raise InputError(f"--least: expected a number from 0, got {least}")
    check_outputs([out], [new, calibration, classes])
    reading = Reading(scores_key, target_key, link, classes=classes)
    (rows, _), old = reading.load_new(new), reading.load(calibration)
    with _worded("expected a name that ends", "--out: expected a name that ends"):
        check_copy(calibration, out)
    with _worded("columns:", "--weights-key:"):
        check_added(calibration, [weights_key], reading.keys())
    check_alike(calibration, old, new, rows)
    with _worded("method:", "--method:"), _worded("pass least=", "pass --least"), _worded("calibration:", f"{calibration}:"):
        if by == "classes":
            found = _by_classes(calibration, rows, old, method or "em", seed)
            effective = enough_rows(found, least)
        else:
            parts = (calibration, old), (new, rows)
            given: list[Any] = [old, rows]
            if features_key is not None:
                named = feature_names(calibration, features_key)
                given = [features(path, one, features_key, reading, named) for path, one in parts]
            learned = input_weights(*given, least=least, seed=seed)
            found, effective = learned.weights, learned.effective
    replaced: list[str] = []
    with noticed(replaced):
        copy_with_columns(calibration, out, old, {weights_key: found}, reading.keys())
    for sentence in replaced:
        warn(f"{sentence}: another name is given by --weights-key")
    say(
        f"the {len(old):,} calibration rows count like {effective:,.0f} among the {len(rows):,} new ones → {out}; next: "
        f"shortlist sets {new} -c {out} --weights-key {weights_key} --rule lac:0.1"
    )


def _by_classes(path: Path, rows: Predictions, old: Predictions, method: str, seed: int) -> Array:
    """New over old share of the label of each calibration row."""
    if old.target is None or not is_single_label(old.target):
        got = "none" if old.target is None else "any number of labels"
        raise InputError(f"{path}: expected one label in every row, by which it is weighed, got {got}: see --target-key")
    shares = class_shares(rows, old, method=cast("Any", method), resamples=2, seed=seed)  # their intervals are not needed
    found: Array = shares.weights[old.target.numpy()]
    return found


@contextmanager
def _worded(name: str, option: str) -> Iterator[None]:
    """Messages of the library name its parameters; here they are options of the command, or files."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(name, option)) from error
