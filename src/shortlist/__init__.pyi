from . import (
    claims as claims,
    cluster as cluster,
    data as data,
    evaluation as evaluation,
    kernels as kernels,
    links as links,
    losses as losses,
    methods as methods,
    metrics as metrics,
    models as models,
    operators as operators,
    recipes as recipes,
    report as report,
    retrieval as retrieval,
    runs as runs,
    sets as sets,
    shift as shift,
    sklearn as sklearn,
    training as training,
    web as web,
)
from .models import Classifier as Classifier
from .predictions import Predictions as Predictions
from .report import evaluate as evaluate
from .runs import Run as Run, train as train
from .shift import watch as watch

__version__: str
