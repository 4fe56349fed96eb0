"""Predictions: scores, and whatever is known about their rows and columns. The waist of the library."""

from shortlist.predictions.record import Predictions

__all__ = ["Predictions"]
