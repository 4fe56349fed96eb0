"""One probability of being right for each user, errors alike over the other labels; sums over the votes only.

A label that nobody gave an item is as probable as its class times what every vote on the item has of being wrong. So all such
labels are one term of the item, *others*, and the posterior needs a number for each pair of an item and a label it was given,
and one for each item: exact, whatever the number of labels.
"""

import numpy as np

from shortlist.data.votes.table import Votes
from shortlist.tensors import Array


class OneCoin:
    """The one-coin model: ``accuracies`` (U,), ``classes`` (C,), and the posterior of pairs (P,) and of others (J,)."""

    def __init__(self, votes: Votes, smoothing: float):
        self.tally = votes.tally
        self.smoothing = smoothing
        self.users, self.labels = len(votes.users), len(votes.labels)
        self.cast = np.bincount(self.tally.user, minlength=self.users)
        given = self.tally.pair_votes
        self.posterior = given / np.repeat(self.tally.by_item(given), self.tally.item_pairs)
        self.rate_of_others = np.zeros(len(self.tally.voted))  # their posterior over their prior
        self.classes = np.full(self.labels, 1 / self.labels)

    def maximise(self) -> None:
        """``a_u`` from the votes that are probably right, ``p_k`` from the items that are probably k."""
        s = self.smoothing
        right = np.bincount(self.tally.user, np.repeat(self.posterior, self.tally.pair_votes), self.users)
        wrong = np.bincount(self.tally.user, np.repeat(1 - self.posterior, self.tally.pair_votes), self.users)
        # Each from its own count: 1 - a would be 0 where a user is hardly ever wrong.
        of_all = np.log(self.cast + 2 * s)
        self.log_right, self.log_wrong = np.log(right + s) - of_all, np.log(wrong.clip(min=0) + s) - of_all
        of_class = np.bincount(self.tally.pair_label, self.posterior, self.labels)
        # Others share their posterior in proportion to their classes, on the items where they were not given.
        rates = np.repeat(self.rate_of_others, self.tally.item_pairs)
        elsewhere = self.rate_of_others.sum() - np.bincount(self.tally.pair_label, rates, self.labels)
        counts = of_class + self.classes * elsewhere.clip(min=0) + s
        self.classes = counts / counts.sum()

    def expect(self) -> float:
        """The posterior of the labels given, relative to all votes being wrong."""
        tally, s = self.tally, self.smoothing
        right, wrong = self.log_right, self.log_wrong
        missed = wrong - np.log(max(1, self.labels - 1))
        log_class = np.log(self.classes)
        pairs = log_class[tally.pair_label] + tally.by_pair(right - missed)
        unlisted = np.where(
            tally.item_pairs < self.labels, (1 - tally.by_item(self.classes[tally.pair_label])).clip(min=0), 0.0
        )
        with np.errstate(divide="ignore"):  # no other label is left, or none that is probable at all
            others = np.log(unlisted)
        top = np.maximum(np.maximum.reduceat(pairs, tally.item_start), others)
        total = top + np.log(tally.by_item(np.exp(pairs - np.repeat(top, tally.item_pairs))) + np.exp(others - top))
        self.posterior = np.exp(pairs - np.repeat(total, tally.item_pairs))
        self.rate_of_others = np.where(unlisted > 0, np.exp(-total), 0.0)
        likelihood = total.sum() + (self.cast * missed).sum()
        return float(likelihood + s * (right + wrong).sum() + s * log_class.sum())

    def answer(self) -> tuple[Array, Array, Array]:
        """The most probable of the labels given."""
        best, tied = self.tally.best(self.posterior)
        return self.tally.pair_label[best], self.posterior[best], tied

    def accuracy(self) -> Array:
        """``a_u``."""
        right: Array = np.exp(self.log_right)
        return right
