"""``shortlist predict --out scores/``: scores in a folder of parts, written here or by workers; a second run continues it."""

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from shortlist.cli.console import Bar, say, warn
from shortlist.cli.engines import Engine
from shortlist.cli.prediction_work import Work
from shortlist.errors import InputError
from shortlist.models.heads import HeadName
from shortlist.predictions.parts import is_parts_folder
from shortlist.runs.part_scoring import Each, Loaded, Saved, here, score_parts
from shortlist.words import counted, listed


def is_folder_name(out: Path) -> bool:
    """Whether scores are written to a folder of parts: by a name without an ending, or one of such a folder."""
    return not out.suffix or is_parts_folder(out)


def check_folder(out: Path) -> None:
    """Raise an error unless parts can be written there: before the work rather than after it."""
    if out.parts and len(out.parts[0]) > 2 and out.parts[0].endswith(":"):  # s3://bucket/scores; two letters are a drive
        raise InputError(
            f"--out: expected a folder that is here or mounted, got the address {out}: parts are locked, and renamed when they "
            "are whole, which object stores cannot do"
        )
    if is_parts_folder(out) or not out.exists():
        return
    if not out.is_dir() or any(not entry.name.startswith(".") for entry in out.iterdir()):
        came = "one with other files in it" if out.is_dir() else "a file"
        raise InputError(f"--out: expected a new or empty folder, or one of parts of scores, got {came}: {out}")


def write_parts(work: Work, out: Path, rows_per_part: int | None, engine: Engine, saved: Saved) -> bool:
    """Score the parts that are not there yet; false if all were.

    Args:
        work: the rows; counts and problems are added to it.
        out: the folder.
        rows_per_part: see :func:`shortlist.runs.part_scoring.score_parts`.
        engine: who does the work.
        saved: the classifier as workers load it.
    """
    if not len(work.rows):
        raise InputError(f"expected {work.things} to score, got none")
    classes = None if work.target is None else work.model.classes
    rows = replace(work.rows, target=work.target, ids=work.names(), posterior=None, classes=classes)
    missing = 0
    with ExitStack() as opened:
        pool = opened.enter_context(engine.pool_on(saved.device))
        each: Each = here if pool is None else pool.each
        if pool is not None:
            work.device = counted(pool.size, "worker")
        bars: list[Bar] = []

        def begun(parts: int, of: int, rows: int) -> None:
            nonlocal missing
            missing = parts
            if 0 < parts < of:
                say(f"{of - parts:,} of {counted(of, 'part')} are there already")
            bars.append(opened.enter_context(Bar(work.things, rows)))

        done = score_parts(
            out,
            Loaded(work.model) if pool is None else saved,
            rows,
            known=work.known,
            before=work.left_out,
            batch_size=work.batch_size,
            quality=work.wanted,
            rule=work.model.rule if work.makes_sets else None,
            rows_per_part=rows_per_part,
            each=each,
            threads=None if pool is None else pool.cpus,
            settings={"head": saved.head or "the classifier's own"},
            begun=begun,
            progress=lambda rows: bars[0].at(rows),
            damaged=lambda names: warn(f"{out}: damaged parts are written again: {listed(names, 3)}"),
        )
    work.done += done.rows
    work.problems += done.problems
    if done.sizes is not None:
        work.counts += done.sizes
    return missing > 0


def saved_classifier(folder: Path, device: str, head: HeadName | None, network: str | None) -> Saved:
    """The classifier as workers load it."""
    return Saved(folder.absolute(), device, head, network, os.getcwd())
