"""Fitted links for rows with several labels, as tables of docs/benchmarks.md."""

import statistics
from typing import Any

from benchmarks.label_links import NAME
from benchmarks.results_files import foot, newest

INTRO = (
    "Mulan's tables, a linear network trained with each loss on two thirds of the training rows; links fitted on "
    "the other third, measured on the test rows. Log-loss is the mean over labels, ECE that of all pairs of row "
    "and label in 15 bins, mAP over classes, *3 labels* the mean average precision of queries of three labels "
    "that must all be present. Mean over splits, ± standard deviation of the log-loss. Links start from the log- "
    "odds of the sigmoid, *of recovery* from those of `FocalRecovery`. Some features of birds hardly vary in "
    "training and far more in the test rows, so that its sigmoid alone is very wrong. [What follows from "
    "it](links.md#several-labels-a-row)."
)
OTHERS = ("ece", "map", "retrieval")


def section() -> str:
    """A table for each of Mulan's tables and each loss."""
    lines = newest(NAME)
    if not lines:
        return ""
    return "\n".join(
        [
            "## Links for several labels",
            "",
            INTRO,
            "",
            *(part for line in lines for part in (_table(line), "")),
            foot(lines[-1]),
        ]
    )


def _table(line: dict[str, Any]) -> str:
    what = f"{line['setting']}: {line['labels']} labels, fitted on {line['rows']} rows, {line['splits']} splits"
    rows = [what, "", "| | log-loss | ECE | mAP | 3 labels |", "|---|" + "---:|" * 4]
    for name, splits in line["links"].items():
        losses = [split["loss"] for split in splits]
        cells = [f"{statistics.mean(split[other] for split in splits):.3f}" for other in OTHERS]
        rows.append(f"| {name} | {statistics.mean(losses):.3f} ± {statistics.stdev(losses):.3f} | {' | '.join(cells)} |")
    return "\n".join(rows)
