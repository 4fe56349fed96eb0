"""Orderings: their values, their ties, and that selection compares the very same values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.row_order import SHORT_ROW
from shortlist.sets import mass, threshold, top_k
from shortlist.sets.orderings import Probability
from shortlist.sets.prefixes import CumulativeMass, MassAbove, Rank, ranks
from tests.references import sets as ref


def rank_values(probs):
    values = np.empty(probs.shape)
    for row, out in zip(probs, values, strict=True):
        out[ref.ranked(row)] = np.arange(1, len(row) + 1)
    return values


PRIOR = [0.5, 0.25, 0.125, 0.125]
ORDERINGS = {
    "probability": (Probability(), lambda p: p),
    "over prior": (Probability(PRIOR), lambda p: p / np.array(PRIOR)),
    "rank": (Rank(), rank_values),
    "mass above": (MassAbove(), lambda p: ref.aps_scores(p) - p),
    "cumulative mass": (CumulativeMass(), ref.aps_scores),
    "penalised mass": (CumulativeMass(0.25, 1), lambda p: ref.aps_scores(p, penalty=0.25, k_reg=1)),
}
rows = st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 8]), min_size=4, max_size=4), min_size=1, max_size=6)
each_ordering = pytest.mark.parametrize("name", ORDERINGS)


@each_ordering
@settings(max_examples=30, deadline=None)
@given(values=rows)
def test_values_equal_the_literal_formula(name, values):
    ordering, formula = ORDERINGS[name]
    probs = np.array(values) / 16
    np.testing.assert_array_equal(ordering(torch.from_numpy(probs)).numpy(), formula(probs))


@each_ordering
@settings(max_examples=30, deadline=None)
@given(values=rows, dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]))
def test_values_at_labels_are_those_values(name, values, dtype):
    ordering, _ = ORDERINGS[name]
    probs = (torch.tensor(values) / 16).to(dtype)
    everything = ordering(probs)
    for label in range(4):
        target = torch.full((len(probs),), label)
        assert torch.equal(ordering.at_labels(probs, target).double(), everything[:, label].double())
    marks = probs > 0.1
    assert torch.equal(ordering.at_labels(probs, marks).double(), everything[marks].double())


@each_ordering
@settings(max_examples=30, deadline=None)
@given(values=rows, per_class=st.booleans(), place=st.integers(0, 23))
def test_selection_compares_those_values(name, values, per_class, place):
    ordering, _ = ORDERINGS[name]
    probs = torch.tensor(values).double() / 16
    everything = ordering(probs).double()
    cut = everything.flatten()[place % everything.numel()]
    expected = everything >= cut if ordering.descending else everything <= cut
    found = ordering.select(probs, cut.expand(4) if per_class else cut)
    assert torch.equal(found, expected)


@each_ordering
def test_every_label_passes_the_worst_threshold(name):
    ordering, _ = ORDERINGS[name]
    probs = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    assert ordering.select(probs, torch.tensor(ordering.worst(), dtype=torch.float64)).all()


@settings(max_examples=50, deadline=None)
@given(values=rows, k=st.integers(1, 4))
def test_top_k_holds_exactly_k_labels_ties_by_lower_index(values, k):
    probs = np.array(values) / 16
    np.testing.assert_array_equal(top_k(k)(probs), ref.top_k(probs, k))
    assert (top_k(k)(probs).sum(1) == k).all()


@pytest.mark.parametrize("classes", [SHORT_ROW - 1, SHORT_ROW, SHORT_ROW + 1])
@pytest.mark.parametrize("k", [1, 7, 200])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_long_and_short_rows_are_selected_alike(classes, k, dtype):
    """Long rows take another way than short ones; twenty levels make ties everywhere."""
    probs = torch.randint(20, (11, classes), generator=torch.Generator().manual_seed(0)).to(dtype) / 32
    np.testing.assert_array_equal(top_k(k)(probs).numpy(), ref.top_k(probs.double().numpy(), k))


@settings(max_examples=40, deadline=None)
@given(values=rows)
def test_ranks_of_labels_count_what_comes_before(values):
    probs = np.array(values) / 16
    target = np.arange(len(values)) % 4
    found = ranks(torch.from_numpy(probs), torch.from_numpy(target)).squeeze(1).numpy()
    np.testing.assert_array_equal(found, rank_values(probs)[np.arange(len(values)), target])


@settings(max_examples=50, deadline=None)
@given(values=rows, alpha=st.sampled_from([0.0625, 0.25, 0.5, 0.75, 0.9]))
def test_mass_is_the_fewest_labels_that_reach_it(values, alpha):
    probs = np.array(values) / 16
    sets = mass(alpha)(probs)
    np.testing.assert_array_equal(sets, ref.mass(probs, alpha))
    total = np.where(sets, probs, 0).sum(1)
    assert ((total >= 1 - alpha) | sets.all(1)).all()


def test_mass_stops_when_the_sum_is_exactly_reached():
    assert mass(0.25)(torch.tensor([[0.5, 0.25, 0.25]])).tolist() == [[True, True, False]]


def test_a_threshold_is_within_its_set():
    for dtype in (torch.float16, torch.float32, torch.float64):
        for p in (0.1, 0.3, 0.7):
            probs = torch.tensor([[p, p - 0.01, p + 0.01]], dtype=dtype)
            assert threshold(p)(probs).tolist() == [[True, False, True]], (dtype, p)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_threshold_that_is_no_probability_is_refused(p):
    with pytest.raises(InputError, match="p: expected a"):
        threshold(p)


def test_k_above_the_number_of_classes_is_refused():
    with pytest.raises(InputError, match="k: .*got 4"):
        top_k(4)(torch.rand(2, 3))


@pytest.mark.parametrize("probs", [torch.rand(3), torch.rand(2, 2, 2), torch.ones(2, 2, dtype=torch.long), [[0.5, "x"]]])
def test_what_is_no_matrix_of_floats_is_refused(probs):
    with pytest.raises(InputError, match="probs: expected"):
        top_k(1)(probs)
