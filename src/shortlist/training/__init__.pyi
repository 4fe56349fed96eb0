from .callbacks import Callback as Callback
from .recipe import Recipe as Recipe
from .run import Trained as Trained, train as train
