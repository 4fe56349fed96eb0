"""The search for the thresholds of all groups at once, in rounds: that of all rows, and those of the rows of each group."""

from collections.abc import Iterable, Mapping

from shortlist.errors import InputError
from shortlist.leading_bits import BitCounts
from shortlist.rounds import Counter
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.constraints import Constraint, FittedThreshold, drawn
from shortlist.sets.draws import CalibrationDraws, Digest, digest_of
from shortlist.sets.groups import ALL, Found, Groups
from shortlist.sets.orderings import Ordering
from shortlist.words import quoted


def counts_by_group(
    groups: Groups,
    constraint: Constraint,
    ordering: Ordering,
    batches: Iterable[Batch],
    asked: Mapping[str, BitCounts],
    fresh: BitCounts | None,
    draws: CalibrationDraws | None,
) -> dict[str, BitCounts]:
    """What a round counts of these rows.

    Args:
        groups: how rows are grouped.
        constraint: names the values that are counted.
        ordering: of the rule.
        batches: the rows.
        asked: what is counted of each group.
        fresh: what is counted of groups that are not among these; None leaves them out.
        draws: of the calibration rows, if the ordering draws any.
    """
    counters = {name: Counter(counts) for name, counts in asked.items()}
    for batch in batches:
        for name, part in groups.parts(batch):
            if name not in counters:
                if fresh is None:
                    continue
                counters[name] = Counter(fresh)
            values = constraint.values(ordering, part)
            counters[name].add((values if draws is None else drawn(values, draws)).from_floor(counters[name].asked.floor))
    return {name: counter.result() for name, counter in counters.items()}


def step_of_groups(
    constraint: Constraint, ordering: Ordering, counted: Mapping[str, BitCounts], classes: int
) -> tuple[dict[str, BitCounts], dict[str, FittedThreshold]]:
    """What is asked next of some groups, and what was found for the others."""
    steps = {name: constraint.step(ordering, counts, classes) for name, counts in counted.items()}
    asked = {name: one for name, one in steps.items() if isinstance(one, BitCounts)}
    return asked, {name: one for name, one in steps.items() if isinstance(one, FittedThreshold)}


def found_of(fitted: FittedThreshold, rows: int) -> Found:
    """What was found for one group, as JSON holds it."""
    return Found(fitted.threshold.tolist(), rows if fitted.labels is None else fitted.labels.tolist(), rows)


def fit_by_group(groups: Groups, constraint: Constraint, ordering: Ordering, batches: Batches) -> FittedThreshold:
    """The common threshold; those of the groups are kept in ``groups``."""
    if not batches.repeatable:
        raise InputError(
            f"probs: expected rows that can be read more than once, because of {groups.text}: pass a matrix, predictions or a "
            "function that starts a new pass; got an iterator"
        )
    if not constraint.in_rounds:
        return _fit_each(groups, constraint, ordering, batches)
    batches = constraint.rows_to_fit(ordering, batches)
    draws = None
    if constraint.draws_from(ordering):
        digest = Digest()
        for batch in batches.whole_rows():
            digest = digest.merge(digest_of(batch.probs, batch.labels, batch.row_numbers))
        draws = ordering.calibration_draws(digest)
        ordering.keep_draws(draws)
    first = constraint.first_counts(ordering).kept_here()
    fresh: BitCounts | None = first
    asked, fitted, rows = {ALL: first}, dict[str, FittedThreshold](), dict[str, int]()
    while asked:
        counted = counts_by_group(groups, constraint, ordering, batches.whole_rows(), asked, fresh, draws)
        rows |= {name: counts.rows for name, counts in counted.items()}
        asked, more = step_of_groups(constraint, ordering, counted, batches.classes or 0)
        fitted, fresh = fitted | more, None
    common = fitted.pop(ALL)
    span = ordering.span(batches.classes or 0)
    found = {name: groups.within(found_of(one, rows[name]), span) for name, one in fitted.items()}
    notes = groups.take(found, common.threshold.double(), groups.least_rows(constraint))
    return FittedThreshold(common.threshold, (*common.notes, *notes), common.labels, common.tied)


def _fit_each(groups: Groups, constraint: Constraint, ordering: Ordering, batches: Batches) -> FittedThreshold:
    """The same for a constraint that looks at all rows together: it is fitted on all rows, then on those of each group."""
    common = constraint.fit(ordering, batches)
    rows: dict[str, int] = {}
    for batch in batches.whole_rows():
        for name, part in groups.parts(batch):
            rows[name] = rows.get(name, 0) + len(part.probs)
    least, span = groups.least_rows(constraint), ordering.span(batches.classes or 0)
    found = {}
    for name, count in rows.items():
        if name == ALL:
            continue
        try:
            own = common if count < least else constraint.fit(ordering, _rows_of(groups, name, batches))
        except InputError as error:
            raise InputError(f"{groups.text}: among the {count:,} rows of {quoted([name])}, {error}") from error
        found[name] = groups.within(found_of(own, count)._replace(counted=count), span)
    notes = groups.take(found, common.threshold.double(), least)
    return FittedThreshold(common.threshold, (*common.notes, *notes), common.labels, common.tied)


def _rows_of(groups: Groups, name: str, batches: Batches) -> Batches:
    """Those of one group."""

    def passes() -> Iterable[Batch]:
        return (part for batch in batches.whole_rows() for group, part in groups.parts(batch) if group == name)

    return Batches(passes, probabilities=batches.probabilities, widen=batches.widen)
