"""Report: evaluations, the displays and tables made of them, and the page that holds them all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
