"""Measuring predictions with rules, as the commands ``evaluate`` and ``report`` do, and what they say at the end."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shortlist import cluster
from shortlist.checks import whole
from shortlist.cli.alike import note_different_rows
from shortlist.cli.console import Bar, Outcome, say, warn
from shortlist.cli.prepare import Fitting, Prepared, Reading, prepare_all
from shortlist.cluster.rows import Rows
from shortlist.errors import InputError
from shortlist.evaluation import Evaluation, measure
from shortlist.evaluation.measuring import MOST_BINS
from shortlist.metrics.accuracy import check_edges
from shortlist.report import HumanSets
from shortlist.words import shown

if TYPE_CHECKING:
    from shortlist.cluster import Pool


def settings_of(bins: int, top_n: int | None, shots: str | None) -> dict[str, Any]:
    """The options as keywords of :func:`measure`; wrong values are reported by the name of the option."""
    whole(1, MOST_BINS)("--calibration-bins", bins)
    if top_n is not None:
        whole(1)("--top-n", top_n)
    return {"calibration_bins": bins, "top_n": top_n, "shots": None if shots is None else _edges(shots)}


def _edges(text: str) -> tuple[int, ...]:
    """Edges of shot groups, separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--shots: expected whole numbers separated by commas, such as 10,50,500,2000, got {shown(text)}")
    edges = check_edges([int(part) for part in parts], "--shots")
    assert edges is not None
    return edges


def measured_all(
    paths: list[Path],
    reading: Reading,
    fitting: Fitting,
    settings: dict[str, Any],
    called: str | None = None,
    people: HumanSets | None = None,
    pool: "Pool | None" = None,
) -> tuple[list[Prepared], list[Evaluation]]:
    """Every file with every rule, measured with these settings.

    ``called`` replaces the name of a single file. Where people answered some of the rows, only these are measured.
    """
    prepared = prepare_all(paths, reading, fitting, pool)
    if people is not None:
        for one in prepared:
            rows = f"{len(people.ids):,} of {len(one.predictions):,} rows"
            one.notes.append(f"{one.name}: measured on the {rows} that people answered")
            try:
                one.predictions = people.answered(one.predictions)
                one.rows = Rows.of(one.predictions)
            except InputError as error:
                if fitting.split is None:
                    raise
                told = "--split takes rows away that the rule is fitted on: fit it on others, with --calibration"
                raise InputError(f"{error}; {told}") from error
    note_different_rows(prepared)
    evaluations = []
    for one in prepared:
        if called is not None:
            one.name = one.source = called
        if settings["shots"] is not None and one.predictions.train_counts is None:
            raise InputError(f"--shots: {one.name} does not hold the number of training examples of each class (train_counts)")
        with Bar(f"measuring {one.name}", len(one.predictions)) as bar:
            keywords = {"name": one.name, "source": one.source, "progress": bar.at, **settings}
            if pool is None:
                evaluations.append(measure(one.predictions, one.rule, **keywords))
            else:
                evaluations.append(cluster.measure(pool, one.rows, one.rule, **keywords))
        if one.predictions.without_rows().target is None:
            one.warnings.append(f"{one.name}: the file has no labels, so only sizes are measured")
        one.check_size(evaluations[-1].size)
    return prepared, evaluations


def finish(prepared: list[Prepared], strict: bool) -> None:
    """Print notes and warnings, each once; with ``strict``, a warning is a failure."""
    warnings = list(dict.fromkeys(warning for one in prepared for warning in one.warnings))
    for note in dict.fromkeys(note for one in prepared for note in one.notes):
        say(note)
    for warning in warnings:
        warn(warning)
    if warnings and strict:
        raise typer.Exit(Outcome.WARNED)
