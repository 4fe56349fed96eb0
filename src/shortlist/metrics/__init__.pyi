from .accuracy import (
    average_k_accuracy as average_k_accuracy,
    coverage as coverage,
    set_accuracy as set_accuracy,
    shot_accuracy as shot_accuracy,
    shot_coverage as shot_coverage,
    superclass_coverage as superclass_coverage,
    top_k_accuracy as top_k_accuracy,
)
from .calibration import calibration_definition as calibration_definition, calibration_error as calibration_error
from .classwise import classwise_calibration_error as classwise_calibration_error
from .confidence import mean_max_confidence as mean_max_confidence
from .curves import Curve as Curve, rank_curve as rank_curve, size_accuracy_curve as size_accuracy_curve
from .outliers import outlier_auroc as outlier_auroc, outlier_fpr as outlier_fpr
from .proper import brier_decomposition as brier_decomposition, brier_score as brier_score, log_loss as log_loss
from .ranking import mean_average_precision as mean_average_precision, top_n_f1 as top_n_f1
from .retrieval import (
    RetrievalCurve as RetrievalCurve,
    evaluate_retrieval as evaluate_retrieval,
    logs_of as logs_of,
    retrieval_curve as retrieval_curve,
    retrieval_map as retrieval_map,
)
from .retrieval_scores import QueryScores as QueryScores, RetrievalScores as RetrievalScores
from .significance import CalibrationTest as CalibrationTest, calibration_test as calibration_test
from .sizes import empty_rate as empty_rate, set_precision as set_precision, set_size as set_size
from .slabs import worst_slab_coverage as worst_slab_coverage
from .smooth import smooth_calibration_error as smooth_calibration_error
from .strata import class_coverage_gap as class_coverage_gap, size_stratified_coverage as size_stratified_coverage
from .streaming import (
    BinnedMeanAveragePrecision as BinnedMeanAveragePrecision,
    CalibrationError as CalibrationError,
    ClasswiseCalibrationError as ClasswiseCalibrationError,
    MeanAveragePrecision as MeanAveragePrecision,
    MeanMaxConfidence as MeanMaxConfidence,
    OutlierAuroc as OutlierAuroc,
    OutlierFpr as OutlierFpr,
    RankCurve as RankCurve,
    RetrievalMap as RetrievalMap,
    SizeAccuracyCurve as SizeAccuracyCurve,
    SmoothCalibrationError as SmoothCalibrationError,
    TopNF1 as TopNF1,
)
from .streaming_proper import BrierDecomposition as BrierDecomposition, BrierScore as BrierScore, LogLoss as LogLoss
from .streaming_sets import (
    AverageKAccuracy as AverageKAccuracy,
    ClassCoverageGap as ClassCoverageGap,
    Coverage as Coverage,
    EmptyRate as EmptyRate,
    SetAccuracy as SetAccuracy,
    SetPrecision as SetPrecision,
    SetSize as SetSize,
    ShotAccuracy as ShotAccuracy,
    ShotCoverage as ShotCoverage,
    SizeStratifiedCoverage as SizeStratifiedCoverage,
    SuperclassCoverage as SuperclassCoverage,
    TopKAccuracy as TopKAccuracy,
)
