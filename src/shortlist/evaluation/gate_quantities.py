"""Numbers about a gate: how many rows it refused, and what the sets of the others are worth."""

from collections.abc import Callable

from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.quantity import Quantity, always


def _share(part: int, whole: int, *, labels: bool) -> Callable[[Evaluation], float | None]:
    """The ratio of two entries of the ``gate`` total, see :func:`shortlist.evaluation.tally.gate_counts`."""

    def measured(evaluation: Evaluation) -> float | None:
        counts = evaluation.totals.get("gate")
        if counts is None or (labels and not evaluation.labelled):
            return None
        return float(counts[part] / counts[whole])

    return measured


GATE = (
    Quantity("refused", "refused", "share of rows that the gate refused", _share(1, 0, labels=False), headline=always),
    Quantity(
        "refused_in", "refused with a label", "share of rows with a label that the gate refused", _share(3, 2, labels=True)
    ),
    Quantity(
        "refused_out", "refused without", "share of rows without a label that the gate refused", _share(5, 4, labels=True)
    ),
    Quantity(
        "recall_answered",
        "recall of answered",
        "share of the labels of rows that the gate accepted that are in the set of their row",
        _share(7, 6, labels=True),
        headline=always,
    ),
)
