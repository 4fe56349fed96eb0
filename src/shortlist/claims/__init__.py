"""Claims: what the papers say, as data; the experiments that decide it; the results, and the verdicts they give."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
