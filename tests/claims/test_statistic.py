"""Statistics of one seed: arithmetic over the numbers of arms."""

import math

import numpy as np
import pytest

from shortlist.claims.statistic import Number, Tuned, difference, largest, slope, smallest, value_range
from shortlist.errors import InputError

MEASURED = {"a": {"x": 3.0, "y": 4.0}, "b": {"x": 1.0, "y": 8.0}}


def test_arithmetic_over_arms():
    a, b = Number("a", "x"), Number("b", "x")
    assert (a - b).of(MEASURED) == difference("a", "b", "x").of(MEASURED) == 2.0
    assert (a / b).of(MEASURED) == 3.0
    assert (90.0 - a).of(MEASURED) == 87.0
    assert str(90.0 - a) == "90 - x of a"
    assert largest(a, b).of(MEASURED) == 3.0
    assert smallest(a, b).of(MEASURED) == 1.0
    assert value_range(a, b, Number("b", "y")).of(MEASURED) == 7.0


def test_a_tuned_method_is_what_validation_chooses():
    measured = {"a": {"x": 1.0, "validation": 5.0}, "b": {"x": 3.0, "validation": 4.0}, "c": {"x": 2.0, "validation": 5.0}}
    tuned = Tuned(("a", "b", "c"), "x")
    assert tuned.of(measured) == 1.0
    assert Tuned(("b", "c"), "x").of(measured) == 2.0
    assert tuned.arms() == ("a", "b", "c")
    assert (Tuned(("b",), "x") - 0.5).of(measured) == 2.5


def test_a_ratio_to_nothing_is_no_number():
    assert math.isnan((Number("a", "x") / (Number("b", "x") - Number("b", "x"))).of(MEASURED))


def test_the_slope_is_that_of_least_squares():
    places, values = [0.0, 0.1, 0.3, 0.4], [1.0, 1.5, 0.5, 4.0]
    measured = {str(n): {"x": value} for n, value in enumerate(values)}
    found = slope(places, [Number(str(n), "x") for n in range(4)]).of(measured)
    assert found == pytest.approx(np.polyfit(places, values, 1)[0])


def test_it_names_the_arms_it_reads_once():
    assert (difference("a", "b", "x") - difference("c", "b", "x")).arms() == ("a", "b", "c")
    assert str(difference("a", "b", "x")) == "x of a - x of b"


def test_an_unknown_number_is_named():
    with pytest.raises(InputError, match=r"arm a.*'z'.*x, y"):
        Number("a", "z").of(MEASURED)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b"), ("b", "a", "c")])
def test_what_was_not_measured_makes_the_largest_and_the_smallest_unknown_in_any_order(order):
    measured = {"a": {"x": 1.0}, "b": {"x": math.nan}, "c": {"x": 1.0}}
    values = [Number(arm, "x") for arm in order]
    assert all(math.isnan(found(*values).of(measured)) for found in (largest, smallest, value_range))


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")])
def test_validation_never_chooses_an_arm_that_it_has_no_number_for(order):
    measured = {"a": {"x": 1.0, "validation": 5.0}, "b": {"x": 9.0, "validation": math.nan}, "c": {"x": 2.0, "validation": 4.0}}
    assert Tuned(order, "x").of(measured) == 1.0
    assert math.isnan(Tuned(("b",), "x").of(measured))
