"""``shortlist predict --engine ray --out FOLDER``: scores in a folder of parts, which workers write."""

import os
import time
from dataclasses import replace
from pathlib import Path

from shortlist.cli.console import Bar, say, warn
from shortlist.cli.engines import Engine
from shortlist.cli.prediction_work import Work
from shortlist.cluster.scoring import Model, score
from shortlist.data.problems import problem_lines
from shortlist.errors import InputError
from shortlist.models.heads import HeadName
from shortlist.words import counted

SHOWN = 10


def write_on_cluster(out: Path, model: Model, work: Work, rows_per_part: int | None, engine: Engine) -> None:
    """Write the folder, or go on with it, and say what was done.

    Args:
        out: the folder.
        model: the classifier as workers load it.
        work: the rows.
        rows_per_part: see :func:`shortlist.cluster.scoring.score`.
        engine: the cluster and its workers.
    """
    started = time.monotonic()
    classes = None if work.target is None else work.model.classes
    rows = replace(work.rows, target=work.target, ids=work.names(), posterior=None, classes=classes)
    gpus = 1.0 if model.device == "cuda" else 0.0
    with engine.pool(gpus_per_worker=gpus) as pool, Bar(work.things, len(rows)) as bar:
        written, problems = score(
            out,
            model,
            rows,
            known=work.known,
            batch_size=work.batch_size,
            quality=work.wanted,
            rows_per_part=rows_per_part,
            pool=pool,
            progress=bar.at,
        )
    for line in problem_lines([*work.left_out, *problems], SHOWN):
        warn(line)
    lost = out / "problems.parquet"
    if not written:
        raise InputError(f"none of the {len(rows):,} {work.things} could be read: see {lost}")
    if written < len(rows):
        warn(f"{len(rows) - written:,} of the {len(rows):,} {work.things} are left out: see {lost}")
    seconds = max(time.monotonic() - started, 1e-9)
    say(f"{counted(written, 'row of scores', 'rows of scores')} in {seconds:,.0f} s → {out}")


def model_for_workers(folder: Path, device: str, head: HeadName | None, network: str | None) -> Model:
    """The classifier as workers load it."""
    return Model(folder.absolute(), device, head, network, os.getcwd())
