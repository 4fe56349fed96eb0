from .data_pictures import ClassShares as ClassShares
from .display import Display as Display
from .displays import (
    EvaluationDisplay as EvaluationDisplay,
    GroupSizeHistogram as GroupSizeHistogram,
    Lorenz as Lorenz,
    Reliability as Reliability,
    SizeAccuracy as SizeAccuracy,
    SizeHistogram as SizeHistogram,
)
from .evaluation import Evaluation as Evaluation, evaluate as evaluate
from .loss_pictures import LossLevels as LossLevels, PartialLosses as PartialLosses
from .optimum import DistanceToOptimum as DistanceToOptimum, Optimum as Optimum
from .page import (
    headline as headline,
    provenance as provenance,
    render as render,
    worst_classes as worst_classes,
    write_report as write_report,
)
from .retrieval_pictures import QueryReliability as QueryReliability, RetrievalByLength as RetrievalByLength
from .sheet import contact_sheet as contact_sheet
from .table import Table as Table
from .training_pictures import TrainingCurves as TrainingCurves
