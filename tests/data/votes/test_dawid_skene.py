"""Dawid–Skene against a literal EM, its climb, its limits, and the skills it recovers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shortlist.data.votes import Votes, dawid_skene, plain_majority, simulate_votes
from shortlist.errors import InputError, ShortlistWarning
from tests.data.votes.cases import rounds_of, tables, votes_of
from tests.references import votes as ref

CHANCES = {"one-coin": ref.one_coin_chances, "full": ref.full_chances}
CASES = [("one-coin", 1.0), ("one-coin", 0.1), ("full", 1.0), ("full", 0.0)]


def fitted(votes, model, smoothing, rounds=6):
    return rounds_of(dawid_skene, votes, model=model, smoothing=smoothing, most_rounds=rounds, tolerance=1e-300)


@pytest.mark.parametrize(("model", "smoothing"), CASES)
@settings(max_examples=40, deadline=None)
@given(rows=tables(), labels=st.integers(4, 6))
def test_rounds_equal_the_literal_em(model, smoothing, rows, labels):
    votes = votes_of(rows, labels=range(labels))
    last, _ = ref.last_votes(rows)
    found = fitted(votes, model, smoothing)
    posterior, likelihoods, _, chance = ref.dawid_skene(rows, range(labels), smoothing, found.rounds, CHANCES[model])
    for item, label, confidence in zip(votes.items.tolist(), found.label, found.confidence, strict=True):
        said = {k for (_, other), k in last.items() if other == item}
        best = max(posterior[item][k] for k in (said if model == "one-coin" else range(labels)))
        assert posterior[item][label] == pytest.approx(best, rel=1e-7)
        assert confidence == pytest.approx(posterior[item][label], rel=1e-7, abs=1e-12)
    if smoothing == 0:
        assert found.objective == pytest.approx(likelihoods, rel=1e-9, abs=1e-9)
    if model == "one-coin":
        accuracy = [chance[user, 0, 0] for user in votes.users.tolist()]
        assert found.weight == pytest.approx(accuracy, rel=1e-7)


@pytest.mark.parametrize(("model", "smoothing"), CASES)
@settings(max_examples=60, deadline=None)
@given(rows=tables(most=40))
def test_the_objective_never_falls(model, smoothing, rows):
    objective = fitted(votes_of(rows, labels=range(5)), model, smoothing, rounds=30).objective
    for before, after in itertools.pairwise(objective):
        assert after >= before - 1e-9 * max(1, abs(before))


@pytest.mark.parametrize("model", CHANCES)
def test_the_objective_is_the_likelihood_and_the_prior(model):
    rows = [(u, i, (u * i + (u == 2)) % 3, False) for u in range(3) for i in range(6)]
    s = 0.5
    found = fitted(votes_of(rows), model, s, rounds=4)
    _, likelihoods, classes, chance = ref.dawid_skene(rows, range(3), s, 4, CHANCES[model])
    prior = s * sum(math.log(p) for p in classes.values())
    for user in range(3):
        if model == "one-coin":
            a = chance[user, 0, 0]
            prior += s * (math.log(a) + math.log(1 - a))
        else:
            pairs = ((said, truth) for said in range(3) for truth in range(3))
            prior += sum((s if said == k else s / 2) * math.log(chance[user, said, k]) for said, k in pairs)
    assert found.objective[-1] == pytest.approx(likelihoods[-1] + prior, rel=1e-9)


@pytest.mark.parametrize("model", CHANCES)
def test_one_label_is_certain(model):
    found = dawid_skene(Votes.from_arrays(user=[1, 2], item=[0, 1], label=["oak", "oak"]), model=model)
    assert found.label.tolist() == [0, 0]
    assert found.confidence == pytest.approx([1, 1])


@pytest.mark.parametrize("model", CHANCES)
def test_a_trusted_user_outvotes_two_poor_ones(model):
    """a, b and c agree on most items; d and e are at odds with them and with one another, and outnumber c alone on the last."""
    agreed = [(user, item, item % 4, False) for user in "abc" for item in range(30)]
    noise = [(user, item, (item * step + 1) % 4, False) for user, step in (("d", 3), ("e", 2)) for item in range(30)]
    rows = [*agreed, *noise, ("c", 30, 2, False), ("d", 30, 1, False), ("e", 30, 1, False)]
    votes = votes_of(rows)
    assert plain_majority(votes).label[30] == 1
    assert dawid_skene(votes, model=model).label[30] == 2


def test_skills_are_recovered():
    """Each of 40 users has about 500 votes: 4.5 standard errors and the pull of the prior; 40 users: below 1 in 1,000."""
    simulated = simulate_votes(np.arange(4000) % 20, classes=20, users=40, seed=3, votes_per_item=5, activity=0.0)
    found = dawid_skene(simulated.votes)
    cast = np.bincount(simulated.votes.user, minlength=40)
    error = np.sqrt(simulated.skill * (1 - simulated.skill) / cast)
    assert (abs(found.weight - simulated.skill) < 4.5 * error + 2 / cast + 0.01).all()
    assert simulated.accuracy(found.label) > simulated.accuracy(plain_majority(simulated.votes).label) + 0.02


def test_confusions_are_recovered_where_one_coin_cannot():
    """A user who takes 0 for 1 and 1 for 0 is as useful as a good one, to the full model."""
    random = np.random.default_rng(0)
    target = random.integers(3, size=900)
    swapped = np.array([1, 0, 2])[target]
    good = np.where(random.random((2, 900)) < 0.9, target, random.integers(3, size=(2, 900)))
    said = np.concatenate([good, np.where(random.random((1, 900)) < 0.95, swapped, 2)])
    votes = votes_of([(user, item, int(said[user, item]), False) for user in range(3) for item in range(900)])
    full, coin = (dawid_skene(votes, model=model, most_rounds=1000) for model in ("full", "one-coin"))
    assert (full.label == target).mean() > (coin.label == target).mean() + 0.01
    assert full.weight[2] < 0.5 < full.weight[0]


@pytest.mark.parametrize("smoothing", [1e-100, 1e-20, 1e-17, 1e9])
@pytest.mark.parametrize("model", CHANCES)
def test_the_least_and_the_most_smoothing_leave_numbers(model, smoothing):
    """A user who is never contradicted is right with a probability that rounds to 1."""
    rows = [(user, item, (item + (user == 2)) % 3, False) for user in range(3) for item in range(6)]
    found = fitted(votes_of(rows), model, smoothing, rounds=20)
    assert found.label.tolist() == [0, 1, 2, 0, 1, 2]
    assert np.isfinite(found.confidence).all()
    assert np.isfinite(found.objective).all()
    for before, after in itertools.pairwise(found.objective):
        assert after >= before - 1e-9 * max(1, abs(before))


def test_stopping_early_is_told():
    simulated = simulate_votes(np.arange(200) % 5, classes=5, users=20, seed=0)
    with pytest.warns(ShortlistWarning, match="EM has not settled after 2 rounds"):
        found = dawid_skene(simulated.votes, most_rounds=2)
    assert not found.converged
    assert found.rounds == 2
    assert "not settled" in repr(found)
    assert dawid_skene(simulated.votes).converged


def test_the_full_model_is_refused_beyond_its_size():
    votes = Votes.from_arrays(user=np.arange(100), item=np.zeros(100, int), label=np.zeros(100, int), labels=range(1000))
    with pytest.raises(InputError, match=r"expected at most 16,777,216 cells of confusion .* got 100,000,000 .*use 'one-coin'"):
        dawid_skene(votes, model="full")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "two-coin"}, "model: expected 'one-coin' or 'full', got 'two-coin'"),
        ({"smoothing": 0}, "smoothing: expected a number above 0"),
        ({"smoothing": -1, "model": "full"}, "smoothing: expected a number above 0"),
        ({"smoothing": 1e-200}, "smoothing: expected a number above 0, from 1e-100 to 1e"),
        ({"smoothing": 1e300}, "smoothing: expected a number above 0, from 1e-100 to 1e"),
        ({"tolerance": 0}, "tolerance: expected a number above 0, got 0"),
        ({"most_rounds": 0}, "most_rounds: expected a whole number from 1"),
        ({"theta": -1}, "theta: expected a number from 0"),
    ],
)
def test_bad_numbers_are_refused(changed, message):
    with pytest.raises(InputError, match=message):
        dawid_skene(Votes.from_arrays(user=[1], item=[1], label=[1]), **changed)
