"""Coverage by set size and by class."""

import numpy as np
import pytest

from shortlist import metrics
from shortlist.errors import InputError

SETS = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]]) > 0


def test_sizes_are_strata_and_empty_sets_cover_nothing():
    target = np.array([0, 0, 1, 1, 2])
    assert metrics.size_stratified_coverage(SETS, target) == 0
    assert metrics.size_stratified_coverage(SETS[1:], target[1:]) == 0.5
    assert metrics.size_stratified_coverage(SETS, target, edges=(1,)) == pytest.approx(1 / 3)
    assert metrics.size_stratified_coverage(SETS, target, edges=(1, 2, 3, 9)) == pytest.approx(1 / 3)
    assert metrics.size_stratified_coverage(SETS, target, edges=(5,)) == pytest.approx(3 / 5)


def test_strata_with_few_rows_are_left_out():
    target = np.array([0, 0, 1, 1, 2])
    assert metrics.size_stratified_coverage(SETS, target, min_rows=2) == 0.5
    assert np.isnan(metrics.size_stratified_coverage(SETS, target, min_rows=3))


def test_rows_without_a_label_count_as_rows_and_have_no_coverage():
    target = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]) > 0
    assert metrics.size_stratified_coverage(SETS, target) == 0.5
    assert np.isnan(metrics.size_stratified_coverage(SETS[:2], target[:2]))
    assert metrics.size_stratified_coverage(SETS, target, min_rows=2) == 0.5


def test_the_gap_of_classes_is_a_mean_over_those_present():
    sets, target = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]]) > 0, np.array([0, 0, 1, 1])
    assert metrics.class_coverage_gap(sets, target, 0.5) == 0
    assert metrics.class_coverage_gap(sets, target, "0.1") == pytest.approx(0.4)
    assert metrics.class_coverage_gap(sets | True, target, 0.1) == pytest.approx(0.1)  # too much is a gap as well


@pytest.mark.parametrize(
    ("name", "keywords", "message"),
    [
        ("class_coverage_gap", {"alpha": 0}, "alpha: expected a number between 0 and 1"),
        ("class_coverage_gap", {"alpha": 90}, "alpha: .*got 90"),
        ("size_stratified_coverage", {"edges": (3, 1)}, "edges: expected increasing whole numbers"),
        ("size_stratified_coverage", {"min_rows": 0}, "min_rows: expected a whole number from 1"),
    ],
)
def test_parameters_are_checked(name, keywords, message):
    streaming = "".join(part.capitalize() for part in name.split("_"))
    function = getattr(metrics, name)
    for call in (lambda: function(SETS, [0, 0, 1, 1, 2], **keywords), lambda: getattr(metrics, streaming)(**keywords)):
        with pytest.raises(InputError, match=message):
            call()
