"""P-values of labels, and rules at other errors, from calibration values that were kept.

The p-value of a label is the share of values at least as extreme as its own, among those of the calibration rows and itself:
``(1 + #{calibration values at least as extreme}) / (n + 1)``. A conformal rule returns exactly the labels whose p-value exceeds
α, so the values of one fit give the sets for every α. By group, a group with a threshold of its own is compared with its own
calibration rows, other rows with all of them. Where rows count by weights, so do they here (Tibshirani, Barber, Candès,
Ramdas, "Conformal prediction under covariate shift", 2019).

Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005, section 2.2.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_values
from shortlist.errors import InputError, NotFittedError
from shortlist.predictions import Predictions
from shortlist.row_names import check_same_rows
from shortlist.sets.batches import Batch, Batches, as_probs, check_no_groups
from shortlist.sets.conformal import AverageError, ErrorPerClass, conformal_rank, more_than_needed
from shortlist.sets.constraints import values_of_rows
from shortlist.sets.gates import answered
from shortlist.sets.groups import ALL, Found, Groups
from shortlist.sets.ladder import Ladder
from shortlist.sets.rule import SetRule
from shortlist.sets.weighted_fit import Search, fit_gate, gathered
from shortlist.sets.weighted_rows import most_voted, relabelled
from shortlist.sets.weighting import Weights, as_weights
from shortlist.tensors import Array, blocks_of, is_single_label

CONFORMAL = (AverageError, ErrorPerClass)


def why_none(rule: SetRule) -> str | None:
    """Why a rule can keep no values of calibration rows, and so has no p-values, as the rest of a message; None if it can."""
    if type(rule.constraint) not in CONFORMAL:
        return f"expected a conformal rule (lac, aps, raps, pas, sure-node, classwise), got {rule.text}"
    if rule.groups is not None and rule.groups.shrink is not None:
        return f"expected groups with thresholds of their own, which p-values go with, not shrunk, got {rule.text}"
    if rule.ordering.generator is not None:
        return f"expected {rule.text} with a seed, whose draws can be repeated, got a generator"
    return None


def keep_values(rule: SetRule, rows: Batches, weights: Weights | None) -> None:
    """Put the values of the calibration rows into a rule that was just fitted on them, in increasing order."""
    reason = why_none(rule)
    if reason is not None:
        raise InputError(f"keep: {reason}")
    if not rows.repeatable:
        raise InputError("keep: expected rows that can be read twice, such as a matrix or a function that starts a pass")
    if weights is not None:
        rows = rows if rule.gate is None else fit_gate(rule.gate, rule.constraint, rows, weights)
        _keep_weighted(rule, rows, weights)
        return
    rows = rows if rule.gate is None else answered(rows, rule.gate, one_label=rule.constraint.one_label)
    rows = rule.ordering.calibrating(rows)
    found = list(values_of_rows(rule.constraint, rule.ordering, rows)())
    values = torch.cat([part.values.double().cpu() for part in found])
    order = values.argsort()
    rule.kept = values[order]
    labels = [part.groups.cpu() for part in found if part.groups is not None]
    rule.kept_labels = torch.cat(labels)[order] if labels else None
    if rule.groups is not None:
        codes = torch.cat([_codes_of_labels(rule.groups, batch) for batch in rows.whole_rows()])
        rule.kept_groups = codes[order]


def _codes_of_labels(groups: Groups, batch: Batch) -> Tensor:
    """The number of the group of each label of these rows."""
    codes, target = groups.codes(batch.groups, batch.probs), batch.labels.cpu()
    return codes if is_single_label(target) else codes.repeat_interleave(target.sum(1))


def _keep_weighted(rule: SetRule, rows: Batches, weights: Weights) -> None:
    """The same with what each value counts for, in whole numbers."""
    if weights.votes is not None:
        rows = relabelled(rows, lambda batch: most_voted(batch, weights))
    rows = rule.ordering.calibrating(rows)
    entries = gathered(rule.constraint, rule.ordering, rows, weights)[ALL]
    search = Search.among(rule.constraint, rule.ordering, entries, weights, rows.classes or 0)
    order = np.argsort(entries.values, kind="stable")
    rule.kept = torch.from_numpy(entries.values[order].astype(np.float64))
    rule.kept_weights = torch.from_numpy(search.counted(entries)[order])
    rule.kept_new = torch.tensor(search.new)
    if rule.constraint.per_class:
        rule.kept_labels = torch.from_numpy(entries.labels[order])
    if rule.groups is not None:
        known = [(batch.row_numbers.cpu(), rule.groups.codes(batch.groups, batch.probs)) for batch in rows.whole_rows()]
        numbers, codes = (torch.cat(parts) for parts in zip(*known, strict=True))
        of_row = torch.zeros(int(numbers.max()) + 1, dtype=torch.int64).scatter(0, numbers, codes)
        rule.kept_groups = of_row[torch.from_numpy(entries.rows[order])]


@torch.no_grad()
def p_values(rule: SetRule, probs: Any, weights: Any = None, groups: Any = None) -> Any:
    """See :meth:`SetRule.p_values`."""
    values_of = PValuesInBlocks(rule)
    if isinstance(probs, Predictions):
        check_no_groups(groups, probs)
        rule.check_reads(probs)
        rule.check_origin(probs)
    matrix = as_probs(probs.plausibility() if isinstance(probs, Predictions) else probs)
    rule.check_classes(matrix)
    if not isinstance(probs, Predictions):
        check_values(matrix, "probabilities" if rule.needs_probabilities else "scores")
    given = rule.groups_in(probs) if isinstance(probs, Predictions) else rule.checked_groups(probs, groups, len(matrix))
    check_same_rows(probs, weights, "weights")
    found = values_of(
        matrix,
        probs.scores if isinstance(probs, Predictions) else None,
        given,
        None if weights is None else as_weights(weights, shape=(len(matrix),), only_zeros=True),
    )
    if isinstance(probs, Tensor | Predictions):
        return found
    if hasattr(probs, "columns") and hasattr(probs, "index"):
        return type(probs)(found.numpy(), index=probs.index, columns=probs.columns)
    return found.numpy()


class PValuesInBlocks:
    """The p-values of rows that come a block at a time; a randomised rule draws as it does for their sets.

    Args:
        rule: that kept the values of its calibration rows.
    """

    def __init__(self, rule: SetRule):
        _check_kept(rule)
        self._rule, self._draws = rule, rule.ordering.row_draws()

    def __call__(
        self,
        probs: Tensor,
        scores: Tensor | None = None,
        groups: Array | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The p-values of a block of values that have been checked already, float64 (N, C).

        Args:
            probs: (N, C).
            scores: what the probabilities were computed from, if that is known: a randomised rule draws by these.
            groups: the group of each row, (N,), if there is a threshold for each.
            weights: what each row counts for, (N,); by default as much as the heaviest calibration row.
        """
        rule, drawn_by = self._rule, probs if scores is None else scores
        own = None if weights is None else rule.weighting.whole(weights)
        codes = torch.zeros(len(probs), dtype=torch.int64) if rule.groups is None else rule.groups.codes(groups, probs)
        samples = {code: _samples(rule, probs.shape[1], code) for code in codes.unique().tolist()}
        found = torch.empty(probs.shape, dtype=torch.float64, device=probs.device)
        for block in blocks_of(probs):
            draws = None if self._draws is None else self._draws(drawn_by[block]).to(probs.device)
            values = rule.ordering.drawn(probs[block], draws).double()
            for code in codes[block].unique().tolist():
                rows = slice(None) if len(samples) == 1 else (codes[block] == code).nonzero().squeeze(1).to(probs.device)
                for column, sample in samples[code]:
                    new = sample.new if own is None else own[block, None][rows]
                    shares = _shares(values[rows][:, column].contiguous(), sample, new, rule.ordering.descending)
                    found[block][rows, column] = shares
        return found


def nested(rule: SetRule, alphas: Iterable[Any]) -> list[SetRule]:
    """The same rule for each of these errors, from the values that one fit has kept: no row is read again.

    Thresholds are those of a fit with each error, also of the groups; for ``raps:ALPHA:auto`` with the penalty that was chosen
    for the error of the fit. Sets are nested: a smaller error returns every label that a larger one does, in groups as long as
    the same ones have thresholds of their own.

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
    chosen = not rule.ordering.in_rounds and other.constraint.level != rule.constraint.level  # a fit would choose again
    other.text = f"{rule.text} at {alpha!s}" if chosen or old not in rule.text else rule.text.replace(old, new, 1)
    level, several = other.constraint.level, bool(rule.threshold.ndim)
    cuts = _quantiles(rule, level, [sample for _, sample in _samples(rule, rule.threshold.numel())])
    threshold = torch.tensor(cuts if several else cuts[0], dtype=torch.float64, device=rule.threshold.device)
    other.threshold, other.notes, other.calibrated = threshold, (), None
    if rule.kept_weights is None:
        ties = [sample.ties(cut, level, rule) for cut, (_, sample) in zip(cuts, _samples(rule, len(cuts)), strict=True)]
        other.fitted_ties = torch.tensor(ties if several else ties[0])
    if other.groups is not None:
        found = _found_at(rule, level, rule.threshold.numel() if several else None)
        other.notes = other.groups.take(found, threshold.cpu(), other.groups.least_rows(other.constraint))
    return other


def _found_at(rule: SetRule, level: Fraction, classes: int | None) -> dict[str, Found]:
    """What is found for each group with this error, for as many classes, or for all labels together."""
    assert rule.groups is not None
    if rule.kept_weights is not None:
        raise InputError(
            f"rule: expected {rule.text} fitted without weights and votes, or a rule without groups: fit it with each error"
        )
    found = {}
    for code, name in enumerate(rule.groups.names):
        own = [_sample(rule, label, code) for label in ([None] if classes is None else range(classes))]
        cuts, sizes = _quantiles(rule, level, own), [len(sample.values) for sample in own]
        rows = int(rule.groups.fitted_buffer("rows")[code])
        found[name] = Found(cuts[0], sizes[0], rows) if classes is None else Found(cuts, sizes, rows)
    return found


def _quantiles(rule: SetRule, level: Fraction, samples: "list[_Sample]") -> list[float]:
    return [cut for sample in samples for cut in sample.quantiles(level, rule, rule.ordering.worst())]


class _Sample(NamedTuple):
    """Kept values in increasing order, with the weight up to each, from 0, and that of a new row.

    Args:
        values: (n,).
        weights: whole numbers (n,); None where all rows count alike.
        new: of a new row, (1,), or for each column.
    """

    values: Tensor
    weights: Tensor | None
    new: Tensor

    def up_to(self, places: Tensor) -> Tensor:
        """The weight of so many of the first values."""
        if self.weights is None:
            return places
        sums = torch.cat([self.weights.new_zeros(1), self.weights.cumsum(0)])  # also where a class has no calibration row
        return sums.to(places.device)[places]

    def quantiles(self, level: Fraction, rule: SetRule, worst: float) -> list[float]:
        """The conformal quantile for each weight of new rows."""
        descending = rule.ordering.descending
        if self.weights is None:
            rank, n = conformal_rank(len(self.values), level), len(self.values)
            return [worst if rank > n else float(self.values[n - rank if descending else rank - 1])]
        ladder = Ladder.of(self.values.cpu().numpy(), self.weights.cpu().numpy(), descending)
        return [float(one) for one in ladder.quantiles(level, self.new.tolist(), worst)]

    def ties(self, cut: float, level: Fraction, rule: SetRule) -> int:
        """How many more of these values than needed are within their quantile, where all rows count alike; see the fit."""
        rank, compare = conformal_rank(len(self.values), level), torch.ge if rule.ordering.descending else torch.le
        if rank > len(self.values):
            return 0
        compared = self.values if rank == len(self.values) else self.values[self.values == cut]
        equal = compared.unique(return_counts=True)[1].max()
        return int(more_than_needed(compare(self.values, cut).sum().cpu().numpy(), np.array(rank), equal.cpu().numpy()))


def _samples(rule: SetRule, classes: int, code: int | None = None) -> list[tuple[slice, _Sample]]:
    """The kept values that each column is compared with, or all columns together, in rows of the group of this number."""
    by_class = rule.kept_labels is not None
    own = torch.zeros(classes, dtype=torch.bool)
    if rule.groups is not None and code is not None and code < len(rule.groups.names):
        own = rule.groups.fitted_buffer("own")[code].cpu().expand(classes)
    if not by_class and bool((own == own[0]).all()):
        return [(slice(None), _sample(rule, None, code if own[0] else None))]
    return [
        (slice(label, label + 1), _sample(rule, label, code if own[label] else None, by_class=by_class))
        for label in range(classes)
    ]


def _sample(rule: SetRule, label: int | None, code: int | None, *, by_class: bool = True) -> _Sample:
    """The kept values of a label, or of all, among the rows of a group, or among all, and the weight of a new row with it."""
    assert rule.kept is not None
    chosen = torch.ones_like(rule.kept, dtype=torch.bool)
    if label is not None and by_class:
        assert rule.kept_labels is not None
        chosen &= rule.kept_labels == label
    if code is not None:
        assert rule.kept_groups is not None
        chosen &= rule.kept_groups == code
    new = torch.ones(1, dtype=torch.int64) if rule.kept_new is None else rule.kept_new
    new = new if label is None or len(new) == 1 else new[[label]]
    return _Sample(rule.kept[chosen], None if rule.kept_weights is None else rule.kept_weights[chosen], new)


def _shares(values: Tensor, sample: _Sample, new: Tensor, descending: bool) -> Tensor:
    """``(new + weight of sample at least as extreme) / (new + weight)``; smaller is more extreme where larger is plausible."""
    ordered, n = sample.values.to(values.device), torch.tensor(len(sample.values), device=values.device)
    total, new = sample.up_to(n), new.to(values.device)
    if descending:
        extreme = sample.up_to(torch.searchsorted(ordered, values, right=True))
    else:
        extreme = total - sample.up_to(torch.searchsorted(ordered, values))
    # Without any weight, the new row is as all there is: so is a class of weight 0, for which there is no threshold either.
    return torch.where(new + total > 0, (new + extreme).double() / (new + total).double(), 1.0)


def _check_kept(rule: SetRule) -> None:
    if not isinstance(rule, SetRule):
        raise InputError(f"rule: expected a SetRule, got {type(rule).__name__}")
    if rule.kept is None or not rule.fitted:
        raise NotFittedError(f"{rule}: expected a rule that kept its calibration values: call fit(…, keep=True)")
