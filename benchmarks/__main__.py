"""``python -m benchmarks [NAME …]``: run them, then write docs/benchmarks.md from the results."""

import sys

from benchmarks import (
    big_file,
    conformal,
    decoding,
    flora,
    flora_limit,
    flora_table,
    gradient_variance,
    imports,
    loss_table,
    losses,
    metrics,
    page,
    prediction,
    thresholds,
    transforms,
    votes,
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
    "flora": flora,
    "decoding": decoding,
    "transforms": transforms,
    "votes": votes,
}
ON_A_GPU = {"flora_limit": flora_limit}

names = sys.argv[1:] or [*BENCHMARKS, "page"]
for name in names:
    if name == "page":
        page.write()
        loss_table.write()
        flora_table.write()
    elif name in BENCHMARKS | ON_A_GPU:
        (BENCHMARKS | ON_A_GPU)[name].run()
    else:
        sys.exit(f"expected some of {', '.join([*BENCHMARKS, *ON_A_GPU, 'page'])}, got {name!r}")
