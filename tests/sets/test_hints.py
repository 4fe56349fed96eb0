"""Hints: probabilities on another scale, networks too confident for APS, and rules typed as people type numbers."""

import warnings

import numpy as np
import pytest
import torch

from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import aps, average_k, lac, parse_rule, raps
from shortlist.sets.scales import other_scale


def drawn(rows=300, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return probs, torch.multinomial(probs, 1, generator=generator)[:, 0]


SCALES = [pytest.param(lambda p: 100 * p, "percentages", id="percent"), pytest.param(torch.log, "log-prob", id="log")]


@pytest.mark.parametrize("rule", [lac(0.1), average_k(2)], ids=["lac", "average-k"])
@pytest.mark.parametrize(("scale", "called"), SCALES)
@pytest.mark.parametrize("kind", [torch.as_tensor, np.asarray], ids=["tensor", "array"])
def test_probabilities_on_another_scale_are_told(rule, scale, called, kind):
    probs, target = drawn()
    with pytest.warns(ShortlistWarning, match=called):
        rule.fit(kind(scale(probs)), target)
    rule.fit(kind(probs), target)
    with pytest.warns(ShortlistWarning, match=called):
        rule.predict(kind(scale(probs)))


def test_scores_and_probabilities_are_taken_as_they_are():
    probs, target = drawn()
    scores = 3 * torch.randn(300, 5, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in (probs, scores, -scores.abs(), 100 * scores.sigmoid()):
            lac(0.1).fit(values, target).predict(values)
    assert other_scale(probs[:0]) is None
    assert other_scale(torch.zeros(3, 1)) is None


def confident(right, rows=600, classes=50):
    """Rows with one large score each, the true label in this share of them."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, classes, generator=generator)
    target = torch.randint(classes, (rows,), generator=generator)
    sure = torch.rand(rows, generator=generator) < right
    scores[torch.arange(rows), target] += 12 * sure
    return scores.softmax(1), target


def test_aps_on_a_confident_network_gets_a_hint():
    probs, target = confident(0.97)
    with pytest.warns(ShortlistWarning, match=r"right in 97\.\d% .* lac:0\.1 or aps:0\.1, without"):
        rule = aps(0.1, randomized=False).fit(probs, target)
    # The hint is right: sets of the other rules are far smaller.
    assert rule.calibrated.mean > 10 * lac(0.1).fit(probs, target).calibrated.mean
    assert rule.calibrated.mean > 5 * aps(0.1, generator=0).fit(probs, target).calibrated.mean


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        (aps(0.01, randomized=False), confident(0.97)),
        (aps(0.1), confident(0.97)),
        (aps(0.1, randomized=False), drawn()),
        (raps(0.1), confident(0.97)),
        (aps(0.1, generator=0), confident(0.97)),
    ],
    ids=["smaller alpha", "default", "ordinary", "raps", "random"],
)
def test_other_fits_get_no_hint(rule, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule.fit(*rows)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lac:10%", "lac:0.1"),
        ("lac:10 %", "lac:0.1"),
        ("aps:2.5%", "aps:0.025"),
        ("threshold:50%", "threshold:0.5"),
        ("lac:10%,cap:3", "lac:0.1,cap:3"),
        ("average-k:2,gate:95%", "average-k:2,gate:0.95"),
        ("per-label:precision:90%", "per-label:precision:0.9"),
    ],
)
def test_percentages_are_understood(typed, meant):
    assert parse_rule(typed).text == meant


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lac:0,1", "lac:0.1"),
        ("average-k:2,5", "average-k:2.5"),
        ("average-k:2,5,cap:3", "average-k:2.5,cap:3"),
        ("raps:0,1:0.01", "raps:0.1:0.01"),
    ],
)
def test_decimal_commas_are_explained(typed, meant):
    with pytest.raises(InputError, match=f"with a point, {meant}$"):
        parse_rule(typed)


@pytest.mark.parametrize("typed", ["average-k:5%", "lac:%", "lac:ten%"])
def test_percentages_that_mean_nothing_are_refused(typed):
    with pytest.raises(InputError, match="expected a number"):
        parse_rule(typed)
