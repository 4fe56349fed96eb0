"""What ``shortlist report`` does: one HTML page about predictions, a run, or several side by side."""

from pathlib import Path
from typing import Any

from shortlist.checks import number
from shortlist.cli.console import say
from shortlist.cli.counting import CountKeys
from shortlist.cli.engines import Engine
from shortlist.cli.measuring import finish, measured_all, settings_of
from shortlist.cli.outputs import check_outputs, named_paths
from shortlist.cli.prepare import Fitting, Prepared, Reading, columns_read, short_names
from shortlist.cli.runs import run_at
from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.evaluation.tally import BINS
from shortlist.report import PagePictures, read_human_sets, write_report
from shortlist.report.optimum import Optimum
from shortlist.runs import Run
from shortlist.runs.facts import compared_facts
from shortlist.shift import compared
from shortlist.training.run_folder import REPORT
from shortlist.words import shown as shortened


def report(
    scores: list[Path],
    rule: list[str] | None,
    out: Path | None,
    calibration: list[Path] | None,
    split: float | None,
    seed: int,
    same_rows: bool,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    calibration_bins: int,
    top_n: int | None,
    shots: str | None,
    by: list[str] | None,
    ids_key: str | None,
    quality_key: str | None,
    weights_key: str | None,
    votes_key: str | None,
    no_label: str | None,
    classes: Path | None,
    human: Path | None,
    title: str | None,
    pictures: str | None,
    no_pictures: bool,
    picture_mb: float,
    engine: str,
    address: str | None,
    workers: int | None,
    strict: bool,
) -> None:
    """Write one self-contained HTML page about the sets of a rule; several files or rules are compared."""
    if out is not None and out.suffix not in (".html", ".htm"):
        raise InputError(f"--out: expected a name that ends in .html, got {out}")
    if pictures is not None and no_pictures:
        raise InputError("expected --pictures or --no-pictures, got both")
    most = int(1e6 * number(least=0)("--picture-mb", picture_mb))
    others = (
        rule,
        calibration,
        split,
        same_rows or None,
        link,
        None if calibration_bins == BINS else calibration_bins,
        top_n,
        shots,
        by or None,
        human,
    )  # with any of them, the page is not the one that training wrote
    own = run_at(scores[0]) if len(scores) == 1 and all(other is None for other in others) else None
    out = out or (Path(REPORT) if own is None else own.report_path)
    check_outputs([out], [*scores, *(calibration or ()), human, classes, *named_paths([pictures] if pictures else [])])
    people = None if human is None else read_human_sets(human)
    fitting = Fitting(rule or [], calibration or (), split, seed, same_rows, Engine(engine, address, workers))
    counts = CountKeys(weights_key, votes_key)
    reading = Reading(scores_key, target_key, link, ids_key, quality_key, no_label, classes, columns_read(rule, by), counts)
    settings = settings_of(calibration_bins, top_n, shots) | {"by": by or ()}
    called = None if own is None else own.recipe.name
    with fitting.engine.pool() as pool:
        prepared, evaluations = measured_all(scores, reading, fitting, settings, called, people, pool)
    remarks = [text for one in prepared for text in one.notes]
    remarks += _comparisons(scores, prepared, fitting, reading, called)
    if own is not None:
        title = title or own.recipe.title
        remarks = [*own.remarks, *remarks]
    runs = {name: run for name, path in zip(short_names(scores), scores, strict=True) if (run := run_at(path)) is not None}
    shown: Any = None
    if pictures is not None:
        shown = _given_pictures(pictures, prepared, most)
    elif not no_pictures:
        shown = _own_pictures(runs, most, remarks)
        shown = shown.get(next(iter(runs))) if own is not None else shown
    # The optimum of all rows is not that of a part.
    whole = {} if split is not None or people is not None else _trained(scores, runs)
    whole |= {"pictures": shown, "remarks": remarks, "facts": _facts(runs)}
    warnings = [text for one in prepared for text in one.warnings]
    if people is not None:
        whole["people"] = people.measure(prepared[0].predictions)
    write_report(evaluations, out, title=title or "Shortlist report", warnings=warnings, **whole)
    say(f"report on {prepared[0].name if len(prepared) == 1 else f'{len(prepared)} evaluations'} → {out}")
    finish(prepared, strict)


def _comparisons(
    scores: list[Path], prepared: list[Prepared], fitting: Fitting, reading: Reading, called: str | None
) -> list[str]:
    """For each evaluation whose calibration rows are in a file, whether its rows are like them.

    Where they are not, that is a warning of the evaluation rather than a remark.
    """
    found: list[str] = []
    for n, (path, name) in enumerate(zip(scores, short_names(scores), strict=True)):
        run = run_at(path)
        rows = fitting.calibration[n] if fitting.calibration else None if run is None else run.calibration_path
        for one in prepared:
            if rows is not None and one.source in (name, path.stem, called) and not fitting.same_rows:
                told = compared(one.rule, reading.grouped(rows, reading.load(rows), one.rule), one.predictions)
                (one.warnings if told.differs else found).append(f"{one.name}: {told}")
    return found


def _given_pictures(data: str, prepared: list[Prepared], most: int) -> PagePictures:
    """The pictures of a dataset that the user names; an error if it holds none of the rows."""
    try:
        found = PagePictures(open_dataset(data, require_labels=False), most_bytes=most)
    except InputError as error:
        raise InputError(f"--pictures: {error}") from error
    for one in prepared:
        ids = one.predictions.ids or ("0",)
        if not any(found.knows(name) for name in ids):
            raise InputError(
                f"--pictures: {data} has no picture with the id of a row of {one.source}, such as {shortened(ids[0])}: ids "
                "must be the names of the pictures (--ids-key tells which column holds them)"
            )
    return found


def _own_pictures(runs: dict[str, Run], most: int, remarks: list[str]) -> dict[str, PagePictures]:
    """The pictures of the test rows of each run; runs on the same data share them. Remarks say why there are none."""
    sources = {run.recipe.data: run for run in runs.values()}
    found = {}
    for data, run in sources.items():
        pictures, remark = run.page_pictures(most_bytes=most // len(sources))
        remarks += [remark] if remark else []
        if pictures is not None:
            found[data] = pictures
    return {name: found[run.recipe.data] for name, run in runs.items() if run.recipe.data in found}


def _facts(runs: dict[str, Run]) -> dict[str, dict[str, str]]:
    """What is known about the training of each run."""
    return {name: run.facts if len(runs) == 1 else compared_facts(run) for name, run in runs.items()}


def _trained(paths: list[Path], runs: dict[str, Run]) -> dict[str, Any]:
    """The training history of runs among the paths, and the optimum on their test rows if all share it."""
    histories = {name: history for name, run in runs.items() if (history := run.history)}
    optima = [run.optimum for run in runs.values()]
    found: dict[str, Any] = {"history": histories} if histories else {}
    if len(optima) == len(paths) and optima[0] is not None and all(_same_optimum(one, optima[0]) for one in optima):
        found["optimum"] = optima[0]
    return found


def _same_optimum(one: Optimum | None, other: Optimum) -> bool:
    return one is not None and one.record() == other.record()
