"""Predictions: scores, and what is known about their rows and columns. The waist of the library."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
