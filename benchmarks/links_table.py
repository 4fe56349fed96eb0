"""Fitted links beside netcal and scikit-learn, as tables of docs/benchmarks.md."""

import statistics
from typing import Any

from benchmarks.results_files import foot, newest

INTRO = (
    "Fitted links on the scores of two CIFAR-10 networks, one label per row, ten classes: probabilities in float32, fitted on "
    "n random rows, measured on 5,000 others. Mean over splits, ± half the range. Log-loss takes 1e-12 for probabilities that "
    "are exactly 0, which are counted; ECE is that of the top label, 15 bins of equal width; the Brier score is summed over "
    "labels."
)
COLUMNS = {"log-loss": ("nll", 3), "ECE": ("ece", 3), "Brier": ("brier", 3)}


def section() -> str:
    """A table for each network and number of rows."""
    lines = newest("links")
    if not lines:
        return ""
    return "\n".join(
        ["## Fitted links", "", INTRO, "", *(part for line in lines for part in (_table(line), "")), foot(lines[-1])]
    )


def _table(line: dict[str, Any]) -> str:
    heads = ["", *COLUMNS, "true labels with probability 0", "fit, ms"]
    rows = [f"{line['setting']}, {line['splits']} splits", "", f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for name, splits in line["contenders"].items():
        cells = [_cell([split[key] for split in splits], digits) for key, digits in COLUMNS.values()]
        zeros = statistics.mean(split["zeros"] for split in splits)
        fit = 1e3 * statistics.median(split["fit_s"] for split in splits)
        rows.append(f"| {name} | {' | '.join(cells)} | {zeros:.0f} | {fit:.1f} |")
    return "\n".join(rows)


def _cell(values: list[float], digits: int) -> str:
    return f"{statistics.mean(values):.{digits}f} ± {(max(values) - min(values)) / 2:.{digits}f}"
