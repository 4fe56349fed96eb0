from .recipe import Recipe as Recipe
from .run import Trained as Trained, run_recipe as run_recipe, train as train
from .watching import Watcher as Watcher
