"""Votes of annotators whose skill is known, to see what an aggregation makes of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.checks import decimal, whole
from shortlist.data.votes.encoding import encode
from shortlist.data.votes.table import Votes
from shortlist.errors import InputError
from shortlist.tensors import Array, as_target


@dataclass(frozen=True, eq=False)
class SimulatedVotes:
    """Votes, and the truth behind them.

    Args:
        votes: the table; item i is row i of the target, user and label names are their numbers.
        target: the true label of each item, ``int64 (I,)``.
        skill: the probability that a vote of each user is right, ``float64 (U,)``.
    """

    votes: Votes
    target: Array
    skill: Array

    def accuracy(self, label: Array) -> float:
        """The share of items whose label is the true one.

        >>> simulated = simulate_votes([0, 1, 1], classes=2, users=5, seed=0)
        >>> simulated.accuracy(simulated.target)
        1.0
        """
        return float((np.asarray(label) == self.target).mean())


def simulate_votes(
    target: Any,
    *,
    classes: int,
    users: int,
    seed: int,
    superclasses: Any = None,
    within: float = 0.8,
    votes_per_item: float = 3.0,
    skill: tuple[float, float] = (4.0, 2.0),
    activity: float = 1.0,
    engagement: float = 0.5,
    authored: float = 1.0,
) -> SimulatedVotes:
    """Votes on items of known labels by users of known skill.

    An item gets one vote and a Poisson number of further ones, each of another user, drawn in proportion to their activity
    ``exp(activity · z_u)``. A vote is right with probability ``skill_u``, the quantile ``Φ(engagement · z_u + (1 -
    engagement²)^½ · e_u)`` of a Beta law; z and e are independent standard normal numbers. A wrong vote falls into the
    superclass of the truth with probability ``within``, else outside, uniformly; into the other part where one has no label.

    Args:
        target: the true labels, integers (I,) below ``classes``.
        classes: C.
        users: how many annotators there are.
        seed: everything follows from it.
        superclasses: the superclass of each class, (C,), text or integers (a genus, say); None: one for all classes.
        within: the probability that a wrong vote stays in the superclass.
        votes_per_item: votes on an item on average, 1 or more.
        skill: the two parameters of the Beta law of the users' skill; (4, 2) has mean 2/3.
        activity: how unequal users are: 0 makes all vote alike.
        engagement: from -1 to 1, how far those who vote more are also better.
        authored: the probability that the first voter of an item is its author.

    >>> simulated = simulate_votes(np.arange(1000) % 10, classes=10, users=50, seed=0)
    >>> simulated.votes
    Votes(2,971 votes of 50 users on 1,000 items, 10 labels)
    >>> bool(0.6 < simulated.skill.mean() < 0.75)
    True
    """
    truth: Array = as_target(target).numpy()
    whole(2)("classes", classes)
    whole(1)("users", users)
    _check_target(truth, classes)
    _check_laws(within=within, engagement=engagement, authored=authored, activity=activity, votes_per_item=votes_per_item)
    random = np.random.default_rng(seed)
    ability, weight = _people(random, users, skill, float(decimal("activity", activity)), engagement)
    item = np.repeat(np.arange(len(truth), dtype=np.int64), _vote_counts(random, len(truth), votes_per_item, users))
    user = _voters(random, item, weight)
    label = truth[item]
    wrong = np.flatnonzero(random.random(len(item)) >= ability[user])
    label[wrong] = _mistakes(random, label[wrong], _groups(superclasses, classes), within)
    first = np.append(True, item[1:] != item[:-1])[: len(item)]
    author = first & (random.random(len(item)) < authored)
    votes = Votes.from_arrays(
        user=user,
        item=item,
        label=label,
        author=author,
        users=np.arange(users),
        items=np.arange(len(truth)),
        labels=np.arange(classes),
    )
    return SimulatedVotes(votes, truth, ability)


def _check_target(truth: Array, classes: int) -> None:
    if truth.ndim != 1 or truth.dtype != np.int64 or not len(truth):
        raise InputError(f"target: expected integers (I,), at least one, got {truth.dtype} {truth.shape}")
    if truth.min() < 0 or truth.max() >= classes:
        raise InputError(f"target: expected labels from 0 to {classes - 1}, got {truth.min()} to {truth.max()}")


def _check_laws(**laws: float) -> None:
    ranges = {"within": (0, 1), "authored": (0, 1), "engagement": (-1, 1), "activity": (0, 10), "votes_per_item": (1, 10**6)}
    for name, value in laws.items():
        low, high = ranges[name]
        if not low <= float(decimal(name, value)) <= high:
            raise InputError(f"{name}: expected a number from {low} to {high:,}, got {value}")


def _people(
    random: np.random.Generator, users: int, skill: tuple[float, float], activity: float, engagement: float
) -> tuple[Array, Array]:
    """The skill of each user, and the probability that a vote is theirs."""
    from scipy.special import betaincinv, ndtr

    right, wrong = (float(decimal("skill", value)) for value in skill)
    if right <= 0 or wrong <= 0:
        raise InputError(f"skill: expected two numbers above 0, the parameters of a Beta law, got {skill}")
    eager, gifted = random.standard_normal((2, users))
    ability: Array = betaincinv(right, wrong, ndtr(engagement * eager + np.sqrt(1 - engagement**2) * gifted))
    weight = np.exp(activity * eager)
    return ability, weight / weight.sum()


def _vote_counts(random: np.random.Generator, items: int, mean: float, users: int) -> Array:
    counts = 1 + random.poisson(float(decimal("votes_per_item", mean)) - 1, items)
    if counts.max() > users:
        raise InputError(
            f"votes_per_item: expected items to need at most the {users:,} users there are, got one with {counts.max():,} votes"
        )
    return counts


def _voters(random: np.random.Generator, item: Array, weight: Array) -> Array:
    """Users by their activity, and where one would vote twice on an item, others drawn evenly until none does."""
    ends = np.cumsum(weight)
    user = np.minimum(np.searchsorted(ends, random.random(len(item)), side="right"), len(weight) - 1)
    while True:
        key = item * len(weight) + user
        order = np.argsort(key, kind="stable")
        again = order[1:][key[order[1:]] == key[order[:-1]]]
        if not len(again):
            return user
        user[again] = random.integers(len(weight), size=len(again))


def _groups(superclasses: Any, classes: int) -> Array:
    """The superclass of each class as a number."""
    if superclasses is None:
        return np.zeros(classes, np.int64)
    group, _ = encode(superclasses, "superclasses")
    if len(group) != classes:
        raise InputError(f"superclasses: expected one for each of {classes:,} classes, got {len(group):,}")
    return group.astype(np.int64)


def _mistakes(random: np.random.Generator, truth: Array, group: Array, within: float) -> Array:
    """A wrong label for each true one: a place among the others of its superclass, or among those outside.

    Classes ordered by superclass make both a range of places with a gap.
    """
    order = np.argsort(group, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    size = np.bincount(group)
    start = np.cumsum(size) - size
    members, begin = size[group[truth]], start[group[truth]]
    outside = len(group) - members
    inside = ((random.random(len(truth)) < within) & (members > 1)) | (outside == 0)
    among = random.integers(np.where(inside, members - 1, outside))
    stay = begin + among
    stay += stay >= place[truth]
    leave = among + np.where(among >= begin, members, 0)
    return order[np.where(inside, stay, leave)]
