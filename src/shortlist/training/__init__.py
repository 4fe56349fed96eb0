"""Training: one loop, from a recipe to a classifier, its predictions and its history."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
