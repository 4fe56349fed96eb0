"""Two files of rows compared, whatever the order of their rows: one sentence, and what to do if they differ."""

from dataclasses import dataclass

import torch

from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.shift.alarms import Alarm, rows_to_fit
from shortlist.shift.watch import Watch

MOST = 2000  # rows of either file


@dataclass(frozen=True)
class Compared:
    """Whether rows are like the reference rows; as text, a sentence.

    Args:
        rows: how many rows were compared.
        level: the probability of a false alarm.
        alarms: what differs.
        advice: what to do, if something differs.
        refused: why the rows were not compared; empty if they were.
    """

    rows: int
    level: float
    alarms: tuple[Alarm, ...] = ()
    advice: str = ""
    refused: str = ""

    @property
    def differs(self) -> bool:
        """Whether the rows are not like the reference rows."""
        return bool(self.alarms)

    @property
    def sentence(self) -> str:
        """Everything in one line."""
        if self.refused:
            return f"these rows were not compared with the calibration rows: {self.refused}"
        told = f"{self.rows:,} of these rows"
        if not self.differs:
            return f"{told} were compared with the calibration rows, and nothing differs (false alarms: {self.level:.2%})"
        differences = "; ".join(alarm.change.replace("before)", "of the calibration rows)") for alarm in self.alarms)
        doubt = "what the rule promises may not hold for them"
        return f"{told} are not like the calibration rows: {differences}; {doubt}: {self.advice}"

    def __str__(self) -> str:
        return self.sentence


def compared(rule: SetRule, reference: Predictions, rows: Predictions, *, level: float = 0.01, seed: int = 0) -> Compared:
    """Whether rows are like the reference rows, and if not, what differs and what to do.

    At most 2,000 rows of each are drawn and watched in an order drawn at random, so that files sorted by class may be compared.
    If both come from one source, they differ with probability at most ``level``. Where a watch does not take the rule, such as
    one with a gate, the rows are not compared, and the sentence says why.

    Args:
        rule: fitted.
        reference: such as its calibration rows.
        rows: such as those of a report.
        level: of false alarms.
        seed: of the order.
    """
    try:
        watch = Watch(rule, _drawn(reference, seed), level=level)
        watch.add(_drawn(rows, seed + 1))
    except InputError as error:
        return Compared(0, level, refused=str(error))
    return Compared(watch.rows, watch.level, tuple(watch.alarms), _advice(watch) if watch.alarms else "")


def _drawn(rows: Predictions, seed: int) -> Predictions:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows.rows(order[:MOST])


def _advice(watch: Watch) -> str:
    """What to do about rows that differ: whether only the shares of the classes may have changed decides it."""
    labelled = "labelled " if watch.rule.needs_labels else ""
    rows = f"{rows_to_fit(watch.rule.alpha):,} {labelled}rows like them"
    again = f"fit the rule on {rows}, and retrain if its sets become too large"
    if [alarm.signal for alarm in watch.alarms] == ["class"]:
        return f"if only the shares of the classes changed, re-weight (shortlist shares); otherwise {again}"
    return f"look at some of them, then {again}"
