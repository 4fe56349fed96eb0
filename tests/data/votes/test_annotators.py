"""Simulated annotators do what is said of them."""

import numpy as np
import pytest
from scipy.stats import beta, kstest, spearmanr

from shortlist.data.votes import simulate_votes
from shortlist.errors import InputError

TARGET = np.arange(20_000) % 30
GENERA = np.arange(30) // 3


def simulated(**changed):
    return simulate_votes(TARGET, **{"classes": 30, "users": 300, "seed": 0, "superclasses": GENERA, **changed})


def test_everything_follows_from_the_seed():
    one, same, other = simulated(), simulated(), simulated(seed=1)
    for name in ("user", "item", "label", "authors"):
        assert np.array_equal(getattr(one.votes, name), getattr(same.votes, name))
    assert np.array_equal(one.skill, same.skill)
    assert len(one.votes) != len(other.votes) or not np.array_equal(one.votes.label, other.votes.label)


def test_every_item_has_votes_of_different_users_and_the_mean_that_was_asked_for():
    """The mean of 20,000 counts of variance 2: 4 standard errors, 6e-5."""
    votes = simulated().votes
    counts = np.bincount(votes.item, minlength=len(TARGET))
    assert counts.min() >= 1
    assert abs(counts.mean() - 3) < 4 * np.sqrt(2 / len(TARGET))
    assert votes.notes == ()  # nobody voted twice


def test_as_many_votes_as_users_are_all_different():
    votes = simulate_votes([0, 1] * 20, classes=2, users=3, seed=0, votes_per_item=1.2).votes
    assert votes.notes == ()


def test_votes_are_right_as_often_as_the_skill_says():
    """The sum over all votes, 4 standard errors: 6e-5."""
    found = simulated()
    right = found.votes.label == found.target[found.votes.item]
    chance = found.skill[found.votes.user]
    assert abs((right - chance).sum()) < 4 * np.sqrt((chance * (1 - chance)).sum())


def test_skills_follow_their_law():
    """Kolmogorov–Smirnov of 2,000 skills against the Beta law, 1 in 1,000."""
    assert kstest(simulated(users=2000, skill=(6, 2)).skill, beta(6, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("within", [0.0, 0.7, 1.0])
def test_errors_stay_in_the_superclass_as_often_as_was_asked_and_spread_evenly(within):
    """4 standard errors: 6e-5."""
    found = simulated(within=within)
    truth, label = found.target[found.votes.item], found.votes.label
    wrong = label != truth
    same = (GENERA[label] == GENERA[truth])[wrong]
    assert abs(same.mean() - within) <= 4 * np.sqrt(within * (1 - within) / wrong.sum())
    shifts = np.bincount((label - truth)[wrong] % 30, minlength=30)
    assert shifts[0] == 0
    if within == 0:
        hits = np.bincount(label[wrong & (truth == 4)], minlength=30)
        assert (hits[3:6] == 0).all()
        assert (np.delete(hits, [3, 4, 5]) > 0).all()


def test_a_genus_of_one_species_errs_outside_and_one_of_all_inside():
    alone = simulate_votes([0] * 500, classes=3, users=50, seed=0, superclasses=["a", "b", "b"], within=1.0).votes
    assert set(np.unique(alone.label)) == {0, 1, 2}
    together = simulate_votes([0] * 500, classes=3, users=50, seed=0, within=0.0).votes
    assert set(np.unique(together.label)) == {0, 1, 2}


@pytest.mark.parametrize(("engagement", "low", "high"), [(0.9, 0.7, 1), (0.0, -0.2, 0.2), (-0.9, -1, -0.7)])
def test_those_who_vote_more_are_better_as_far_as_was_asked(engagement, low, high):
    found = simulated(engagement=engagement, users=500)
    counts = np.bincount(found.votes.user, minlength=500)
    assert low < spearmanr(counts, found.skill).statistic < high


@pytest.mark.parametrize(("authored", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_authors_are_among_the_voters(authored, share):
    votes = simulated(authored=authored).votes
    assert (votes.authors >= 0).mean() == share
    cast = set(zip(votes.item.tolist(), votes.user.tolist(), strict=True))
    assert all((item, user) in cast for item, user in enumerate(votes.authors.tolist()) if user >= 0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"classes": 1}, "classes: expected a whole number from 2"),
        ({"classes": 20}, "target: expected labels from 0 to 19, got 0 to 29"),
        ({"users": 0}, "users: expected a whole number from 1"),
        ({"users": 2}, "votes_per_item: expected items to need at most the 2 users"),
        ({"within": 1.5}, "within: expected a number from 0 to 1, got 1.5"),
        ({"engagement": -2}, "engagement: expected a number from -1 to 1"),
        ({"votes_per_item": 0.5}, "votes_per_item: expected a number from 1"),
        ({"skill": (0, 1)}, "skill: expected two numbers above 0"),
        ({"superclasses": [0, 1]}, "superclasses: expected one for each of 30 classes, got 2"),
    ],
)
def test_bad_numbers_are_refused(changed, message):
    with pytest.raises(InputError, match=message):
        simulated(**changed)


@pytest.mark.parametrize("target", [[], [[0, 1]], [0.5]])
def test_a_target_is_one_label_an_item(target):
    with pytest.raises(InputError, match="target: expected integers"):
        simulate_votes(np.array(target), classes=3, users=3, seed=0)
