from .class_table import ClassTable as ClassTable
from .class_tables import class_calibration as class_calibration, worst_classes as worst_classes
from .comparing import paired_table as paired_table
from .confusions import ConfusionMatrix as ConfusionMatrix, pair_table as pair_table
from .data_plots import ClassShares as ClassShares
from .display import Display as Display
from .displays import (
    EvaluationDisplay as EvaluationDisplay,
    GroupSizeHistogram as GroupSizeHistogram,
    Lorenz as Lorenz,
    SizeCoverage as SizeCoverage,
    SizeHistogram as SizeHistogram,
)
from .evaluating import EvaluationReport as EvaluationReport, evaluate as evaluate
from .group_tables import shot_table as shot_table, superclass_table as superclass_table
from .loss_plots import LossLevels as LossLevels, PartialLosses as PartialLosses
from .model_plots import (
    MacroAgainstMicro as MacroAgainstMicro,
    ModelScatter as ModelScatter,
    TopkAgainstAverage as TopkAgainstAverage,
)
from .numbers import (
    headline as headline,
    number_groups as number_groups,
    provenance as provenance,
    quantities_table as quantities_table,
    with_intervals as with_intervals,
)
from .optimum import DistanceToOptimum as DistanceToOptimum, Optimum as Optimum
from .page import render as render, write_report as write_report
from .people import HumanSets as HumanSets, PersonResult as PersonResult, read_human_sets as read_human_sets
from .pictures import PagePictures as PagePictures
from .promises import promise_table as promise_table
from .published import Compared as Compared, Comparison as Comparison
from .reliability import (
    PairReliability as PairReliability,
    Reliability as Reliability,
    TopNReliability as TopNReliability,
)
from .retrieval_plots import QueryReliability as QueryReliability, RetrievalByLength as RetrievalByLength
from .sheet import contact_sheet as contact_sheet
from .size_coverage import CoverageBySize as CoverageBySize
from .table import Table as Table
from .training_plots import TrainingCurves as TrainingCurves
