"""The same work on a Ray cluster: fits and evaluations of rows where they are, scoring, training and tuning on many machines.

Everything here needs the extra ``shortlist[cluster]``; nothing else imports Ray. What comes out is what one process computes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
