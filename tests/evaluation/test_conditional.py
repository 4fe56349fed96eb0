"""Where coverage differs: strata of set size, the worst slab, the gap of the classes, and the parts of the Brier score."""

import math

import numpy as np
import pytest
import torch

from shortlist import Predictions, metrics
from shortlist.evaluation import measure
from shortlist.evaluation.size_strata import size_strata
from shortlist.evaluation.worst_slab import MOST_ROWS
from shortlist.sets import aps, lac, mass, threshold, top_k
from tests.report.cases import draw


@pytest.mark.parametrize("kind", ["single", "many"])
def test_each_size_is_a_stratum_with_its_coverage(kind):
    predictions, rule = draw(kind, rows=200), threshold(0.25)
    found, sets = measure(predictions, rule), rule(predictions.probs())
    sizes = sets.sum(1)
    frame = found.by_size()
    assert frame.index.tolist() == [str(size) for size in range(7) if int((sizes == size).sum())]
    assert frame["rows"].sum() == 200
    assert frame["share"].sum() == pytest.approx(1)
    for name, row in frame.iterrows():
        chosen = sizes == int(name)
        assert row["rows"] == int(chosen.sum())
        assert row["coverage"] == pytest.approx(float(metrics.coverage(sets[chosen], predictions.target[chosen])), nan_ok=True)
        assert not row["coverage"] < row["coverage_low"]
        assert not row["coverage"] > row["coverage_high"]


def test_many_sizes_are_put_together():
    sizes, hits = torch.zeros(51), torch.zeros(2, 51)
    sizes[[0, 1, 3, 11, 50]] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    hits[1], hits[0] = sizes, torch.where(sizes > 2, 2.0, 0.0)
    found = size_strata(sizes, hits)
    assert [(one.name, one.rows) for one in found] == [("0–1", 3), ("2–3", 3), ("11–50", 9)]
    assert [one.coverage for one in found] == pytest.approx([0, 2 / 3, 4 / 9])
    assert [one.share for one in found] == pytest.approx([0.2, 0.2, 0.6])


def test_without_labels_or_a_rule_there_are_no_strata():
    assert measure(draw("none"), top_k(2)).size_strata() == []
    assert measure(draw()).by_size().empty


def test_the_worst_slab_is_that_of_the_metric_and_has_an_error():
    predictions, rule = draw(rows=600), threshold(0.3)
    numbers, probs = measure(predictions, rule).numbers(), predictions.probs()
    share = float(metrics.worst_slab_coverage(rule(probs), predictions.target, probs, directions=200))
    assert numbers["worst_slab"] == pytest.approx(share)
    found, labels = measure(predictions, rule).worst_slab
    assert numbers["worst_slab_se"] == pytest.approx(math.sqrt(share * (1 - share) / labels))
    assert found / labels == pytest.approx(share)


def test_few_rows_no_labels_no_link_and_no_rule_have_no_worst_slab():
    for predictions, rule in (
        (draw(rows=499), top_k(2)),
        (draw("none", rows=600), top_k(2)),
        (draw(rows=600, link=None), top_k(2)),
        (draw(rows=600), None),
    ):
        assert "worst_slab" not in measure(predictions, rule).numbers()


def test_of_many_rows_some_are_searched():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(MOST_ROWS + 500, 3, generator=generator)
    predictions = Predictions(scores, torch.randint(3, (len(scores),), generator=generator), link="softmax")
    _, labels = measure(predictions, top_k(2)).worst_slab
    assert 0.05 * MOST_ROWS / 2 < labels < 0.2 * MOST_ROWS / 2


def test_the_gap_of_the_classes_is_for_rules_that_were_fitted_for_a_coverage():
    calibration, rows = draw(rows=300, seed=1), draw(rows=300)
    for rule in (lac(0.2), aps(0.2)):
        rule.fit(calibration)
        found = measure(rows, rule).numbers()["class_gap"]
        assert found == pytest.approx(float(metrics.class_coverage_gap(rule.predict(rows), rows.target, 0.2)), abs=1e-12)
    for rule in (top_k(2), mass(0.2), threshold(0.3)):
        assert "class_gap" not in measure(rows, rule).numbers()
    assert "class_gap" not in measure(draw("none"), lac(0.2).fit(calibration)).numbers()


@pytest.mark.parametrize("kind", ["single", "many"])
def test_the_parts_of_the_brier_score_add_up(kind):
    numbers = measure(draw(kind, rows=200), calibration_bins=7).numbers()
    parts = [numbers[f"brier_{part}"] for part in ("reliability", "resolution", "uncertainty", "within")]
    assert np.dot(parts, [1, -1, 1, 1]) == pytest.approx(numbers["brier"], abs=1e-12)
