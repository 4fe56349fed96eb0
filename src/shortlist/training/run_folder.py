"""The folder of one training run: the names of its files, and how each is read and written.

========================= =======================================================================================
recipe.json               the resolved recipe, the versions of the software, the commit
metrics.jsonl             one line per epoch
checkpoint.safetensors    the state of training, or its last state once it has ended
classifier/               weights, configuration, class names, model card
val, calibration, test    predictions, one .safetensors each
optimum.json              the best possible result on the test rows, where it is known
report.html               the report
========================= =======================================================================================
"""

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.errors import InputError
from shortlist.files import write_text

if TYPE_CHECKING:  # not needed to find files, which is all that many commands do
    from shortlist.models.classifier import Classifier
    from shortlist.predictions import Predictions
    from shortlist.training.recipe import Recipe

RECIPE, METRICS, CLASSIFIER, OPTIMUM, REPORT = "recipe.json", "metrics.jsonl", "classifier", "optimum.json", "report.html"
CHECKPOINT, FAILED_BATCH = "checkpoint.safetensors", "failed-batch.safetensors"
VAL, CALIBRATION, TEST = "val", "calibration", "test"
SPLITS = (VAL, CALIBRATION, TEST)


class RunFolder:
    """One run on disk.

    Args:
        path: the folder; it need not exist yet.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @staticmethod
    def holds_run(path: str | Path) -> bool:
        """Whether a run was started in this folder."""
        return (Path(path) / RECIPE).is_file()

    @property
    def recipe(self) -> "Recipe":
        """What was trained."""
        from shortlist.training.recipe import Recipe

        path = self.path / RECIPE
        if not path.is_file():
            raise InputError(f"{self.path}: expected the folder of a run, which contains {RECIPE}")
        try:
            return Recipe.from_record(_read_json(path)["recipe"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    @property
    def network_record(self) -> dict[str, Any] | None:
        """The class and the factory of the user's own network; None for a network built from names."""
        record: dict[str, Any] | None = _read_json(self.path / RECIPE).get("network")
        return record

    def write_recipe(self, recipe: "Recipe", **more: Any) -> None:
        """Write the recipe, with more facts by name."""
        record = {"recipe": recipe.record(), **more}
        write_text(self.path / RECIPE, json.dumps(record, indent=2, ensure_ascii=False) + "\n")

    def check_new(self) -> None:
        """Raise an error unless a new run can be written here."""
        self._check_folder()
        if self.holds_run(self.path):
            raise InputError(f"{self.path} already holds a run: resume it, or choose another folder")
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
            raise InputError(f"{self.path} holds no run to resume: start a new one")
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
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    @property
    def splits(self) -> list[str]:
        """The splits that the run holds predictions for."""
        return [name for name in SPLITS if self._predictions_path(name).exists()]

    def predictions_path(self, split: str = TEST) -> Path:
        """The file of a split's predictions; an error if the run has not finished."""
        if split not in SPLITS:
            raise InputError(f"split: expected one of {', '.join(SPLITS)}; got {split!r}")
        return self._finished(self._predictions_path(split))

    def predictions(self, split: str = TEST) -> "Predictions":
        """The scores, labels and link of a split: ``val``, ``calibration`` or ``test``."""
        from shortlist.predictions import Predictions

        return Predictions.load(self.predictions_path(split))

    def write_predictions(self, split: str, predictions: "Predictions") -> None:
        """Write the predictions of a split."""
        predictions.save(self._predictions_path(split))

    @property
    def calibration_path(self) -> Path:
        """The predictions that rules are fitted on: the calibration split if the run has one, else validation."""
        own = self._predictions_path(CALIBRATION)
        return own if own.exists() else self.predictions_path(VAL)

    @property
    def classifier_path(self) -> Path:
        """The folder of the trained classifier; an error if the run has not finished."""
        return self._finished(self.path / CLASSIFIER)

    def write_classifier(self, classifier: "Classifier") -> None:
        """Write the trained classifier."""
        classifier.save(self.path / CLASSIFIER)

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
        return _read_json(path) if path.exists() else None

    def write_optimum(self, record: Mapping[str, Any]) -> None:
        """Write it beside the predictions."""
        write_text(self.path / OPTIMUM, json.dumps(dict(record)) + "\n")

    def remove_leftovers(self) -> None:
        """Remove temporary files of writes that were cut short."""
        stems = {name.partition(".")[0] for name in (RECIPE, METRICS, CLASSIFIER, OPTIMUM, REPORT, CHECKPOINT, FAILED_BATCH)}
        for entry in (entry for stem in (*stems, *SPLITS) for entry in self.path.glob(f".{stem}.*")):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)

    def how_to_resume(self, interrupt: KeyboardInterrupt) -> str:
        """What to tell the user after Ctrl-C: how far the run got, and the command that continues it."""
        command = f"shortlist train --resume --out {shlex.quote(str(self.path))}"
        if str(interrupt):  # training stopped between two steps
            return f"{interrupt}; the checkpoint was saved: continue with {command}"
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
        return path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"


def _nearest(folder: Path) -> Path:
    """The folder, or its closest parent that exists."""
    return next((above for above in (folder, *folder.parents) if above.exists()), Path())


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
