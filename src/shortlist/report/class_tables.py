"""Tables of classes: those with the lowest coverage, and those with the largest calibration error."""

from shortlist.evaluation import Evaluation
from shortlist.metrics.accuracy import class_shares
from shortlist.report.group_tables import WORST
from shortlist.report.table import Table


def worst_classes(evaluation: Evaluation, n: int = WORST) -> Table:
    """The classes with the lowest coverage."""
    coverage = class_shares(evaluation.hits)
    present = ((evaluation.hits[1] > 0) & (coverage < 1)).nonzero().flatten()
    order = present[coverage[present].argsort(stable=True)][:n].tolist()
    counts = evaluation.train_counts
    columns = [
        "class",
        "coverage" if evaluation.single_label else "recall",
        "rows",
        *(["training examples"] if counts is not None else []),
    ]
    rows = [
        [
            evaluation.classes[label],
            float(coverage[label]),
            int(evaluation.hits[1, label]),
            *([int(counts[label])] if counts is not None else []),
        ]
        for label in order
    ]
    return Table(columns, rows, ["", ".1%", ",d", ",d"][: len(columns)])


def class_calibration(evaluation: Evaluation, n: int = WORST) -> Table:
    """The classes with the largest calibration error; :meth:`Evaluation.class_calibration` has all of them."""
    forms = {"labels": ",.0f", "probability": ".2%", "frequency": ".2%", "gap": "+.2%", "z": "+.1f", "ece": ".2%", "mce": ".1%"}
    titles = {"probability": "mean probability", "ece": "ECE", "mce": "MCE"}
    numbers = evaluation.class_numbers()
    order = numbers["ece"].argsort(descending=True, stable=True)[:n].tolist() if numbers else []
    rows = [[evaluation.classes[label], *(float(numbers[name][label]) for name in forms)] for label in order]
    return Table(["class", *(titles.get(name, name) for name in forms)], rows, ["", *forms.values()])
