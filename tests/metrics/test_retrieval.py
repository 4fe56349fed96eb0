"""Retrieval by queries, against all of them for a few labels."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.links import Isotonic, Platt
from shortlist.metrics import (
    RetrievalMap,
    RetrievalScores,
    evaluate_retrieval,
    logs_of,
    retrieval_curve,
    retrieval_map,
)
from shortlist.query_rankings import asking
from shortlist.query_rankings.asking import count_queries
from shortlist.query_rankings.ranking import LONG_ROW
from tests.references import metrics as ref, retrieval_evaluation as slow


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
    with pytest.raises(InputError, match="max_length: .*got 0"):
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


# What follows is the whole evaluation: by length and by kind, precision at 10, reliability, samples.


def logs(probs):
    with np.errstate(divide="ignore"):
        return np.log(probs), np.log1p(-probs)


def grid(probs, steps=4):
    """Few different probabilities, 0 and 1 among them: nearly everything ties."""
    return np.round(probs * steps) / steps


def check_against_reference(found, log_yes, log_no, target, max_length=5):
    answers = slow.answers(log_yes, log_no, target, max_length)
    groups = [(found.overall, answers)]
    groups += [(one, [a for a in answers if sum(a[0]) == one.length]) for one in found.by_length]
    groups += [(one, [a for a in answers if a[0] == (one.present, one.length - one.present)]) for one in found.by_kind]
    for scores, own in groups:
        assert scores.exact
        assert (scores.queries, scores.asked) == (len(own), len(own))
        expected = [slow.mean(a[1] for a in own), slow.mean(a[2] for a in own)]
        np.testing.assert_allclose([scores.map, scores.precision_at_10], expected, rtol=1e-12)
        table = slow.bins([pair for a in own for pair in a[3]])
        np.testing.assert_allclose(scores.bins, table, rtol=1e-9, atol=1e-12)
        if own:
            assert (scores.error, scores.precision_error) == (0, 0)
            assert scores.calibration_error() == pytest.approx(slow.expected_calibration_error(table), abs=1e-12)
    assert [one.length for one in found.by_length] == list(range(1, min(max_length, target.shape[1]) + 1))


@pytest.mark.parametrize("rows", [1, 3, 9, 10, 11, 40])
@pytest.mark.parametrize("make", [lambda p: p, grid, np.round], ids=["distinct", "tied", "certain"])
def test_the_evaluation_is_that_of_every_query_by_itself(rows, make):
    probs, target = draw(rows, 5, seed=rows)
    log_yes, log_no = logs(make(probs))
    check_against_reference(evaluate_retrieval(log_yes, log_no, target), log_yes, log_no, target)


@pytest.mark.parametrize("make", [lambda p: p, grid], ids=["distinct", "tied"])
def test_long_rankings_are_sorted_another_way_and_the_same(make):
    probs, target = draw(LONG_ROW + 70, 3, seed=5)
    log_yes, log_no = logs(make(probs))
    found = evaluate_retrieval(log_yes, log_no, target, max_length=2)
    check_against_reference(found, log_yes, log_no, target, 2)


@settings(max_examples=40, deadline=None)
@given(
    values=arrays(
        np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.sampled_from([0, 0.1, 0.5, 0.9, 1])
    ),
    seed=st.integers(0, 99),
    max_length=st.integers(1, 4),
)
def test_any_small_table_with_ties_and_certainties_equals_the_reference(values, seed, max_length):
    target = np.random.default_rng(seed).uniform(size=values.shape) < 0.5
    log_yes, log_no = logs(values)
    found = evaluate_retrieval(log_yes, log_no, target, max_length=max_length)
    check_against_reference(found, log_yes, log_no, target, max_length)


def test_the_curve_is_the_evaluation_by_length():
    probs, target = draw(30, 6)
    curve, found = retrieval_curve(probs, target), evaluate_retrieval(*logs(probs), target)
    np.testing.assert_allclose(curve.maps.numpy(), [one.map for one in found.by_length], rtol=1e-14)
    assert curve.mean().item() == pytest.approx(found.map, rel=1e-14)
    assert found.interval == (found.map, found.map)
    assert (found.rows, found.classes) == (30, 6)


def test_the_number_of_threads_changes_no_digit():
    probs, target = draw(60, 7)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(evaluate_retrieval(*logs(probs), target, most=600, sample=200))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_blocks_of_any_size_give_the_same(monkeypatch):
    probs, target = draw(30, 6)
    whole = evaluate_retrieval(*logs(probs), target)
    monkeypatch.setattr(asking, "BLOCK", 1)
    monkeypatch.setattr(asking, "TRUTH_BLOCK", 100)
    parts = evaluate_retrieval(*logs(probs), target)
    assert [one.queries for one in parts.by_kind] == [one.queries for one in whole.by_kind]
    np.testing.assert_allclose([one.map for one in parts.by_kind], [one.map for one in whole.by_kind], rtol=1e-12)


def test_progress_ends_where_it_said():
    probs, target = draw(20, 7)
    for settings_ in ({}, {"most": 500, "sample": 60}, {"most": 0, "sample": 30}, {"max_length": 2}, {"max_length": 1}):
        told = []
        evaluate_retrieval(
            *logs(probs), target, **settings_, progress=lambda done, total, told=told: told.append((done, total))
        )
        assert [done for done, _ in told] == sorted({done for done, _ in told})
        assert told[-1][0] == told[-1][1]
        assert len({total for _, total in told}) == 1


def test_lengths_are_asked_in_full_while_they_fit():
    probs, target = draw(30, 8)
    counts = np.cumsum([count_queries(8, length) for length in range(1, 6)])
    found = evaluate_retrieval(*logs(probs), target, most=int(counts[2]), sample=100)
    assert [one.exact for one in found.by_length] == [True, True, True, False, False]
    assert not found.overall.exact
    assert all(one.asked <= 100 for one in found.by_length[3:])
    found = evaluate_retrieval(*logs(probs), target, most=int(counts[2]) - 1, sample=100)
    assert [one.exact for one in found.by_length] == [True, True, False, False, False]


def test_samples_are_unbiased_and_their_intervals_hold():
    """Over 100 seeds the mean is the exact one within 4 standard errors, and 95 % intervals hold it 86 to 100 times.

    Binomial(100, 0.95) leaves [86, 100] in 3 cases of 10^4, the mean its 4 errors in 6 of 10^5; seeds are fixed.
    """
    probs, target = draw(40, 8, seed=3)
    exact = evaluate_retrieval(*logs(probs), target)
    found = [evaluate_retrieval(*logs(probs), target, most=100, sample=150, seed=seed) for seed in range(100)]
    for place in (None, 2, 3, 4):
        own = [one.overall if place is None else one.by_length[place] for one in found]
        true = exact.overall if place is None else exact.by_length[place]
        for value, low, high in (("map", "low", "high"), ("precision_at_10", "precision_low", "precision_high")):
            drawn = np.array([getattr(one, value) for one in own])
            assert abs(drawn.mean() - getattr(true, value)) < 4 * drawn.std() / 10 + 0.002  # a ratio is biased by 1/n
            held = sum(getattr(one, low) <= getattr(true, value) <= getattr(one, high) for one in own)
            assert held >= 86
        assert np.mean([one.queries for one in own]) == pytest.approx(true.queries, rel=0.02)
        share = np.mean([one.calibration_error("expected") for one in own])
        assert share == pytest.approx(true.calibration_error(), abs=0.03)


def test_eighty_labels_are_sampled_and_the_seed_is_the_only_chance():
    random = np.random.default_rng(0)
    probs = random.beta(0.1, 2, size=(60, 80))
    target = random.uniform(size=probs.shape) < probs
    first, again, other = (evaluate_retrieval(*logs(probs), target, most=9_000, sample=60, seed=s) for s in (3, 3, 4))
    assert first == again
    assert first.map != other.map
    assert [one.exact for one in first.by_length] == [True, False, False, False, False]
    assert first.by_length[4].queries > 1e6
    assert 0 < first.interval[0] < first.map < first.interval[1] < 1


def test_kinds_of_which_nothing_was_met_are_named():
    """A single row with every label satisfies no query with an absent one; nobody can know without asking them all."""
    found = evaluate_retrieval(np.full((1, 12), -0.5), np.full((1, 12), -1.0), np.ones((1, 12), bool), most=12, sample=100)
    assert found.unseen == tuple((p, n - p) for n in range(2, 6) for p in range(1, n))
    assert found.map == 1
    assert math.isnan(next(one for one in found.by_kind if (one.length, one.present) == (3, 1)).map)


def test_nothing_to_retrieve_is_no_number_and_not_unseen():
    probs, target = draw(8, 4)
    found = evaluate_retrieval(*logs(probs), np.zeros_like(target), most=0, sample=5)
    assert math.isnan(found.map)
    assert found.overall.exact  # no row has any label, so that there is no query to draw
    assert found.unseen == ()
    empty = evaluate_retrieval(*logs(probs[:0]), np.zeros((0, 4), bool))
    assert math.isnan(empty.map)
    assert empty.to_json()["overall"]["map"] is None


def test_scores_go_through_json_and_back():
    probs, target = draw(30, 8)
    for found in (
        evaluate_retrieval(*logs(probs), target, most=300, sample=50),
        evaluate_retrieval(*logs(probs), target, max_length=2),
    ):
        text = json.dumps(found.to_json(), allow_nan=False)
        assert RetrievalScores.from_json(json.loads(text)) == found
        record = json.loads(text)["by_length"][1]
        assert (record["low"], record["high"]) == (found.by_length[1].low, found.by_length[1].high)
    with pytest.raises(InputError, match="record: .*without 'by_length'"):
        RetrievalScores.from_json({"overall": {}})


def test_true_probabilities_are_reliable_and_flattened_ones_are_not():
    random = np.random.default_rng(1)
    probs = random.beta(0.5, 1, size=(3000, 5))
    target = random.uniform(size=probs.shape) < probs
    true, flat = (evaluate_retrieval(*logs(p), target, max_length=3) for p in (probs, probs**0.2))
    assert true.calibration_error < 0.05
    assert flat.calibration_error > 0.1
    assert flat.overall.calibration_error("max") >= flat.calibration_error


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_logarithms_come_from_the_link_in_full_precision(link):
    scores = torch.tensor([[0.0, 3.0, -60.0], [40.0, -1.0, 2.0]])
    yes, no = logs_of(Predictions(scores, link=link))
    for row, (own, others) in enumerate(zip(yes.tolist(), no.tolist(), strict=True)):
        exps = [math.exp(value) for value in scores[row].tolist()]
        for j, value in enumerate(scores[row].tolist()):
            rest = sum(e for k, e in enumerate(exps) if k != j) if link == "softmax" else 1.0
            odds = value - math.log(rest)
            assert own[j] == pytest.approx(-math.log1p(math.exp(-odds)), rel=1e-9)
            assert others[j] == pytest.approx(-math.log1p(math.exp(odds)), rel=1e-9)


def test_certain_probabilities_have_infinite_logarithms():
    yes, no = logs_of(Predictions(torch.tensor([[0.0, 1.0, 0.25]]), link="identity"))
    assert yes[0, 0] == -np.inf
    assert no[0, 1] == -np.inf
    assert (yes[0, 1], no[0, 0]) == (0, 0)
    assert no[0, 2] == pytest.approx(math.log(0.75))


@pytest.mark.parametrize("link", [Platt, Isotonic])
def test_fitted_links_give_logarithms_of_their_probabilities(link):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(300, 3, generator=generator)
    target = torch.rand(300, 3, generator=generator) < torch.sigmoid(2 * scores - 1)
    predictions = Predictions(scores, target, link=link().fit(scores, target))
    yes, no = logs_of(predictions)
    assert yes.dtype == no.dtype == np.float64
    np.testing.assert_allclose(np.exp(yes), predictions.probs().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.exp(yes) + np.exp(no), 1, rtol=1e-12)
    assert evaluate_retrieval(yes, no, target).overall.exact


def test_scores_without_a_link_have_no_logarithms():
    with pytest.raises(InputError, match="predictions: .*got none"):
        logs_of(Predictions(torch.zeros(2, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_yes": np.array([[0.5, -1.0]])}, "log_yes: expected logarithms .* got 0.5 in row 0, class 0"),
        ({"log_no": np.array([[-1.0, math.nan]])}, "log_no: expected logarithms .* got nan in row 0, class 1"),
        ({"log_yes": np.array([-1.0, -2.0])}, r"log_yes: expected floating point \(N, C\)"),
        ({"log_no": np.array([[-1.0, -2.0, -3.0]])}, "target: expected bool .* like log_no"),
        ({"target": np.array([5])}, "target: expected labels from 0 to 1, got 5"),
        ({"target": np.array([[1, 0]])}, "target: expected int64"),
        ({"max_length": 0}, "max_length: expected a whole number from 1, got 0"),
        ({"most": -1}, "most: expected a whole number from 0, got -1"),
        ({"sample": 0}, "sample: expected a whole number from 1, got 0"),
        ({"seed": 0.5}, "seed: expected a whole number from 0, got 0.5"),
    ],
)
def test_what_cannot_be_evaluated_is_said(change, message):
    given_ = {"log_yes": np.array([[-1.0, -2.0]]), "log_no": np.array([[-0.5, -0.1]]), "target": np.array([[True, False]])}
    given_ |= change
    with pytest.raises(InputError, match=message):
        evaluate_retrieval(given_.pop("log_yes"), given_.pop("log_no"), given_.pop("target"), **given_)


@pytest.mark.parametrize("value", [-0.5, 1.5, math.nan])
def test_what_is_no_probability_is_refused(value):
    probs, target = draw()
    probs[2, 1] = value
    with pytest.raises(InputError, match=f"probs: expected probabilities from 0 to 1, got {value} in row 2, column 1"):
        retrieval_map(probs, target)


def test_a_softmax_that_rounds_above_1_is_1():
    probs, target = np.array([[1 + 1e-7, 0.0], [0.5, 0.5]]), np.array([0, 1])
    assert retrieval_map(probs, target) == retrieval_map(probs.clip(0, 1), target)
