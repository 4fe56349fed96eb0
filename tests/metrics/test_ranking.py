"""Mean average precision against scikit-learn, its bounds from bins, and the F1 of the top n."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from sklearn.metrics import average_precision_score, f1_score

from shortlist.errors import InputError
from shortlist.metrics import BinnedMeanAveragePrecision, MeanAveragePrecision, TopNF1, mean_average_precision, top_n_f1
from tests.references import sets as rules


@st.composite
def ranked(draw):
    rows, classes = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    values = draw(st.lists(st.integers(0, 6), min_size=rows * classes, max_size=rows * classes))
    marks = draw(st.lists(st.booleans(), min_size=rows * classes, max_size=rows * classes))
    return np.array(values).reshape(rows, classes) / 6, np.array(marks).reshape(rows, classes)


def sklearn_map(probs, marks, axis):
    if axis == "example":
        probs, marks = probs.T, marks.T
    values = [average_precision_score(marks[:, j], probs[:, j]) for j in range(probs.shape[1]) if marks[:, j].any()]
    return np.mean(values) if values else math.nan


@settings(max_examples=60, deadline=None)
@given(data=ranked(), axis=st.sampled_from(["class", "example"]))
def test_map_equals_scikit_learn_with_ties(data, axis):
    found = mean_average_precision(*data, axis=axis).item()
    assert found == pytest.approx(sklearn_map(*data, axis), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("axis", ["class", "example"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_map_of_many_rows_equals_scikit_learn(axis, dtype):
    random = np.random.default_rng(0)
    probs = torch.from_numpy(random.uniform(size=(300, 20))).to(dtype)
    marks = random.uniform(size=probs.shape) < 0.1
    expected = sklearn_map(probs.double().numpy(), marks, axis)
    assert mean_average_precision(probs, torch.from_numpy(marks), axis=axis).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("axis", ["class", "example"])
def test_scores_of_any_sign_are_ranked(axis):
    random = np.random.default_rng(0)
    scores, marks = random.normal(size=(50, 4)), random.uniform(size=(50, 4)) < 0.3
    assert mean_average_precision(scores, marks, axis=axis).item() == pytest.approx(sklearn_map(scores, marks, axis))


@pytest.mark.parametrize("axis", ["class", "example"])
def test_no_positives_are_no_number(axis):
    assert math.isnan(mean_average_precision(torch.rand(3, 2), torch.zeros(3, 2, dtype=torch.bool), axis=axis))


def test_one_label_a_row_is_ranked_by_class_and_by_example():
    probs, target = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), torch.tensor([0, 1, 1])
    assert mean_average_precision(probs, target).item() == 1
    assert mean_average_precision(probs, target, axis="example").item() == pytest.approx((1 + 1 + 0.5) / 3)


@pytest.mark.parametrize("make", [lambda a: MeanAveragePrecision(a), lambda a: mean_average_precision([[0.5]], [0], axis=a)])
def test_other_axes_are_refused(make):
    with pytest.raises(InputError, match="axis: .*'class', 'example'.* got 'row'"):
        make("row")


# Two positives tied behind a negative: both have precision 2/3, more than one after the other can have.
TIED = (np.array([[0.5], [0.125], [0.125]]), np.array([[False], [True], [True]]))


def binned(probs, target, bins):
    metric = BinnedMeanAveragePrecision(bins)
    for values, labels in zip(np.array_split(probs, 3), np.array_split(target, 3), strict=True):
        metric.update(values, labels)
    return metric


@settings(max_examples=80, deadline=None)
@given(data=ranked(), bins=st.sampled_from([2, 3, 7, 512]))
@example(data=TIED, bins=512)
def test_the_exact_value_lies_within_the_bounds_of_the_bins(data, bins):
    probs, target = data
    low, high = (bound.item() for bound in binned(probs, target, bins).bounds())
    exact = sklearn_map(probs, target, "class")
    assert math.isnan(exact) == math.isnan(low) == math.isnan(high)
    assert math.isnan(exact) or low - 1e-12 <= exact <= high + 1e-12


@settings(max_examples=60, deadline=None)
@given(data=ranked(), bins=st.sampled_from([2, 3, 7, 512]))
@example(data=TIED, bins=512)
def test_the_binned_value_is_that_of_probabilities_tied_within_their_bin(data, bins):
    """Bins are equally wide in the log-odds from -20 to 20; it lies within the bounds itself."""
    probs, target = data
    with np.errstate(divide="ignore"):
        odds = np.clip(np.log(probs) - np.log1p(-probs), -20, 20)
    place = np.minimum(np.floor((odds + 20) / 40 * bins + 1e-9), bins - 1)
    metric = binned(probs, target, bins)
    assert metric.compute().item() == pytest.approx(sklearn_map(place, target, "class"), rel=1e-12, nan_ok=True)
    low, high = (bound.item() for bound in metric.bounds())
    assert math.isnan(low) or low - 1e-12 <= metric.compute().item() <= high + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_the_bounds_hold_without_ties_and_close_with_more_bins(seed):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(400, 3)) * 3
    probs, target = 1 / (1 + np.exp(-scores)), random.uniform(size=scores.shape) < 1 / (1 + np.exp(2 - scores))
    exact, widths = sklearn_map(probs, target, "class"), []
    for bins in (8, 64, 4096):
        low, high = (bound.item() for bound in binned(probs, target, bins).bounds())
        assert low - 1e-12 <= exact <= high + 1e-12
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.03


def test_the_bounds_are_reached_by_the_best_and_the_worst_order_in_a_bin():
    """One bin of two positives and two negatives: negatives first gives (1/3 + 2/4) / 2, positives first 1."""
    probs, target = np.full((4, 1), 0.5), np.array([[True], [True], [False], [False]])
    low, high = binned(probs, target, 2).bounds()
    assert low.item() == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert high.item() == pytest.approx(1)


def test_the_state_of_the_bins_is_two_numbers_a_bin_and_class():
    random = np.random.default_rng(0)
    for rows in (10, 1000):
        metric = binned(random.uniform(size=(rows, 3)), random.uniform(size=(rows, 3)) < 0.5, 16)
        assert metric.total.numel() == 2 * 3 * 16


def test_fewer_than_two_bins_are_refused():
    with pytest.raises(InputError, match="bins: .*got 1"):
        BinnedMeanAveragePrecision(1)


@settings(max_examples=40, deadline=None)
@given(data=ranked(), n=st.integers(1, 6))
def test_top_n_f1_equals_scikit_learn_over_the_classes_present(data, n):
    probs, target = data
    returned = rules.top_k(probs, n)
    present = [j for j in range(probs.shape[1]) if target[:, j].any()]
    expected = [f1_score(target[:, j], returned[:, j], zero_division=0) for j in present]
    assert top_n_f1(probs, target, n=n).item() == pytest.approx(np.mean(expected) if expected else math.nan, nan_ok=True)


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_an_n_that_is_no_number_of_labels_is_refused_at_once(n):
    with pytest.raises(InputError, match="expected a whole number from 1"):
        TopNF1(n)


@pytest.mark.parametrize("axis", ["class", "example"])
@pytest.mark.parametrize(
    ("scores", "marks", "expected"),
    [
        ([[math.inf, 1.0, 0.0]], [[True, False, False]], 1.0),
        ([[math.inf, math.inf, 0.0]], [[True, False, False]], 1 / 2),
        ([[math.inf, math.inf, 0.0]], [[True, True, True]], 1.0),
        ([[math.inf, math.inf, 0.0, -math.inf]], [[True, False, False, True]], (1 / 2 + 2 / 4) / 2),
    ],
)
def test_infinite_scores_rank_first_and_last(axis, scores, marks, expected):
    scores, marks = torch.tensor(scores, dtype=torch.float64), torch.tensor(marks)
    if axis == "class":
        scores, marks = scores.T, marks.T
    assert float(mean_average_precision(scores, marks, axis=axis)) == pytest.approx(expected, abs=1e-15)
    # Beside a row with more positives, so that there is padding.
    if axis == "example":
        scores, marks = torch.cat([scores, scores]), torch.cat([marks, torch.ones_like(marks)])
        assert float(mean_average_precision(scores, marks, axis=axis)) == pytest.approx((expected + 1) / 2, abs=1e-15)


@pytest.mark.parametrize(("rounded", "exact"), [(1.0005, 1.0), (-0.0005, 0.0)])
def test_bins_take_probabilities_that_rounding_moved_past_the_ends(rounded, exact):
    target = torch.tensor([[True, False], [False, True]])
    found, expected = BinnedMeanAveragePrecision(), BinnedMeanAveragePrecision()
    found.update(torch.tensor([[rounded, 0.3], [0.4, 0.6]]), target)
    expected.update(torch.tensor([[exact, 0.3], [0.4, 0.6]]), target)
    assert torch.equal(found.total, expected.total)
