"""Comparisons: paired differences of evaluations of the same rows, and what differs between the trainings behind them."""

from collections.abc import Mapping, Sequence

from shortlist.evaluation import Evaluation
from shortlist.evaluation.paired import PairedDifference, paired_differences
from shortlist.evaluation.quantities import QUANTITIES
from shortlist.metrics.binned_pairs import NORMAL_95
from shortlist.report.table import Table

POINTS = ("coverage", "recall", "top1")


def paired_table(evaluations: Sequence[Evaluation]) -> Table:
    """Each evaluation less the first, with a 95 % interval from the differences of the rows; none of other rows.

    The interval is that of a mean of differences: mean ± 1.96 · √Σ(dᵢ - mean)² / n, where dᵢ is what is gained on row i.
    """
    first, *others = evaluations
    found = [(other, paired_differences(first, other)) for other in others]
    names = list(dict.fromkeys(one.name for _, differences in found for one in differences))
    rows = [
        [f"{other.name} less {first.name}", differences[0].rows, *(_shown(differences, name) for name in names)]
        for other, differences in found
        if differences
    ]
    titles = [QUANTITIES[name].title for name in names]
    return Table(["difference", "rows", *titles], rows, ["", ",d"], [False, *[True] * (len(names) + 1)])


def _shown(differences: Sequence[PairedDifference], name: str) -> str | None:
    one = next((one for one in differences if one.name == name), None)
    if one is None:
        return None
    scale, digits, unit = (100, 1, " points") if name in POINTS else (1, 2, "")
    margin = NORMAL_95 * one.error * scale
    verdict = "" if abs(one.value * scale) > margin else " (within chance)"
    return f"{one.value * scale:+.{digits}f} ± {margin:.{digits}f}{unit}{verdict}"


def fact_tables(facts: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, str], Table | None]:
    """The facts that all share, and a table of those that differ: a row for each, a column for each evaluation.

    Args:
        facts: by the name of an evaluation, what is known about its training: data, backbone, epochs, date.
    """
    names = list(dict.fromkeys(name for one in facts.values() for name in one))
    values = {name: [one.get(name) for one in facts.values()] for name in names}
    shared = {name: found[0] for name, found in values.items() if found[0] is not None and len(set(found)) == 1}
    rows = [[name, *found] for name, found in values.items() if name not in shared]
    return shared, Table(["what differs", *facts], rows) if rows else None
