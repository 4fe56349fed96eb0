"""What ``shortlist predict`` does: sets or scores of new pictures and rows."""

import time
from itertools import chain
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from shortlist.checks import one_of
from shortlist.cli.console import emit_json, noticed, say, show, warn
from shortlist.cli.engines import Engine
from shortlist.cli.networks import networks_by_option
from shortlist.cli.outputs import check_outputs, named_paths
from shortlist.cli.predict_page import check_page, write_page
from shortlist.cli.predict_parts import check_folder, is_folder_name, saved_classifier, write_parts
from shortlist.cli.predict_rule import with_other_rule
from shortlist.cli.prediction_work import Work
from shortlist.cli.row_labels import labels_for
from shortlist.cli.runs import run_at
from shortlist.data.dataset import Dataset
from shortlist.data.loading import UNREADABLE
from shortlist.data.problems import LABELS_NOT_USED, problem_lines
from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.files import similar_paths
from shortlist.models import Classifier
from shortlist.models.artefact import is_classifier
from shortlist.models.heads import HEAD_NAMES, HeadName
from shortlist.models.quality import quality_for
from shortlist.predictions import Predictions, PredictionsWriter
from shortlist.report import Table
from shortlist.report.answers import MOST_CARDS
from shortlist.runs.part_scoring import none_read
from shortlist.sets.gates import SHARPNESS
from shortlist.sets.lists import LabelList, list_writer
from shortlist.sets.sizes import SizeSummary
from shortlist.words import counted, printable, quoted

SHOWN = 10
NAMED = 5  # files of a folder that turned out to be something else
LISTS, SCORES = (".jsonl", ".csv"), (".safetensors", ".npz", ".parquet")


def predict(
    classifier: Path,
    pictures: list[str],
    out: Path | None,
    rule: str | None,
    html: Path | None,
    split: str | None,
    head: str | None,
    network: str | None,
    device: str,
    batch_size: int,
    quality: str | None,
    rows_per_part: int | None,
    engine: str,
    address: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Predict sets of labels for new pictures or rows, or write their scores."""
    who = Engine(engine, address, workers)
    to_folder = out is not None and is_folder_name(out)
    if out is not None and out.suffix not in (*LISTS, *SCORES) and not to_folder:
        raise InputError(f"--out: expected the name of a folder, or one that ends in {', '.join((*LISTS, *SCORES))}, got {out}")
    if who.name != "local" and not to_folder:
        raise InputError("--engine ray: expected --out FOLDER, for scores in parts that workers write")
    if out is not None and to_folder:
        check_folder(out)
    elif rows_per_part is not None:
        raise InputError("--rows-per-part applies only to a folder of scores, such as --out scores/")
    if out is not None and as_json:
        raise InputError("expected --out or --json, got both: --json writes to standard output")
    if out is not None and out.is_dir() and not to_folder:  # before the work rather than after it
        raise InputError(f"--out: expected a name for a file, got the folder {out}")
    to_scores = out is not None and (to_folder or out.suffix in SCORES)
    check_page(html, to_scores)
    found = load_classifier(classifier, _device(device, who), network)
    model = of_head(found, head)
    if rule is not None:
        model = with_other_rule(model, classifier, rule)
    if model.rule is None and found.rule is not None and not to_scores:
        raise InputError(
            f"--head: the rule {found.rule.text} was fitted on the scores of the other head: write scores with --out "
            "scores.safetensors and make sets with shortlist sets"
        )
    if model.rule is None and not to_scores:
        raise InputError(
            f"{classifier} has no set rule: write scores with --out scores.safetensors and make sets with shortlist sets"
        )
    wanted = _quality(model, quality, to_scores)
    check_outputs([out, html], [classifier, *named_paths(pictures), None if rule is None else Path(rule)])
    work = _opened(model, pictures, split, batch_size, wanted)
    if out is not None and to_folder:
        saved = saved_classifier(classifier_folder(classifier), device, cast(HeadName | None, head), network)
        if not write_parts(work, out, rows_per_part, who, saved):
            return say(f"all parts are there already, {counted(len(Predictions.load(out)), 'row')} → {out}")
        return _conclude(work, out, to_scores)
    _begin(work)
    if out is not None and to_scores:
        _write_scores(work, out)
    else:
        shown = _write_sets(work, out, as_json)
        if html is not None:
            write_page(html, model, work.rows, shown, work.done)
    _conclude(work, out, to_scores)


def _quality(model: Classifier, name: str | None, to_scores: bool) -> str | None:
    """The quality to compute for each row, asked for or needed by the rule; an error if it cannot be computed."""
    if name is not None and name != SHARPNESS:
        raise InputError(f"--quality: expected {SHARPNESS}, got {name!r}")
    if name is not None and not model.inputs.is_pictures:
        raise InputError(f"--quality: {name} is that of pictures, but this classifier reads features")
    found: str | None = quality_for(model.rule, model.inputs, name, required=False)
    if found is None and model.rule is not None and model.rule.needs_quality and not to_scores:
        raise InputError(
            f"the rule {model.rule.text} compares rows by a quality that cannot be computed here: write scores with --out "
            "scores.safetensors, add an array called quality, and make sets with shortlist sets; in Python, pass quality= to "
            "Classifier.predict"
        )
    return found


def classifier_folder(path: Path) -> Path:
    """The folder of a classifier, given by itself or as the folder of its run; an error says what is there instead."""
    run = run_at(path)
    if run is not None:
        return run.classifier_path
    if not path.exists():
        raise InputError(f"{printable(str(path))}: there is no such folder{similar_paths(path)}")
    if path.is_dir() and not (path / "config.json").exists():
        raise InputError(f"{printable(str(path))}: expected the folder of a classifier or of a run, got {_what_is_in(path)}")
    return path  # other errors are raised when it is read


def load_classifier(path: Path, device: str = "cpu", network: str | None = None) -> Classifier:
    """The classifier of a folder, or of a run; with the import path of its network, where that is the user's own."""
    found: list[str] = []
    with networks_by_option(), noticed(found):
        classifier = Classifier.load(classifier_folder(path), device, network=network)
    for warning in found:
        warn(warning)
    return classifier


def of_head(classifier: Classifier, head: str | None) -> Classifier:
    """The classifier with the scores of this head, by default of its own."""
    if head is None:
        return classifier
    try:
        return classifier.with_head(one_of(*HEAD_NAMES)("head", head))
    except InputError as error:
        raise InputError(f"--{error}") from error


def _what_is_in(folder: Path) -> str:
    entries = sorted(folder.iterdir())
    inside = next((entry for entry in entries if entry.is_dir() and (run_at(entry) or is_classifier(entry))), None)
    if inside is not None:
        return f"a folder above one: {printable(str(inside))} is one"
    more = f" and {len(entries) - NAMED:,} more" if len(entries) > NAMED else ""
    return f"one with {', '.join(printable(entry.name) for entry in entries[:NAMED])}{more}" if entries else "an empty one"


def _device(name: str, engine: Engine) -> str:
    """The device of this process; what workers use is theirs."""
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device: expected auto, cpu or cuda, got {name!r}")
    if engine.name != "local":
        return "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device: cuda was requested, but torch found no GPU: use --device cpu, or leave it out")
    return "cuda" if name != "cpu" and torch.cuda.is_available() else "cpu"


def _opened(model: Classifier, texts: list[str], split: str | None, batch_size: int, wanted: str | None) -> Work:
    """The rows of the input."""
    inputs = model.inputs
    dataset = open_dataset(texts, require_labels=False, split=split, input_kind=inputs.kind, feature_names=inputs.feature_names)
    (rows,) = dataset.splits.values()
    _check_inputs(model, dataset, printable(texts[0]) + (", …" if len(texts) > 1 else ""))
    target, known, reason = labels_for(dataset, model.classes)
    left_out = [problem for problem in dataset.problems if problem.kind != LABELS_NOT_USED]
    if reason is not None:
        say(reason)
    return Work(model, rows, batch_size, wanted, target, known, left_out)


def _begin(work: Work) -> None:
    """Score the first batch; nothing is written before that works."""
    first = next(work.batches, None)
    if first is None:
        raise none_read(work.model, len(work.rows), work.problems)
    work.batches = chain([first], work.batches)


def _check_inputs(model: Classifier, dataset: Dataset, source: str) -> None:
    """Raise an error unless these are pictures, or the features that the classifier was trained on."""
    (rows,) = dataset.splits.values()
    if not isinstance(rows.inputs, Tensor):
        if not model.inputs.is_pictures:
            raise InputError(
                f"{source}: expected a table of {model.inputs.size} features, which this classifier reads, got pictures"
            )
        return
    number = rows.inputs.shape[1]
    if model.inputs.is_pictures:
        raise InputError(f"{source}: expected pictures, which this classifier reads, got a table of {number} features")
    if not model.inputs.feature_names and number != model.inputs.size:  # else the missing ones have names
        named = f": {quoted(dataset.feature_names)}" if dataset.feature_names else ""
        raise InputError(f"{source}: expected {model.inputs.size} features, as this classifier reads, got {number}{named}")
    try:
        model.inputs.columns_of(rows.feature_names)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _write_sets(work: Work, out: Path | None, as_json: bool) -> list[LabelList]:
    """Write the sets, or print the first of them; returns those that a page can show."""
    shown: list[LabelList] = []
    if out is not None:
        with list_writer(out, columns=work.describer.columns) as write:
            for lists in work.lists():
                write(lists)
                shown += lists[: MOST_CARDS - len(shown)]
        return shown
    first: list[LabelList] = []
    for lists in work.lists():
        shown += lists[: MOST_CARDS - len(shown)]
        if as_json:
            emit_json(*(row.record() for row in lists))
        first += lists[: SHOWN - len(first)]
    if not as_json:
        show(Table([work.things.removesuffix("s"), "labels"], [[row.id, row.text()] for row in first]))
        if work.done > SHOWN:
            say(f"… and {work.done - SHOWN:,} more: write them all with --out sets.jsonl or --out sets.csv")
    return shown


def _write_scores(work: Work, out: Path) -> None:
    """Append the scores of each batch to the file."""
    ids, like = work.names(), work.like()
    writer = PredictionsWriter(
        out,
        like.classes,
        like.link,
        train_counts=like.train_counts,
        superclasses=like.superclasses,
        network_digest=like.network_digest,
    )
    with writer:
        for rows in work.scored_rows(ids):
            writer.append(*rows)


def _conclude(work: Work, out: Path | None, to_scores: bool) -> None:
    """Print what was skipped, and one line on what was done."""
    seconds = max(time.monotonic() - work.started, 1e-9)
    for line in problem_lines([*work.left_out, *work.problems], SHOWN):
        warn(line)
    unreadable = sum(problem.kind == UNREADABLE for problem in work.problems)
    if unreadable:
        warn(f"skipped {unreadable:,} of the {len(work.rows):,} pictures, which could not be read")
    parts = [counted(work.done, *(("row of scores", "rows of scores") if to_scores else ("set",)))]
    if work.model.rule is not None and work.makes_sets:
        size = SizeSummary.of(work.counts)
        parts += [f"{size.mean:.4g} labels on average", f"{float(work.counts[0]) / size.rows:.1%} empty"]
        parts += [f"{work.refused:,} refused by the gate"] if work.model.rule.gate is not None and not to_scores else []
        shift = work.model.rule.size_shift(size)
        if shift:
            warn(shift)
    rate = work.done / seconds
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    say(", ".join([*parts, f"{speed} {work.things}/s on {work.device}"]) + (f" → {out}" if out else ""))
