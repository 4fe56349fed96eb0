"""Report: evaluations, the displays and tables made of them, and the page that holds them all."""

import importlib
from typing import TYPE_CHECKING, Any

from shortlist.report.display import Display
from shortlist.report.displays import (
    EvaluationDisplay,
    GroupSizeHistogram,
    Lorenz,
    Reliability,
    SizeAccuracy,
    SizeHistogram,
)
from shortlist.report.evaluation import Evaluation, evaluate
from shortlist.report.optimum import DistanceToOptimum, Optimum
from shortlist.report.page import headline, provenance, render, worst_classes, write_report
from shortlist.report.table import Table
from shortlist.report.training_pictures import TrainingCurves

if TYPE_CHECKING:
    from shortlist.report.data_pictures import ClassShares
    from shortlist.report.loss_pictures import LossLevels, PartialLosses
    from shortlist.report.sheet import contact_sheet

# Pictures of losses and of data bring the losses and the data with them, so they are loaded when first used.
LATER = {
    "ClassShares": "data_pictures",
    "LossLevels": "loss_pictures",
    "PartialLosses": "loss_pictures",
    "contact_sheet": "sheet",
}

__all__ = [
    "ClassShares",
    "Display",
    "DistanceToOptimum",
    "Evaluation",
    "EvaluationDisplay",
    "GroupSizeHistogram",
    "Lorenz",
    "LossLevels",
    "Optimum",
    "PartialLosses",
    "Reliability",
    "SizeAccuracy",
    "SizeHistogram",
    "Table",
    "TrainingCurves",
    "contact_sheet",
    "evaluate",
    "headline",
    "provenance",
    "render",
    "worst_classes",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Parts that few need are loaded when they are first used."""
    if name in LATER:
        return getattr(importlib.import_module(f"shortlist.report.{LATER[name]}"), name)
    raise AttributeError(f"module 'shortlist.report' has no attribute {name!r}")
