"""What ``shortlist sets`` and ``shortlist evaluate`` do: from scores on disk to sets and numbers."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from shortlist import cluster
from shortlist.cli.console import Bar, emit, emit_json, say, show
from shortlist.cli.counting import CountKeys
from shortlist.cli.engines import Engine
from shortlist.cli.measuring import finish, measured_all, settings_of
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Fitting, Prepared, Reading, columns_read, prepare_all
from shortlist.csv_files import write_csv_frame
from shortlist.errors import InputError
from shortlist.evaluation import Evaluation
from shortlist.files import written_whole
from shortlist.report import Table, headline, number_groups, shot_table
from shortlist.report.group_tables import column_tables
from shortlist.row_order import count_rows
from shortlist.sets import SetRule, class_laws, coverage_law
from shortlist.sets.lists import P_VALUE, Describer, LabelList, check_list_path, list_writer, lists_of
from shortlist.sets.sizes import SizeSummary
from shortlist.words import counted

if TYPE_CHECKING:
    from shortlist.cluster import Pool

SHOWN = 10


def sets(
    scores: Path,
    rule: str | None,
    out: Path | None,
    calibration: list[Path] | None,
    split: float | None,
    seed: int,
    same_rows: bool,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    ids_key: str | None,
    quality_key: str | None,
    weights_key: str | None,
    votes_key: str | None,
    no_label: str | None,
    classes: Path | None,
    save_rule: Path | None,
    p_values: bool,
    as_json: bool,
    engine: str,
    address: str | None,
    workers: int | None,
    strict: bool,
) -> None:
    """Turn scores into sets of labels: for each row, labels with their probabilities, most probable first."""
    if save_rule is not None and save_rule.suffix != ".safetensors":
        raise InputError(f"--save-rule: expected a name that ends in .safetensors, got {save_rule}")
    if out is not None:
        check_list_path(out)
        if as_json:
            raise InputError("expected --out or --json, got both: --json writes to standard output")
    if p_values and out is None and not as_json:
        raise InputError("--p-values: expected --out FILE or --json, which hold them, got neither")
    if p_values and engine != "local":
        raise InputError(f"--p-values: expected --engine local, got {engine}: the calibration rows have to be in one place")
    check_outputs([out, save_rule], [scores, *(calibration or ()), *([Path(rule)] if rule else ()), classes])
    fitting = Fitting(
        [rule] if rule else [], calibration or (), split, seed, same_rows, Engine(engine, address, workers), p_values
    )
    columns = columns_read([rule] if rule else [])
    counts = CountKeys(weights_key, votes_key)
    reading = Reading(
        scores_key, target_key, link, ids_key, quality_key, no_label, classes, columns, counts, target_optional=True
    )
    with fitting.engine.pool() as pool:
        (prepared,) = prepare_all([scores], reading, fitting, pool)
        listed = _write_lists(prepared, out, as_json, pool, p_values)
    size = SizeSummary.of(listed.counts)
    prepared.check_size(size)
    if save_rule is not None:
        prepared.rule.save(save_rule)
    parts = [
        counted(size.rows, "set"),
        f"{size.mean:.4g} labels on average",
        f"{float(listed.counts[0]) / size.rows:.1%} empty",
    ]
    parts += [f"{listed.refused:,} refused by the gate"] if prepared.rule.gate is not None else []
    say(", ".join(parts) + (f" → {out}" if out else ""))
    finish([prepared], strict)


@dataclass
class _Listed:
    """What was counted while sets were listed: sets by size, refused rows, and the first few lists."""

    counts: torch.Tensor
    refused: int = 0
    first: list[LabelList] = field(default_factory=list)


def _write_lists(prepared: Prepared, out: Path | None, as_json: bool, pool: "Pool | None", p_values: bool) -> _Listed:
    """Write the sets to the file, to standard output as JSON lines, or show the first few."""
    predictions, rule = prepared.predictions, prepared.rule
    listed = _Listed(torch.zeros(predictions.num_classes + 1, dtype=torch.float64))
    called, columns = "probs" if predictions.link is not None else "scores", Describer(rule, predictions.superclasses).columns
    columns = [*columns, *(f"{P_VALUE}{name}" for name in predictions.class_names if p_values)]
    writer = nullcontext(_emit_lists if as_json else None) if out is None else list_writer(out, called, columns)
    with Bar("sets", len(predictions)) as bar, writer as write:
        for sizes, lists in _lists(prepared, pool, p_values):
            if write is not None:
                write(lists)
            listed.counts += sizes.bincount(minlength=len(listed.counts))
            listed.refused += sum(one.refused for one in lists)
            listed.first += lists[: SHOWN - len(listed.first)]
            bar.at(int(listed.counts.sum()))
    if out is None and not as_json:
        show(Table(["row", "labels"], [[row.id, row.text()] for row in listed.first]))
        if len(predictions) > SHOWN:
            say(f"… and {len(predictions) - SHOWN:,} more rows: write all of them with --out sets.parquet, .jsonl or .csv")
    return listed


def _lists(prepared: Prepared, pool: "Pool | None", p_values: bool) -> Iterator[tuple[torch.Tensor, list[LabelList]]]:
    """The sizes and lists of the sets, a block of rows at a time."""
    if pool is not None:
        yield from cluster.list_sets(pool, prepared.rows, prepared.rule)
        return
    for sets, lists in lists_of(prepared.predictions, prepared.rule, p_values=p_values):
        yield count_rows(sets), lists


def _emit_lists(lists: Iterable[LabelList]) -> None:
    for row in lists:
        emit_json(row.record())


def evaluate(
    scores: list[Path],
    rule: list[str] | None,
    calibration: list[Path] | None,
    split: float | None,
    seed: int,
    same_rows: bool,
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    quality_key: str | None,
    weights_key: str | None,
    votes_key: str | None,
    no_label: str | None,
    classes: Path | None,
    calibration_bins: int,
    top_n: int | None,
    shots: str | None,
    by: list[str] | None,
    per_class: Path | None,
    as_json: bool,
    as_csv: bool,
    engine: str,
    address: str | None,
    workers: int | None,
    strict: bool,
) -> None:
    """Measure the sets of a rule on labelled scores: coverage, size, calibration; several files or rules side by side."""
    if as_json and as_csv:
        raise InputError("expected --json or --csv, got both")
    if per_class is not None and per_class.suffix != ".csv":
        raise InputError(f"--per-class: expected a name that ends in .csv, got {per_class}")
    check_outputs([per_class], [*scores, *(calibration or ()), classes])
    fitting = Fitting(rule or [], calibration or (), split, seed, same_rows, Engine(engine, address, workers))
    settings = settings_of(calibration_bins, top_n, shots) | {"by": by or ()}
    reading = Reading(scores_key, target_key, link, quality_key=quality_key, no_label=no_label, classes=classes)
    reading = replace(reading, columns=columns_read(rule, by), counts=CountKeys(weights_key, votes_key))
    with fitting.engine.pool() as pool:
        prepared, evaluations = measured_all(scores, reading, fitting, settings, pool=pool)
    if per_class is not None:
        _write_classes(evaluations, per_class)
    if as_json:
        answer = [
            evaluation.numbers()
            | {"shots": [group.record() for group in evaluation.shot_groups()]}
            | {"calibration_error": evaluation.calibration(), "guarantee": one.rule.guarantee, "warnings": one.warnings}
            | {"promise": _promise(one.rule)}
            | {"by": {name: evaluation.by_column(name).reset_index().to_dict("records") for name in evaluation.columns}}
            for one, evaluation in zip(prepared, evaluations, strict=True)
        ]
        emit_json(answer, indent=2)
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
        for table in column_tables(evaluations):
            emit("\n")
            show(table)
        for one in prepared:
            law = coverage_law(one.rule) or class_laws(one.rule)
            one.notes += [] if law is None else [f"{one.rule.text}: {law.sentence()}"]
    finish(prepared, strict)


def _promise(rule: SetRule) -> dict[str, Any] | None:
    """The range of the coverage of a conformal rule, or the classes that are too small for one of their own."""
    law, laws = coverage_law(rule), class_laws(rule)
    if laws is not None:
        return {"needed": laws.needed, "too_small": len(laws.too_small())}
    return None if law is None else law.record()


def _write_classes(evaluations: list[Evaluation], path: Path) -> None:
    """Write the numbers of each class, of several evaluations one below the other."""
    import pandas as pd

    frames = [evaluation.by_class().assign(predictions=evaluation.name).reset_index() for evaluation in evaluations]
    frame = pd.concat(frames)
    if not len(frame):
        raise InputError("--per-class: expected labels, got none")
    with written_whole(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        write_csv_frame(frame[["predictions", *frame.columns.drop("predictions")]], file)


def _shot_columns(evaluation: Evaluation) -> dict[str, Any]:
    """The numbers of each shot group as columns, such as ``shots_11-50_macro_coverage``."""
    records = [group.record() for group in evaluation.shot_groups()]
    return {f"shots_{one['group']}_{name}": value for one in records for name, value in one.items() if name != "group"}
