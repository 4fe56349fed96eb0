"""Run: the results of a training, read from its folder."""

import dataclasses
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.evaluation.tally import BINS
from shortlist.models.artefact import load_about, load_inputs, load_rule
from shortlist.models.classifier import Classifier
from shortlist.predictions import Predictions
from shortlist.recipes.comparison import compare_with_published
from shortlist.report import Comparison, DistanceToOptimum, EvaluationReport, Optimum, evaluate, write_report
from shortlist.report.pictures import PagePictures
from shortlist.runs.facts import run_facts
from shortlist.sets import SetRule
from shortlist.shift import compared
from shortlist.training.run_folder import TEST, RunFolder


class Run(RunFolder):
    """A training run on disk: its classifier, predictions, history and report.

    Args:
        path: the folder that :func:`~shortlist.train` or ``shortlist train`` wrote.
        network: the module or factory of a network that is not one of ours, see :meth:`Classifier.load`.

    >>> run = Run("runs/leaves")
    >>> run.path.name
    'leaves'
    """

    def __init__(self, path: str | Path, network: Any = None):
        super().__init__(path)
        self._network = network

    @cached_property
    def classifier(self) -> Classifier:
        """The trained classifier with its link and its rule."""
        return Classifier.load(self.classifier_path, network=self._network)

    @cached_property
    def rule(self) -> SetRule:
        """The fitted rule of the classifier, read without building the network."""
        rule = load_rule(self.classifier_path)
        if rule is None:
            raise InputError(f"{self.classifier_path} has no set rule: pass one as rule=")
        return rule

    @property
    def optimum(self) -> Optimum | None:
        """The best possible result on the test rows; None unless the data come with their true class probabilities."""
        record = self.read_optimum()
        return None if record is None else Optimum.from_record(record)

    @property
    def remarks(self) -> Sequence[str]:
        """Remarks of the training on the data, the link and the rule, in sentences."""
        return [str(remark) for remark in load_about(self.classifier_path).get("remarks", [])]

    def evaluate(
        self,
        split: str = TEST,
        rule: SetRule | None = None,
        *,
        calibration_bins: int = BINS,
        top_n: int | None = None,
        shots: Sequence[int] | None = None,
    ) -> EvaluationReport:
        """Evaluate a rule on the predictions of a split.

        Args:
            split: ``"val"``, ``"calibration"`` or ``"test"``.
            rule: a fitted rule; that of the classifier by default.
            calibration_bins: as in :func:`shortlist.evaluate`.
            top_n: as in :func:`shortlist.evaluate`.
            shots: as in :func:`shortlist.evaluate`.
        """
        return evaluate(
            self.predictions(split),
            rule=rule or self.rule,
            name=self.recipe.name,
            calibration_bins=calibration_bins,
            top_n=top_n,
            shots=shots,
        )

    def distance_to_optimum(self) -> DistanceToOptimum | None:
        """The distance of the test result from the best possible one; None where that is unknown."""
        optimum = self.optimum
        return None if optimum is None else DistanceToOptimum(self.evaluate(), optimum)

    def comparison(self, evaluation: EvaluationReport | None = None) -> Comparison | None:
        """The published numbers of the experiment that this run repeats, beside those measured; None if there are none.

        Args:
            evaluation: of the test split by the rule of the classifier, if it was made before.
        """
        measured = self.evaluate() if evaluation is None else evaluation
        found = compare_with_published(self.recipe, measured, self.predictions(TEST), self.history)
        if found is None or self.network_record is None:
            return found
        return dataclasses.replace(found, differences={**found.differences, "backbone": ("your own", self.recipe.backbone)})

    def report(self, path: str | Path | None = None, *, pictures: Any = True) -> Path:
        """Write the report on the test split: galleries, charts, training curves, and where known published numbers.

        Args:
            path: an ``.html`` file; ``report.html`` in the run's folder by default.
            pictures: whether to show pictures of the test rows, which are looked up in the data of the run; or a dataset or a
                split to look them up in, or :class:`~shortlist.report.PagePictures`.

        Returns:
            The path of the report.
        """
        target = self.report_path if path is None else Path(path)
        evaluation = self.evaluate()
        shown, remark = self.page_pictures() if pictures is True else (pictures or None, None)
        told = compared(self.rule, Predictions.load(self.calibration_path), self.predictions(TEST))
        sentence = f"{evaluation.name}: {told}"
        write_report(
            evaluation,
            target,
            title=self.recipe.title,
            history=self.history,
            optimum=self.optimum,
            published=self.comparison(evaluation),
            warnings=[sentence] if told.differs else [],
            remarks=[*self.remarks, *([] if told.differs else [sentence]), *([remark] if remark else [])],
            pictures=shown,
            facts={evaluation.name: self.facts},
        )
        return target

    @property
    def facts(self) -> dict[str, str]:
        """What was trained, on what, when and with which versions, as text by name."""
        return run_facts(self)

    def page_pictures(self, **settings: Any) -> tuple[PagePictures | None, str | None]:
        """The pictures of the test rows, from the data that the recipe names, for a report.

        Args:
            **settings: those of :class:`~shortlist.report.PagePictures`.

        Returns:
            The pictures; or None, and a sentence on why there are none, unless the run reads features.
        """
        if not load_inputs(self.classifier_path).is_pictures:
            return None, None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is odd about the data was said when it was trained on
                data = open_dataset(self.recipe.data)
            found = PagePictures(data, **settings)
        except InputError as error:
            return None, f"Pictures are left out, because the data of the run were not found here ({error})."
        ids = self.predictions(TEST).ids
        if ids is None or not found.knows(ids[0]):
            return None, "Pictures are left out, because the data of the run no longer hold its test rows."
        return found, None
