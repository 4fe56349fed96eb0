"""``shortlist sets``, ``shortlist evaluate``, ``shortlist report``: from scores on disk to sets, numbers and a page."""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from shortlist.checks import whole
from shortlist.cli import options
from shortlist.cli.console import Bar, Outcome, emit, say, show, warn
from shortlist.cli.prepare import Fitting, Prepared, Reading, check_outputs, note_different_rows, prepare_all, short_names
from shortlist.cli.runs import run_at
from shortlist.errors import InputError
from shortlist.evaluation import Evaluation, measure
from shortlist.evaluation.measuring import MOST_BINS
from shortlist.evaluation.tally import BINS
from shortlist.files import write_text
from shortlist.metrics.accuracy import check_edges
from shortlist.report import HumanSets, Table, headline, number_groups, read_human_sets, shot_table, write_report
from shortlist.report.optimum import Optimum
from shortlist.row_order import count_rows
from shortlist.sets.lists import Describer, LabelList, check_list_path, list_writer, lists_of
from shortlist.sets.sizes import SizeSummary
from shortlist.training.run_folder import REPORT
from shortlist.words import shown

SHOWN = 10


def sets(
    scores: options.Scores,
    rule: options.Rule = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the sets to this file, .parquet or .jsonl.")
    ] = None,
    calibration: options.Calibration = None,
    split: options.Split = None,
    seed: options.Seed = 0,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    ids_key: options.IdsKey = None,
    quality_key: options.QualityKey = None,
    no_label: options.NoLabel = None,
    classes: options.Classes = None,
    save_rule: Annotated[
        Path | None,
        typer.Option(
            "--save-rule", metavar="FILE", help="Save the fitted rule as .safetensors, to be used again with --rule FILE."
        ),
    ] = None,
    as_json: options.Json = False,
    strict: options.Strict = False,
) -> None:
    """Turn scores into sets of labels: for each row, labels with their probabilities, most probable first."""
    if save_rule is not None and save_rule.suffix != ".safetensors":
        raise InputError(f"--save-rule: expected a name that ends in .safetensors, got {save_rule}")
    if out is not None:
        check_list_path(out)
        if as_json:
            raise InputError("expected --out or --json, got both: --json writes to standard output")
    check_outputs([out, save_rule], [scores, *(calibration or ()), *([Path(rule)] if rule else ())])
    fitting = Fitting([rule] if rule else [], calibration or (), split, seed, same_rows)
    (prepared,) = prepare_all([scores], Reading(scores_key, target_key, link, ids_key, quality_key, no_label, classes), fitting)
    listed = _write_lists(prepared, out, as_json)
    size = SizeSummary.of(listed.counts)
    prepared.check_size(size)
    if save_rule is not None:
        prepared.rule.save(save_rule)
    parts = [f"{size.rows:,} sets", f"{size.mean:.4g} labels on average", f"{float(listed.counts[0]) / size.rows:.1%} empty"]
    parts += [f"{listed.refused:,} refused by the gate"] if prepared.rule.gate is not None else []
    say(", ".join(parts) + (f" → {out}" if out else ""))
    _finish([prepared], strict)


@dataclass
class _Listed:
    """What was counted while sets were listed: sets by size, refused rows, and the first few lists."""

    counts: torch.Tensor
    refused: int = 0
    first: list[LabelList] = field(default_factory=list)


def _write_lists(prepared: Prepared, out: Path | None, as_json: bool) -> _Listed:
    """Write the sets to the file, to standard output as JSON lines, or show the first few."""
    predictions, rule = prepared.predictions, prepared.rule
    listed = _Listed(torch.zeros(predictions.num_classes + 1, dtype=torch.float64))
    called, columns = "probs" if predictions.link is not None else "scores", Describer(rule, predictions.superclasses).columns
    writer = nullcontext(_emit_lists if as_json else None) if out is None else list_writer(out, called, columns)
    with Bar("sets", len(predictions)) as bar, writer as write:
        for found, lists in lists_of(predictions, rule):
            if write is not None:
                write(lists)
            listed.counts += count_rows(found).bincount(minlength=len(listed.counts))
            listed.refused += sum(one.refused for one in lists)
            listed.first += lists[: SHOWN - len(listed.first)]
            bar.at(int(listed.counts.sum()))
    if out is None and not as_json:
        show(Table(["row", "labels"], [[row.id, row.text()] for row in listed.first]))
        if len(predictions) > SHOWN:
            say(f"… and {len(predictions) - SHOWN:,} more rows: write all of them with --out sets.parquet or --out sets.jsonl")
    return listed


def _emit_lists(lists: Iterable[LabelList]) -> None:
    for row in lists:
        emit(json.dumps(row.record(), ensure_ascii=False) + "\n")


def evaluate(
    scores: options.ManyScores,
    rule: options.Rules = None,
    calibration: options.Calibration = None,
    split: options.Split = None,
    seed: options.Seed = 0,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    quality_key: options.QualityKey = None,
    no_label: options.NoLabel = None,
    classes: options.Classes = None,
    calibration_bins: options.CalibrationBins = BINS,
    top_n: options.TopN = None,
    shots: options.Shots = None,
    per_class: Annotated[
        Path | None,
        typer.Option("--per-class", metavar="FILE", help="Write the calibration of each class to this file, .csv."),
    ] = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    strict: options.Strict = False,
) -> None:
    """Measure the sets of a rule on labelled scores: coverage, size, calibration; several files or rules side by side."""
    if as_json and as_csv:
        raise InputError("expected --json or --csv, got both")
    if per_class is not None and per_class.suffix != ".csv":
        raise InputError(f"--per-class: expected a name that ends in .csv, got {per_class}")
    check_outputs([per_class], [*scores, *(calibration or ())])
    fitting = Fitting(rule or [], calibration or (), split, seed, same_rows)
    settings = _settings(calibration_bins, top_n, shots)
    reading = Reading(scores_key, target_key, link, quality_key=quality_key, no_label=no_label, classes=classes)
    prepared, evaluations = _measured(scores, reading, fitting, settings)
    if per_class is not None:
        _write_classes(evaluations, per_class)
    if as_json:
        answer = [
            evaluation.numbers()
            | {"shots": [group.record() for group in evaluation.shot_groups()]}
            | {"calibration_error": evaluation.calibration(), "guarantee": one.rule.guarantee, "warnings": one.warnings}
            for one, evaluation in zip(prepared, evaluations, strict=True)
        ]
        emit(json.dumps(_without_nan(answer), indent=2, ensure_ascii=False) + "\n")
    elif as_csv:
        numbers = [evaluation.numbers() | _shot_columns(evaluation) for evaluation in evaluations]
        columns = list(dict.fromkeys(name for row in numbers for name in row))
        emit(Table(columns, [[row.get(name) for name in columns] for row in numbers]).csv())
    else:
        show(headline(evaluations).transposed(), *number_groups(evaluations))
        by_shots = shot_table(evaluations)
        if by_shots.rows:
            emit("\n")
            show(by_shots)
    _finish(prepared, strict)


def _write_classes(evaluations: list[Evaluation], path: Path) -> None:
    """Write the calibration of each class, of several evaluations one below the other."""
    import pandas as pd

    frames = [evaluation.class_calibration().assign(predictions=evaluation.name).reset_index() for evaluation in evaluations]
    frame = pd.concat(frames)
    if not len(frame):
        raise InputError("--per-class: expected labels, and scores with a link to probabilities, got none")
    write_text(path, frame[["predictions", *frame.columns.drop("predictions")]].to_csv(index=False))


def _shot_columns(evaluation: Evaluation) -> dict[str, Any]:
    """The numbers of each shot group as columns, such as ``shots_11-50_macro_coverage``."""
    records = [group.record() for group in evaluation.shot_groups()]
    return {f"shots_{one['group']}_{name}": value for one in records for name, value in one.items() if name != "group"}


def _settings(bins: int, top_n: int | None, shots: str | None) -> dict[str, Any]:
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


def report(
    scores: options.ManyScores,
    rule: options.Rules = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help=f"Write the page to this file; by default {REPORT}, in the folder of a run for its own rule.",
        ),
    ] = None,
    calibration: options.Calibration = None,
    split: options.Split = None,
    seed: options.Seed = 0,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    calibration_bins: options.CalibrationBins = BINS,
    top_n: options.TopN = None,
    shots: options.Shots = None,
    ids_key: options.IdsKey = None,
    quality_key: options.QualityKey = None,
    no_label: options.NoLabel = None,
    classes: options.Classes = None,
    human: Annotated[
        Path | None,
        typer.Option(
            "--human",
            metavar="FILE",
            help="Sets given by people: a table with the columns id, labels (separated by |) and, if several people answered, "
            "person. They are drawn among the classifiers, which are then measured on the same rows.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = None,
    strict: options.Strict = False,
) -> None:
    """Write one self-contained HTML page about the sets of a rule; several files or rules are compared."""
    if out is not None and out.suffix not in (".html", ".htm"):
        raise InputError(f"--out: expected a name that ends in .html, got {out}")
    others = (
        rule,
        calibration,
        split,
        same_rows or None,
        link,
        None if calibration_bins == BINS else calibration_bins,
        top_n,
        shots,
        human,
    )  # with any of them, the page is not the one that training wrote
    own = run_at(scores[0]) if len(scores) == 1 and all(other is None for other in others) else None
    out = out or (Path(REPORT) if own is None else own.report_path)
    check_outputs([out], [*scores, *(calibration or ()), *([human] if human else ())])
    people = None if human is None else read_human_sets(human)
    fitting = Fitting(rule or [], calibration or (), split, seed, same_rows)
    reading = Reading(scores_key, target_key, link, ids_key, quality_key, no_label, classes)
    settings = _settings(calibration_bins, top_n, shots)
    prepared, evaluations = _measured(scores, reading, fitting, settings, None if own is None else own.recipe.name, people)
    warnings = [text for one in prepared for text in (*one.warnings, *one.notes)]
    if own is not None:
        title = title or own.recipe.title
        warnings = [*own.remarks, *warnings]
    # The optimum of all rows is not that of a part.
    whole = {} if split is not None or people is not None else _trained(scores)
    if people is not None:
        whole["people"] = people.measure(prepared[0].predictions)
    write_report(evaluations, out, title=title or "Shortlist report", warnings=warnings, **whole)
    say(f"report on {prepared[0].name if len(prepared) == 1 else f'{len(prepared)} evaluations'} → {out}")
    _finish(prepared, strict)


def _trained(paths: list[Path]) -> dict[str, Any]:
    """The training history of runs among the paths, and the optimum on their test rows if all share it."""
    named = zip(short_names(paths), paths, strict=True)
    runs = {name: run for name, path in named if (run := run_at(path)) is not None}
    histories = {name: history for name, run in runs.items() if (history := run.history)}
    optima = [run.optimum for run in runs.values()]
    found: dict[str, Any] = {"history": histories} if histories else {}
    if len(optima) == len(paths) and optima[0] is not None and all(_same_optimum(one, optima[0]) for one in optima):
        found["optimum"] = optima[0]
    return found


def _same_optimum(one: Optimum | None, other: Optimum) -> bool:
    return one is not None and one.record() == other.record()


def _measured(
    paths: list[Path],
    reading: Reading,
    fitting: Fitting,
    settings: dict[str, Any],
    called: str | None = None,
    people: HumanSets | None = None,
) -> tuple[list[Prepared], list[Evaluation]]:
    """Every file with every rule, measured with these settings.

    ``called`` replaces the name of a single file. Where people answered some of the rows, only these are measured.
    """
    prepared = prepare_all(paths, reading, fitting)
    if people is not None:
        for one in prepared:
            rows = f"{len(people.ids):,} of {len(one.predictions):,} rows"
            one.notes.append(f"{one.name}: measured on the {rows} that people answered")
            try:
                one.predictions = people.answered(one.predictions)
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
            found = measure(one.predictions, one.rule, name=one.name, source=one.source, progress=bar.at, **settings)
            evaluations.append(found)
        if one.predictions.target is None:
            one.warnings.append(f"{one.name}: the file has no labels, so only sizes are measured")
        one.check_size(evaluations[-1].size)
    return prepared, evaluations


def _finish(prepared: list[Prepared], strict: bool) -> None:
    warnings = list(dict.fromkeys(warning for one in prepared for warning in one.warnings))
    for note in dict.fromkeys(note for one in prepared for note in one.notes):
        say(note)
    for warning in warnings:
        warn(warning)
    if warnings and strict:
        raise typer.Exit(Outcome.WARNED)


def _without_nan(value: object) -> object:
    """The value with null in place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value
