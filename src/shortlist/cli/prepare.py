"""From options to predictions and a fitted rule: the first step of ``sets``, ``evaluate`` and ``report``."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from shortlist import cluster
from shortlist.cli.class_files import read_class_names
from shortlist.cli.console import Bar, noticed, warn
from shortlist.cli.engines import LOCAL, Engine
from shortlist.cli.runs import run_at
from shortlist.cluster.rows import Rows
from shortlist.errors import InputError
from shortlist.files import similar_paths
from shortlist.links import Softmax
from shortlist.predictions import Predictions
from shortlist.predictions.arrays import labels_beside
from shortlist.predictions.parts import MANIFEST, is_parts_folder
from shortlist.sets import SetRule, SizeSummary, bound_cost, parse_rule
from shortlist.sets.gates import SHARPNESS
from shortlist.sets.origin import origin_of
from shortlist.sets.text import column_in
from shortlist.tensors import is_single_label

if TYPE_CHECKING:
    from shortlist.cluster import Pool

KEYS = ("scores_key", "target_key", "ids_key", "quality_key", "no_label")


@dataclass(frozen=True)
class Reading:
    """How files of scores are read."""

    scores_key: str | None = None
    target_key: str | None = None
    link: str | None = None
    ids_key: str | None = None
    quality_key: str | None = None
    no_label: str | None = None
    classes: Path | None = None
    columns: tuple[str, ...] = ()

    def load(self, path: Path) -> Predictions:
        """The predictions of one file. Its link must be known: it is never guessed."""
        check_there(path)
        if path.is_dir() and not is_parts_folder(path):
            raise InputError(f"{path}: expected a file of scores, got a folder: write one with shortlist predict")
        found: list[str] = []
        with noticed(found), _parameters_as_options():
            predictions = Predictions.load(path, **self._keywords())
        for sentence in found:
            warn(f"{path}: {sentence}")
        if predictions.link is None and self.link is None:
            raise InputError(
                f"{path}: the file does not say how its scores become probabilities: pass --link softmax or sigmoid for "
                "logits, identity for probabilities, none for scores that only rank the labels"
            )
        if looks_like_probabilities(predictions):
            warn(f"{path}: the scores look like probabilities, but the link is softmax; if they are, pass --link identity")
        return predictions

    def _keywords(self) -> dict[str, Any]:
        names = None if self.classes is None else read_class_names(self.classes)
        return {"link": self.link, "classes": names, "columns": self.columns} | {name: getattr(self, name) for name in KEYS}

    def rows(self, path: Path) -> Rows:
        """The same file, as the workers of a cluster open it."""
        return Rows.at(path, **self._keywords())

    def check_labels_apart(self, paths: Sequence[Path], calibration: Sequence[Path]) -> None:
        """Raise an error if one .npy file of labels would be taken for those of rows to fit on and of other rows."""
        key = self.target_key
        if key is None:
            return
        labels = {labels_beside(path, key).resolve(): path for path in paths if path.suffix.lower() == ".npy"}
        for path in calibration:
            other = labels.get(labels_beside(path, key).resolve()) if path.suffix.lower() == ".npy" else None
            if other is not None and other.resolve() != path.resolve():
                raise InputError(
                    f"--target-key: expected other labels for {path} than for {other}, got {key} for both: save scores and "
                    "labels together, np.savez(FILE, scores=…, target=…), or in two folders under the same names"
                )


def columns_read(rules: Sequence[str] | None, by: Sequence[str] | None = None) -> tuple[str, ...]:
    """The columns that these rules group rows by, and those to count by."""
    found = list(by or ())
    for text in rules or ():
        saved = Path(text)
        column = SetRule.load(saved).column if saved.suffix == ".safetensors" else column_in(text)
        found += [] if column is None else [column]
    return tuple(dict.fromkeys(found))


@contextmanager
def _parameters_as_options() -> Iterator[None]:
    """Messages of the library name its parameters; here they are options of the command."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for name in KEYS:
            text = text.replace(name, f"--{name.replace('_', '-')}")
        text = re.sub(r"(?<!-)classes: expected", "--classes: expected", text)
        raise InputError(text) from error


def check_there(path: Path) -> None:
    """Raise an error unless this is a file, or the folder of a run, of a classifier or of parts of scores."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder{similar_paths(path)}")
    if path.is_dir() and run_at(path) is None and not (path / "config.json").is_file() and not is_parts_folder(path):
        raise InputError(
            f"{path}: expected a file of scores or the folder of a run, got a folder without recipe.json (and without "
            f"{MANIFEST}, which a folder of parts of scores has)"
        )


def check_quality(path: Path, rule: SetRule, predictions: Predictions) -> None:
    """Raise an error if the gate of the rule compares rows by a quality that these lack."""
    if rule.gate is not None and rule.needs_quality and predictions.quality is None:
        how = "use a file of scores with an array or column called quality, or named by --quality-key"
        if rule.gate.by == SHARPNESS:
            how = "write scores with shortlist predict --quality sharpness"
        raise InputError(f"{path}: {rule.text} compares rows by their {rule.gate.by}, which is not known here: {how}")


def looks_like_probabilities(predictions: Predictions) -> bool:
    """Whether scores with the link softmax are probabilities already, judging by some rows."""
    head = predictions.rows(slice(0, 100)).scores.float()
    if not isinstance(predictions.link, Softmax) or predictions.num_classes < 2 or not len(head):
        return False
    return bool((head >= 0).all() and ((head.sum(1) - 1).abs() < 1e-2).all())


@dataclass(frozen=True)
class Fitting:
    """Which rules are fitted, and on which rows."""

    rules: Sequence[str]
    calibration: Sequence[Path] = ()
    split: float | None = None
    seed: int = 0
    same_rows: bool = False
    engine: Engine = LOCAL

    def __post_init__(self) -> None:
        ways = [
            name
            for name, used in (("--calibration", self.calibration), ("--split", self.split), ("--same-rows", self.same_rows))
            if used
        ]
        if self.split is not None and len(ways) > 1:
            raise InputError(f"expected one way to choose the calibration rows, got {' and '.join(ways)}")
        if self.split is not None and not 0 < self.split < 1:
            raise InputError(f"--split: expected a share between 0 and 1, got {self.split}")


@dataclass
class Prepared:
    """Predictions to make sets for, the fitted rule, and messages for the user."""

    name: str
    source: str  # the name of the file
    predictions: Predictions
    rule: SetRule
    rows: Rows  # the predictions, as the workers of a cluster open them
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def check_size(self, reached: SizeSummary) -> None:
        """Add a warning if the average size differs from that on the calibration rows by more than chance."""
        shift = self.rule.size_shift(reached)
        if shift:
            self.warnings.append(f"{self.name}: {shift}")


def prepare_all(paths: Sequence[Path], reading: Reading, fitting: Fitting, pool: "Pool | None" = None) -> list[Prepared]:
    """Every file with every rule, fitted; calibration files belong to the files of scores in order.

    The folder of a run stands for its test predictions and its calibration predictions, and, if no rule is given, for the rule
    of its classifier. Rules are fitted by the workers of the pool, if there is one.
    """
    files = fitting.calibration
    if files and len(files) != len(paths):
        raise InputError(f"expected one --calibration for each of the {len(paths)} files of scores, got {len(files)}")
    reading.check_labels_apart(paths, files)
    found = []
    for n, (path, name) in enumerate(zip(paths, short_names(paths), strict=True)):
        check_there(path)
        run = run_at(path)
        if run is None and not fitting.rules:
            raise InputError(
                "--rule: expected a rule, such as average-k:5 or lac:0.1, got none; only the folder of a run has its own"
            )
        scores = path if run is None else run.predictions_path()
        calibration = files[n] if files else None if run is None else run.calibration_path
        shown = name if len(paths) > 1 or run is not None else ""
        rules: Sequence[str | SetRule] = fitting.rules or ([run.rule] if run is not None else [])
        found += _prepare(scores, shown, rules, reading, fitting, calibration, pool)
    return found


def _prepare(
    path: Path,
    name: str,
    rules: Sequence[str | SetRule],
    reading: Reading,
    fitting: Fitting,
    calibration: Path | None,
    pool: "Pool | None",
) -> list[Prepared]:
    """One file with every rule, fitted if it has to be."""
    predictions = reading.load(path)
    if not len(predictions):
        raise InputError(f"{path}: expected rows, got none")
    found = []
    for given in rules:
        text = given if isinstance(given, str) else given.text
        called = ", ".join(filter(None, [name, text])) if len(rules) > 1 else name or path.stem
        remarks: list[str] = []
        with noticed(remarks):
            rule = _rule(given, predictions, fitting.seed) if isinstance(given, str) else given
        found.append(Prepared(called, name or path.stem, predictions, rule, reading.rows(path), warnings=remarks))
    for one in found:
        check_quality(path, one.rule, predictions)
    waiting = [one for one in found if one.rule.needs_fit and not one.rule.fitted]
    for one in found:
        one.warnings += [f"{one.rule.text}: {note}" for note in one.rule.notes]
        if one.rule.fitted and one.rule.needs_fit:
            one.rule.check_origin(predictions)
    if fitting.split is not None:
        first, rest = predictions.split_rows(fitting.split, seed=fitting.seed)
        # Freed before the rest is read, so that a large file is in memory only once.
        _fit_all(waiting, predictions.rows(first), found[0].rows.only(first), pool)
        predictions, rows = predictions.rows(rest), found[0].rows.only(rest)
        for one in found:
            one.predictions, one.rows = predictions, rows
    elif waiting:
        _fit_all(waiting, *_calibration_rows(waiting[0], path, reading, fitting, calibration), pool)
    return found


def _rule(text: str, predictions: Predictions, seed: int) -> SetRule:
    if Path(text).suffix == ".safetensors":
        return SetRule.load(text)
    return parse_rule(text, prior=lambda: predictions.prior, generator=seed, superclasses=predictions.superclasses)


def _fit_all(waiting: list[Prepared], rows: Predictions, there: Rows, pool: "Pool | None") -> None:
    for one in waiting:
        one.rule.check_reads(rows)
        if one.rule.needs_labels and rows.without_rows().target is None:
            raise InputError(
                f"{one.rule.text} is fitted on labelled rows, got rows without labels: name their array or column "
                "with --target-key, or call it target"
            )
        with noticed(one.warnings), Bar("calibrating", len(rows)) as bar:
            if pool is None:
                one.rule.fit(rows, progress=bar.at)
            else:
                cluster.fit(pool, one.rule, there, progress=bar.at)
        if one.rule.most is not None or one.rule.least:
            one.notes.append(f"{one.rule.text} on the calibration rows: {bound_cost(one.rule, rows).sentence()}")


def _calibration_rows(
    prepared: Prepared, path: Path, reading: Reading, fitting: Fitting, calibration: Path | None
) -> tuple[Predictions, Rows]:
    predictions = prepared.predictions
    if fitting.same_rows:
        prepared.warnings.append(f"{prepared.name}: fitted and measured on the same rows, so errors look smaller than they are")
    if calibration is None and fitting.same_rows:
        return predictions, prepared.rows
    if calibration is None:
        raise InputError(
            f"{prepared.rule.text} needs calibration rows: pass --calibration FILE, or --split 0.5 to use half of {path}"
        )
    rows = reading.load(calibration)
    check_quality(calibration, prepared.rule, rows)
    check_alike(calibration, rows, path, predictions)
    if not fitting.same_rows:
        check_apart(calibration, rows, path, predictions)
    return rows, reading.rows(calibration)


def check_alike(fitted_on: Path, rows: Predictions, path: Path, predictions: Predictions) -> None:
    """Raise an error unless both files have the same classes in the same order and the same link, and come from one network."""
    if rows.num_classes != predictions.num_classes:
        raise InputError(f"{fitted_on} has {rows.num_classes} classes and {path} has {predictions.num_classes}")
    check_same_labels(fitted_on, rows, path, predictions)
    if rows.classes and predictions.classes and rows.classes != predictions.classes:
        raise InputError(f"{fitted_on} and {path} name their classes differently, or in another order")
    if origin_of(rows)["link"] != origin_of(predictions)["link"]:
        raise InputError(
            f"{fitted_on} has the link {rows.link!r} and {path} has {predictions.link!r}: what is fitted on one does not apply "
            "to the other; give both the same link"
        )
    if rows.network_digest and predictions.network_digest and rows.network_digest != predictions.network_digest:
        raise InputError(
            f"{fitted_on} holds scores of another network than that of {path}: what is fitted on one does not apply to the "
            "other; write scores of the same classifier with shortlist predict"
        )


def check_same_labels(fitted_on: Path, rows: Predictions, path: Path, predictions: Predictions) -> None:
    """Raise an error if one file has exactly one label per row and the other any number."""
    targets = [one.without_rows().target for one in (rows, predictions)]
    kinds = ["one label" if is_single_label(target) else "any number of labels" for target in targets if target is not None]
    if len(kinds) < 2:
        return
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{fitted_on} has {kinds[0]} per row and {path} has {kinds[1]}: what is fitted on one does not apply to the other"
        )


def check_apart(fitted_on: Path, rows: Predictions, path: Path, predictions: Predictions) -> None:
    """Raise an error if the rows to measure on are those to fit on."""
    if fitted_on.samefile(path) or shares_rows(rows, predictions):
        raise InputError(
            f"{fitted_on} and {path} share rows: results on the rows that something was fitted on look better than they are; "
            "pass other rows, or --same-rows to accept that"
        )


def shares_rows(first: Predictions, second: Predictions) -> bool:
    """Whether two files have rows in common, judging by their ids, or by whether most scores are the same."""
    if _named(first) and _named(second):
        return not set(first.ids or ()).isdisjoint(second.ids or ())
    columns = torch.linspace(0, first.num_classes - 1, min(64, first.num_classes)).long()
    rows = [
        {row.tobytes() for block in part.blocks() for row in block.scores[:, columns].float().numpy()}
        for part in (first, second)
    ]
    # Saturated scores can make different rows look the same, so a few in common prove nothing.
    return len(rows[0] & rows[1]) > 0.5 * min(len(part) for part in rows)


def note_different_rows(prepared: Sequence[Prepared]) -> None:
    """Add a note to each file whose rows are not those of the first one, judging by ids and labels."""
    first = prepared[0]
    noted = {first.source}
    for one in prepared[1:]:
        difference = "" if one.source in noted else _difference(first.predictions, one.predictions)
        noted.add(one.source)
        if difference:
            one.notes.append(
                f"{one.source} and {first.source} have different rows ({difference}): compare their numbers with care"
            )


def _difference(first: Predictions, second: Predictions) -> str:
    """How the rows of two files differ; empty if they seem to be the same."""
    if len(first) != len(second):
        return f"{len(second):,} and {len(first):,}"
    target = second.target
    if _named(first) and _named(second):
        places = {name: row for row, name in enumerate(second.ids or ())}
        order = [places[name] for name in first.ids or () if name in places]
        if len(order) < len(first):
            return f"{len(order):,} of {len(first):,} are in both"
        target = None if target is None else target[torch.tensor(order)]
    if first.target is None or target is None:
        return ""
    if first.classes and second.classes and first.classes != second.classes:  # labels are compared by name
        from shortlist.data.class_lists import target_among

        try:
            target = target_among(target, second.classes, first.classes)
        except InputError:
            return "labels of other classes"
    if first.target.shape != target.shape:
        return ""
    relabelled = int((first.target != target).reshape(len(first), -1).any(1).sum())
    return f"{relabelled:,} of {len(first):,} have other labels" if relabelled else ""


def _named(predictions: Predictions) -> bool:
    """Whether the ids distinguish rows of different files: plain numbers, which start again in every file, do not."""
    return bool(predictions.ids) and not all(name.isdigit() for name in predictions.ids or ())


def short_names(paths: Sequence[Path]) -> list[str]:
    """Short names that distinguish the files."""
    stems = [path.resolve().name if path.is_dir() else path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
