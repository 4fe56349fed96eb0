"""Bets: the literal capital, densities that integrate to one, and Ville's bound."""

import math
from fractions import Fraction

import numpy as np
import pytest

from shortlist.errors import InputError
from shortlist.shift import coverage_interval
from shortlist.shift.betting import Bets, Ranks
from shortlist.shift.signals import deciding, places, probability_at
from tests.references import shift as ref


@pytest.mark.parametrize("kind", ["uniform", "small", "edges"])
def test_the_capital_is_that_of_the_literal_mixture(kind):
    random = np.random.default_rng(0)
    p_values = {"uniform": random.uniform(size=80), "small": random.beta(1, 3, 80), "edges": np.repeat([0.0, 1.0], 10)}[kind]
    bets, other = Bets(2), random.uniform(size=len(p_values))
    path = []
    for pair in zip(p_values, other, strict=True):
        bets.bet(np.array(pair))
        path.append(bets.capital.copy())
    np.testing.assert_allclose(np.array(path)[:, 0], ref.capital(p_values.tolist()), atol=1e-9)
    np.testing.assert_allclose(np.array(path)[:, 1], ref.capital(other.tolist()), atol=1e-9)
    assert bets.peak[0] == max(0, np.array(path)[:, 0].max())
    lowest = np.array(path)[:, 0].min()
    assert bets.since[0] == (0 if lowest >= 0 else np.array(path)[:, 0].argmin() + 1)


def test_every_density_integrates_to_one():
    random, bets = np.random.default_rng(1), Bets(1)
    for p in random.beta(0.5, 2, 300):
        bets.bet(np.array([p]))
    middles = (np.arange(640) + 0.5) / 640
    np.testing.assert_allclose(np.mean([bets.densities(np.array([p]))[:, 0] for p in middles], axis=0), 1, atol=1e-9)
    assert bets.weights.sum() == pytest.approx(1)
    assert (bets.weights > 0).all()


def test_capital_rarely_grows_on_uniform_p_values():
    """Ville: at most 5 % of 400 series ever reach 20; more than 36 would be a chance of 1 in 2,000."""
    random, bets = np.random.default_rng(2), Bets(400)
    for _ in range(600):
        bets.bet(random.uniform(size=400))
    assert (bets.peak >= math.log(20)).sum() <= 36
    assert np.median(bets.capital) > -5  # a long calm costs little, so that a later change is still noticed


@pytest.mark.parametrize(
    "changed", [lambda r, n: r.beta(1, 1.5, n), lambda r, n: np.where(r.random(n) < 0.2, 0.5, r.random(n))]
)
def test_a_late_change_is_noticed_and_dated(changed):
    random, bets = np.random.default_rng(3), Bets(50)
    for _ in range(800):
        bets.bet(random.uniform(size=50))
    for _ in range(600):
        bets.bet(changed(random, 50))
    assert (bets.peak >= math.log(400)).mean() > 0.9
    assert abs(np.median(bets.since) - 800) < 80


def test_p_values_are_ranks_among_all_so_far():
    random = np.random.default_rng(4)
    reference, values, uniforms = random.integers(0, 6, 30), random.integers(0, 6, 50), random.uniform(size=50)
    ranks = Ranks(6)
    ranks.add(reference)
    found = [ranks.p_value(int(value), uniform) for value, uniform in zip(values, uniforms, strict=True)]
    np.testing.assert_allclose(found, ref.p_values(reference.tolist(), values.tolist(), uniforms))


def test_places_keep_the_order_of_values_and_give_probabilities_back():
    values = np.sort(
        np.concatenate([np.random.default_rng(5).uniform(size=200), [0, 1, 1e-300, 1 - 1e-16, 1.5, 3, 1e9, np.inf]])
    )
    found = places(values)
    assert (np.diff(found) >= 0).all()
    assert found.min() == 0
    assert found.max() == (64 + 64) * 64
    for p in (0.001, 0.3, 0.5, 0.99):
        assert probability_at(float(places(np.array([p]))[0]) + 0.5) == pytest.approx(p, rel=0.01)


@pytest.mark.parametrize(("missed", "rows"), [(0, 1), (1, 1), (3, 10), (0, 50), (50, 50), (100, 1000)])
@pytest.mark.parametrize("level", [0.01, 0.2])
def test_the_interval_holds_what_the_bet_has_not_refuted(missed, rows, level):
    low, high = coverage_interval(missed, rows, level)
    history = [True] * missed + [False] * (rows - missed)
    for coverage in np.linspace(0.0005, 0.9995, 400):
        if min(abs(coverage - low), abs(coverage - high)) > 1e-6:
            assert (low < coverage < high) == (ref.capital_against(1 - coverage, history) < -math.log(level))
    assert 0 <= low <= 1 - missed / rows <= high <= 1


def test_the_interval_holds_the_truth_at_all_moments():
    """Ville: outside at some moment in at most 20 % of 200 histories; more than 59 would be a chance of 1 in 2,000."""
    random = np.random.default_rng(6)
    refuted = 0
    for missed in random.uniform(size=(200, 150)) < 0.1:
        m = np.cumsum(missed)
        refuted += any(
            not low <= 0.9 <= high for low, high in (coverage_interval(int(m[n]), n + 1, 0.2) for n in range(0, 150, 10))
        )
    assert refuted <= 59


@pytest.mark.parametrize("level", [0.01, 0.2])
def test_the_interval_of_a_mean_holds_what_the_bets_have_not_refuted(level):
    shares = np.random.default_rng(7).choice([0, 1 / 3, 0.5, 1], 40, p=[0.6, 0.2, 0.15, 0.05])
    low, high = coverage_interval(float(shares.sum()), 40, level)
    for recall in np.linspace(0.01, 0.99, 40):
        assert (low < recall < high) == (ref.capital_against_mean(1 - recall, shares) < -math.log(level))


@pytest.mark.parametrize("values", [[0, 1], [0, 0.5, 1], [0.1, 0.3]])
def test_the_interval_holds_the_mean_of_shares_at_all_moments(values):
    """Ville: outside at some moment in at most 20 % of 200 histories; more than 59 would be a chance of 1 in 2,000."""
    random = np.random.default_rng(8)
    refuted = 0
    for drawn in random.choice(values, (200, 150)):
        missed = np.cumsum(drawn)
        ends = (coverage_interval(float(missed[n]), n + 1, 0.2) for n in range(0, 150, 10))
        refuted += any(not low <= 1 - np.mean(values) <= high for low, high in ends)
    assert refuted <= 59


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("allowed", [Fraction(0), Fraction(1, 3), Fraction("0.1"), Fraction("0.5")])
def test_the_value_that_decides_the_loss_of_a_row(allowed, descending):
    random = np.random.default_rng(9)
    sizes = random.integers(0, 12, 60)
    values = random.integers(1, 9, sizes.sum()) / 8.0
    rows = np.split(values, sizes.cumsum()[:-1])
    found = deciding(values, sizes, allowed, descending=descending)
    if descending:
        assert found.tolist() == [ref.deciding(row, allowed) for row in rows]
    else:  # smaller ones are more plausible, and 0 is the most plausible of all
        assert found.tolist() == [-ref.deciding(-row, allowed) if len(row) else 0 for row in rows]


def test_an_interval_of_no_rows_is_everything():
    assert coverage_interval(0, 0) == (0, 1)
    for values in ((3, 2), (-1, 2), (2.1, 2), (0, 2, 0), (0, 2, 1)):
        with pytest.raises(InputError, match="missed|level"):
            coverage_interval(*values)
