"""P-values of labels, and rules at other errors, from calibration values that were kept.

The p-value of a label is the share of values at least as extreme as its own, among those of the calibration rows and itself:
``(1 + #{calibration values at least as extreme}) / (n + 1)``. A conformal rule returns exactly the labels whose p-value exceeds
α, so the values of one fit give the sets for every α.

Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005, section 2.2.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_values
from shortlist.errors import InputError, NotFittedError
from shortlist.predictions import Predictions
from shortlist.sets.batches import Batches, as_probs
from shortlist.sets.conformal import AverageError, ErrorPerClass, conformal_rank
from shortlist.sets.constraints import values_of_rows
from shortlist.sets.gates import answered
from shortlist.sets.rule import SetRule
from shortlist.tensors import blocks_of

CONFORMAL = (AverageError, ErrorPerClass)


def keep_values(rule: SetRule, rows: Batches) -> None:
    """Put the values of the calibration rows into a rule that was just fitted on them, in increasing order."""
    if type(rule.constraint) not in CONFORMAL:
        raise InputError(f"keep: expected a conformal rule (lac, aps, raps, pas, sure-node, classwise), got {rule.text}")
    if rule.groups is not None or rule.weighting.kind is not None:
        raise InputError(f"keep: expected a rule with one threshold for all rows, without groups and weights, got {rule.text}")
    if rule.ordering.generator is not None:
        raise InputError(f"keep: expected {rule.text} with a seed, whose draws can be repeated, got a generator")
    if not rows.repeatable:
        raise InputError("keep: expected rows that can be read twice, such as a matrix or a function that starts a pass")
    rows = rows if rule.gate is None else answered(rows, rule.gate, one_label=rule.constraint.one_label)
    rows = rule.ordering.calibrating(rows)
    found = list(values_of_rows(rule.constraint, rule.ordering, rows)())
    values = torch.cat([part.values.double().cpu() for part in found])
    order = values.argsort()
    rule.kept = values[order]
    groups = [part.groups.cpu() for part in found if part.groups is not None]
    rule.kept_labels = torch.cat(groups)[order] if groups else None


@torch.no_grad()
def p_values(rule: SetRule, probs: Any) -> Any:
    """See :meth:`SetRule.p_values`."""
    _check_kept(rule)
    if isinstance(probs, Predictions):
        rule.check_reads(probs)
        rule.check_origin(probs)
        if rule.ordering.randomized:
            raise InputError(f"probs: {rule.text} draws by scores: expected the scores' probabilities as a matrix")
    matrix = as_probs(probs.plausibility() if isinstance(probs, Predictions) else probs)
    rule.check_classes(matrix)
    if not isinstance(probs, Predictions):
        check_values(matrix, "probabilities" if rule.needs_probabilities else "scores")
    found = torch.empty(matrix.shape, dtype=torch.float64, device=matrix.device)
    draws = rule.ordering.row_draws()
    for block in blocks_of(matrix):
        values = rule.ordering.drawn(matrix[block], None if draws is None else draws(matrix[block])).double()
        for column, sample in _samples(rule, matrix.shape[1]):
            found[block, column] = _shares(values[:, column].contiguous(), sample.to(values.device), rule.ordering.descending)
    if isinstance(probs, Tensor | Predictions):
        return found
    if hasattr(probs, "columns") and hasattr(probs, "index"):
        return type(probs)(found.numpy(), index=probs.index, columns=probs.columns)
    return found.numpy()


def nested(rule: SetRule, alphas: Iterable[Any]) -> list[SetRule]:
    """The same rule for each of these errors, from the values that one fit has kept: no row is read again.

    Thresholds are those of a fit with each error. Sets are nested: a smaller error returns every label that a larger one does.

    Args:
        rule: conformal, fitted with ``keep=True``.
        alphas: the allowed errors.

    >>> from shortlist.sets import lac
    >>> rule = lac(0.5).fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1], keep=True)
    >>> nested(rule, [0.25, 0.5])
    [SetRule(lac:0.25, threshold 0.4), SetRule(lac:0.5, threshold 0.8)]
    """
    _check_kept(rule)
    return [_at(rule, alpha) for alpha in alphas]


def _at(rule: SetRule, alpha: Any) -> SetRule:
    assert isinstance(rule.constraint, AverageError)
    assert rule.threshold is not None
    other = rule.twin()
    other.constraint = type(rule.constraint)(alpha)
    old, new = f":{rule.constraint.alpha!s}", f":{other.constraint.alpha!s}"
    other.text = rule.text.replace(old, new, 1) if old in rule.text else f"{rule.text} at {alpha!s}"
    cuts = []
    for _, sample in _samples(rule, 1 if not rule.threshold.ndim else len(rule.threshold)):
        rank, n = conformal_rank(len(sample), other.constraint.level), len(sample)
        cuts.append(rule.ordering.worst() if rank > n else float(sample[n - rank if rule.ordering.descending else rank - 1]))
    threshold = torch.tensor(cuts if rule.threshold.ndim else cuts[0], dtype=torch.float64, device=rule.threshold.device)
    other.threshold, other.notes, other.calibrated = threshold, (), None
    return other


def _samples(rule: SetRule, classes: int) -> list[tuple[slice, Tensor]]:
    """The kept values for each column, or for all columns together."""
    assert rule.kept is not None
    if rule.kept_labels is None:
        return [(slice(None), rule.kept)]
    return [(slice(label, label + 1), rule.kept[rule.kept_labels == label]) for label in range(classes)]


def _shares(values: Tensor, sample: Tensor, descending: bool) -> Tensor:
    """``(1 + #{sample at least as extreme}) / (n + 1)`` for each value; smaller is more extreme where larger is plausible."""
    n = len(sample)
    extreme = torch.searchsorted(sample, values, right=True) if descending else n - torch.searchsorted(sample, values)
    return (1 + extreme).double() / (n + 1)


def _check_kept(rule: SetRule) -> None:
    if not isinstance(rule, SetRule):
        raise InputError(f"rule: expected a SetRule, got {type(rule).__name__}")
    if rule.kept is None or not rule.fitted:
        raise NotFittedError(f"{rule}: expected a rule that kept its calibration values: call fit(…, keep=True)")
