"""Retrieval by queries, against all of them for four labels."""

import math

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.metrics import RetrievalMap, retrieval_curve, retrieval_map
from shortlist.metrics.retrieval import count_queries
from tests.references import metrics as ref


def draw(rows=25, classes=4, seed=0):
    random = np.random.default_rng(seed)
    probs = random.uniform(size=(rows, classes))
    target = random.uniform(size=probs.shape) < probs
    target[0] = False
    return probs, target


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("max_length", [1, 2, 3, 4, 5])
def test_the_map_is_the_mean_over_all_satisfiable_queries(max_length, seed):
    probs, target = draw(seed=seed)
    assert retrieval_map(probs, target, max_length=max_length).item() == pytest.approx(
        ref.retrieval_map(probs, target, max_length), rel=1e-12
    )


@pytest.mark.parametrize("rows", [3, 25])
def test_the_curve_has_the_mean_and_the_number_of_queries_of_each_length(rows):
    probs, target = draw(rows)
    curve = retrieval_curve(probs, target)
    found = ref.retrieval_by_length(probs, target)
    assert curve.queries.tolist() == [len(values) for values in found]
    np.testing.assert_allclose(curve.maps.numpy(), [ref.mean(values) for values in found], rtol=1e-12)
    assert curve.standard_errors.tolist() == [0.0] * 4


def test_one_label_a_row_is_queried_as_well():
    probs, _ = draw()
    target = np.arange(25) % 4
    assert retrieval_map(probs, target).item() == pytest.approx(ref.retrieval_map(probs, target), rel=1e-12)


def test_certain_probabilities_rank_without_nan():
    probs, target = draw()
    probs[:8], probs[8:16] = np.round(probs[:8]), target[8:16]
    assert retrieval_map(probs, target).item() == pytest.approx(ref.retrieval_map(probs, target), rel=1e-12)


def test_true_labels_as_probabilities_retrieve_perfectly():
    _, target = draw()
    assert retrieval_map(target.astype(float), target).item() == 1


def test_products_that_underflow_are_told_apart():
    """1e-200 · 1e-200 is 0 in float64; its logarithm is not."""
    probs = np.array([[1e-200, 1e-190], [1e-200, 1e-200], [0.0, 1.0]])
    target = np.array([[True, True], [False, False], [False, False]])
    curve = retrieval_curve(probs, target)
    assert curve.maps[1].item() == 1


@pytest.mark.parametrize(("classes", "length"), [(4, 1), (4, 2), (5, 3), (6, 4)])
def test_queries_are_counted(classes, length):
    queries = list(ref.retrieval_queries(classes, length))
    assert count_queries(classes, length) == len(queries) == len(set(queries))


def test_eighty_labels_have_770_million_queries_and_ask_for_a_sample():
    assert sum(count_queries(80, length) for length in range(1, 6)) == pytest.approx(770e6, rel=0.01)
    with pytest.raises(InputError, match="sample"):
        retrieval_map(torch.rand(3, 80), torch.ones(3, 80, dtype=torch.bool))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_sample_is_within_its_interval(seed):
    """Mean of each length within 5 standard errors: a false alarm in 10^5."""
    probs, target = draw(30, 9)
    exact, some = (retrieval_curve(probs, target, max_length=3, sample=n, seed=seed) for n in (None, 150))
    assert some.standard_errors[0] == 0  # 9 queries of length 1 are all asked
    assert some.maps[0].item() == pytest.approx(exact.maps[0].item(), rel=1e-12)
    for place in (1, 2)[count_queries(9, 2) <= 150 :]:
        assert some.standard_errors[place] > 0
        assert abs(some.maps[place] - exact.maps[place]) <= 5 * some.standard_errors[place]
        assert some.queries[place].item() == pytest.approx(exact.queries[place].item(), rel=0.4)


def test_the_seed_is_the_only_chance():
    probs, target = draw(30, 9)
    first, again, other = (retrieval_map(probs, target, sample=50, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_sample_of_all_is_all():
    probs, target = draw()
    assert retrieval_map(probs, target, sample=10**6) == retrieval_map(probs, target)


@pytest.mark.parametrize("sample", [0, -5])
def test_a_sample_of_nothing_is_refused(sample):
    probs, target = draw()
    with pytest.raises(InputError, match="sample"):
        retrieval_map(probs, target, sample=sample)


@pytest.mark.parametrize("make", [lambda n: RetrievalMap(max_length=n), lambda n: retrieval_map(*draw(), max_length=n)])
def test_a_length_of_nothing_is_refused_at_once(make):
    with pytest.raises(InputError, match="max_length: expected a whole number from 1, got 0"):
        make(0)


def test_labels_that_never_occur_are_no_number():
    probs, target = draw()
    assert math.isnan(retrieval_map(probs, np.zeros_like(target)))


def test_longer_queries_lose_less_with_better_probabilities():
    """The same ranking of single labels, once calibrated and once not."""
    random = np.random.default_rng(0)
    probs = random.beta(0.3, 1, size=(2000, 5))
    target = random.uniform(size=probs.shape) < probs
    true, wrong = (retrieval_curve(p, target) for p in (probs, probs ** np.array([0.2, 1, 5, 0.2, 5])))
    assert true.maps[0].item() == pytest.approx(wrong.maps[0].item(), abs=0.05)
    assert true.maps[2] > wrong.maps[2] + 0.02
