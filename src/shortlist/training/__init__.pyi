from .callbacks import Callback as Callback
from .recipe import Recipe as Recipe
from .run import TrainingResult as TrainingResult, train as train
