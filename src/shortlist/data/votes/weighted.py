"""The majority of votes weighted by what each user has shown to know, as Pl@ntNet validates its labels.

A user weighs the more, the more species they have observed and named; what counts as observed depends on which labels are
valid, and that depends on the weights. So the rule is iterated, all items and all users at once, from no valid label.

Weights and supports are whole billionths. Sums are therefore exact: they depend on no order of rows, ties are ties, and three
votes of weight 0.1 do not exceed a threshold of 0.3.
"""

import hashlib
import math
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from shortlist.checks import decimal, whole
from shortlist.data.votes.aggregation import Aggregation, Found, Round, aggregation_of
from shortlist.data.votes.majority import check_theta
from shortlist.data.votes.table import Votes
from shortlist.errors import InputError, ShortlistWarning
from shortlist.tensors import Array
from shortlist.words import counted

GROWTH, DISCOUNT = 0.5, 0.2  # the powers of n (Garcin, section 3.8.1)
UNIT = 10**9
MOST_WEIGHT = 10**3  # of a newcomer: millions of such votes on one item add up in 64 bits


def adaptive_majority(votes: Votes, *, b0: object, theta: object, most_rounds: int = 100) -> Aggregation:
    """The label of the largest weight, valid where that exceeds ``theta``; weights grow with what a user has shown to know.

    ``label_i = argmax_k Σ_u w_u 1[u voted k on i]``, valid when that sum ``> theta``, with ``w_u = n_u^0.5 - n_u^0.2 + b0``
    and ``n_u`` the number of different valid labels of items that u authored plus the number of different labels u proposed.
    A round computes all weights from what is valid, then all labels from the weights; the first starts from nothing valid. The
    rounds end when one changes no label and no validity, when a state comes back (a cycle), or after ``most_rounds``; the
    last two come with a warning, and ``unsettled`` has the items. The argmax is over labels that the item was given; ties
    go to the lower label.

    Args:
        votes: the table.
        b0: the weight of a user with ``n_u = 1``, 0 or more, to nine decimals.
        theta: the support that is not enough, 0 or more. Neither has a published value.
        most_rounds: where to stop at the latest.

    >>> votes = Votes.from_arrays(
    ...     user=["ann", "ann", "ann", "bob", "cy"], item=[1, 2, 3, 3, 3], label=["ash", "elm", "oak", "yew", "yew"],
    ...     author=[True, True, True, False, False],
    ... )
    >>> labels = adaptive_majority(votes, b0=0.5, theta=0.6)
    >>> labels.frame()[["item", "label", "valid", "support"]]
       item label  valid   support
    0     1   ash   True  1.518521
    1     2   elm   True  1.518521
    2     3   oak   True  1.518521
    >>> labels.rounds, labels.history[1]
    (3, Round(1 labels, validity of 0 items, 1 weights changed))

    C. Garcin, *Set-valued classification with applications to citizen science*, section 3.8.1.
    """
    rounds = _Rounds(votes, b0=_billionths(b0), theta=check_theta(theta))
    rounds.run(whole(1)("most_rounds", most_rounds))
    ending = rounds.ending()
    if ending:
        warnings.warn(ending[0], ShortlistWarning, stacklevel=2)
    return rounds.aggregation(ending)


def user_weight(n: Any, *, b0: object) -> Array:
    """The weight of users who have shown to know n labels, ``n^0.5 - n^0.2 + b0``, to nine decimals.

    >>> user_weight([0, 1, 2, 10, 100], b0=1)
    array([1.        , 1.        , 1.26551521, 2.57738447, 8.48811357])
    """
    return (growth(np.asarray(n)) + _billionths(b0)) / UNIT


def enough_alone(*, b0: object, theta: object) -> int:
    """The least n of a user whose vote alone makes a label valid.

    >>> enough_alone(b0=0.7, theta=2)
    8
    """
    missing = math.floor(check_theta(theta) * UNIT) - _billionths(b0)
    if missing < 0:
        return 1
    low, high = 1, 2
    while growth(np.array(high)) <= missing:
        low, high = high, 2 * high
    while high - low > 1:  # the growth rises from n = 1
        middle = (low + high) // 2
        low, high = (middle, high) if growth(np.array(middle)) <= missing else (low, middle)
    return high


def growth(n: Array) -> Array:
    """``n^0.5 - n^0.2`` in billionths, ``int64``."""
    n = n.astype(np.float64)
    return np.rint(UNIT * (n**GROWTH - n**DISCOUNT)).astype(np.int64)


def _billionths(b0: object) -> int:
    start = decimal("b0", b0)
    if not 0 <= start <= MOST_WEIGHT:
        raise InputError(f"b0: expected a number from 0 to {MOST_WEIGHT:,}, got {b0}")
    return round(start * UNIT)


@dataclass
class _Rounds:
    """The state of the iteration, over the items with votes."""

    votes: Votes
    b0: int
    theta: Fraction
    history: list[Round] = field(default_factory=list)
    seen: dict[bytes, int] = field(default_factory=dict)
    converged: bool = False
    cycle: int = 0

    def __post_init__(self) -> None:
        self.tally = self.votes.tally
        self.proposed = _distinct_labels(self.votes.user, self.votes.label, self.votes)
        author = self.votes.authors[self.tally.voted]
        self.authored = np.flatnonzero(author >= 0)
        self.author = author[self.authored]
        count = len(self.tally.voted)
        self.label, self.valid = np.full(count, -1, np.int32), np.zeros(count, bool)
        self.known = self.proposed
        self.bound = math.floor(self.theta * UNIT)  # whole numbers exceed theta exactly if they exceed its floor
        self._check_sums()

    def _check_sums(self) -> None:
        """No support outgrows 64 bits, whatever a user may come to know."""
        most_votes = int(self.tally.by_item(self.tally.pair_votes).max())
        heaviest = int(growth(np.array(2 * len(self.votes.labels)))) + self.b0
        if most_votes * heaviest >= 2**63:
            raise InputError(
                f"b0: expected a weight of which {most_votes:,} votes on one item can be added, got {self.b0 / UNIT:g}"
            )

    def run(self, most_rounds: int) -> None:
        """Round after round, until nothing changes, a state comes back, or there are enough."""
        while len(self.history) < most_rounds and not self.converged and not self.cycle:
            known = self.proposed + _distinct_labels(*self._observed(), self.votes)
            users = np.flatnonzero(known != self.known).astype(np.int32)
            self.known = known
            self.history.append(self._decide(users) if len(users) or not self.history else _nothing())
            changed = self.history[-1].labels_changed + self.history[-1].validity_changed
            self.converged = not changed
            if changed:
                self._look_back()

    def _observed(self) -> tuple[Array, Array]:
        """Authors and labels of what is valid and has an author."""
        valid = self.valid[self.authored]
        return self.author[valid], self.label[self.authored[valid]]

    def _decide(self, users: Array) -> Round:
        """All labels from the weights of this round, and what changed by that."""
        self.support = self.tally.by_pair(self.weights())
        self.best, self.tied = self.tally.best(self.support)
        label = self.tally.pair_label[self.best]
        valid = self.support[self.best] > self.bound
        relabelled, revalued = label != self.label, valid != self.valid
        self.label, self.valid = label, valid
        items = self.tally.voted[relabelled | revalued]
        return Round(items, users, int(relabelled.sum()), int(revalued.sum()))

    def weights(self) -> Array:
        """The weight of each user, in billionths."""
        table = growth(np.arange(int(self.known.max()) + 1)) + self.b0
        return table[self.known]

    def _look_back(self) -> None:
        """Whether this state was there before; the rounds since are then a cycle."""
        digest = hashlib.blake2b(self.label.tobytes(), digest_size=32)
        digest.update(self.valid.tobytes())
        now = len(self.history)
        self.cycle = now - self.seen.setdefault(digest.digest(), now)

    def ending(self) -> tuple[str, ...]:
        """A sentence on how the rounds ended, if not by settling."""
        if self.converged:
            return ()
        rounds = len(self.history)
        if self.cycle:
            return (f"the labels do not settle: from round {rounds - self.cycle} they come back every {self.cycle} rounds",)
        return (f"the labels have not settled after {counted(rounds, 'round')}: allow more with most_rounds",)

    def aggregation(self, ending: tuple[str, ...]) -> Aggregation:
        """What the last round came to."""
        support = self.support[self.best] / UNIT
        total = self.tally.by_item(self.support) / UNIT
        share = np.divide(support, total, out=np.zeros_like(total), where=total > 0)
        return aggregation_of(
            self.votes,
            Found(self.label, self.valid, support, share, self.tied),
            weight=self.weights() / UNIT,
            rounds=len(self.history),
            converged=self.converged,
            cycle=self.cycle,
            notes=ending,
            history=tuple(self.history),
            known=self.known,
        )


def _distinct_labels(user: Array, label: Array, votes: Votes) -> Array:
    """How many different labels stand beside each user, ``int64 (U,)``."""
    small = len(votes.users) * len(votes.labels) < 2**31  # half the bytes, twice the speed of the sort
    key = user.astype(np.int32 if small else np.int64) * len(votes.labels) + label
    key.sort()
    first = np.append(True, key[1:] != key[:-1])[: len(key)]
    return np.bincount(key[first] // len(votes.labels), minlength=len(votes.users))


def _nothing() -> Round:
    none = np.empty(0, np.int32)
    return Round(none, none, 0, 0)
