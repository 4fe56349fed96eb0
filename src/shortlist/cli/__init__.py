"""The command line: ``shortlist train``, ``predict``, ``export``; ``sets``, ``evaluate``, ``report``, ``calibrate``; ``data``.

Exit codes: 0 done; 1 bad input, one sentence says what; 2 wrong usage; 3 done, with a warning, under ``--strict``.
"""

from shortlist.cli.main import app, main

__all__ = ["app", "main"]
