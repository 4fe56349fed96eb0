"""Measuring: predictions and a rule → an evaluation, in one pass over blocks of rows."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from shortlist.checks import flag, whole
from shortlist.errors import InputError
from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.galleries import galleries_of
from shortlist.evaluation.looking import Found, Looking
from shortlist.evaluation.row_lookup import RowLookup
from shortlist.evaluation.superclasses import superclasses_of
from shortlist.evaluation.tally import BINS, wanted_totals
from shortlist.evaluation.worst_slab import FEWEST_ROWS, WorstSlab
from shortlist.metrics import mean_average_precision
from shortlist.metrics.accuracy import check_edges
from shortlist.metrics.ranking import binned_precision, binned_precision_bounds
from shortlist.metrics.totals import ratio
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.sets.hierarchy import superclass_numbers
from shortlist.tensors import Array, Probs, is_single_label
from shortlist.words import listed

MOST_BINS = 1000
TOP_N = 4  # Liao, section V-C


def measure(
    predictions: Predictions,
    rule: SetRule | None = None,
    *,
    name: str = "predictions",
    source: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    only: frozenset[str] | None = None,
    k: int = 1,
    calibration_bins: int = BINS,
    top_n: int | None = None,
    shots: Sequence[int] | None = None,
    by: Sequence[str] = (),
    bounded: bool = False,
    across: Callable[[Looking], Found] | None = None,
) -> Evaluation:
    """Apply a fitted rule to predictions and measure its sets and the probabilities behind them.

    Args:
        predictions: with or without a target; without one only set sizes are known.
        rule: fitted, or one that needs no fit; None measures the probabilities alone.
        name: what tables call it.
        source: what plots of the scores alone call it, if several rules share them; the name by default.
        progress: callback, called with the number of rows done after each block.
        only: names of the totals to compute (see :data:`shortlist.evaluation.tally.TOTALS`); all that are defined by default.
        k: set size of the ``top_hits`` total.
        calibration_bins: number of bins of equal width of calibration errors, reliability diagrams and the calibration test.
        top_n: calibration errors and macro F1 over the n most probable labels of each row are measured too; by default 4 for
            rows with several labels (Liao, section V-C), and not at all for rows with one.
        shots: edges of the groups of classes by number of training examples, as in :func:`shortlist.metrics.shot_coverage`:
            ``(10, 50, 500, 2000)`` has five groups; by default few (< 20), medium (20–100) and many (> 100). Needs
            ``train_counts``.
        by: columns of the predictions by whose values :meth:`Evaluation.by_column` counts; that of the rule is added.
        bounded: whether nothing is kept of single rows, so that memory, and messages on a cluster, do not grow with the rows.
            What needs them is left out (the test of calibration, telling rows without a label, coverage by columns, comparisons
            row by row), and mAP over classes is computed from histograms, with bounds on the exact value.
        across: makes the pass over the rows, where other processes make it; by default it is made here.

    >>> from shortlist.sets import threshold
    >>> predictions = Predictions([[0.7, 0.3], [0.6, 0.4]], target=[0, 1], link="identity")
    >>> measure(predictions, threshold(0.5)).coverage
    0.5
    """
    calibration_bins = whole(1, MOST_BINS)("calibration_bins", calibration_bins)
    top_n = _labels_counted(predictions, top_n)
    shots = _checked_shots(predictions, shots)
    if not len(predictions):
        raise InputError("expected rows to evaluate, got none")
    columns = _columns_by(predictions, rule, by)
    if rule is not None:
        rule.check_reads(predictions)
        rule.check_origin(predictions)
    superclasses = superclasses_of(predictions, rule)
    groups = None if superclasses is None else superclass_numbers(superclasses).to(predictions.without_rows().scores.device)
    names = tuple(wanted_totals(predictions, rule, only, top_n, bounded=flag("bounded", bounded)))
    looking = Looking(
        totals=names,
        rule=rule,
        classes=predictions.num_classes,
        probabilities=predictions.link is not None,
        everything=only is None,
        keeps="histograms" not in names and "examples" in names and across is None,
        k=k,
        bins=calibration_bins,
        top_n=top_n,
        shots=shots,
        groups=groups,
    )
    found = looking.at(predictions.blocks(), progress=progress) if across is None else across(looking)
    lookup, totals = RowLookup(predictions, rule), found.tally.totals
    return Evaluation(
        name=name,
        rule=rule,
        classes=tuple(predictions.class_names),
        single_label=predictions.target is None or is_single_label(predictions.target),
        labelled=predictions.target is not None,
        rows=found.tally.rows,
        totals=totals,
        mean_average_precision=_mean_average_precision(predictions, totals, found.probs) if "examples" in names else {},
        train_counts=predictions.train_counts,
        galleries=() if only is not None else galleries_of(found.picker, lookup),
        source=source or name,
        details=_details(predictions, rule),
        notes=[] if rule is None else [*rule.notes],
        calibration_bins=calibration_bins,
        top_n=top_n,
        shots=shots,
        superclasses=superclasses,
        confusions=found.confusions if only is None and predictions.target is not None else None,
        lookup=lookup if only is None else None,
        slab=_slab(predictions, rule) if only is None else None,
        ids=predictions.ids,
        columns=columns,
    )


def _columns_by(predictions: Predictions, rule: SetRule | None, by: Sequence[str]) -> dict[str, Array]:
    """The columns to count by: those that were asked for, and that of the rule."""
    names = dict.fromkeys([by] if isinstance(by, str) else by)
    missing = next((name for name in names if name not in predictions.columns), None)
    if missing is not None:
        known = listed(list(predictions.columns)) or "none"
        raise InputError(f"by: expected a column of the predictions ({known}), got {missing!r}")
    if rule is not None and rule.column is not None:
        names |= {rule.column: None}
    return {name: predictions.columns[name] for name in names}


def _slab(predictions: Predictions, rule: SetRule | None) -> WorstSlab | None:
    """What finds the worst slab, of enough rows with labels and probabilities."""
    known = predictions.target is not None and predictions.link is not None and len(predictions) >= FEWEST_ROWS
    return WorstSlab(predictions, rule) if known and rule is not None else None


def _checked_shots(predictions: Predictions, shots: Sequence[int] | None) -> tuple[int, ...] | None:
    """The edges, if there are training counts to group classes by."""
    edges = check_edges(shots, "shots")
    if edges is not None and predictions.train_counts is None:
        raise InputError(
            "shots: expected predictions with the number of training examples of each class, got none: set their train_counts"
        )
    return edges


def _labels_counted(predictions: Predictions, top_n: int | None) -> int | None:
    """n of the top n, or its default."""
    if top_n is not None:
        return whole(1)("top_n", top_n)
    return None if predictions.target is None or is_single_label(predictions.target) else TOP_N


def _mean_average_precision(predictions: Predictions, totals: Mapping[str, Tensor], kept: list[Probs]) -> dict[str, float]:
    """mAP by class and by example; beyond the exact limit by class from histograms, with bounds on the exact value."""
    by_example = float(ratio(totals["examples"]))
    if "histograms" not in totals:
        # Other processes keep none: it is less to read them here than to send them.
        every = kept or [block.plausibility() for block in predictions.blocks()]
        by_class = mean_average_precision(torch.cat(every), predictions.target)
        return {"map_class": float(by_class), "map_example": by_example}
    histograms = totals["histograms"]
    low, high = binned_precision_bounds(histograms)
    bounds = {"map_class_low": float(low), "map_class_high": float(high)}
    return {"map_class": float(binned_precision(histograms)), "map_example": by_example} | bounds


def _details(predictions: Predictions, rule: SetRule | None) -> dict[str, str]:
    """Where the numbers come from: link, threshold and calibration rows."""
    found = {"link": "none" if predictions.link is None else repr(predictions.link)}
    if rule is not None and rule.threshold is not None:
        several = rule.threshold.ndim > 0
        found["threshold"] = f"{len(rule.threshold)}, one per class" if several else f"{float(rule.threshold):.6g}"
    if rule is not None and rule.gate is not None and rule.gate.threshold is not None:
        found["gate"] = f"{rule.gate.by} above {float(rule.gate.threshold):.6g}"
    if rule is not None and rule.calibrated is not None:
        found["fitted on"] = f"{rule.calibrated.rows:,} rows, {rule.calibrated.mean:.4g} labels on average"
    return found
