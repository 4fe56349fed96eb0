"""Evaluation: every number about predictions and a set rule, from one pass over blocks of rows.

Training epochs, model cards, reports and the command line all take their numbers from here, so that a name always means the
same quantity. Nothing in this package draws.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
