"""Cap and floor: at most and at least so many labels, the most plausible ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError, ShortlistWarning
from shortlist.models.graph import GraphRule
from shortlist.sets import aps, average_k, cap, classwise, floor, lac, pas, per_label, threshold, top_k
from shortlist.sets.orderings import Probability
from shortlist.sets.rule import bounded
from tests.references import sets as ref
from tests.sets.cases import draw

eighths = st.lists(st.lists(st.integers(0, 8), min_size=5, max_size=5), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(values=eighths, least=st.integers(0, 5), more=st.integers(0, 5), p=st.sampled_from([0, 0.25, 0.5, 1]))
def test_both_bounds_equal_the_literal_formula_whatever_the_ties(values, least, more, p):
    probs = np.array(values) / 8
    expected = ref.bounded(ref.threshold(probs, p), probs, least, least + more)
    for rule in (floor(cap(threshold(p), least + more), least), cap(floor(threshold(p), least), least + more)):
        np.testing.assert_array_equal(rule(probs), expected)


@pytest.mark.parametrize(("n", "sizes"), [(0, {0}), (1, {1}), (2, {1, 2}), (5, {1, 2, 3})])
def test_a_cap_touches_only_the_sets_above_it(n, sizes):
    probs = np.array([[0.5, 0.1, 0.4], [0.9, 0.05, 0.05], [0.35, 0.33, 0.32]])
    plain, capped = threshold(0.3)(probs), cap(threshold(0.3), n)(probs)
    assert set(capped.sum(1)) == sizes
    assert not (capped & ~plain).any()
    fits = plain.sum(1) <= n
    np.testing.assert_array_equal(capped[fits], plain[fits])


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_floor_touches_only_the_sets_below_it(n):
    probs = np.array([[0.5, 0.1, 0.4], [0.9, 0.05, 0.06], [0.2, 0.1, 0.25]])
    plain, filled = threshold(0.3)(probs), floor(threshold(0.3), n)(probs)
    np.testing.assert_array_equal(filled.sum(1), np.maximum(plain.sum(1), n))
    assert not (plain & ~filled).any()


def test_a_floor_is_one_unless_said_otherwise():
    assert floor(threshold(0.9)).text == "threshold:0.9,floor:1"
    assert floor(threshold(0.9))(torch.tensor([[0.2, 0.5]])).tolist() == [[False, True]]


def test_bounds_cover_rows_of_every_kind_at_once():
    rule = floor(cap(threshold(0.3), 2), 1)
    probs = torch.tensor([[0.4, 0.5, 0.6], [0.0, 0.1, 0.2], [0.9, 0.0, 0.0]])
    assert rule(probs).tolist() == [[False, True, True], [False, False, True], [True, False, False]]


def test_a_floor_fills_by_the_ordering_of_its_rule():
    """p over the prior, not p, says who is next."""
    data = draw(classes=3)
    rule = floor(pas(0.9, [0.8, 0.1, 0.1]), 1).fit(data.calibration, data.target % 3)
    assert rule(torch.tensor([[0.5, 0.3, 0.2]])).tolist() == [[False, True, False]]


def test_a_floor_on_class_wise_thresholds_keeps_what_is_in():
    """Class 2 is in by its own threshold although class 0 is more probable; the floor adds class 0, then class 1."""
    probs = torch.cat([torch.tensor([[0.95, 0.03, 0.02], [0.05, 0.93, 0.02], [0.6, 0.2, 0.2]])] * 20)
    rule = classwise(lac(0.1)).fit(probs, torch.tensor([0, 1, 2] * 20))
    row = torch.tensor([[0.5, 0.25, 0.25]])
    assert rule(row).tolist() == [[False, False, True]]
    assert floor(rule, 2)(row).tolist() == [[True, False, True]]
    assert floor(rule, 3)(row).all()


def test_a_cap_on_class_wise_thresholds_takes_only_from_what_is_in():
    rule = per_label("recall", 1).fit(torch.tensor([[0.9, 0.1, 0.2]]), torch.ones(1, 3, dtype=torch.bool))
    assert cap(rule, 1)(torch.tensor([[0.8, 0.3, 0.4]])).tolist() == [[False, False, True]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_floor_tells_small_probabilities_apart(dtype):
    """1 - p is 1 for both of the small ones; the more probable of them is still the more plausible."""
    rule = lac(0.2).fit(torch.eye(3, dtype=dtype).repeat(10, 1), torch.arange(3).repeat(10))
    row = torch.tensor([[1.0, 1e-7, 1e-6]] if dtype == torch.float16 else [[1.0, 1e-20, 2e-20]]).to(dtype)
    assert rule(row).tolist() == [[True, False, False]]
    assert floor(rule, 2)(row).tolist() == [[True, False, True]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_cap_tells_small_probabilities_apart(dtype):
    """The mass up to each of them is 1."""
    rule = aps(0.2, randomized=False).fit(torch.eye(3, dtype=dtype).repeat(10, 1), torch.arange(3).repeat(10))
    row = torch.tensor([[1.0, 1e-20, 2e-20]]).to(dtype)
    assert rule(row).all()
    assert cap(rule, 2)(row).tolist() == [[True, False, True]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_cap_tells_half_precision_apart(dtype):
    row = torch.tensor([[0.1, 0.1006, 0.05]] if dtype == torch.bfloat16 else [[0.2, 0.2002, 0.1]]).to(dtype)
    assert row[0, 0] < row[0, 1]
    rule = lac(0.2).fit(torch.full((10, 3), 0.03).to(dtype), torch.zeros(10, dtype=torch.long))
    assert rule(row).all()
    assert cap(rule, 1)(row).tolist() == [[False, True, False]]


def test_a_bound_on_infinite_scores_takes_from_the_right_side():
    """Labels outside the set tie with nothing inside it, whatever its scores."""
    scores = np.array([[0.9, 0.05, 0.03, 0.02], [0.8, 0.1, 0.05, 0.05], [0.7, 0.1, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1]] * 3)
    with pytest.warns(ShortlistWarning, match="3 of 4 classes"):
        rule = classwise(lac(0.2)).fit(scores, np.zeros(12, int))
    low = torch.tensor([[-np.inf, -np.inf, -np.inf, 0.9]])
    assert rule(low).tolist() == [[False, True, True, True]]
    assert cap(rule, 2)(low).tolist() == [[False, True, False, True]]
    assert torch.equal(GraphRule(cap(rule, 2))(low), cap(rule, 2)(low))


@pytest.mark.parametrize(("least", "most"), [(0, 1), (0, 2), (2, None), (3, None), (2, 3)])
def test_bounds_of_any_sets_of_infinite_scores_equal_the_literal_formula(least, most):
    random = np.random.default_rng(0)
    scores, sets = random.choice([-np.inf, 0, 1, np.inf], (300, 4)), random.random((300, 4)) < 0.5
    found = bounded(Probability(), torch.from_numpy(scores), torch.from_numpy(sets), least, most)
    np.testing.assert_array_equal(found, ref.bounded(sets, scores, least, most))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_cap_of_everything_is_the_top(n):
    probs = torch.rand(50, 6, generator=torch.Generator().manual_seed(0))
    for rule in (threshold(0.0), top_k(6), average_k(6).fit(probs)):
        assert torch.equal(cap(rule, n)(probs), top_k(n)(probs))


def test_the_tighter_of_two_bounds_counts():
    probs = torch.tensor([[0.5, 0.4, 0.1]])
    assert int(cap(cap(threshold(0.0), 1), 2)(probs).sum()) == 1
    assert int(floor(floor(threshold(1.0), 2), 1)(probs).sum()) == 2


@pytest.mark.parametrize("make", [lambda: floor(cap(lac(0.1), 2), 3), lambda: cap(floor(lac(0.1), 3), 2)])
def test_a_floor_above_the_cap_is_refused(make):
    with pytest.raises(InputError, match="floor 3 and cap 2"):
        make()


def test_a_floor_above_the_number_of_classes_is_refused():
    with pytest.raises(InputError, match="floor: .*got 4"):
        floor(threshold(0.5), 4)(torch.rand(2, 3))


@pytest.mark.parametrize("n", [-1, 1.5, True, float("nan"), float("inf"), "two", None])
@pytest.mark.parametrize("make", [cap, floor])
def test_a_bound_that_is_no_number_of_labels_is_refused(make, n):
    with pytest.raises(InputError, match="expected a whole number from 0"):
        make(threshold(0.5), n)


def test_a_bound_leaves_the_rule_it_is_put_on_alone():
    data = draw()
    rule = average_k(2.5)
    bounded = cap(rule, 1)
    bounded.fit(data.calibration)
    assert rule.threshold is None
    assert (rule.text, rule.most) == ("average-k:2.5", None)


def test_a_bound_on_a_fitted_rule_keeps_its_threshold():
    data = draw()
    rule = average_k(2.5).fit(data.calibration)
    np.testing.assert_array_equal(cap(rule, 2)(data.new), ref.bounded(rule(data.new), data.new, most=2))


def test_bounds_are_named_in_the_guarantee():
    assert "cap of 4" in cap(lac(0.1), 4).guarantee
    assert "floor of 2" in floor(lac(0.1), 2).guarantee
