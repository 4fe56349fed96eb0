"""Verdicts: intervals over seeds, rules, and claims of several parts."""

import math

import pytest

from shortlist.claims.claim import GREATER, AtLeast, Claim, Interval, Part, Within, judge
from shortlist.claims.statistic import Number
from shortlist.errors import InputError


def judged(*columns, rules):
    """A claim with one part for each column of values, a value a seed."""
    parts = tuple(Part(str(n), Number(str(n), "x"), rule) for n, rule in enumerate(rules))
    claim = Claim("c", "beyond", "", "It is so.", parts, ("e",))
    seeds = {seed: {str(n): {"x": column[seed]} for n, column in enumerate(columns)} for seed in range(len(columns[0]))}
    return judge(claim, "e", seeds)


def test_the_interval_is_that_of_student():
    # Two degrees of freedom have the 97.5 % quantile 4.302653: 4.302653 / sqrt(3) = 2.484138.
    found = Interval.of([1.0, 2.0, 3.0])
    assert (found.mean, found.n) == (2.0, 3)
    assert found.high - found.mean == pytest.approx(2.484138, abs=1e-5)
    # At 99 %: 9.924843 / sqrt(3) = 5.730111.
    assert Interval.of([1.0, 2.0, 3.0], 0.01).high - 2 == pytest.approx(5.730111, abs=1e-5)


def test_one_seed_decides_nothing():
    assert Interval.of([5.0]) == Interval(5.0, -math.inf, math.inf, 1)
    assert judged([5.0], rules=[GREATER]).decision == "open"
    with pytest.raises(InputError, match="values"):
        Interval.of([])


@pytest.mark.parametrize(
    ("rule", "values", "decision"),
    [
        (GREATER, [1.0, 1.1, 1.2], "holds"),
        (GREATER, [-1.0, -1.1, -1.2], "fails"),
        (GREATER, [-1.0, 0.1, 1.2], "open"),
        (AtLeast(-0.5), [0.0, -0.1, 0.1], "holds"),
        (AtLeast(2.0), [1.0, 1.1, 1.2], "fails"),
        (Within(0.5), [0.0, -0.1, 0.1], "holds"),
        (Within(0.5), [1.0, 1.1, 1.2], "fails"),
        (Within(0.5), [-1.0, -1.1, -1.2], "fails"),
        (Within(0.5), [0.4, 0.5, 0.6], "open"),
    ],
)
def test_rules_go_by_the_interval(rule, values, decision):
    assert judged(values, rules=[rule]).decision == decision


def test_a_claim_holds_if_all_parts_hold():
    good, bad, unclear = [1.0, 1.1, 1.2], [-1.0, -1.1, -1.2], [-1.0, 0.0, 1.0]
    assert judged(good, good, rules=[GREATER] * 2).decision == "holds"
    assert judged(good, unclear, rules=[GREATER] * 2).decision == "open"
    assert judged(good, bad, rules=[GREATER] * 2).decision == "fails"


def test_a_part_that_fails_barely_leaves_a_claim_of_many_parts_open():
    barely = [-0.2, -1.0, -0.5, -1.1]  # below 0 at 95 %, not at 99.5 %
    alone = judged(barely, rules=[GREATER])
    many = judged(barely, *[[1.0, 1.1, 1.2, 1.3]] * 9, rules=[GREATER] * 10)
    assert alone.decision == "fails"
    assert many.parts[0].decision == "fails"
    assert many.decision == "open"


def test_parts_use_the_seeds_that_have_all_of_their_arms():
    parts = (Part("a", Number("a", "x")), Part("both", Number("a", "x") - Number("b", "x")))
    claim = Claim("c", "beyond", "", "It is so.", parts, ("e",))
    found = judge(claim, "e", {0: {"a": {"x": 1.0}, "b": {"x": 0.5}}, 1: {"a": {"x": 2.0}}})
    assert [part.values for part in found.parts] == [(1.0, 2.0), (0.5,)]
    assert found.n == 1
    assert judge(claim, "e", {}).n == 0


@pytest.mark.parametrize("lost", [math.nan, math.inf])
@pytest.mark.parametrize("values", [[1.0, 1.1, 1.2], [-1.0, -1.1, -1.2]])
def test_a_part_without_a_number_for_every_seed_decides_nothing(lost, values):
    """A training that diverged is no seed to be left out: the others alone would speak for its arm."""
    found = judged([*values, lost], rules=[GREATER])
    assert (found.decision, found.parts[0].decision) == ("open", "open")
    assert found.parts[0].interval == Interval.of(values)
