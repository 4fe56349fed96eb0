"""The link that ``--method`` of ``shortlist calibrate`` asks for."""

import math
from typing import TYPE_CHECKING

from shortlist import cluster
from shortlist.cli.console import say, show
from shortlist.cluster.rows import Rows
from shortlist.links import Link, LinkChoice, Temperature, choose_link
from shortlist.links.choice import CALIBRATIONS, unfitted
from shortlist.predictions import Predictions
from shortlist.report import Table
from shortlist.tensors import is_single_label

if TYPE_CHECKING:
    from shortlist.cluster import Pool

AUTO = "auto"
METHODS = (*CALIBRATIONS, AUTO)


def fitted_link(
    method: str, base: Link | None, rows: Predictions, pool: "Pool | None" = None, there: Rows | None = None
) -> Link:
    """The link of this name, fitted on the rows; with ``auto`` the best of all, after a table of them.

    Args:
        method: its name.
        base: what it is fitted on top of.
        rows: with labels.
        pool: workers that fit it, if they can.
        there: the rows, as workers open them.
    """
    assert rows.without_rows().target is not None
    if pool is not None and there is not None and method == Temperature.kind:
        return cluster.fit_temperature(pool, Temperature(base), there)
    if pool is not None:
        say(f"{method} is fitted in this process, since its fit needs all rows at once; that of a temperature is shared")
    assert rows.target is not None
    if method != AUTO:
        return unfitted(method, base, single=is_single_label(rows.target)).fit(rows.scores, rows.target)
    choice = choose_link(rows.scores, rows.target, base)
    show(candidates(choice))
    return choice.link


def candidates(choice: LinkChoice) -> Table:
    """What was tried, the best first."""
    tried = sorted(choice.candidates, key=lambda one: (math.isnan(one.loss), one.loss))
    rows = [[one.name, one.loss, one.behind, one.error, "chosen" if one.name == choice.chosen else one.note] for one in tried]
    return Table(["link", "log-loss, 5 folds", "behind", "± error", ""], rows, ["", ".4f", ".4f", ".4f", ""])
