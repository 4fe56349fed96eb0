"""What ``shortlist watch`` does: one watch over files of scores, in their order, which may go on another day."""

import hashlib
from contextlib import nullcontext
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import torch
import typer

from shortlist.cli.console import Outcome, emit_json, say, warn
from shortlist.cli.outputs import check_outputs, is_same_file
from shortlist.cli.prepare import Reading, check_there
from shortlist.cli.runs import run_at
from shortlist.errors import InputError
from shortlist.files import locked_place
from shortlist.sets import SetRule
from shortlist.shift import Watch
from shortlist.shift.watch import LEVEL


def watch(
    rule: Path,
    new: list[Path],
    reference: Path | None,
    state: Path | None,
    level: float | None,
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
    _check_apart(calibration if reference is None else reference, new)
    with nullcontext() if state is None else locked_place(state):  # else the rows of one of two commands would be lost
        watched = _begun(rule, fitted, reference, calibration, state, level, reading)
        for path in new:
            _add(watched, path, reading)
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


def _check_apart(reference: Path | None, new: list[Path]) -> None:
    """Raise an error if new rows are the reference rows themselves, from which they cannot differ."""
    for path in new:
        if reference is not None and is_same_file(reference, path):
            raise InputError(f"{path} holds the reference rows themselves: leave it out, or name another --reference")


def _add(watched: Watch, path: Path, reading: Reading) -> None:
    """Watch the rows of a file unless its content was watched before, under whatever name."""
    check_there(path)
    content, name = _digest(path), str(path)
    before = watched.contents.get(content)
    if before is not None:
        say(f"{path} was watched before{'' if before == name else f', as {before},'} and is passed over")
        return
    names = {source for source, _ in watched.sources} | set(watched.contents.values())
    if name in names:
        if name not in watched.contents.values():  # in a state from before contents were kept
            say(f"{path} was watched before and is passed over")
            return
        say(f"{path} has another content than the file of this name that was watched before: all its rows are new ones")
        name = next(again for n in count(2) if (again := f"{name} ({n})") not in names)
    watched.add(reading.grouped(path, reading.load(path), watched.rule), name=name)
    watched.contents[content] = name


def _digest(path: Path) -> str:
    """Of the content of a file, or of the files in a folder of parts and their names."""
    found = hashlib.blake2b()
    try:
        for file in sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]:
            with file.open("rb") as opened:
                found.update((file.name if path.is_dir() else "").encode(errors="surrogateescape") + b"\0")
                found.update(hashlib.file_digest(opened, "blake2b").digest())
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    return found.hexdigest()[:32]


def _begun(
    path: Path,
    rule: SetRule,
    reference: Path | None,
    calibration: Path | None,
    state: Path | None,
    level: float | None,
    reading: Reading,
) -> Watch:
    """The watch in the file of the state, or a new one.

    Args:
        path: of the rule, for messages.
        rule: fitted.
        reference: the rows that were named to compare with.
        calibration: those of the run that the rule is of, if no others were named.
        state: the file of a watch, which may be new.
        level: of a new watch; None for the usual one, or that of the state.
        reading: how files of scores are read.
    """
    if state is not None and state.exists():
        watched = Watch.load(state)
        if watched.rule.record() != rule.record() or not _same_threshold(watched.rule, rule):
            raise InputError(f"--state: {state} watches another rule than {path}: name another file")
        if level is not None and level != watched.level:
            raise InputError(
                f"--level: {state} watches at {watched.level:g}, got {level:g}: leave it out, or name another file"
            )
        if reference is not None:
            say(f"{state} has its reference rows already: {reference} is not read")
        return watched
    rows = calibration if reference is None else reference
    if rows is None:
        say("without --reference, new rows are compared with earlier ones only")
    known = None if rows is None else reading.grouped(rows, reading.load(rows), rule)
    return Watch(rule, known, level=LEVEL if level is None else level)


def _same_threshold(one: SetRule, other: SetRule) -> bool:
    first, second = one.threshold, other.threshold
    return first is second if first is None or second is None else torch.equal(first, second)


def _record(watched: Watch) -> dict[str, Any]:
    found = {"coverage": watched.coverage, "recall": watched.recall}
    return {
        "rule": watched.rule.text,
        "rows": watched.rows,
        "labelled": watched.labelled,
        "level": watched.level,
        "alarms": [asdict(alarm) for alarm in watched.alarms],
        "capital": watched.capital,
        **{
            name: None if known is None else dict(zip(("share", "low", "high"), known, strict=True))
            for name, known in found.items()
        },
    }
