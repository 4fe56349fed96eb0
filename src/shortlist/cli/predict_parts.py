"""``shortlist predict --out scores/``: scores in a folder of parts, which a second run continues."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from shortlist.cli.console import Bar, say
from shortlist.cli.prediction_work import Work, none_read
from shortlist.errors import InputError
from shortlist.predictions import Predictions, ShardedWriter
from shortlist.predictions.parts import is_parts_folder
from shortlist.training.fingerprint import fingerprint
from shortlist.words import counted

PART_SCORES = 2**24  # 64 MB of float32
FEWEST_ROWS, MOST_ROWS = 256, 2**14  # of a part: what a kill costs at most


def is_folder_name(out: Path) -> bool:
    """Whether scores are written to a folder of parts: by a name without an ending, or one of such a folder."""
    return not out.suffix or is_parts_folder(out)


def check_folder(out: Path) -> None:
    """Raise an error unless parts can be written there: before the work rather than after it."""
    if is_parts_folder(out) or not out.exists():
        return
    if not out.is_dir() or any(not entry.name.startswith(".") for entry in out.iterdir()):
        came = "one with other files in it" if out.is_dir() else "a file"
        raise InputError(f"--out: expected a new or empty folder, or one of parts of scores, got {came}: {out}")


def write_parts(work: Work, out: Path, rows_per_part: int | None, settings: dict[str, str]) -> bool:
    """Score the parts that are not there yet; false if all were.

    Args:
        work: the rows; counts and problems are added to it.
        out: the folder.
        rows_per_part: by default as many as make 64 MB, from 256 to 16,384.
        settings: what scores depend on besides the rows and the network.
    """
    rows = rows_per_part or min(max(PART_SCORES // len(work.model.classes), FEWEST_ROWS), MOST_ROWS)
    spans = [(start, min(start + rows, len(work.rows))) for start in range(0, len(work.rows), rows)]
    if not spans:
        raise InputError(f"expected {work.things} to score, got none")
    ids, items = work.names(), [_identity(work, *span) for span in spans]
    with ShardedWriter(out, work.like(), items, settings={**settings, "rows per part": str(rows)}) as writer:
        missing = writer.missing
        if missing and len(missing) < len(spans):
            say(f"{len(spans) - len(missing):,} of {counted(len(spans), 'part')} are there already")
        with Bar(work.things, sum(spans[number][1] - spans[number][0] for number in missing)) as bar:
            before = 0
            for number in missing:
                start, stop = spans[number]
                part = work.part(start, stop, partial(_show, bar, before))
                blocks = (
                    Predictions(scores.cpu(), target, ids=names, quality=quality)
                    for scores, target, names, quality in part.scored_rows(ids[start:stop])
                )
                writer.write(number, blocks, _noted(None if number else work, part))
                work.add(part)
                before += stop - start
        if len(missing) == len(spans) and not work.done:
            raise none_read(work)
        writer.finish()
    return bool(missing)


def _show(bar: Bar, before: int, done: int) -> None:
    bar.at(before + done)


def _identity(work: Work, start: int, stop: int) -> str:
    """Digest of the names, labels and contents of some rows."""
    return fingerprint({"rows": work.rows.rows(torch.arange(start, stop))}, work.labels).digest


def _noted(work: Work | None, part: Work) -> Iterator[tuple[str, str, str]]:
    """Rows that are not written, and why, once the part has been read; with the first part, those that the source left out."""
    before = [] if work is None else [problem for problem in work.left_out if problem.left_out]
    for problem in [*before, *part.problems, *part.left_out]:
        yield problem.where, problem.kind, problem.what
