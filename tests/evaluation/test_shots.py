"""Shot groups of an evaluation against a loop over rows."""

import pytest
import torch

from shortlist import Predictions, metrics
from shortlist.evaluation import measure
from shortlist.evaluation.shots import DEFINITIONS
from shortlist.report import evaluate
from shortlist.sets import threshold, top_k
from tests.references import metrics as ref
from tests.report.cases import COUNTS, draw

EDGES = [None, (10, 50, 500, 2000), (19, 100), (0,), (3, 499), (1000,)]


def expected(predictions, rule, edges):
    probs = predictions.plausibility()
    sets = None if rule is None else rule(probs).numpy()
    return ref.shot_group_records(probs.double().numpy(), sets, predictions.target.numpy(), COUNTS, edges)


def check(found, records):
    assert len(found) == len(records)
    for group, record in zip(found, records, strict=True):
        assert list(group.record()) == list(record)
        assert group.record()["group"] == record["group"]
        assert {**group.record(), "group": 0} == pytest.approx({**record, "group": 0}, nan_ok=True)


@pytest.mark.parametrize("block_rows", [1, 7, 10**6])
@pytest.mark.parametrize("edges", EDGES, ids=str)
@pytest.mark.parametrize("kind", ["single", "many"])
def test_groups_are_those_of_a_loop_over_rows_whatever_the_blocks(kind, edges, block_rows, monkeypatch):
    whole = Predictions.blocks
    monkeypatch.setattr(Predictions, "blocks", lambda self: whole(self, 6 * block_rows))
    predictions, rule = draw(kind, counts=COUNTS), threshold(0.45)
    found = measure(predictions, rule, shots=edges)
    check(found.shot_groups(), expected(predictions, rule, edges))
    coverages = metrics.shot_coverage(rule(predictions.probs()), predictions.target, COUNTS, edges=edges)
    assert found.shot_coverages() == pytest.approx({name: float(value) for name, value in coverages.items()}, nan_ok=True)
    assert list(found.group_sizes) == list(coverages)


@pytest.mark.parametrize("edges", EDGES, ids=str)
def test_scores_alone_have_top_1_accuracy_by_group_without_a_rule_or_a_link(edges):
    predictions = draw(counts=COUNTS, link=None)
    check(measure(predictions, shots=edges).shot_groups(), expected(predictions, None, edges))
    rule = top_k(2)
    check(measure(predictions, rule, shots=edges).shot_groups(), expected(predictions, rule, edges))


def test_an_edge_belongs_to_the_group_below_and_classes_without_examples_to_the_first():
    predictions = Predictions(torch.eye(4), [0, 1, 2, 3], link="identity", train_counts=[0, 10, 11, 50])
    frame = evaluate(predictions, top_k(1), shots=[10, 50]).by_shots()
    assert frame.index.tolist() == ["0-10", "11-50", "51+"]
    assert frame["classes"].tolist() == frame["rows"].tolist() == [2, 2, 0]
    assert frame["macro_coverage"].tolist()[:2] == frame["macro_top1"].tolist()[:2] == frame["size"].tolist()[:2] == [1, 1]
    assert frame.loc["51+", ["macro_coverage", "macro_top1", "size"]].isna().all()


def test_the_first_of_equal_probabilities_is_the_answer():
    predictions = Predictions([[0.5, 0.5], [0.5, 0.5]], [0, 1], link="identity", train_counts=[1, 99])
    assert measure(predictions, shots=[9]).by_shots()["macro_top1"].tolist() == [1, 0]


def test_other_edges_take_the_place_of_few_medium_and_many():
    predictions = draw(counts=COUNTS)
    default, other = measure(predictions, top_k(2)), measure(predictions, top_k(2), shots=[50])
    assert {"few", "medium", "many"} <= default.numbers().keys()
    assert {"few", "medium", "many"}.isdisjoint(other.numbers())
    assert "long tail:\n0-50" in repr(evaluate(predictions, top_k(2), shots=[50]))


@pytest.mark.parametrize("evaluation", [measure(draw(), top_k(2)), measure(draw("none", counts=COUNTS), top_k(2))])
def test_without_counts_or_labels_there_are_no_groups(evaluation):
    assert evaluation.shot_groups() == []
    assert evaluation.by_shots().empty


def test_every_number_of_a_group_has_a_definition():
    for kind in ("single", "many"):
        for group in measure(draw(kind, counts=COUNTS), top_k(1)).shot_groups():
            assert group.record().keys() - {"group"} <= DEFINITIONS.keys()
