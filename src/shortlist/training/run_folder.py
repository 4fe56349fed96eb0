"""The folder of one training run: the names of its files, and how each is read and written.

========================= =======================================================================================
recipe.json               the resolved recipe, the date, the versions of the software, the commit, a digest of the data
rows.safetensors          fingerprint of every row of the data, to tell what has changed when the run is resumed
metrics.jsonl             one line per epoch
checkpoint.safetensors    the state of training, or its last state once it has ended
classifier/               weights, configuration, class names, model card
val, calibration, test    predictions, one .safetensors each
results.json              digests of the predictions and of the classifier, to tell whether they are those of this run
optimum.json              the best possible result on the test rows, where it is known
report.html               the report
========================= =======================================================================================
"""

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.errors import InputError
from shortlist.files import OLD, folders_left_aside, write_text
from shortlist.training.history import checked_history
from shortlist.words import expected_one_of, shown

if TYPE_CHECKING:  # not needed to find files, which is all that many commands do
    from shortlist.models.classifier import Classifier
    from shortlist.predictions import Predictions
    from shortlist.training.fingerprint import DataFingerprint
    from shortlist.training.recipe import Recipe

RECIPE, METRICS, CLASSIFIER, OPTIMUM, REPORT = "recipe.json", "metrics.jsonl", "classifier", "optimum.json", "report.html"
CHECKPOINT, FAILED_BATCH = "checkpoint.safetensors", "failed-batch.safetensors"
ROWS, RESULTS = "rows.safetensors", "results.json"
SEALED = (".json", ".safetensors")  # files of a classifier that results.json covers
TRAIN, VAL, CALIBRATION, TEST = "train", "val", "calibration", "test"
SPLITS = (VAL, CALIBRATION, TEST)


class RunFolder:
    """One run on disk.

    Args:
        path: the folder; it need not exist yet.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._checked: dict[str, list[tuple[int, int]]] = {}  # files of results that were found to be this run's

    @staticmethod
    def holds_run(path: str | Path) -> bool:
        """Whether a run was started in this folder."""
        return (Path(path) / RECIPE).is_file()

    @property
    def recipe(self) -> "Recipe":
        """What was trained."""
        from shortlist.training.recipe import Recipe

        path = self.path / RECIPE
        record = self._record()
        try:
            return Recipe.from_record(record["recipe"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    @property
    def network_record(self) -> dict[str, Any] | None:
        """The class and the factory of the user's own network; None for a network built from names."""
        record = self._record().get("network")
        if record is not None and not isinstance(record, dict):
            raise InputError(f"cannot read {self.path / RECIPE}: network: expected a record, got {shown(record)}")
        return record

    @property
    def inputs_record(self) -> dict[str, Any] | None:
        """The record of what the user's own network reads; None for a network built from names."""
        record = self._record().get("inputs")
        if record is not None and not isinstance(record, dict):
            raise InputError(f"cannot read {self.path / RECIPE}: inputs: expected a record, got {shown(record)}")
        return record

    @property
    def provenance(self) -> dict[str, Any]:
        """When and with what the run began: ``date`` and ``versions``, as far as they are recorded."""
        record = self._record()
        versions = record.get("versions")
        return {"date": record.get("date"), "versions": versions if isinstance(versions, dict) else {}}

    def write_recipe(self, recipe: "Recipe", **more: Any) -> None:
        """Write the recipe, with more facts by name."""
        self._write_json(RECIPE, {"recipe": recipe.record(), **more})

    def add_to_record(self, **more: Any) -> None:
        """Add facts to those beside the recipe."""
        self._write_json(RECIPE, self._record() | more)

    def check_data(self, data: "DataFingerprint") -> None:
        """Raise an error if the data are not those that the run began with; the data of a new run are recorded."""
        record = self._record().get("data")
        if record is None and not self.checkpoint_path.exists():  # a new run, or one that died while it read the data
            data.save(self.path / ROWS)
            self.add_to_record(data=data.record())
            return
        if not isinstance(record, dict) or record.get("digest") != data.digest:
            raise data_changed(self.path, "run", data)

    def record_rows(self, data: "DataFingerprint") -> None:
        """Record which rows are trained on, where splits were drawn again; the data that the run began with stay the same."""
        data.save(self.path / ROWS)

    def count_trained(self, ids: Sequence[str]) -> int:
        """How many of these rows the run was trained on, as far as their ids tell: row numbers tell nothing."""
        from shortlist.training.fingerprint import DataFingerprint

        if not (self.path / ROWS).exists() or all(str(one).isdecimal() for one in ids):
            return 0
        return DataFingerprint.load(self.path / ROWS).count_in(TRAIN, ids)

    def discard(self) -> None:
        """Remove the files of a run that failed before its first step."""
        for name in (RECIPE, ROWS):
            (self.path / name).unlink(missing_ok=True)

    def check_new(self) -> None:
        """Raise an error unless a new run can be written here."""
        self._check_folder()
        if self.holds_run(self.path):
            raise InputError(f"{self.path} already holds a run: continue it with resume=True, or choose another folder")
        if self.path.exists() and any(not entry.name.startswith(".") for entry in self.path.iterdir()):
            raise InputError(f"{self.path}: expected a new or empty folder for the run, got one with files in it")
        there = _nearest(self.path)
        # Virtual file systems such as /proc look like folders but have no disk at all.
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK) or not shutil.disk_usage(there).total:
            what = "is not writable" if there.is_dir() else "is a file"
            raise InputError(f"cannot write {self.path}: {there} {what}: choose another folder")

    def check_resumable(self, recipe: "Recipe") -> None:
        """Raise an error unless this is a run of the same recipe."""
        self._check_folder()
        if not self.holds_run(self.path):
            raise InputError(f"{self.path} holds no run to resume: check the folder, or begin a run without resuming")
        changed = recipe.differences(self.recipe)
        if changed:
            shown = "; ".join(f"{name} {new!r} here, {old!r} there" for name, (new, old) in list(changed.items())[:5])
            raise InputError(
                f"{self.path} holds a run of another recipe ({shown}): resume with its own settings, or choose another folder"
            )

    def check_space(self, needed: int) -> None:
        """Raise an error unless the disk has this many bytes free."""
        free = shutil.disk_usage(_nearest(self.path)).free
        if free < needed:
            raise InputError(
                f"{self.path}: expected {needed:,} bytes of free space for checkpoints and the classifier, got {free:,}: free "
                "some space, or choose another folder"
            )

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dictionary per epoch: loss, learning rate, validation metrics, speed."""
        path = self.path / METRICS
        if not path.exists():
            return []
        try:
            return checked_history([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()])
        except (OSError, ValueError, RecursionError) as error:
            advice = ": remove it, and resume the run, which writes it again" if self.checkpoint_path.exists() else ""
            raise InputError(f"cannot read {path}: {error}{advice}") from error

    @property
    def splits(self) -> list[str]:
        """The splits that the run holds predictions for."""
        return [name for name in SPLITS if self._predictions_path(name).exists()]

    def predictions_path(self, split: str = TEST) -> Path:
        """The file of a split's predictions; an error if the run has not finished."""
        if split not in SPLITS:
            raise InputError(f"split: {expected_one_of(split, SPLITS)}; got {split!r}")
        return self._finished(self._predictions_path(split))

    def predictions(self, split: str = TEST) -> "Predictions":
        """The scores, labels and link of a split: ``val``, ``calibration`` or ``test``."""
        from shortlist.predictions import Predictions

        return Predictions.load(self.predictions_path(split))

    def write_predictions(self, split: str, predictions: "Predictions") -> None:
        """Write the predictions of a split."""
        predictions.save(self._predictions_path(split))
        self._seal(f"{split}.safetensors")

    @property
    def calibration_path(self) -> Path:
        """The predictions that rules are fitted on: the calibration split if the run has one, else validation."""
        own = self._predictions_path(CALIBRATION)
        return self.predictions_path(CALIBRATION if own.exists() else VAL)

    @property
    def classifier_path(self) -> Path:
        """The folder of the trained classifier; an error if the run has not finished."""
        return self._finished(self.path / CLASSIFIER)

    def write_classifier(self, classifier: "Classifier") -> None:
        """Write the trained classifier; if it is there already it stays, with a model card that may have been edited."""
        from shortlist.models.artefact import holds, save

        if not (self._is_sealed(CLASSIFIER) and holds(self.path / CLASSIFIER, classifier)):
            save(classifier, self.path / CLASSIFIER)
        self._seal(CLASSIFIER)

    @property
    def has_results(self) -> bool:
        """Whether all results of the training are there, as it wrote them; the classifier is the last of them."""
        names = [name for name in (CLASSIFIER, *(f"{split}.safetensors" for split in SPLITS)) if name in self._seals]
        return CLASSIFIER in names and all(self._is_sealed(name) for name in names)

    @property
    def checkpoint_path(self) -> Path:
        """Where the state of training is kept."""
        return self.path / CHECKPOINT

    @property
    def failed_batch_path(self) -> Path:
        """Where a batch goes whose loss was not finite."""
        return self.path / FAILED_BATCH

    @property
    def metrics_path(self) -> Path:
        """Where the history goes."""
        return self.path / METRICS

    @property
    def report_path(self) -> Path:
        """Where the report goes."""
        return self.path / REPORT

    def read_optimum(self) -> dict[str, Any] | None:
        """The record of the best possible result on the test rows, where it is known."""
        path = self.path / OPTIMUM
        return _read_record(path) if path.exists() else None

    def write_optimum(self, record: Mapping[str, Any]) -> None:
        """Write it beside the predictions."""
        write_text(self.path / OPTIMUM, json.dumps(dict(record)) + "\n")

    def put_back_classifier(self) -> None:
        """Where a process died while it replaced the classifier, give the one before its name again: it may be the last."""
        from shortlist.models.artefact import is_classifier

        aside = [folder for folder in folders_left_aside(self.path / CLASSIFIER) if is_classifier(folder)]
        if aside and not (self.path / CLASSIFIER).exists():
            max(aside, key=lambda folder: folder.stat().st_mtime).rename(self.path / CLASSIFIER)

    def remove_leftovers(self) -> None:
        """Remove what processes left that died while they replaced the classifier; once the checkpoint has been read.

        What was being written is removed by whatever writes there next; hidden files of the user are left alone.
        """
        from shortlist.models.artefact import is_own

        for folder in self.path.glob(f".{CLASSIFIER}.{OLD}.*"):
            if folder.is_dir() and all(is_own(entry) for entry in folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)

    def how_to_resume(self, reached: str = "") -> str:
        """What to tell the user after Ctrl-C or SIGTERM: how far the run got, and the command that continues it.

        Args:
            reached: how far, if training stopped between two steps; empty if it stopped at once.
        """
        command = f"shortlist train --resume --out {shlex.quote(str(self.path))}"
        if reached:
            return f"{reached}; the checkpoint was saved: continue with {command}"
        if self.checkpoint_path.exists():
            return f"stopped immediately; work since the last checkpoint is lost: continue with {command}"
        if self.holds_run(self.path):
            return f"stopped before the first checkpoint: {command} starts again"
        return "stopped before training began"

    def _check_folder(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: expected a folder for the run, got a file")

    def _predictions_path(self, split: str) -> Path:
        return self.path / f"{split}.safetensors"

    def _finished(self, path: Path) -> Path:
        if not self.holds_run(self.path):
            raise InputError(f"{self.path}: expected the folder of a run, which contains {RECIPE}")
        if not path.exists():
            command = f"shortlist train --resume --out {shlex.quote(str(self.path))}"
            raise InputError(f"{self.path}: the run has not finished ({path.name} is missing): continue with {command}")
        self._check_seal(path.name)
        return path

    @property
    def _seals(self) -> dict[str, Any]:
        """Digests of the files of results, by name."""
        path = self.path / RESULTS
        return _read_record(path) if path.exists() else {}

    def _is_sealed(self, name: str) -> bool:
        """Whether a file of results is there, as this run wrote it."""
        path = self.path / name
        return path.exists() and self._seals.get(name) == _digest(path)

    def _seal(self, name: str) -> None:
        """Record the digest of a file of results."""
        self._write_json(RESULTS, self._seals | {name: _digest(self.path / name)})

    def _check_seal(self, name: str) -> None:
        """Raise an error if a file of results is not the one that this run wrote: predictions of another run, say."""
        stamp = _stamp(self.path / name)
        if self._checked.get(name) == stamp:
            return
        if not self._is_sealed(name):
            raise InputError(
                f"{self.path / name} is not the file that this run wrote: put that file back, or write the results again with "
                f"shortlist train --resume --out {shlex.quote(str(self.path))}"
            )
        self._checked[name] = stamp

    def _record(self) -> dict[str, Any]:
        """The content of recipe.json."""
        path = self.path / RECIPE
        if not path.is_file():
            raise InputError(f"{self.path}: expected the folder of a run, which contains {RECIPE}")
        return _read_record(path)

    def _write_json(self, name: str, record: Mapping[str, Any]) -> None:
        write_text(self.path / name, json.dumps(dict(record), indent=2, ensure_ascii=False) + "\n")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"


def _nearest(folder: Path) -> Path:
    """The folder, or its closest parent that exists."""
    return next((above for above in (folder, *folder.parents) if above.exists()), Path())


def data_changed(folder: Path, what: str, data: "DataFingerprint") -> InputError:
    """The error for data that are not those that a run or a search in this folder began with; it says what has changed."""
    from shortlist.training.fingerprint import DataFingerprint

    try:
        changes = data.changes_since(DataFingerprint.load(folder / ROWS))
    except InputError:  # then it is only known that something has
        changes = ""
    return InputError(
        f"{folder}: the data are not those that this {what} began with{f' ({changes})' if changes else ''}: restore them to "
        f"resume it, or start a new {what} in another folder"
    )


def _sealed_files(path: Path) -> list[Path]:
    """The file, or those of a classifier's folder; its model card may be edited."""
    return sorted(file for file in path.iterdir() if file.suffix in SEALED) if path.is_dir() else [path]


def _stamp(path: Path) -> list[tuple[int, int]]:
    """Size and time of each file, by which a change is noticed without reading it."""
    return [(found.st_size, found.st_mtime_ns) for found in (file.stat() for file in _sealed_files(path))]


def _digest(path: Path) -> str:
    found = hashlib.blake2b()
    try:
        for each in _sealed_files(path):
            with each.open("rb") as file:
                found.update(hashlib.file_digest(file, "blake2b").digest())
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    return found.hexdigest()[:32]


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not isinstance(record, dict):
        raise InputError(f"cannot read {path}: expected a record, got {shown(record)}")
    return record
