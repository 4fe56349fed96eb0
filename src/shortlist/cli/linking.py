"""The link that ``--method`` of ``shortlist calibrate`` asks for."""

import math

from shortlist.cli.console import show
from shortlist.links import Link, LinkChoice, choose_link
from shortlist.links.choice import CALIBRATIONS, unfitted
from shortlist.predictions import Predictions
from shortlist.report import Table
from shortlist.tensors import is_single_label

AUTO = "auto"
METHODS = (*CALIBRATIONS, AUTO)


def fitted_link(method: str, base: Link | None, rows: Predictions) -> Link:
    """The link of this name, fitted on the rows; with ``auto`` the best of all, after a table of them."""
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
