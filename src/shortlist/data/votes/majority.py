"""The label that most users gave, every vote counting the same."""

from fractions import Fraction

import numpy as np

from shortlist.checks import decimal
from shortlist.data.votes.aggregation import Aggregation, Found, aggregation_of
from shortlist.data.votes.table import Votes
from shortlist.errors import InputError

MOST_THETA = 10**9


def plain_majority(votes: Votes, theta: object = 0) -> Aggregation:
    """The label with the most votes, valid where it has more than ``theta`` of them; ties go to the lower label.

    ``label_i = argmax_k Σ_u 1[u voted k on i]``

    Args:
        votes: the table.
        theta: how many votes are not enough.

    >>> votes = Votes.from_arrays(user=[1, 2, 3, 1], item=["a", "a", "a", "b"], label=["oak", "oak", "ash", "ash"])
    >>> plain_majority(votes, theta=1).frame()
      item label  valid  support  confidence   tied
    0    a   oak   True      2.0    0.666667  False
    1    b   ash  False      1.0    1.000000  False
    """
    bound = check_theta(theta)
    tally = votes.tally
    best, tied = tally.best(tally.pair_votes)
    support = tally.pair_votes[best].astype(np.float64)
    share = support / tally.by_item(tally.pair_votes)
    found = Found(tally.pair_label[best], support > float(bound), support, share, tied)
    return aggregation_of(votes, found, weight=np.ones(len(votes.users)))


def check_theta(theta: object) -> Fraction:
    """A threshold of support, as the decimal that was typed."""
    value = decimal("theta", theta)
    if not 0 <= value <= MOST_THETA:
        raise InputError(f"theta: expected a number from 0 to {MOST_THETA:,}, got {theta}")
    return value
