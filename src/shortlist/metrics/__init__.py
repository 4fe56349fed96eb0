"""Metrics: each a function of (sets or probs, target) and a streaming ``torchmetrics.Metric`` of the same name.

The state of a streaming metric has constant size, except where exactness needs every score (:class:`MeanAveragePrecision`
over classes, :class:`CalibrationError` in bins of equal mass, :class:`AverageKAccuracy` without calibration rows,
:class:`RetrievalMap`); each of these names its companion of constant size.
"""

from typing import TYPE_CHECKING

from shortlist.lazy import loaded_on_use
from shortlist.metrics.accuracy import average_k_accuracy, set_accuracy, shot_accuracy, top_k_accuracy
from shortlist.metrics.calibration import calibration_definition, calibration_error
from shortlist.metrics.confidence import mean_max_confidence
from shortlist.metrics.curves import Curve, rank_curve, size_accuracy_curve
from shortlist.metrics.ranking import mean_average_precision, top_n_f1
from shortlist.metrics.retrieval import RetrievalCurve, evaluate_retrieval, logs_of, retrieval_curve, retrieval_map
from shortlist.metrics.retrieval_scores import QueryScores, RetrievalScores
from shortlist.metrics.sizes import empty_rate, set_precision, set_size

if TYPE_CHECKING:
    from shortlist.metrics.streaming import (
        AverageKAccuracy,
        BinnedMeanAveragePrecision,
        CalibrationError,
        EmptyRate,
        MeanAveragePrecision,
        MeanMaxConfidence,
        RankCurve,
        RetrievalMap,
        SetAccuracy,
        SetPrecision,
        SetSize,
        ShotAccuracy,
        SizeAccuracyCurve,
        TopKAccuracy,
        TopNF1,
    )

__all__ = [
    "AverageKAccuracy",
    "BinnedMeanAveragePrecision",
    "CalibrationError",
    "Curve",
    "EmptyRate",
    "MeanAveragePrecision",
    "MeanMaxConfidence",
    "QueryScores",
    "RankCurve",
    "RetrievalCurve",
    "RetrievalMap",
    "RetrievalScores",
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
    "evaluate_retrieval",
    "logs_of",
    "mean_average_precision",
    "mean_max_confidence",
    "rank_curve",
    "retrieval_curve",
    "retrieval_map",
    "set_accuracy",
    "set_precision",
    "set_size",
    "shot_accuracy",
    "size_accuracy_curve",
    "top_k_accuracy",
    "top_n_f1",
]

# Streaming forms bring torchmetrics with them, so they are loaded when first used.
__getattr__ = loaded_on_use(__name__, dict.fromkeys(__all__, "streaming"))
