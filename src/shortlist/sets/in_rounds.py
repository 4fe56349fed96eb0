"""The rounds in which a rule is fitted on rows in several places: what is asked, answered and taken."""

from typing import Any, Self

from shortlist.sets.batches import Source
from shortlist.sets.fit_state import FitState
from shortlist.sets.promises import Promises


class FittedInRounds(Promises):
    """Base of :class:`~shortlist.sets.SetRule`: the four calls of a fit on rows in several places."""

    def first_round(self, sample: Any = None, *, sizes: bool = True) -> FitState:
        """What is asked first of calibration rows that are in several places.

        A rule is fitted on rows anywhere by asking, merging the answers and asking again; the result is that of :meth:`fit` on
        all rows, to the last bit. :func:`~shortlist.sets.fit_shards` does it in one process::

            state = rule.first_round()
            while not state.done:
                state = rule.next_round(merged(rule.summary(state, *shard) for shard in shards))
            rule.fit_from(state)

        Args:
            sample: some rows, (n, C): without it the first answers of an average-k rule are larger.
            sizes: whether the sizes of the sets are measured, in one more round; true by default.
        """
        from shortlist.sets.shards import begin

        rule: Any = self
        return begin(rule, sample, sizes=sizes)

    def summary(
        self,
        state: FitState,
        probs: Source,
        target: Any = None,
        *,
        quality: Any = None,
        groups: Any = None,
        first_row: int = 0,
    ) -> FitState:
        """What some of the calibration rows answer to a round: a state that is merged with those of the other rows.

        Args:
            state: the round; answers that it holds are left out.
            probs: as for :meth:`fit`; batches are read once.
            target: as for :meth:`fit`.
            quality: as for :meth:`fit`.
            groups: as for :meth:`fit`.
            first_row: how many rows come before these, which a randomised rule draws by.
        """
        from shortlist.sets.shards import answer

        rule: Any = self
        return answer(rule, state, probs, target, quality=quality, groups=groups, first_row=first_row)

    def next_round(self, state: FitState) -> FitState:
        """What is asked next, given the merged answers of all calibration rows."""
        from shortlist.sets.shards import following

        rule: Any = self
        return following(rule, state)

    def fit_from(self, state: FitState, rows: Any = None) -> Self:
        """Take the threshold, and whatever else a fit finds, from a state that is done.

        Args:
            state: what :meth:`next_round` gave last.
            rows: some of the calibration rows, predictions or a data frame, for the names of their classes, which are not
                part of states that were sent. Without it such a rule knows a digest of the names: it refuses rows with other
                names as ever, but cannot say which column differs.
        """
        from shortlist.sets.shards import finish

        rule: Any = self
        finish(rule, state, rows)
        return self
