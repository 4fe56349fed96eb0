"""Guarantees on Flora, whose law is known: for each, the rule that has it holds it where the plain rule does not.

Coverage is exact given a row: the sum of the true probabilities of the labels in its set. An average over calibrations is
compared with what was asked for, less four of its standard errors (:func:`short_of`), so that a false alarm has a probability
below 1 in 10,000. The plain rule has to be below that.
"""

import functools

import numpy as np
import pytest
from scipy.stats import binom

from shortlist.data.flora import Flora
from shortlist.sets import by, lac, pac
from shortlist.shift import input_weights, thinned

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
SPECIES, CALIBRATIONS, ROWS, NEW, ASKED = 20, 40, 300, 1500, 0.9


@functools.cache
def garden():
    return Flora(SPECIES, 5, seed=0, abundance="balanced")


def plants(n, seed, noise=0.4):
    """The labels of plants that are measured, and their true probabilities, float64 (N, C)."""
    _, labels, posterior = garden().measurements(n, seed=seed, noise=noise)
    probs = posterior.double().numpy()
    return labels.numpy(), probs / probs.sum(1, keepdims=True)


def in_two_sites(n, seed, south):
    """Labels, true probabilities, those of the classifier, which is overconfident in the south, and where rows are from."""
    labels, true = plants(n, seed)
    site = np.random.default_rng(seed).random(n) < south
    probs = np.where(site[:, None], true**3, true)
    return labels, true, probs / probs.sum(1, keepdims=True), site


def covered(sets, true):
    return (sets * true).sum(1)


def short_of(found):
    """Whether the average of these coverages, one for each calibration, is below what was asked for by more than chance."""
    found = np.array(found)
    return found.mean() < ASKED - 4 * found.std(ddof=1) / np.sqrt(len(found))


def test_within_a_site_the_rule_by_sites_covers_where_the_plain_one_falls_short():
    plain, own = [], []
    for seed in range(CALIBRATIONS):
        labels, _, probs, site = in_two_sites(2 * ROWS, 2 * seed, 0.5)
        _, true, new, where = in_two_sites(NEW, 2 * seed + 1, 0.5)
        names, asked = np.where(site, "south", "north"), np.where(where, "south", "north")
        plain.append(covered(lac(0.1).fit(probs, labels).predict(new), true)[where].mean())
        sets = by(lac(0.1), "site").fit(probs, labels, groups=names).predict(new, groups=asked)
        own.append([covered(sets, true)[here].mean() for here in (where, ~where)])
    assert short_of(plain)
    assert not short_of([south for south, _ in own])
    assert not short_of([north for _, north in own])


def test_rows_that_moved_are_covered_by_known_and_by_learned_weights():
    """A tenth of the calibration rows are from the south, nine tenths of the new ones; learned are the weights of the sites."""
    found = {"plain": [], "known": [], "learned": []}
    for seed in range(CALIBRATIONS):
        labels, _, probs, site = in_two_sites(2 * ROWS, 2 * seed, 0.1)
        _, true, new, where = in_two_sites(NEW, 2 * seed + 1, 0.9)
        weights, asked = np.where(site, 9.0, 1 / 9), np.where(where, 9.0, 1 / 9)
        learned = input_weights(site[:, None].astype(float), where[:, None].astype(float), least=10).weights
        kept = thinned(learned, seed=seed).numpy()
        known = lac(0.1).fit(probs, labels, weights=weights).predict(new, weights=asked)
        rules = {"plain": lac(0.1).fit(probs, labels), "learned": lac(0.1).fit(probs[kept], labels[kept])}
        for name, sets in {"known": known, **{name: rule.predict(new) for name, rule in rules.items()}}.items():
            found[name].append(covered(sets, true).mean())
    assert short_of(found["plain"])
    assert not short_of(found["known"])
    assert not short_of(found["learned"])


def test_other_shares_of_the_species_are_covered_by_weights_of_the_classes():
    """The two species that the plain rule covers least become frequent; true probabilities follow the new shares."""
    labels, true = plants(20_000, 999, 0.2)
    sets = lac(0.1).fit(true, labels).predict(true)
    share = np.array([sets[labels == label, label].mean() for label in range(SPECIES)])
    ratio = np.where(share <= np.quantile(share, 0.1), 9.1, 0.1)
    plain, weighted = [], []
    for seed in range(CALIBRATIONS):
        labels, probs = plants(2 * ROWS, 2 * seed, 0.2)
        _, many = plants(NEW, 2 * seed + 1, 0.2)
        chance = many @ ratio  # of a plant with this look among the new ones, over that before
        now = many * ratio / chance[:, None]
        for found, given in ((plain, {}), (weighted, {"class_weights": ratio})):
            sets = lac(0.1).fit(probs, labels, **given).predict(many)
            found.append(np.average(covered(sets, now), weights=chance))
    assert short_of(plain)
    assert not short_of(weighted)


def test_a_vote_is_covered_by_the_rule_that_was_fitted_on_votes():
    """Five people look at each calibration row; a new vote is drawn from the true law of its row."""
    plain, voted = [], []
    for seed in range(CALIBRATIONS):
        _, probs = plants(ROWS, 2 * seed)
        _, new = plants(NEW, 2 * seed + 1)
        cast = np.random.default_rng(seed).multinomial(5, probs).astype(float)
        for found, target in ((plain, cast.argmax(1)), (voted, cast)):
            found.append(covered(lac(0.1).fit(probs, target).predict(new), new).mean())
    assert short_of(plain)
    assert not short_of(voted)


def test_the_coverage_of_one_calibration_falls_short_in_at_most_delta_of_them():
    """200 calibrations: with δ = 0.1 more than 37 would be a chance of 1 in 10,000; of the plain rule about 4 in 10 fall short.

    50 or fewer of these would be a chance of 1 in 100,000.

    The coverage at a threshold is that of 50,000 plants, known within 0.001; an allowance of 0.002 is for that.
    """
    values = np.sort(plants(50_000, 999)[1].ravel())
    above = np.append(values[::-1].cumsum()[::-1], 0) / 50_000  # the coverage at each of these thresholds
    assert binom.ppf(0.9999, 200, 0.1) == 37
    short = {"plain": 0, "pac": 0}
    for seed in range(200):
        labels, probs = plants(ROWS, seed)
        for name, rule in (("plain", lac(0.1)), ("pac", pac(lac(0.1), 0.1))):
            threshold = float(rule.fit(probs, labels).threshold)
            short[name] += above[np.searchsorted(values, threshold)] < ASKED - 0.002
    assert short["plain"] > 50
    assert short["pac"] <= 37
