"""What the calibration rows can promise: the range of the coverage of each conformal rule, beside what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from shortlist.evaluation import Evaluation
from shortlist.report.group_tables import WORST
from shortlist.report.table import Table
from shortlist.sets import class_laws, coverage_law

COLUMNS = ["rule", "calibration rows", "coverage asked for", "its coverage lies between", "measured here, between", "measured"]


@dataclass(frozen=True)
class Promise:
    """What the calibration of one rule promises: a sentence, and a table of the classes that are too small for it."""

    rule: str
    text: str
    too_small: Table | None = None
    left_out: int = 0


def promise_table(evaluations: Sequence[Evaluation]) -> Table:
    """The range of the coverage of each conformal rule, for all new rows and as measured on these, and the measured one.

    Both ranges hold in at least 95 of 100 calibrations if calibration rows and these rows come from the same distribution. A
    range ends at 100 % where sets hold more labels than the threshold asks for.
    """
    rows = []
    for evaluation in evaluations:
        law = coverage_law(evaluation.rule)
        if law is None:
            continue
        assert evaluation.rule is not None
        known = "hits" in evaluation.totals and evaluation.single_label and evaluation.rule.gate is None
        answered = int(evaluation.hits[1].sum()) if known else 0
        measured = evaluation.coverage if answered else None
        ranges = [_range(law.interval()), _range(law.measured_interval(answered)) if answered else None]
        name = evaluation.rule_text if len(evaluations) == 1 else f"{evaluation.name}, {evaluation.rule_text}"
        rows.append([name, law.n, 1 - float(law.level), *ranges, measured])
    return Table(COLUMNS, rows, ["", ",d", ".1%", "", "", ".1%"], flush_right=[False, True, True, True, True, True])


def promises(evaluations: Sequence[Evaluation]) -> list[Promise]:
    """The promise of each rule that makes one, in words."""
    found: dict[str, Promise] = {}
    for evaluation in evaluations:
        law, laws = coverage_law(evaluation.rule), class_laws(evaluation.rule)
        if law is not None:
            gated = evaluation.rule is not None and evaluation.rule.gate is not None
            text = law.sentence() + (" This is about the rows that the gate accepts." if gated else "")
            found.setdefault(f"{evaluation.rule_text} {law.n}", Promise(evaluation.rule_text, text))
        if laws is not None:
            small = laws.too_small()
            rows = [
                [evaluation.classes[label], laws.counts[label], laws.needed - laws.counts[label]] for label in small[:WORST]
            ]
            table = Table(["class", "calibration rows", "missing"], rows, ["", ",d", ",d"]) if rows else None
            promise = Promise(evaluation.rule_text, laws.sentence(), table, len(small) - len(rows))
            found.setdefault(f"{evaluation.rule_text} {laws.counts}", promise)
    return list(found.values())


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.1%} and {ends[1]:.1%}"
