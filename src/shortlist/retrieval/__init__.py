"""Retrieval: ask for "fork and apple and not knife", and rows come ranked by the probability that all of it is true."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
