"""Numbers about a gate: how many rows it refused, what the other sets are worth, how well a quality tells rows apart."""

from collections.abc import Callable

from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.quantity import Quantity, always
from shortlist.metrics.outliers import RowScores, auroc


def _share(part: int, whole: int, *, labels: bool) -> Callable[[Evaluation], float | None]:
    """The ratio of two entries of the ``gate`` total, see :func:`shortlist.evaluation.tally.gate_counts`."""

    def measured(evaluation: Evaluation) -> float | None:
        counts = evaluation.totals.get("gate")
        if counts is None or (labels and not evaluation.labelled):
            return None
        return float(counts[part] / counts[whole])

    return measured


def _quality_auroc(evaluation: Evaluation) -> float | None:
    table = evaluation.totals.get("quality")
    if table is None or not 0 < float(table[1].sum()) < table.shape[1]:
        return None
    return float(auroc(RowScores(table[0], table[1] > 0)))


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

QUALITY = (
    Quantity(
        "auroc_quality",
        "AUROC, quality",
        "probability that the quality of a row with a label exceeds that of a row without one, ties counting half",
        _quality_auroc,
        form=".3f",
        group="rows without a label",
    ),
)
