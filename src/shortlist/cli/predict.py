"""``shortlist predict`` and ``shortlist export``."""

import copy
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from shortlist.checks import check_finite, one_of
from shortlist.cli import options
from shortlist.cli.console import Bar, emit, noticed, say, show, warn
from shortlist.cli.networks import networks_by_option
from shortlist.cli.prepare import check_outputs
from shortlist.cli.runs import run_at
from shortlist.data.dataset import Dataset, Split, target_among
from shortlist.data.loading import UNREADABLE
from shortlist.data.problems import LABELS_NOT_USED, Problem, problem_lines
from shortlist.data.sources import open_dataset, path_and_options
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.models.artefact import is_classifier
from shortlist.models.graph import outputs_of
from shortlist.models.heads import HEAD_NAMES
from shortlist.predictions import PredictionsWriter
from shortlist.report import Table
from shortlist.selection import count_rows
from shortlist.sets.lists import Describer, LabelList, label_lists, list_writer
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import Scores, Target
from shortlist.training.failures import is_out_of_memory
from shortlist.words import printable, quoted

SHOWN = 10
NAMED = 5  # files of a folder that turned out to be something else
LISTS, SCORES = (".jsonl",), (".safetensors", ".npz", ".parquet")
ONNX = ".onnx"

ClassifierPath = Annotated[Path, typer.Argument(metavar="CLASSIFIER", help="The folder of a classifier, or of its run.")]
PICTURES = (
    "Picture files and folders of pictures; or a table (.csv, .tsv, .parquet, .npz), with or without labels; or a dataset, "
    "NAME:PATH, such as folders:leaves."
)
OUT = (
    "Write the sets to a .jsonl file, or the scores to a .safetensors, .npz or .parquet file, for shortlist sets, evaluate "
    "and report. By default the first ten sets are printed."
)
HeadOption = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="HEAD",
        help="For a two-head classifier (average-k): labels, or proposal, whose softmax gives consistent probabilities.",
    ),
]
SPLIT = "The split to classify; by default the test split of a dataset, and all rows of a table."


def predict(
    classifier: ClassifierPath,
    pictures: Annotated[list[str], typer.Argument(metavar="PICTURES…", help=PICTURES)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help=OUT)] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="NAME", help=SPLIT)] = None,
    head: HeadOption = None,
    network: options.NetworkPath = None,
    device: Annotated[str, typer.Option("--device", help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Number of pictures per batch.")] = 256,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
) -> None:
    """Predict sets of labels for new pictures or rows, or write their scores."""
    if out is not None and out.suffix not in (*LISTS, *SCORES):
        raise InputError(f"--out: expected a name that ends in {', '.join((*LISTS, *SCORES))}, got {out}")
    if out is not None and as_json:
        raise InputError("expected --out or --json, got both: --json writes to standard output")
    if out is not None and out.is_dir():  # before the work rather than after it
        raise InputError(f"--out: expected a name for a file, got the folder {out}")
    found = load_classifier(classifier, _device(device), network)
    model = _of_head(found, head)
    to_scores = out is not None and out.suffix in SCORES
    if model.rule is None and found.rule is not None and not to_scores:
        raise InputError(
            f"--head: the rule {found.rule.text} was fitted on the scores of the other head: write scores with --out "
            "scores.safetensors and make sets with shortlist sets"
        )
    if model.rule is None and not to_scores:
        raise InputError(
            f"{classifier} has no set rule: write scores with --out scores.safetensors and make sets with shortlist sets"
        )
    check_outputs([out], [*classifier_folder(classifier).iterdir(), *_named_files(pictures)])
    work = _begin(model, pictures, split, batch_size)
    if out is not None and to_scores:
        _write_scores(work, out)
    else:
        _write_sets(work, out, as_json)
    _conclude(work, out, to_scores)


def classifier_folder(path: Path) -> Path:
    """The folder of a classifier, given by itself or as the folder of its run; an error says what is there instead."""
    run = run_at(path)
    if run is not None:
        return run.classifier_path
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


def _of_head(classifier: Classifier, head: str | None) -> Classifier:
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


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device: expected auto, cpu or cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device: cuda was requested, but torch found no GPU: use --device cpu, or leave it out")
    return "cuda" if name != "cpu" and torch.cuda.is_available() else "cpu"


def _named_files(texts: Sequence[str]) -> list[Path]:
    """Every file that the arguments may name: as they stand, behind a dataset's name, before options, as an option."""
    bare = [part for text in texts for part in (text, text.partition(":")[2]) if part]
    read = [(text, *path_and_options(text)) for text in bare]
    return [Path(part) for text, path, options in read for part in (text, path, *options.values()) if part]


@dataclass
class _Work:
    """The rows to classify, and counts and problems that are collected on the way."""

    model: Classifier
    rows: Split
    batch_size: int
    target: Target | None = None
    left_out: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.counts = torch.zeros(len(self.model.classes) + 1, dtype=torch.float64)  # of sets, by their size
        self.done, self.refused, self.device = 0, 0, self.model.device.type
        self.batches = self._scored()

    @property
    def things(self) -> str:
        return "pictures" if self.model.inputs.is_pictures else "rows"

    def _scored(self) -> Iterator[tuple[Tensor, Scores]]:
        """Row numbers and scores; unreadable pictures are noted and left out."""
        with Bar(self.things, len(self.rows)) as bar:
            try:
                scored = self.model.score_batches(self.rows, batch_size=self.batch_size, problems=self.problems)
                for numbers, scores in scored:
                    check_finite(scores)
                    self.done += len(numbers)
                    yield numbers, scores
                    bar.at(int(numbers[-1]) + 1)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                raise InputError(
                    f"the GPU has too little memory for {self.batch_size} {self.things} at once: reduce --batch-size"
                ) from None

    def lists(self) -> Iterator[list[LabelList]]:
        """The sets as lists, a batch at a time."""
        called = "scores" if self.model.link is None else "probs"
        assert self.model.rule is not None
        sets_of, describe = self.model.rule.in_blocks(), self.describer
        for numbers, scores in self.batches:
            probs, sets = self.model.decide(scores, sets_of)
            self.count(sets)
            ids = [self.rows.ids[row] for row in numbers.tolist()]
            target = None if self.target is None else self.target[numbers]
            lists = describe(label_lists(sets, probs, self.model.classes, ids, target, called), sets, probs)
            self.refused += sum(one.refused for one in lists)
            yield lists

    @property
    def describer(self) -> Describer:
        """Says what the sets of the model's rule are."""
        assert self.model.rule is not None
        return Describer(self.model.rule, self.model.superclasses)

    def count(self, sets: Tensor) -> None:
        """Count the sets by their size."""
        self.counts += count_rows(sets).bincount(minlength=len(self.counts))


def _begin(model: Classifier, texts: list[str], split: str | None, batch_size: int) -> _Work:
    """Read the input and score the first batch; nothing is written before that works."""
    dataset = open_dataset(texts, require_labels=False, split=split, input_kind=model.inputs.kind)
    (rows,) = dataset.splits.values()
    _check_inputs(model, dataset, printable(texts[0]) + (", …" if len(texts) > 1 else ""))
    target, reason = _target(dataset, model.classes)
    work = _Work(model, rows, batch_size, target, [problem for problem in dataset.problems if problem.kind != LABELS_NOT_USED])
    first = next(work.batches, None)
    if first is None:
        cause = f"; the first is {work.problems[0]}" if work.problems else ""
        raise InputError(f"none of the {len(rows):,} {work.things} could be read{cause}")
    work.batches = chain([first], work.batches)
    if reason is not None:
        say(f"labels are ignored: {reason}")
    return work


def _target(dataset: Dataset, classes: Sequence[str]) -> tuple[Target | None, str | None]:
    """The labels of the rows, numbered as the classes of the classifier; None, with the reason, if they cannot be used."""
    (rows,) = dataset.splits.values()
    if rows.target is None:
        return None, next((problem.what for problem in dataset.problems if problem.kind == LABELS_NOT_USED), None)
    try:
        return target_among(rows.target, dataset.classes, classes, need_all=not dataset.open_classes), None
    except InputError as error:
        return None, str(error)


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
    try:
        model.inputs.columns_of(rows.feature_names)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    if number != model.inputs.size:
        named = f": {quoted(dataset.feature_names)}" if dataset.feature_names else ""
        raise InputError(f"{source}: expected {model.inputs.size} features, as this classifier reads, got {number}{named}")


def _write_sets(work: _Work, out: Path | None, as_json: bool) -> None:
    if out is not None:
        with list_writer(out, columns=work.describer.columns) as write:
            for lists in work.lists():
                write(lists)
        return
    first: list[LabelList] = []
    for lists in work.lists():
        if as_json:
            emit("".join(json.dumps(row.record(), ensure_ascii=False) + "\n" for row in lists))
        first += lists[: SHOWN - len(first)]
    if not as_json:
        show(Table([work.things.removesuffix("s"), "labels"], [[row.id, row.text()] for row in first]))
        if work.done > SHOWN:
            say(f"… and {work.done - SHOWN:,} more: write them all with --out sets.jsonl")


def _write_scores(work: _Work, out: Path) -> None:
    """Append the scores of each batch to the file; the rule, if there is one, gives the sizes of their sets."""
    model, ids = work.model, work.rows.ids
    if len(set(ids)) < len(ids):
        say("some rows have the same name, so rows are numbered instead")
        ids = [str(row) for row in range(len(ids))]
    link = copy.deepcopy(model.link).cpu() if model.link is not None else None
    writer = PredictionsWriter(
        out,
        model.classes,
        link,
        train_counts=model.train_counts,
        superclasses=model.superclasses,
        network_digest=model.network.digest(),
    )
    with writer:
        for numbers, scores in work.batches:
            if model.rule is not None:
                work.count(model.decide(scores)[1])
            target = None if work.target is None else work.target[numbers]
            writer.append(scores, target, [ids[row] for row in numbers.tolist()])


def _conclude(work: _Work, out: Path | None, to_scores: bool) -> None:
    """Print what was skipped, and one line on what was done."""
    seconds = max(time.monotonic() - work.started, 1e-9)
    for line in problem_lines([*work.left_out, *work.problems], SHOWN):
        warn(line)
    unreadable = sum(problem.kind == UNREADABLE for problem in work.problems)
    if unreadable:
        warn(f"skipped {unreadable:,} of the {len(work.rows):,} pictures, which could not be read")
    parts = [f"{work.done:,} {'rows of scores' if to_scores else 'sets'}"]
    if work.model.rule is not None:
        size = SizeSummary.of(work.counts)
        parts += [f"{size.mean:.4g} labels on average", f"{float(work.counts[0]) / size.rows:.1%} empty"]
        parts += [f"{work.refused:,} refused by the gate"] if work.model.rule.gate is not None and not to_scores else []
        shift = work.model.rule.size_shift(size)
        if shift:
            warn(shift)
    rate = work.done / seconds
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    say(", ".join([*parts, f"{speed} {work.things}/s on {work.device}"]) + (f" → {out}" if out else ""))


def export(
    classifier: ClassifierPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, such as model.onnx.")],
    head: HeadOption = None,
    network: options.NetworkPath = None,
    opset: Annotated[int | None, typer.Option("--opset", metavar="N", help="Version of the ONNX operator set.")] = None,
) -> None:
    """Export a classifier as an ONNX file, from raw pixels or features to sets, for use without torch.

    In Python: onnxruntime.InferenceSession("model.onnx").run(["sets"], {"images": pixels}).

    Pixels are uint8 (N, 3, size, size); a classifier of features takes {"features": numbers}, float32 (N, D). Class names are
    in the metadata, as JSON.
    """
    if out.suffix != ONNX:
        raise InputError(f"--out: expected a name that ends in {ONNX}, got {out}")
    check_outputs([out], [])
    model = _of_head(load_classifier(classifier, network=network), head)
    model.export_onnx(out, opset=opset)
    inputs = model.inputs
    name, kind = ("images", "uint8") if inputs.is_pictures else ("features", "float32")
    say(f"{out}: input {name} {kind} (batch, {', '.join(map(str, inputs.shape))}); outputs {_outputs(model)}")
    say("class names are in its metadata, as shortlist.classes; shortlist export --help shows how to run it")


def _outputs(model: Classifier) -> str:
    shape = f"(batch, {len(model.classes)})"
    return ", ".join(f"{name} {'bool' if name == 'sets' else 'float32'} {shape}" for name in outputs_of(model))
