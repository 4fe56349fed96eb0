from .evaluation import Evaluation as Evaluation
from .measuring import measure as measure
from .quantity import Quantity as Quantity
from .selections import card_numbers as card_numbers, validation_numbers as validation_numbers
from .shards import evaluate_shards as evaluate_shards
from .shots import ShotGroup as ShotGroup
