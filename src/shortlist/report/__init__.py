"""Report: evaluations, the displays and tables made of them, and the page that holds them all."""

from shortlist.report.contact_sheet import contact_sheet
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
from shortlist.report.page import headline, provenance, render, worst_classes, write_report
from shortlist.report.table import Table

__all__ = [
    "ClassShares",
    "Display",
    "Evaluation",
    "EvaluationDisplay",
    "GroupSizeHistogram",
    "Lorenz",
    "LossLevels",
    "PartialLosses",
    "Reliability",
    "SizeAccuracy",
    "SizeHistogram",
    "Table",
    "contact_sheet",
    "evaluate",
    "headline",
    "provenance",
    "render",
    "worst_classes",
    "write_report",
]
