"""Metrics: each a function of (sets or probs, target) and a streaming ``torchmetrics.Metric`` of the same name.

The state of a streaming metric has constant size, except where exactness needs every score (:class:`MeanAveragePrecision` over
classes, :class:`CalibrationError` in bins of equal mass, :class:`AverageKAccuracy` without calibration rows,
:class:`RetrievalMap`); each of these names its companion of constant size.
"""

from shortlist.metrics.accuracy import (
    AverageKAccuracy,
    SetAccuracy,
    ShotAccuracy,
    TopKAccuracy,
    average_k_accuracy,
    set_accuracy,
    shot_accuracy,
    top_k_accuracy,
)
from shortlist.metrics.calibration import CalibrationError, calibration_definition, calibration_error
from shortlist.metrics.confidence import MeanMaxConfidence, mean_max_confidence
from shortlist.metrics.curves import Curve, RankCurve, SizeAccuracyCurve
from shortlist.metrics.ranking import (
    BinnedMeanAveragePrecision,
    MeanAveragePrecision,
    TopNF1,
    mean_average_precision,
    top_n_f1,
)
from shortlist.metrics.retrieval import RetrievalCurve, RetrievalMap, retrieval_curve, retrieval_map
from shortlist.metrics.sizes import EmptyRate, SetPrecision, SetSize, empty_rate, set_precision, set_size

__all__ = [
    "AverageKAccuracy",
    "BinnedMeanAveragePrecision",
    "CalibrationError",
    "Curve",
    "EmptyRate",
    "MeanAveragePrecision",
    "MeanMaxConfidence",
    "RankCurve",
    "RetrievalCurve",
    "RetrievalMap",
    "SetAccuracy",
    "SetPrecision",
    "SetSize",
    "ShotAccuracy",
    "SizeAccuracyCurve",
    "TopKAccuracy",
    "TopNF1",
    "average_k_accuracy",
    "calibration_definition",
    "calibration_error",
    "empty_rate",
    "mean_average_precision",
    "mean_max_confidence",
    "retrieval_curve",
    "retrieval_map",
    "set_accuracy",
    "set_precision",
    "set_size",
    "shot_accuracy",
    "top_k_accuracy",
    "top_n_f1",
]
