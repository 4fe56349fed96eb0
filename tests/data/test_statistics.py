"""The inequality of classes against its definitions, in fractions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data import LongTail
from shortlist.errors import InputError
from tests.references import building as ref

COUNTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any)


@settings(max_examples=100, deadline=None)
@given(COUNTS)
def test_the_lorenz_curve_sums_the_rarest(counts):
    curve = LongTail(counts).lorenz
    assert curve.dtype == np.float64
    assert curve == pytest.approx([float(share) for share in ref.lorenz(counts)], abs=1e-12)
    assert (curve[0], curve[-1]) == (0, 1)
    assert (np.diff(curve) >= 0).all()
    assert (curve <= np.linspace(0, 1, len(curve)) + 1e-12).all()


@settings(max_examples=100, deadline=None)
@given(COUNTS)
def test_gini_is_the_mean_absolute_difference(counts):
    assert LongTail(counts).gini == pytest.approx(float(ref.gini(counts)), abs=1e-12)
    assert LongTail(counts).gini >= 0


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.integers(0, 100))
def test_the_share_of_the_rarest_is_linear_between_classes(counts, hundredths):
    found = LongTail(counts).share_of_rarest(hundredths / 100)
    assert found == pytest.approx(float(ref.share_of_rarest(counts, hundredths / 100)), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.randoms())
def test_order_and_scale_do_not_matter(counts, random):
    mixed = random.sample(counts, len(counts))
    assert LongTail(mixed).summary() == LongTail(counts).summary()
    assert LongTail([4 * count for count in counts]).gini == pytest.approx(LongTail(counts).gini, abs=1e-12)


def test_equal_classes_and_one_class_that_has_all():
    for counts in ([7], [5] * 9):
        tail = LongTail(counts)
        assert (tail.gini, tail.imbalance, tail.share_of_rarest(0.8)) == (0, 1, pytest.approx(0.8))
    alone = LongTail([0, 0, 0, 8])
    assert (alone.gini, alone.imbalance, alone.median, alone.share_of_rarest(0.75)) == (0.75, 1, 0, 0)


def test_imbalance_leaves_empty_classes_aside():
    assert LongTail([0, 3, 12, 0, 300]).imbalance == 100


def test_the_median_of_an_even_number_of_classes_is_between_two():
    assert LongTail([1, 2, 3, 10]).median == 2.5
    assert LongTail([1, 2, 10]).median == 2


def test_the_summary_holds_every_number():
    assert LongTail([70, 10, 10, 10, 0]).summary() == {
        "classes": 5,
        "pictures": 100,
        "rarest": 0,
        "median": 10,
        "commonest": 70,
        "imbalance": 7,
        "gini": pytest.approx(float(ref.gini([70, 10, 10, 10, 0]))),
        "share of the rarest 80 %": pytest.approx(0.3),
    }


@pytest.mark.parametrize("counts", [(3, 1, 2), np.array([3, 1, 2]), torch.tensor([3, 1, 2]), torch.tensor([3.0, 1, 2])])
def test_counts_are_taken_as_sequences_arrays_and_tensors_and_not_changed(counts):
    assert LongTail(counts).ascending.tolist() == [1, 2, 3]
    assert list(counts) == [3, 1, 2]


@pytest.mark.parametrize("counts", [[], [0, 0], [-1, 2], [float("nan"), 1], [float("inf")], [[1, 2], [3, 4]], np.zeros((0, 2))])
@pytest.mark.parametrize("number", ["lorenz", "gini", "imbalance", "median"])
def test_counts_without_a_meaning_are_refused(counts, number):
    with pytest.raises(InputError, match=r"^counts: expected a count of each class, none negative and one above 0"):
        getattr(LongTail(counts), number)


@pytest.mark.parametrize("counts", [5, None, ["many"], [[1], [1, 2]]])
def test_what_is_no_row_of_numbers_is_refused(counts):
    with pytest.raises(InputError, match=r"^counts: expected"):
        LongTail(counts).gini  # noqa: B018


@pytest.mark.parametrize("share", [-0.1, 1.1, 80, float("nan")])
def test_shares_outside_the_range_are_refused(share):
    with pytest.raises(InputError, match=r"^share: expected a number from 0 to 1"):
        LongTail([1, 2]).share_of_rarest(share)
