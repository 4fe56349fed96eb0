"""``python -m benchmarks [NAME …]``: run them, then write docs/benchmarks.md from the results."""

import sys

from benchmarks import (
    big_file,
    conformal,
    gradient_variance,
    imports,
    loss_table,
    losses,
    metrics,
    page,
    prediction,
    thresholds,
)

BENCHMARKS = {
    "thresholds": thresholds,
    "prediction": prediction,
    "conformal": conformal,
    "metrics": metrics,
    "losses": losses,
    "gradient_variance": gradient_variance,
    "imports": imports,
    "big_file": big_file,
}

names = sys.argv[1:] or [*BENCHMARKS, "page"]
for name in names:
    if name == "page":
        page.write()
        loss_table.write()
    elif name in BENCHMARKS:
        BENCHMARKS[name].run()
    else:
        sys.exit(f"expected some of {', '.join([*BENCHMARKS, 'page'])}, got {name!r}")
