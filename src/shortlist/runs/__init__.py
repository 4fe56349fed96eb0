"""Runs: one call from data to a trained classifier, and the folder that it leaves."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
