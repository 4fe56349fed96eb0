"""What ``shortlist shares`` does: the shares of the classes among new rows, and probabilities for them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from shortlist.cli.alike import check_alike
from shortlist.cli.console import emit, emit_json, say, show, warn
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Reading
from shortlist.errors import InputError
from shortlist.report import Table
from shortlist.sets import effective_sample_size
from shortlist.shift import class_shares
from shortlist.tensors import is_single_label
from shortlist.words import quoted

NOTED = 0.005  # the share of new rows without calibration rows that is warned of
COLUMNS = ["class", "old", "new", "low", "high", "weight"]


def shares(
    new: Path,
    calibration: Path,
    method: str,
    confidence: float,
    out: Path | None,
    seed: int,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    keep: list[str] | None,
    classes: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Estimate the shares of the classes among new rows without labels, where only these shares changed."""
    if as_json and as_csv:
        raise InputError("expected --json or --csv, got both")
    if keep and out is None:
        raise InputError("--keep applies only to the rows written with --out, got none")
    check_outputs([out], [new, calibration, classes])
    reading = Reading(scores_key, target_key, link, classes=classes)
    kept = replace(reading, columns=tuple(keep or ()))
    (rows, _), old = kept.load_new(new), reading.load(calibration)
    check_alike(calibration, old, new, rows)
    found = class_shares(rows, old, method=cast("Any", method), confidence=confidence, seed=seed)
    values = zip(rows.class_names, found.old, found.shares, found.low, found.high, found.weights, strict=True)
    table = [[name, *map(float, numbers)] for name, *numbers in values]
    if as_json:
        emit_json([dict(zip(COLUMNS, row, strict=True)) for row in table], indent=2)
    elif as_csv:
        emit(Table(COLUMNS, table).csv())
    else:
        show(Table(COLUMNS, [[row[0], *(f"{value:.4g}" for value in row[1:])] for row in table]))
    if old.target is not None and is_single_label(old.target):
        effective = effective_sample_size(found.weights[old.target.numpy()])
        say(f"the {len(old):,} calibration rows count like {effective:,.0f} among rows with these shares")
        without = np.bincount(old.target.numpy(), minlength=old.num_classes) == 0
        if (share := float(found.shares[without].sum())) >= NOTED:
            names = quoted([rows.class_names[place] for place in np.flatnonzero(without & (found.shares > 0)).tolist()], 4)
            warn(f"{share:.0%} of the new rows are of classes without a calibration row ({names}): no weight makes up for them")
    if out is not None:
        found.reweight(rows).save(out)
        kept.say_unread(new)
        say(f"{len(rows):,} rows re-weighted → {out}")
