"""Sizes: their summary, the alarm on a shift; and what caps and floors cost."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.sets import SizeSummary, aps, average_k, bound_cost, cap, floor, lac, threshold
from shortlist.sets.sizes import CHANCE

SIZES = np.arange(8)
SHAPES = {
    "even": np.full(8, 1 / 8),
    "mostly one": np.array([0.02, 0.8, 0.1, 0.04, 0.02, 0.01, 0.005, 0.005]),
    "all or nothing": np.array([0.7, 0, 0, 0, 0, 0, 0, 0.3]),
}


def summary(sizes):
    return SizeSummary.of(torch.tensor(np.bincount(sizes, minlength=8)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=30))
def test_summary_is_the_mean_and_the_unbiased_variance(sizes):
    found = summary(sizes)
    assert found.rows == len(sizes)
    assert found.mean == pytest.approx(np.mean(sizes))
    assert found.variance == pytest.approx(np.var(sizes, ddof=1) if len(sizes) > 1 else 0.0)
    assert SizeSummary(**found.record()) == found


@pytest.mark.parametrize("rows", [(400, 400), (2000, 100)], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_alarms_without_cause_are_as_rare_as_stated(shape, rows):
    # The normal law is near, not exact: up to twice the stated rate passes. 3,000 pairs at 2 in 1,000: 6 alarms are
    # expected and more than 16 come with probability 2e-4 (Poisson), six cases.
    random = np.random.default_rng(0)
    first, second = (random.multinomial(n, SHAPES[shape], 3000) for n in rows)
    pairs = zip(map(torch.tensor, first), map(torch.tensor, second), strict=True)
    alarms = sum(SizeSummary.of(new).shift_from(SizeSummary.of(old)) is not None for old, new in pairs)
    assert CHANCE == 0.001
    assert alarms <= 16


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_few_new_rows_are_no_cause_for_alarm(rows):
    # At most the stated rate: 500 draws, 0.5 alarms are expected, more than 5 come with probability 1e-5 (Poisson), four cases.
    random = np.random.default_rng(rows)
    calibrated = summary(random.choice(SIZES, 1000, p=SHAPES["even"]))
    draws = [summary(random.choice(SIZES, rows, p=SHAPES["even"])) for _ in range(500)]
    assert sum(new.shift_from(calibrated) is not None for new in draws) <= 5


def test_a_fitted_rule_raises_no_alarm_on_rows_of_the_same_source():
    # The size on the calibration rows is exactly k, and the threshold carries their chance over to the new rows.
    # 500 fits at 1 in 1,000: 0.5 alarms are expected and more than 5 come with probability 1e-5 (Poisson).
    random, alarms = np.random.default_rng(1), 0
    for _ in range(500):
        old, new = (random.dirichlet(np.full(6, 0.5), 150) for _ in range(2))
        rule = average_k(2).fit(old)
        sizes = [SizeSummary.of(torch.tensor(np.bincount(rule(rows).sum(1), minlength=7))) for rows in (old, new)]
        alarms += sizes[1].shift_from(sizes[0]) is not None
    assert alarms <= 5


@pytest.mark.parametrize("sign", [1, -1])
def test_a_real_shift_is_told_with_both_means_whichever_way_it_goes(sign):
    # A gap of 8 standard errors is missed with probability Φ(3.29 - 8) = 1e-6.
    first, second = SizeSummary(900, 3.0, 2.25), SizeSummary(900, 3.0 + sign * 8 * math.sqrt(2 * 2.25 / 900), 2.25)
    sentence = second.shift_from(first)
    assert "3 on the 900 calibration rows" in sentence
    assert f"{second.mean:.4g} labels on average on these 900 rows" in sentence
    assert first.shift_from(first) is None


@pytest.mark.parametrize(("errors", "alarm"), [(3.28, False), (3.30, True), (-3.28, False), (-3.30, True)])
def test_the_alarm_starts_at_the_two_sided_chance(errors, alarm):
    # Φ⁻¹(1 - 0.0005) = 3.2905.
    calibrated, gap = SizeSummary(200_000, 2.0, 1.5), errors * math.sqrt(1.5 / 300_000 + 1.5 / 200_000)
    assert (SizeSummary(300_000, 2.0 + gap, 1.5).shift_from(calibrated) is not None) == alarm


def test_sizes_that_never_vary_alarm_only_where_they_differ():
    always_two, always_three = SizeSummary(50, 2.0, 0.0), SizeSummary(50, 3.0, 0.0)
    assert always_two.shift_from(always_two) is None
    assert "p < 1e-9" in always_three.shift_from(always_two)


RULES = {
    "cap": lambda: cap(threshold(0.2), 2),
    "floor": lambda: floor(threshold(0.6), 1),
    "both": lambda: floor(cap(threshold(0.3), 2), 1),
    "idle": lambda: cap(threshold(0.2), 5),
}


def literal_cost(probs, target, p, least, most):
    """Rows, shortened, lengthened, mean sizes and coverages, counted one row at a time."""
    shortened = lengthened = before_size = after_size = before_hits = after_hits = labels = 0
    for row, truth in zip(probs, target, strict=True):
        order = sorted(range(len(row)), key=lambda j, row=row: (-row[j], j))
        before = [j for j in order if row[j] >= p]
        after = order[: min(max(len(before), least), most)]
        shortened += len(after) < len(before)
        lengthened += len(after) > len(before)
        before_size, after_size = before_size + len(before), after_size + len(after)
        wanted = [int(truth)] if np.ndim(truth) == 0 else np.flatnonzero(truth).tolist()
        labels += len(wanted)
        before_hits += len(set(wanted) & set(before))
        after_hits += len(set(wanted) & set(after))
    n = len(probs)
    return n, shortened, lengthened, before_size / n, after_size / n, before_hits / labels, after_hits / labels


BOUNDS = {"cap": (0.2, 0, 2), "floor": (0.6, 1, 5), "both": (0.3, 1, 2), "idle": (0.2, 0, 5)}


@pytest.mark.parametrize("kind", ["single", "many"])
@pytest.mark.parametrize("name", RULES)
def test_cost_of_bounds_is_what_counting_gives(name, kind):
    random = np.random.default_rng(2)
    probs = random.dirichlet(np.full(5, 0.8), 200) if kind == "single" else random.uniform(size=(200, 5))
    target = random.integers(5, size=200) if kind == "single" else random.uniform(size=(200, 5)) < 0.3
    expected = literal_cost(probs, target, *BOUNDS[name])
    found = bound_cost(RULES[name](), probs, target)
    assert (found.rows, found.shortened, found.lengthened) == expected[:3]
    after = (found.size_before, found.size_after, found.coverage_before, found.coverage_after)
    assert after == pytest.approx(expected[3:])
    batches = [(probs[start : start + 33], target[start : start + 33]) for start in range(0, 200, 33)]
    assert bound_cost(RULES[name](), batches) == found


def test_cost_without_labels_is_told_in_sizes_alone():
    probs = np.array([[0.5, 0.4, 0.1], [0.9, 0.1, 0.0]])
    found = bound_cost(cap(threshold(0.2), 1), probs)
    assert found.coverage_before is found.coverage_after is None
    assert found.sentence() == "the cap shortens 50.0% of the sets: 1.50 → 1.00 labels on average"


def test_cost_names_cap_and_floor_by_what_they_do():
    probs, target = np.array([[0.5, 0.4, 0.1], [0.2, 0.15, 0.1]]), np.array([1, 0])
    found = bound_cost(floor(cap(threshold(0.3), 1), 1), probs, target)
    assert found.sentence() == (
        "the cap shortens 50.0% of the sets and the floor lengthens 50.0% of the sets: 1.00 → 1.00 labels on average, "
        "coverage 50.0% → 50.0%"
    )
    assert bound_cost(cap(threshold(0.3), 3), probs, target).sentence() == "the bounds change no set"


def test_cost_of_predictions_reads_their_labels_and_link():
    predictions = Predictions([[2.0, 1.0, -9.0]], target=[1], link="softmax")
    found = bound_cost(cap(threshold(0.2), 1), predictions)
    assert (found.coverage_before, found.coverage_after) == (1.0, 0.0)


def test_bounds_that_cannot_bind_cost_nothing_for_a_random_rule():
    random = np.random.default_rng(3)
    probs, target = random.dirichlet(np.ones(4), 300), random.integers(4, size=300)
    rule = cap(aps(0.3, torch.Generator().manual_seed(0)).fit(probs, target), 4)
    found = bound_cost(rule, probs, target)
    assert (found.shortened, found.lengthened) == (0, 0)
    assert found.coverage_after == found.coverage_before


def test_cost_of_no_rows_is_refused_in_words():
    with pytest.raises(InputError):
        bound_cost(cap(lac(0.1).fit(np.eye(3)[[0, 1, 2] * 9], np.arange(27) % 3), 1), np.zeros((0, 3)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rule", [cap(threshold(0.7), 2), floor(threshold(0.3), 1)], ids=str)
def test_the_cost_is_that_of_the_sets_which_the_rule_gives_in_every_precision(rule, dtype):
    probs = torch.tensor([[0.7, 0.7, 0.7, 0.3], [0.2, 0.3, 0.1, 0.1], [0.1, 0.1, 0.1, 0.2]], dtype=dtype)
    found = bound_cost(rule, probs)
    assert found.size_after == pytest.approx(rule(probs).sum(1).double().mean().item())
    assert found.size_before == pytest.approx(rule.unbounded(probs).sum(1).double().mean().item())
    assert found.size_before > 0


def test_batches_whose_columns_are_not_those_of_the_fit_are_refused():
    random = np.random.default_rng(5)
    probs = pd.DataFrame(random.dirichlet(np.ones(3), size=60), columns=["ash", "elm", "fir"])
    target = probs.to_numpy().argmax(1)
    turned, wider = probs[["fir", "ash", "elm"]], np.hstack([probs.to_numpy(), np.zeros((60, 1))])
    rule = cap(lac(0.1).fit(probs, target), 2)
    assert bound_cost(rule, [(probs, target)]) == bound_cost(rule, probs, target)
    for source in ([(turned, target)], [(probs.to_numpy(), target), (turned, target)], lambda: iter([turned])):
        with pytest.raises(InputError, match="column 0 was 'ash' and is 'fir'"):
            bound_cost(rule, source)
    for source in ([(wider, target)], [wider]):
        with pytest.raises(InputError, match="fitted on 3 classes, got .*4"):
            bound_cost(rule, source)
    with pytest.raises(InputError, match="fitted on 3 classes, got .*4"):
        bound_cost(rule, wider, target)
