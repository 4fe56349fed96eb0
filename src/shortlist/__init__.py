"""Classifiers that answer with a set of labels: none, one, a short list, many.

>>> import shortlist
>>> rule = shortlist.sets.average_k(2)
"""

import lazy_loader

__version__ = "0.1.0"

# Rooms are imported when first used, as the stub beside this file lists them: ``import shortlist`` costs next to nothing.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
