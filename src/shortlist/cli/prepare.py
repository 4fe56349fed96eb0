"""From options to predictions and a fitted rule: the first step of ``sets``, ``evaluate`` and ``report``."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist import cluster
from shortlist.cli.alike import check_alike, check_apart
from shortlist.cli.class_files import read_class_names
from shortlist.cli.console import Bar, noticed, say, warn
from shortlist.cli.counting import MISSING, Counted, CountKeys, by_option
from shortlist.cli.engines import LOCAL, Engine
from shortlist.cli.grouped import grouped
from shortlist.cli.runs import run_at
from shortlist.cluster.rows import Rows
from shortlist.errors import InputError
from shortlist.files import similar_paths, without_links
from shortlist.links import Softmax
from shortlist.predictions import Predictions
from shortlist.predictions.arrays import labels_beside
from shortlist.predictions.columns import column_list
from shortlist.predictions.parts import MANIFEST, is_parts_folder
from shortlist.predictions.storage import load, unread_columns
from shortlist.predictions.stored import Keys
from shortlist.sets import SetRule, SizeSummary, bound_cost, parse_rule
from shortlist.sets.gates import SHARPNESS
from shortlist.sets.p_values import why_none
from shortlist.sets.text import column_in
from shortlist.words import counted, quoted

if TYPE_CHECKING:
    from shortlist.cluster import Pool

NO_TARGET = "expected a target under"  # how an error begins for a file without the target that was named
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
    counts: CountKeys = field(default_factory=CountKeys)
    target_optional: bool = False  # of rows that nothing is fitted or measured on

    def load(self, path: Path) -> Predictions:
        """The predictions of one file. Its link must be known: it is never guessed."""
        check_there(path)
        if path.is_dir() and not is_parts_folder(path):
            raise InputError(f"{path}: expected a file of scores, got a folder: write one with shortlist predict")
        found: list[str] = []
        with noticed(found), _parameters_as_options():
            predictions = self._loaded(path)
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

    def load_new(self, path: Path) -> tuple[Predictions, "Reading"]:
        """The same for rows whose labels are not needed, and how they were read: the target that was named may be missing."""
        try:
            return self.load(path), self
        except InputError as error:
            if self.target_key is None or NO_TARGET not in str(error):
                raise
        without = replace(self, target_key=None)
        return without.load(path), without

    def grouped(self, path: Path, rows: Predictions, rule: SetRule) -> Predictions:
        """The rows of a file that was read before, their groups spelt as those of a fitted rule: 1.10 is no 1.1 if both are."""
        return grouped(path, rows, rule, self.keys())

    def with_columns(self, path: Path, columns: tuple[str, ...]) -> Predictions:
        """The rows of a file that was read before, again with these columns of numbers; their labels may be missing."""
        keys = replace(self.keys(), columns=column_list(columns), numbers=columns)
        with noticed([]):  # was said when it was read first
            try:
                return self._read(path, keys)
            except InputError as error:
                if self.target_key is None or NO_TARGET not in str(error):
                    raise
            return self._read(path, replace(keys, target=None))

    def _loaded(self, path: Path) -> Predictions:
        """With the columns of weights, if the file has them: only calibration rows need them."""
        keys = self.keys()
        if self.counts.columns:
            columns = column_list((*self.columns, *self.counts.columns))
            try:
                return self._read(path, replace(keys, columns=columns, numbers=self.counts.columns))
            except InputError as error:
                if MISSING not in str(error):
                    raise
        return self._read(path, keys)

    def keys(self) -> Keys:
        """The names of what is read."""
        return Keys(
            self.scores_key,
            self.target_key,
            self.ids_key,
            self.quality_key,
            self.no_label,
            column_list(self.columns),
            votes=self.counts.votes,
        )

    def _read(self, path: Path, keys: Keys) -> Predictions:
        return load(path, keys, self.link, self._class_names())

    def _class_names(self) -> list[str] | None:
        return None if self.classes is None else read_class_names(self.classes)

    def counted(self, path: Path, rows: Predictions) -> Counted:
        """What the rows of a file count for."""
        return self.counts.of(path, rows, self.with_columns)

    def _keywords(self) -> dict[str, Any]:
        found = {"link": self.link, "classes": self._class_names(), "columns": self.columns}
        return found | {name: getattr(self, name) for name in KEYS}

    def say_unread(self, path: Path) -> None:
        """Say which columns of a file of another program are not in what was read, before it is written again without them."""
        if left := unread_columns(path, self.keys()):
            passed = counted(len(left), "column is", "columns are")
            say(f"{path}: {passed} not kept ({quoted(left, 4)}): pass --keep for each that is wanted")

    def rows(self, path: Path) -> Rows:
        """The same file, as the workers of a cluster open it."""
        return Rows.at(path, **self._keywords())

    def check_labels_apart(self, paths: Sequence[Path], calibration: Sequence[Path]) -> None:
        """Raise an error if one .npy file of labels would be taken for those of rows to fit on and of other rows."""
        key = self.target_key
        if key is None:
            return
        labels = {without_links(labels_beside(path, key)): path for path in paths if path.suffix.lower() == ".npy"}
        for path in calibration:
            other = labels.get(without_links(labels_beside(path, key))) if path.suffix.lower() == ".npy" else None
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


def check_p_values(rule: SetRule) -> None:
    """Raise an error if a rule has no p-values."""
    reason = why_none(rule)
    if reason is None and rule.fitted and rule.kept is None:
        reason = (
            f"expected a rule that kept the values of its calibration rows, got {rule.text} without: fit it here, or save it "
            "with --p-values"
        )
    if reason is not None:
        raise InputError(f"--p-values: {reason}")


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
    p_values: bool = False  # whether rules keep the values of their calibration rows

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

    def match_groups(self, path: Path, reading: Reading) -> None:
        """Spell the groups of the rows of this file as the fitted rule does."""
        if (spelt := reading.grouped(path, self.predictions, self.rule)) is not self.predictions:
            self.predictions, self.rows = spelt, Rows.of(spelt)

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
    new = reading.target_optional and calibration is not None and not fitting.same_rows
    predictions, reading_of_new = reading.load_new(path) if new else (reading.load(path), reading)
    if not len(predictions):
        raise InputError(f"{path}: expected rows, got none")
    found = []
    for given in rules:
        text = given if isinstance(given, str) else given.text
        called = ", ".join(filter(None, [name, text])) if len(rules) > 1 else name or path.stem
        remarks: list[str] = []
        with noticed(remarks):
            rule = _rule(given, predictions, fitting.seed) if isinstance(given, str) else given
        found.append(Prepared(called, name or path.stem, predictions, rule, reading_of_new.rows(path), warnings=remarks))
    for one in found:
        check_quality(path, one.rule, predictions)
        if fitting.p_values:
            check_p_values(one.rule)
    waiting = [one for one in found if one.rule.needs_fit and not one.rule.fitted]
    if reading.counts and not waiting:
        raise InputError("--weights-key and --votes-key: expected a rule that is fitted here, got none")
    for one in found:
        one.warnings += [f"{one.rule.text}: {note}" for note in one.rule.notes]
        if one.rule.fitted and one.rule.needs_fit:
            one.match_groups(path, reading_of_new)
            one.rule.check_origin(one.predictions)
    if fitting.split is not None:
        first, rest = predictions.split_rows(fitting.split, seed=fitting.seed)
        # Freed before the rest is read, so that a large file is in memory only once.
        counted = reading.counted(path, predictions).rows(first)
        there = reading_of_new.rows(path)
        _fit_all(waiting, predictions.rows(first), there.only(first), counted, pool, fitting.p_values)
        spelt = {n: one.predictions.rows(rest) for n, one in enumerate(found) if one.predictions is not predictions}
        predictions, there = predictions.rows(rest), there.only(rest)
        for n, one in enumerate(found):
            one.predictions, one.rows = (spelt[n], Rows.of(spelt[n])) if n in spelt else (predictions, there)
    elif waiting:
        _fit_all(waiting, *_calibration_rows(waiting[0], path, reading, fitting, calibration), pool, fitting.p_values)
        for one in waiting:
            one.match_groups(path, reading_of_new)
    return found


def _rule(text: str, predictions: Predictions, seed: int) -> SetRule:
    if Path(text).suffix == ".safetensors":
        return SetRule.load(text)
    return parse_rule(text, prior=lambda: predictions.prior, generator=seed, superclasses=predictions.superclasses)


def _fit_all(
    waiting: list[Prepared], rows: Predictions, there: Rows, counted: Counted, pool: "Pool | None", keep: bool
) -> None:
    counted.check_in_one_place(pool)
    for one in waiting:
        one.rule.check_reads(rows)
        if one.rule.needs_labels and counted.votes is None and rows.without_rows().target is None:
            raise InputError(
                f"{one.rule.text} is fitted on labelled rows, got rows without labels: name their array or column "
                "with --target-key, or call it target"
            )
        with noticed(one.warnings), Bar("calibrating", len(rows)) as bar, by_option():
            if pool is None:
                one.rule.fit(rows, progress=bar.at, keep=keep, **counted.keywords())
            else:
                cluster.fit(pool, one.rule, there, progress=bar.at)
        if one.rule.most is not None or one.rule.least:
            one.notes.append(f"{one.rule.text} on the calibration rows: {bound_cost(one.rule, rows).sentence()}")


def _calibration_rows(
    prepared: Prepared, path: Path, reading: Reading, fitting: Fitting, calibration: Path | None
) -> tuple[Predictions, Rows, Counted]:
    predictions = prepared.predictions
    if fitting.same_rows:
        prepared.warnings.append(f"{prepared.name}: fitted and measured on the same rows, so errors look smaller than they are")
    if calibration is None and fitting.same_rows:
        return predictions, prepared.rows, reading.counted(path, predictions)
    if calibration is None:
        raise InputError(
            f"{prepared.rule.text} needs calibration rows: pass --calibration FILE, or --split 0.5 to use half of {path}"
        )
    rows = reading.load(calibration)
    check_quality(calibration, prepared.rule, rows)
    check_alike(calibration, rows, path, predictions)
    if not fitting.same_rows:
        check_apart(calibration, rows, path, predictions)
    return rows, reading.rows(calibration), reading.counted(calibration, rows)


def short_names(paths: Sequence[Path]) -> list[str]:
    """Short names that distinguish the files."""
    stems = [path.resolve().name if path.is_dir() else path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
