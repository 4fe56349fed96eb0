from .record import Predictions as Predictions
from .writer import PredictionsWriter as PredictionsWriter
