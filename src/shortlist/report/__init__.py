"""Report: evaluations, the displays and tables made of them, and the page that holds them all."""

from typing import TYPE_CHECKING

from shortlist.lazy import loaded_on_use

if TYPE_CHECKING:
    from shortlist.report.data_pictures import ClassShares
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
    from shortlist.report.loss_pictures import LossLevels, PartialLosses
    from shortlist.report.optimum import DistanceToOptimum, Optimum
    from shortlist.report.page import headline, provenance, render, worst_classes, write_report
    from shortlist.report.retrieval_pictures import QueryReliability, RetrievalByLength
    from shortlist.report.sheet import contact_sheet
    from shortlist.report.table import Table
    from shortlist.report.training_pictures import TrainingCurves

# The file that holds each name, loaded when it is first used: a table needs neither torch nor a plot.
HOMES = {
    "ClassShares": "data_pictures",
    "Display": "display",
    "DistanceToOptimum": "optimum",
    "Evaluation": "evaluation",
    "EvaluationDisplay": "displays",
    "GroupSizeHistogram": "displays",
    "Lorenz": "displays",
    "LossLevels": "loss_pictures",
    "Optimum": "optimum",
    "PartialLosses": "loss_pictures",
    "QueryReliability": "retrieval_pictures",
    "Reliability": "displays",
    "RetrievalByLength": "retrieval_pictures",
    "SizeAccuracy": "displays",
    "SizeHistogram": "displays",
    "Table": "table",
    "TrainingCurves": "training_pictures",
    "contact_sheet": "sheet",
    "evaluate": "evaluation",
    "headline": "page",
    "provenance": "page",
    "render": "page",
    "worst_classes": "page",
    "write_report": "page",
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
    "QueryReliability",
    "Reliability",
    "RetrievalByLength",
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

__getattr__ = loaded_on_use(__name__, HOMES)
