"""The folder of a run, as the commands that read one see it."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.report.optimum import Optimum
from shortlist.sets import SetRule

if TYPE_CHECKING:
    from shortlist.training.recipe import Recipe

RECIPE, METRICS, OPTIMUM, REPORT = "recipe.json", "metrics.jsonl", "optimum.json", "report.html"
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Run:
    """A folder that ``shortlist train`` wrote."""

    folder: Path

    @staticmethod
    def at(path: Path) -> "Run | None":
        """The run in this folder; None where it is none."""
        return Run(path) if path.is_dir() and (path / RECIPE).is_file() else None

    @property
    def test(self) -> Path:
        """Predictions to measure on."""
        return self._part("test.safetensors")

    @property
    def calibration(self) -> Path:
        """Predictions to fit a rule on: rows of their own where there are any."""
        own = self.folder / "calibration.safetensors"
        return own if own.exists() else self._part("val.safetensors")

    @property
    def classifier(self) -> Path:
        """The classifier's folder."""
        return self._part("classifier")

    def _part(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            raise InputError(
                f"{self.folder}: the run has not ended ({name} is missing): go on with train --resume --out {self.folder}"
            )
        return path

    def rule(self) -> SetRule:
        """The classifier's rule, fitted."""
        from shortlist.models.artefact import load_rule

        rule = load_rule(self.classifier)
        if rule is None:
            raise InputError(f"{self.classifier} has no rule: name one with --rule")
        return rule

    def history(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        path = self.folder / METRICS
        if not path.exists():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    def optimum(self) -> Optimum | None:
        """The best that anybody could do on the test rows, where that is known."""
        path = self.folder / OPTIMUM
        if not path.exists():
            return None
        try:
            return Optimum.from_record(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    def recipe(self) -> "Recipe":
        """What was trained."""
        from shortlist.training.recipe import Recipe

        path = self.folder / RECIPE
        try:
            return Recipe.from_record(json.loads(path.read_text(encoding="utf-8"))["recipe"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    def remarks(self) -> list[str]:
        """What training found a person should know, in sentences."""
        from shortlist.models.artefact import load_about

        return [str(remark) for remark in load_about(self.classifier).get("remarks", [])]

    def stopped(self, how: KeyboardInterrupt) -> str:
        """What a person who pressed Ctrl-C should know: how far the run got, and how it goes on."""
        again = f"shortlist train --resume --out {shlex.quote(str(self.folder))}"
        if str(how):  # of a training that stopped between two steps
            return f"{how}, which the checkpoint holds: go on with {again}"
        if (self.folder / CHECKPOINT).exists():
            return f"stopped at once; what came after the last checkpoint is to be done again: go on with {again}"
        if (self.folder / RECIPE).exists():
            return f"stopped before the first checkpoint: {again} begins again"
        return "stopped before training began"

    def keep_optimum(self, optimum: Optimum) -> None:
        """Write it beside the predictions."""
        write_text(self.folder / OPTIMUM, json.dumps(optimum.record()) + "\n")
