"""Coverage of sets: micro, macro, by shot group, of the top k and of average-k sets; sizes beside it."""

import math

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.metrics import (
    AverageKAccuracy,
    Coverage,
    MeanMaxConfidence,
    ShotCoverage,
    average_k_accuracy,
    coverage,
    empty_rate,
    mean_max_confidence,
    set_precision,
    set_size,
    shot_coverage,
    top_k_accuracy,
)
from tests.references import metrics as ref

SETS = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 1, 1]], bool)


def test_micro_is_the_share_of_rows_whose_label_is_in():
    assert coverage(SETS, [0, 1, 1, 1]).item() == 0.75


def test_macro_is_the_mean_over_the_classes_present():
    """Class 0 has 1 of 1, class 1 has 2 of 3, class 2 does not occur."""
    assert coverage(SETS, [0, 1, 1, 1], average="macro").item() == pytest.approx((1 + 2 / 3) / 2)


def test_many_labels_count_each():
    target = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]], bool)
    assert coverage(SETS, target).item() == pytest.approx(4 / 5)
    assert coverage(SETS, target, average="macro").item() == pytest.approx((1 + 1 + 1 / 2) / 3)


def test_no_labels_are_no_number():
    assert math.isnan(coverage(SETS, np.zeros((4, 3), bool)))


@pytest.mark.parametrize("counts", [[19, 20, 100, 101], [0, 20, 21, 1000]])
def test_shot_groups_split_below_20_and_above_100(counts):
    sets, target = np.eye(4, dtype=bool)[[0, 1, 0, 3]], np.arange(4)
    answer = shot_coverage(sets, target, train_counts=counts)
    assert {name: value.item() for name, value in answer.items()} == {"few": 1.0, "medium": 0.5, "many": 1.0}


def test_shot_groups_may_have_other_edges():
    sets, target = np.eye(6, dtype=bool)[[0, 0, 2, 3, 3, 5]], np.arange(6)
    answer = shot_coverage(sets, target, train_counts=[10, 11, 50, 500, 2000, 2001], edges=(10, 50, 500, 2000))
    expected = {"0-10": 1.0, "11-50": 0.5, "51-500": 1.0, "501-2000": 0.0, "2001+": 1.0}
    assert {name: value.item() for name, value in answer.items()} == expected


@pytest.mark.parametrize("edges", [[], [50, 10], [10, 10], [-1], [1.5]])
def test_edges_that_are_none_are_refused(edges):
    with pytest.raises(InputError, match="^edges: expected"):
        shot_coverage(SETS, [0, 1, 1, 1], train_counts=[1, 2, 3], edges=edges)


def test_a_shot_group_without_classes_is_no_number():
    answer = shot_coverage(SETS, [0, 1, 1, 1], train_counts=[5, 500, 50])
    assert answer["few"] == 1
    assert answer["many"] == pytest.approx(2 / 3)
    assert math.isnan(answer["medium"])


def test_shot_groups_weigh_classes_not_rows():
    sets, target = np.array([[True, False]] * 4), [0, 0, 0, 1]
    assert shot_coverage(sets, target, train_counts=[5, 6])["few"] == 0.5


@pytest.mark.parametrize("counts", [[1, 2], [[1, 2, 3]], 4])
def test_shot_groups_need_a_count_for_each_class(counts):
    with pytest.raises(InputError, match="train_counts: expected one number for each of 3 classes"):
        shot_coverage(SETS, [0, 1, 1, 1], train_counts=counts)
    metric = ShotCoverage(counts)
    metric.update(SETS, [0, 1, 1, 1])
    with pytest.raises(InputError, match="train_counts"):
        metric.compute()


@pytest.mark.parametrize("average", ["weighted", None, ""])
def test_other_averages_are_refused_at_once(average):
    with pytest.raises(InputError, match="average: .*'micro', 'macro', 'none'"):
        coverage(SETS, [0, 1, 1, 1], average=average)
    with pytest.raises(InputError, match="average"):
        Coverage(average)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_ties_of_the_top_k_go_to_the_lower_index(k):
    probs = np.full((4, 4), 0.25)
    assert top_k_accuracy(probs, np.arange(4), k=k).item() == k / 4


def test_top_k_of_all_classes_is_certain_and_of_more_refused():
    probs = torch.rand(9, 3)
    assert top_k_accuracy(probs, torch.arange(9) % 3, k=3) == 1
    with pytest.raises(InputError, match="number of classes"):
        top_k_accuracy(probs, torch.arange(9) % 3, k=4)


def test_average_k_takes_the_threshold_of_calibration():
    calibration, probs = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[0.45, 0.55], [0.6, 0.4]])
    assert average_k_accuracy(probs, [0, 0], k=1, calibration=calibration).item() == 0.5  # the threshold is 0.5
    assert average_k_accuracy(probs, [0, 0], k=0.5, calibration=calibration).item() == 0  # it is 0.85
    assert average_k_accuracy(probs, [0, 0], k=0.5).item() == 0.5  # that of the rows themselves, 0.575


@pytest.mark.parametrize("prior", [None, [0.7, 0.2, 0.1]])
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_average_k_streams_with_and_without_calibration(prior, average):
    random = np.random.default_rng(0)
    probs, target, calibration = random.dirichlet(np.ones(3), 50), random.integers(3, size=50), random.dirichlet(np.ones(3), 20)
    for rows in (calibration, None):
        metric = AverageKAccuracy(1.4, calibration=rows, prior=prior, average=average)
        for i in range(0, 50, 13):
            metric.update(probs[i : i + 13], target[i : i + 13])
        expected = ref.average_k_accuracy(probs, target, 1.4, rows, None if prior is None else np.array(prior), average)
        assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_average_k_accuracy_cannot_beat_the_true_posterior():
    """No threshold rule of the same average size has a lower risk than that on the posterior; 4 standard errors: 3e-5."""
    random = np.random.default_rng(1)
    posterior = random.dirichlet(np.full(5, 0.5), 4000)
    target = np.array([random.choice(5, p=row) for row in posterior])
    blurred = posterior ** random.uniform(0.3, 3, (4000, 1))
    blurred /= blurred.sum(1, keepdims=True)
    best, worse = (average_k_accuracy(p, target, k=1.5).item() for p in (posterior, blurred))
    assert worse <= best + 4 * 0.5 / math.sqrt(4000)
    assert best - worse > 0.005


def test_sizes_and_empty_sets_are_counted():
    assert set_size(SETS).item() == 5 / 4
    assert empty_rate(SETS).item() == 1 / 4


def test_precision_is_the_share_of_right_labels_and_no_number_for_empty_sets():
    assert set_precision(SETS, [0, 1, 1, 1]).item() == pytest.approx(3 / 5)
    assert math.isnan(set_precision(np.zeros((2, 2), bool), [0, 1]))


def test_confidence_is_that_of_the_rows_without_a_label():
    probs, target = np.array([[0.9, 0.2], [0.3, 0.1], [0.2, 0.5]]), np.array([[1, 0], [0, 0], [0, 0]], bool)
    assert mean_max_confidence(probs, target).item() == pytest.approx(0.4)
    assert mean_max_confidence(probs).item() == pytest.approx(1.7 / 3)
    assert math.isnan(mean_max_confidence(probs, ~target))
    metric = MeanMaxConfidence()
    metric.update(probs)
    assert metric.compute().item() == pytest.approx(1.7 / 3)


def test_confidence_of_rows_without_a_label_needs_some():
    with pytest.raises(InputError, match="no label"):
        mean_max_confidence(torch.rand(3, 2), torch.zeros(3, dtype=torch.long))


def test_the_value_of_each_class_is_nan_where_the_class_is_absent():
    found = coverage(SETS, [0, 1, 1, 1], average="none")
    assert found.tolist() == pytest.approx([1.0, 2 / 3, math.nan], nan_ok=True)
    metric = Coverage(average="none")
    metric.update(SETS[:2], [0, 1])
    metric.update(SETS[2:], [1, 1])
    assert metric.compute().tolist() == pytest.approx([1.0, 2 / 3, math.nan], nan_ok=True)
