"""What ``shortlist watch`` does: one watch over files of scores, in their order, which may go on another day."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import typer

from shortlist.cli.console import Outcome, emit_json, say, warn
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Reading, check_there
from shortlist.cli.runs import run_at
from shortlist.errors import InputError
from shortlist.sets import SetRule
from shortlist.shift import Watch


def watch(
    rule: Path,
    new: list[Path],
    reference: Path | None,
    state: Path | None,
    level: float,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    ids_key: str | None,
    classes: Path | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Say whether new rows are still what the calibration rows were; if not, since when, and what to do."""
    if state is not None and state.suffix != ".safetensors":
        raise InputError(f"--state: expected a name that ends in .safetensors, got {state}")
    check_outputs([state], [rule, *new, *([reference] if reference else ()), classes])
    check_there(rule)
    run = run_at(rule)
    fitted = SetRule.load(rule) if run is None else run.rule
    columns = () if fitted.column is None else (fitted.column,)
    reading = Reading(scores_key, target_key, link, ids_key, classes=classes, columns=columns)
    calibration = None if run is None else run.calibration_path
    watched = _begun(rule, fitted, reference, calibration, state, level, reading)
    seen = {name for name, _ in watched.sources}
    for path in new:
        if str(path) in seen:
            say(f"{path} was watched before and is passed over")
            continue
        watched.add(reading.load(path), name=str(path))
        seen.add(str(path))
    if state is not None:
        watched.save(state)
    if as_json:
        emit_json(_record(watched), indent=2)
    for alarm in watched.alarms:
        warn(alarm.sentence)
    for sentence in watched.sentences()[len(watched.alarms) :]:
        say(sentence)
    if watched.alarms and strict:
        raise typer.Exit(Outcome.WARNED)


def _begun(
    path: Path,
    rule: SetRule,
    reference: Path | None,
    calibration: Path | None,
    state: Path | None,
    level: float,
    reading: Reading,
) -> Watch:
    """The watch in the file of the state, or a new one.

    Args:
        path: of the rule, for messages.
        rule: fitted.
        reference: the rows that were named to compare with.
        calibration: those of the run that the rule is of, if no others were named.
        state: the file of a watch, which may be new.
        level: of a new watch.
        reading: how files of scores are read.
    """
    if state is not None and state.exists():
        watched = Watch.load(state)
        if watched.rule.record() != rule.record() or not _same_threshold(watched.rule, rule):
            raise InputError(f"--state: {state} watches another rule than {path}: name another file")
        if reference is not None:
            say(f"{state} has its reference rows already: {reference} is not read")
        return watched
    rows = calibration if reference is None else reference
    if rows is None:
        say("without --reference, new rows are compared with earlier ones only")
    return Watch(rule, None if rows is None else reading.load(rows), level=level)


def _same_threshold(one: SetRule, other: SetRule) -> bool:
    first, second = one.threshold, other.threshold
    return first is second if first is None or second is None else torch.equal(first, second)


def _record(watched: Watch) -> dict[str, Any]:
    coverage = watched.coverage
    return {
        "rule": watched.rule.text,
        "rows": watched.rows,
        "labelled": watched.labelled,
        "level": watched.level,
        "alarms": [asdict(alarm) for alarm in watched.alarms],
        "capital": watched.capital,
        "coverage": None if coverage is None else dict(zip(("share", "low", "high"), coverage, strict=True)),
    }
