"""Two files of rows compared in one sentence, whatever the order of their rows."""

import torch

from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.shift.watch import Watch

MOST = 2000  # rows of either file


def compared(rule: SetRule, reference: Predictions, rows: Predictions, *, level: float = 0.01, seed: int = 0) -> str | None:
    """A sentence that says whether rows are like the reference rows, or None where a watch does not take the rule.

    At most 2,000 rows of each are drawn and watched in an order drawn at random, so that files sorted by class may be compared.
    If both come from one source, the sentence says otherwise with probability at most ``level``.

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
    except InputError:
        return None
    told = f"{watch.rows:,} of these rows"
    if not watch.alarms:
        return f"{told} were compared with the calibration rows, and nothing differs (false alarms: {level:.2%})"
    differences = "; ".join(alarm.change.replace("before)", "of the calibration rows)") for alarm in watch.alarms)
    return f"{told} are not like the calibration rows: {differences}; what the rule promises may not hold for them"


def _drawn(rows: Predictions, seed: int) -> Predictions:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows.rows(order[:MOST])
