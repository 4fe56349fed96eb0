"""Data: a garden whose optimum is known, readers of the papers' datasets, splits, transforms, benchmarks, labels from votes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
