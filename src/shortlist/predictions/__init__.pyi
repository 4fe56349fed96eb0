from .record import Predictions as Predictions
from .sharded import ShardedPredictions as ShardedPredictions
from .sharded_writer import ShardedWriter as ShardedWriter
from .writer import PredictionsWriter as PredictionsWriter
