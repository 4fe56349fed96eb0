"""Fitting a rule on rows in several places: each place answers what a round asks of its rows, the answers are merged.

A rule asks for the threshold of its gate, if it has one, for the seed of random draws, if it draws any, for its threshold, and
for the sizes of its sets. What comes out is what :meth:`SetRule.fit` finds on all rows together, to the last bit.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError, ShortlistWarning
from shortlist.leading_bits import BitCounts, first_round as first_counts
from shortlist.predictions import Predictions
from shortlist.rounds import Counter
from shortlist.sets.batches import Batch, Batches, Source, as_probs, check_no_groups, check_no_quality
from shortlist.sets.blocks import size_counts
from shortlist.sets.constraints import check_threshold, drawn
from shortlist.sets.draws import CalibrationDraws, digest_of
from shortlist.sets.fit_state import FitState, Known, Sizes, merged
from shortlist.sets.gates import answered, none_accepted
from shortlist.sets.group_search import counts_by_group, found_of, step_of_groups
from shortlist.sets.groups import ALL
from shortlist.sets.hints import mass_note, watches_mass
from shortlist.sets.origin import opened, origin_of
from shortlist.sets.rule import SetRule
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import as_tensor, is_single_label


def begin(rule: SetRule, sample: Any = None, *, sizes: bool = True) -> FitState:
    """See :meth:`SetRule.first_round`."""
    if rule.chooses_threshold and not rule.constraint.in_rounds:
        raise InputError(
            f"{rule.text}: expected a constraint that is fitted in rounds, with values and step, got "
            f"{type(rule.constraint).__name__}, which needs all rows in one place: use fit"
        )
    if not rule.ordering.in_rounds:
        raise InputError(
            f"{rule.text}: expected an ordering that chooses nothing first, which needs all rows in one place: use fit"
        )
    if rule.gate is not None:
        return FitState("gate", Known(sizes=sizes), counts=first_counts())
    return _after_gate(rule, Known(sizes=sizes), None if sample is None else as_probs(sample))


def _after_gate(rule: SetRule, known: Known, sample: Tensor | None = None) -> FitState:
    if not rule.chooses_threshold:
        return FitState("sizes" if known.sizes else "done", known)
    if rule.constraint.draws_from(rule.ordering):
        return FitState("draws", known)
    return FitState("threshold", known, counts=rule.constraint.first_counts(rule.ordering, sample))


@torch.no_grad()
def answer(
    rule: SetRule,
    asked: FitState,
    probs: Source,
    target: Any = None,
    *,
    quality: Any = None,
    groups: Any = None,
    first_row: int = 0,
) -> FitState:
    """See :meth:`SetRule.summary`."""
    if isinstance(probs, Predictions):
        check_no_quality(quality, probs)
        check_no_groups(groups, probs)
        rule.check_reads(probs)
    beside = {"quality": quality, "groups": groups, "column": rule.column}
    given = Batches(probs, target, probabilities=rule.needs_probabilities, first_row=first_row, **beside)
    ready = _with_known(rule, asked.known)
    rows = given
    if ready.gate is not None and asked.stage != "gate":
        rows = answered(given, ready.gate, one_label=rule.constraint.one_label, part=True)
    ways = {"gate": _gate_values, "draws": _digest, "threshold": _counts, "groups": _group_counts, "sizes": _sizes}
    found = ways[asked.stage](ready, asked, rows)
    origin = None if given.classes is None else {"classes": given.classes, **origin_of(probs, given.names)}
    return replace(found, rows=given.rows, origin=origin)


def _with_known(rule: SetRule, known: Known) -> SetRule:
    """The rule as far as it has been fitted."""
    ready = rule.twin()
    if ready.gate is not None:
        ready.gate.threshold = None if known.gate is None else torch.tensor(known.gate, dtype=torch.float64)
    if known.seed is not None:
        ready.ordering.keep_draws(_draws(known))
    if known.threshold is not None:
        ready.threshold = torch.from_numpy(known.threshold)
        if ready.groups is not None:
            ready.groups.take(known.groups, ready.threshold, ready.groups.least_rows(ready.constraint))
    return ready


def _draws(known: Known) -> CalibrationDraws:
    assert known.seed is not None
    own, following = known.seed
    return CalibrationDraws(own, torch.tensor(following), None if known.listed is None else torch.from_numpy(known.listed))


def _gate_values(rule: SetRule, asked: FitState, rows: Batches) -> FitState:
    assert rule.gate is not None
    assert asked.counts is not None
    counter = Counter(asked.counts.empty())
    for batch in rows.whole_rows():
        counter.add(rule.gate.values(batch).from_floor(asked.counts.floor))
    return replace(asked, counts=counter.result())


def _digest(rule: SetRule, asked: FitState, rows: Batches) -> FitState:
    digest = asked.empty().digest
    for batch in rows.whole_rows():
        digest = digest.merge(digest_of(batch.probs, batch.labels, batch.row_numbers))
    return replace(asked, digest=digest)


def _counts(rule: SetRule, asked: FitState, rows: Batches) -> FitState:
    assert asked.counts is not None
    counter = Counter(asked.counts.empty())
    draws = _draws(asked.known) if rule.constraint.draws_from(rule.ordering) else None
    for batch in rows.whole_rows():
        values = rule.constraint.values(rule.ordering, batch)
        counter.add((values if draws is None else drawn(values, draws)).from_floor(asked.counts.floor))
    return replace(asked, counts=counter.result())


def _group_counts(rule: SetRule, asked: FitState, rows: Batches) -> FitState:
    assert rule.groups is not None
    fresh = None if asked.groups else rule.constraint.first_counts(rule.ordering)
    open_counts = {name: counts.empty() for name, counts in asked.groups.items()}
    draws = _draws(asked.known) if rule.constraint.draws_from(rule.ordering) else None
    found = counts_by_group(rule.groups, rule.constraint, rule.ordering, rows.whole_rows(), open_counts, fresh, draws)
    return replace(asked, groups={name: counts for name, counts in found.items() if name != ALL})


def _sizes(rule: SetRule, asked: FitState, rows: Batches) -> FitState:
    single = right = 0
    watches = watches_mass(rule.ordering, rule.constraint, rule.threshold)

    def seen() -> Iterator[Batch]:
        nonlocal single, right
        for batch in rows.whole_rows():
            yield batch
            if watches and is_single_label(batch.labels):
                single += len(batch.labels)
                right += int((batch.probs.argmax(1) == batch.labels).sum())

    counts = size_counts(rule, seen())
    table = np.zeros(0, np.int64) if counts is None else counts.numpy()
    sizes = np.flatnonzero(table)
    return replace(asked, sizes=Sizes(sizes.astype(np.uint64), table[sizes, None], single, right))


@torch.no_grad()
def following(rule: SetRule, state: FitState) -> FitState:
    """See :meth:`SetRule.next_round`."""
    known = state.known
    if state.stage == "gate":
        assert rule.gate is not None
        gate = rule.gate.step(_counted(state))
        return _asking(state, gate) if isinstance(gate, BitCounts) else _after_gate(rule, replace(known, gate=float(gate)))
    if rule.gate is not None and not _some_answered(state):
        raise none_accepted(rule.gate)
    if state.stage == "draws":
        draws = rule.ordering.calibration_draws(state.digest)
        listed = None if draws.listed is None else draws.listed.numpy()
        known = replace(known, seed=(draws.seed, int(draws.seed_of_new_rows)), listed=listed)
        return FitState("threshold", known, counts=rule.constraint.first_counts(rule.ordering))
    if state.stage == "threshold":
        found = rule.constraint.step(rule.ordering, _counted(state), state.classes)
        if isinstance(found, BitCounts):
            return _asking(state, found)
        threshold = as_tensor(found.threshold, "threshold").double()
        check_threshold(threshold, rule.constraint, state.classes)
        labels, tied = (None if one is None else one.numpy() for one in (found.labels, found.tied))
        known = replace(known, threshold=threshold.numpy(), labels=labels, tied=tied, notes=tuple(found.notes))
        return FitState("groups", known) if rule.groups is not None else _after_threshold(state, known)
    if state.stage == "groups":
        return _next_of_groups(rule, state)
    return replace(state, stage="done")


def _after_threshold(state: FitState, known: Known) -> FitState:
    return FitState("sizes" if known.sizes else "done", known, state.rows, None if known.sizes else state.origin)


def _next_of_groups(rule: SetRule, state: FitState) -> FitState:
    asked, fitted = step_of_groups(rule.constraint, rule.ordering, state.groups, state.classes)
    assert rule.groups is not None
    span = rule.ordering.span(state.classes)
    found = {name: rule.groups.within(found_of(one, state.groups[name].rows), span) for name, one in fitted.items()}
    known = replace(state.known, groups=state.known.groups | found)
    return FitState("groups", known, groups=asked) if asked else _after_threshold(state, known)


def _some_answered(state: FitState) -> bool:
    """Whether any row passed the gate."""
    return bool(state.digest.end or len(state.sizes.sizes) or (state.counts is not None and state.counts.rows))


def _counted(state: FitState) -> BitCounts:
    assert state.counts is not None
    return state.counts


def _asking(state: FitState, counts: BitCounts) -> FitState:
    return FitState(state.stage, state.known, counts=counts)


def finish(rule: SetRule, state: FitState, rows: Any = None) -> None:
    """See :meth:`SetRule.fit_from`."""
    if not state.done:
        raise InputError(f"state: expected one that is done, got a round for {state.stage!r}: go on with next_round")
    known, origin = state.known, opened(state.origin, rows)
    with rule.whole_or_not():
        ready = _with_known(rule, known)
        if rule.gate is not None and ready.gate is not None:
            rule.gate.threshold = ready.gate.threshold
        if known.seed is not None:
            rule.ordering.keep_draws(_draws(known))
        if rule.chooses_threshold:
            rule.threshold, rule.notes = ready.threshold, known.notes
            if rule.groups is not None and ready.threshold is not None:
                least = rule.groups.least_rows(rule.constraint)
                rule.notes += rule.groups.take(known.groups, ready.threshold, least)
            rule.fitted_labels = None if known.labels is None else torch.from_numpy(known.labels)
            rule.fitted_ties = None if known.tied is None else torch.from_numpy(known.tied)
        rule.calibrated = _summary(state)
        rule.forget_kept()
        rule.weighting.keep(None)
        if rule.calibrated is not None and not rule.notes and state.sizes.single == rule.calibrated.rows:
            rule.notes = mass_note(rule.constraint, rule.threshold, rule.calibrated, state.sizes.single, state.sizes.right)
        rule.origin = origin if rule.needs_fit else None
        for note in rule.notes:
            warnings.warn(f"{rule.text}: {note}", ShortlistWarning, stacklevel=3)


def _summary(state: FitState) -> SizeSummary | None:
    if not len(state.sizes.sizes):
        return None
    counts = torch.zeros(state.classes + 1, dtype=torch.int64)
    counts[torch.from_numpy(state.sizes.sizes.astype(np.int64))] = torch.from_numpy(state.sizes.counts[:, 0])
    return SizeSummary.of(counts)


def fit_shards(rule: SetRule, shards: Sequence[Any], *, sizes: bool = True) -> SetRule:
    """Fit a rule on rows in several parts, one part in memory at a time, exactly as on all rows together.

    This is the whole protocol in one process. Where the parts are on several machines, the same four calls move the states:
    :meth:`SetRule.first_round`, :meth:`SetRule.summary` (where the rows are), the sum, :meth:`SetRule.next_round`.

    Args:
        rule: is fitted in place, and returned.
        shards: in the order of their rows, read once in each round: ``probs``, ``(probs, target)``, ``(probs, target,
            quality)`` or ``(probs, target, quality, groups)`` of matrices, predictions, or functions that start a pass over
            batches.
        sizes: whether the sizes of the sets are measured, in one more round; true by default.

    >>> from shortlist.sets import lac
    >>> probs, labels = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1]
    >>> fit_shards(lac(0.5), [(probs[:1], labels[:1]), (probs[1:], labels[1:])])
    SetRule(lac:0.5, threshold 0.8)
    """
    given = [(*(shard if isinstance(shard, tuple) else (shard,)), None, None, None)[:4] for shard in shards]
    state = rule.first_round(Batches(given[0][0]).sample() if given else None, sizes=sizes)
    while not state.done:
        parts, start = [], 0
        for values, target, quality, groups in given:
            parts.append(rule.summary(state, values, target, quality=quality, groups=groups, first_row=start))
            start += parts[-1].rows
        state = rule.next_round(merged(parts))
    return rule.fit_from(state)
