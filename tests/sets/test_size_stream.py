"""Average-k on a stream: the literal update, the bound that holds whatever comes, drift, and resuming."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data.flora import Flora
from shortlist.errors import InputError
from shortlist.sets import SizeStream, average_k, cap, floor, lac
from tests.references import streams as ref

PRIOR = np.array([0.4, 0.3, 0.2, 0.07, 0.03])


def probs_of(n, seed, flat=1.0):
    return np.random.default_rng(seed).dirichlet(np.full(5, flat), n)


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["plain", "prior"])
@pytest.mark.parametrize("step", [0.001, 0.05])
def test_sizes_follow_the_literal_update(prior, step):
    rule = average_k(1.7, prior).fit(probs_of(100, 0))
    new = probs_of(200, 1, flat=5.0)
    ordered, top = (new, 1.0) if prior is None else (new / prior, 1 / prior.min())
    sizes = ref.average_size(ordered, 1.7, float(rule.threshold), step, top)
    stream = SizeStream(rule, step=step)
    np.testing.assert_array_equal(stream.answer(new).sum(1), sizes)
    assert stream.mean == pytest.approx(sizes.mean())


def test_the_first_set_is_that_of_the_fitted_rule():
    probs = probs_of(33, 2)
    rule = average_k(2).fit(probs)
    for row in probs:
        assert (SizeStream(rule).answer(row[None]) == rule.predict(row[None])).all()


@settings(max_examples=30, deadline=None)
@given(
    choices=st.lists(st.sampled_from(["flat", "sharp", "zero", "one", "random"]), min_size=1, max_size=60),
    k=st.sampled_from([0.3, 1, 4.5]),
    step=st.sampled_from([0.003, 0.1, 1.0]),
)
def test_the_mean_size_stays_within_its_bound_whatever_comes(choices, k, step):
    random = np.random.default_rng(3)
    kinds = {
        "flat": lambda: np.full(5, 0.2),
        "sharp": lambda: np.array([0.96, 0.01, 0.01, 0.01, 0.01]),
        "zero": lambda: np.zeros(5),
        "one": lambda: np.ones(5),
        "random": lambda: random.dirichlet(np.ones(5)),
    }
    stream = SizeStream(average_k(k).fit(probs_of(50, 4)), step=step)
    for choice in choices:
        stream.answer(kinds[choice]()[None])
        assert abs(stream.mean - k) <= stream.bound(5) + 1e-12


def test_the_bound_is_nearly_reached():
    stream = SizeStream(average_k(1).fit(probs_of(50, 4)), step=0.01)
    ratios = []
    for _ in range(100):
        stream.answer(np.ones((1, 5)))
        ratios.append(abs(stream.mean - 1) / stream.bound(5))
    assert 0.8 < max(ratios) <= 1


@pytest.mark.filterwarnings("ignore:average-k.2. many labels tie")
def test_a_fixed_threshold_fails_under_drift_where_the_stream_holds():
    garden, wild = Flora(30, 6, seed=0, variation=0.5), Flora(30, 6, seed=0, variation=2.0)
    rule = average_k(2).fit(garden.observe(800, seed=1)[1])
    new = garden.posterior(wild.observations(3000, seed=2)[1])
    fixed = float(rule.predict(new).sum(1).double().mean())
    assert abs(fixed - 2) > 0.2
    stream = SizeStream(rule)
    sizes = stream.answer(new).sum(1).double()
    assert abs(sizes[500:].mean() - 2) < 0.05
    assert abs(stream.mean - 2) <= stream.bound(30)


def test_how_rows_are_divided_and_where_the_stream_stops_changes_nothing(tmp_path):
    rule = average_k(1.3, PRIOR).fit(probs_of(100, 0))
    new = probs_of(90, 5, flat=4.0)
    whole = SizeStream(rule, step=0.02).answer(new)
    stream, parts = SizeStream(rule, step=0.02), []
    for start, stop in ((0, 1), (1, 1), (1, 40), (40, 90)):
        parts.append(stream.answer(new[start:stop]))
        stream.save(tmp_path / "sizes.safetensors")
        stream = SizeStream.load(tmp_path / "sizes.safetensors")
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert stream.mean == whole.sum() / 90


def test_a_tensor_gives_a_tensor_and_no_rows_no_mean():
    stream = SizeStream(average_k(2).fit(probs_of(20, 0)))
    assert stream.answer(torch.empty(0, 5)).shape == (0, 5)
    assert np.isnan(stream.mean)
    assert stream.bound(5) == np.inf


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SizeStream(average_k(2)), "not been fitted"),
        (lambda: SizeStream(lac(0.1)), "rule: expected average_k, got lac:0.1"),
        (lambda: SizeStream("average-k:2"), "rule: expected average_k, got 'average-k:2'"),
        (lambda: SizeStream(cap(average_k(2), 3).fit(probs_of(20, 0))), "without cap, floor and gate"),
        (lambda: SizeStream(floor(average_k(2)).fit(probs_of(20, 0))), "without cap, floor and gate"),
        (lambda: SizeStream(average_k(2).fit(probs_of(20, 0) * 30 + 4)), "rule: expected a threshold between 0 and 1"),
        (lambda: SizeStream(average_k(5).fit(probs_of(20, 0))), "rule: expected a threshold between 0 and 1"),
        (lambda: SizeStream(average_k(2).fit(probs_of(20, 0)), step=-1), "step: expected .* above 0"),
        (lambda: SizeStream(average_k(2).fit(probs_of(20, 0))).answer(probs_of(3, 0)[:, :1]), "k: expected at most"),
    ],
)
def test_what_cannot_follow_is_refused(make, words):
    with pytest.raises(Exception, match=words) as error:
        make()
    assert isinstance(error.value, InputError) or "fitted" in words
