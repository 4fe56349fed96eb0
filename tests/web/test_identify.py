"""Photographs combined, and the answer that they get."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.links import Sigmoid, Softmax, SparseTop
from shortlist.models import Classifier
from shortlist.sets import parse_rule
from shortlist.web.identify import combined, guarantee, identify
from tests.models.classifiers import fitted, labels, of_pictures, pictures
from tests.references import identification as reference

ROWS = st.lists(st.lists(st.floats(-6, 6), min_size=4, max_size=4), min_size=1, max_size=5)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_photographs_are_combined_as_defined(rows):
    scores = torch.tensor(rows, dtype=torch.float64)
    expected = reference.combined_exclusive(Softmax().probs(scores).tolist())
    np.testing.assert_allclose(combined(Softmax(), scores), expected, rtol=1e-9)
    each = reference.combined_each(Sigmoid().probs(scores).tolist())
    np.testing.assert_allclose(combined(Sigmoid(), scores), each, rtol=1e-9)
    np.testing.assert_allclose(combined(None, scores), scores.mean(0))


def test_one_photograph_has_its_own_probabilities_exactly():
    scores = torch.randn(1, 5)
    assert torch.equal(combined(Softmax(), scores), Softmax().probs(scores)[0])


def test_photographs_that_are_certain_of_different_classes_are_averaged():
    """Sparse probabilities are exactly 0, so that every label is impossible in one of the two."""
    found = combined(SparseTop(), torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]]))
    assert found.tolist() == [0.5, 0.5, 0.0]
    certain = combined(Softmax(), torch.tensor([[1e4, 0.0], [0.0, 1e4]]))  # log p is finite however far the scores are
    torch.testing.assert_close(certain, torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize("rule", ["average-k:2", "lac:0.2", "aps:0.2", "top-k:3"])
def test_one_photograph_gets_the_set_that_predict_gives(rule):
    classifier = fitted(of_pictures(), rule)
    batch = pictures(6, seed=3)
    answers = identify(classifier, list(classifier.scores(batch).split(1)))
    expected = fitted(of_pictures(), rule).predict(batch)
    assert [[one.name for one in answer.answer] for answer in answers] == expected.names
    for answer, row in zip(answers, expected, strict=True):
        np.testing.assert_allclose([one.probability for one in answer.answer], [value for _, value in row], rtol=1e-6)


def answer_of(probs, rule="top-k:2", **options):
    classifier = of_pictures(rule=parse_rule(rule), **options)
    return identify(classifier, [torch.tensor([probs]).log()])[0]


def test_the_set_comes_first_and_then_the_others_by_probability():
    found = answer_of([0.1, 0.5, 0.15, 0.25])
    assert [(one.place, one.in_set) for one in found.candidates] == [(1, True), (3, True), (2, False), (0, False)]
    assert not found.is_wide


def test_the_superclass_has_the_sum_of_its_classes():
    found = answer_of([0.3, 0.3, 0.35, 0.05], superclasses=["tree", "tree", "bush", "bush"])
    assert found.superclass.name == "tree"
    assert found.superclass.probability == pytest.approx(0.6)
    assert found.superclass.classes == 2
    assert [one.superclass for one in found.candidates] == ["bush", "tree", "tree", "bush"]


def test_no_superclass_where_labels_do_not_exclude_each_other():
    assert answer_of([0.3, 0.3, 0.35, 0.05], link=Sigmoid(), superclasses=["tree", "tree", "bush", "bush"]).superclass is None


def test_an_empty_set_says_that_nothing_is_known():
    found = answer_of([0.25, 0.25, 0.25, 0.25], rule="threshold:0.5")
    assert found.answer == []
    assert "probable enough" in found.nothing_known


def gated(by):
    classifier = of_pictures()
    rows = pictures(80, seed=1)
    target = labels(80, many=True)
    target[::2] = False
    quality = "sharpness" if by == "sharpness" else None
    predictions = classifier.predictions(rows, target, quality=quality)
    rule = "top-k:2,gate:0.5" + (f":{by}" if by != "confidence" else "")
    return classifier.fit_rule(rule, predictions)


def test_a_gate_refuses_in_words_and_the_sharpest_photograph_counts():
    classifier = gated("confidence")
    [unsure] = identify(classifier, [torch.zeros(1, 4)])
    assert unsure.nothing_known.startswith("This looks like nothing")
    sharp = gated("sharpness")
    blurred, clear = torch.tensor([0.0]).double(), torch.tensor([0.0, 1e9]).double()
    scores = torch.tensor([[3.0, 0, 0, 0]])
    refused, answered = identify(sharp, [scores, scores.expand(2, 4)], [blurred, clear])
    assert "blurred" in refused.nothing_known
    assert answered.nothing_known is None


def test_the_guarantee_says_that_it_is_for_one_photograph():
    classifier = fitted(of_pictures(), "lac:0.2")
    assert guarantee(classifier, 1) == classifier.rule.guarantee
    assert "one photograph" in guarantee(classifier, 3)


def test_scores_without_a_link_are_no_probabilities():
    network = of_pictures().network
    classifier = Classifier(network, ["ash", "birch", "elm", "oak"], rule=parse_rule("top-k:1"))
    [found] = identify(classifier, [torch.tensor([[5.0, -1.0, 7.0, 0.0]])])
    assert not found.calibrated
    assert found.answer[0].name == "elm"
