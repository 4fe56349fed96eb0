"""Labels from votes: which user gave which label to which item, and the label of each item by one of several rules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
