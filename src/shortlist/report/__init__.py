"""Report: evaluations, the displays and tables made of them, and the page that holds them all."""

from shortlist.report.displays import (
    Display,
    GroupSizeHistogram,
    Lorenz,
    Reliability,
    SizeAccuracy,
    SizeHistogram,
)
from shortlist.report.evaluation import Evaluation, evaluate
from shortlist.report.page import headline, provenance, render, worst_classes, write_report
from shortlist.report.table import Table

__all__ = [
    "Display",
    "Evaluation",
    "GroupSizeHistogram",
    "Lorenz",
    "Reliability",
    "SizeAccuracy",
    "SizeHistogram",
    "Table",
    "evaluate",
    "headline",
    "provenance",
    "render",
    "worst_classes",
    "write_report",
]
