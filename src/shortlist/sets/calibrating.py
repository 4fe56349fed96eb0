"""Fitting a rule on predictions, and keeping the sizes of its sets there beside it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from shortlist.predictions import Predictions
from shortlist.selection import count_rows
from shortlist.sets.rule import SetRule, origin_of
from shortlist.sets.sizes import SizeSummary

Blocks = Callable[[], Iterable[Predictions]]


def calibrate_rule(rule: SetRule, rows: Predictions, blocks: Blocks | None = None) -> SetRule:
    """Fit the rule on these predictions, then measure the sizes of its sets on the same rows.

    A rule with nothing to fit is only measured.

    Args:
        rule: what to fit; it is changed, and returned.
        rows: the calibration rows.
        blocks: a function that gives the rows in blocks, for whoever counts them; the predictions' own by default.

    >>> from shortlist.sets import average_k
    >>> rows = Predictions([[2.0, 0.0], [0.0, 1.0]], link="softmax")
    >>> calibrate_rule(average_k(1), rows).calibrated.mean
    1.0
    """
    rule.check_reads(rows)
    wanted = rows.blocks if blocks is None else blocks

    def read() -> Iterator[tuple[Any, Any]]:
        for block in wanted():
            yield block.plausibility(), block.target

    rule.fit(read)
    rule.origin = origin_of(rows) if rule.needs_fit else None  # what is not fitted goes with any link
    counts = torch.zeros(rows.num_classes + 1, dtype=torch.float64)
    for probs, _ in read():
        counts += count_rows(rule(probs)).bincount(minlength=len(counts))
    rule.calibrated = SizeSummary.of(counts)
    return rule
