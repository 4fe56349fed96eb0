"""Runs: from data to a trained classifier in one call, and the folder that a training writes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
