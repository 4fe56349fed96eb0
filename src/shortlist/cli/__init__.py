"""The command line: ``shortlist train``, ``predict``, ``export``; ``sets``, ``evaluate``, ``report``, ``calibrate``; ``data``.

Exit codes: 0 success; 1 bad input, explained in one sentence; 2 wrong usage; 3 success with a warning, under ``--strict``.
"""

from shortlist.cli.program import app, main

__all__ = ["app", "main"]
