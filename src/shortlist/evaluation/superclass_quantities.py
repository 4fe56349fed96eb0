"""Quantities about superclasses: coverage and accuracy one level up, from the same sets and probabilities."""

import math
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.quantity import Quantity
from shortlist.sets.hierarchy import SurestNode


def _hits(evaluation: Evaluation) -> Tensor | None:
    """How many superclasses of labels are among those of the set of their row, and how many there are."""
    total = evaluation.totals.get("superclass_hits")
    return None if total is None else total.sum(1)


def _covered(*, single: bool) -> Callable[[Evaluation], float | None]:
    def measured(evaluation: Evaluation) -> float | None:
        return None if evaluation.single_label != single else _share(_hits(evaluation))

    return measured


def _covered_error(evaluation: Evaluation) -> float:
    return _binomial_error(_hits(evaluation))


def _top(evaluation: Evaluation) -> float | None:
    return _share(evaluation.totals.get("superclass_top"))


def _top_error(evaluation: Evaluation) -> float:
    return _binomial_error(evaluation.totals.get("superclass_top"))


def _held(evaluation: Evaluation) -> float | None:
    nodes = evaluation.totals.get("superclass_nodes")
    return None if nodes is None else float(nodes[0] / nodes[4])


def _answers(place: int) -> Callable[[Evaluation], float | None]:
    """Share of the answers of a rule that answers with nodes of the tree that are of one kind."""

    def measured(evaluation: Evaluation) -> float | None:
        nodes, rule = evaluation.totals.get("superclass_nodes"), evaluation.rule
        if nodes is None or rule is None or not isinstance(rule.ordering, SurestNode):
            return None
        return float(nodes[place] / nodes[4])

    return measured


def _share(counts: Tensor | None) -> float | None:
    if counts is None:
        return None
    hits, all_of_them = counts.tolist()
    return hits / all_of_them if all_of_them else math.nan


def _binomial_error(counts: Tensor | None) -> float:
    share = _share(counts)
    if counts is None or share is None or math.isnan(share):
        return math.nan
    return math.sqrt(share * (1 - share) / float(counts[1]))


SUPERCLASSES = tuple(
    replace(quantity, group="superclasses")
    for quantity in (
        Quantity(
            "superclass_coverage",
            "superclass coverage",
            "share of rows with a label of the right superclass in their set",
            _covered(single=True),
            _covered_error,
        ),
        Quantity(
            "superclass_recall",
            "superclass recall",
            "share of the superclasses of a row's labels, each counted once, that have a label in the set of the row",
            _covered(single=False),
        ),
        Quantity(
            "superclass_top1",
            "superclass top-1",
            "share of rows whose superclass is the one with the largest summed probability",
            _top,
            _top_error,
        ),
        Quantity("superclasses_in_set", "superclasses in a set", "mean number of superclasses in a set", _held, form=".2f"),
        Quantity("one_class", "answers: one class", "share of rows whose answer is one class", _answers(1)),
        Quantity(
            "one_superclass",
            "answers: one superclass",
            "share of rows whose answer is all classes of one superclass, which has more than one class",
            _answers(2),
        ),
        Quantity("every_class", "answers: everything", "share of rows whose answer is every class", _answers(3)),
    )
)
