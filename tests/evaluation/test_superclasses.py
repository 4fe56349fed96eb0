"""Superclasses: the same sets and probabilities, judged one level up, against a loop over rows."""

import math

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.evaluation import measure
from shortlist.evaluation.superclass_quantities import SUPERCLASSES as QUANTITIES
from shortlist.evaluation.superclasses import superclass_answers, superclass_nodes
from shortlist.report import evaluate
from shortlist.sets import sure_node, threshold, top_k
from shortlist.sets.hierarchy import superclass_numbers
from tests.references import evaluation as reference, metrics as ref
from tests.report.cases import SUPERCLASSES, draw

NAMES = {quantity.name for quantity in QUANTITIES}
TREES = {
    "two": SUPERCLASSES,
    "one": ["tree"] * 6,
    "as many as classes": list("abcdef"),
    "uneven": ["x", "y", "x", "x", "z", "z"],
}


def numbers(predictions, rule):
    """The numbers about superclasses only."""
    return {name: value for name, value in measure(predictions, rule).numbers().items() if name.removesuffix("_se") in NAMES}


@pytest.mark.parametrize("block_rows", [1, 7, 10**6])
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("kind", ["single", "many", "none"])
def test_numbers_are_those_of_a_loop_over_rows_whatever_the_blocks(kind, tree, block_rows, monkeypatch):
    whole = Predictions.blocks
    monkeypatch.setattr(Predictions, "blocks", lambda self: whole(self, 6 * block_rows))
    above, rule = TREES[tree], threshold(0.3)
    predictions = draw(kind, superclasses=above)
    probs, sets = predictions.probs().double().numpy(), rule(predictions.probs()).numpy()
    expected = {"superclasses_in_set": ref.superclasses_in_set(sets, above)}
    if kind == "many":
        expected["superclass_recall"] = ref.superclass_coverage(sets, predictions.target.numpy(), above)
    if kind == "single":
        target = predictions.target.numpy()
        shares = {
            "superclass_coverage": ref.superclass_coverage(sets, target, above),
            "superclass_top1": ref.superclass_top1(probs, target, above),
        }
        expected |= shares | {f"{name}_se": math.sqrt(share * (1 - share) / 90) for name, share in shares.items()}
    assert numbers(predictions, rule) == pytest.approx(expected)


@pytest.mark.parametrize("tree", TREES)
def test_the_answers_of_sure_node_are_counted_by_kind(tree):
    above = TREES[tree]
    calibration, predictions = draw(rows=400, seed=1), draw(rows=200, superclasses=above)
    for alpha in (0.02, 0.1, 0.3):
        rule = sure_node(alpha, above).fit(calibration)
        found = measure(predictions, rule).numbers()
        shares = ref.answers_of_nodes(rule(predictions.probs()).numpy(), above)
        assert [found[name] for name in ("one_class", "one_superclass", "every_class")] == pytest.approx(shares)
        assert sum(shares) == pytest.approx(1)


def test_a_whole_superclass_is_told_from_part_of_one():
    above = ["oak", "oak", "elm", "elm", "elm", "fir"]
    sets = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1], [1] * 6, [0] * 6]) > 0
    found = superclass_nodes(torch.from_numpy(sets), superclass_numbers(above))
    assert found.tolist() == [1 + 1 + 2 + 1 + 3 + 0, 1, 1, 1, 6]


def test_only_rules_that_answer_with_nodes_have_answers_of_nodes():
    found = measure(draw(superclasses=SUPERCLASSES), top_k(2)).numbers()
    assert {"one_class", "one_superclass", "every_class"}.isdisjoint(found)


def test_the_superclasses_of_the_rule_stand_in_where_predictions_have_none():
    rule = sure_node(0.1, SUPERCLASSES).fit(draw(rows=400, seed=1))
    bare, named = measure(draw(), rule), measure(draw(superclasses=SUPERCLASSES), rule)
    assert {name for name in bare.numbers() if name in NAMES} == NAMES - {"superclass_recall"}
    assert bare.numbers() == pytest.approx(named.numbers(), nan_ok=True)
    assert bare.by_superclass().index.tolist() == ["0", "1"]
    assert NAMES.isdisjoint(measure(draw(), top_k(2)).numbers())


def test_the_summed_probability_decides_and_not_that_of_the_most_probable_class():
    predictions = Predictions([[0.4, 0.3, 0.3]] * 2, [1, 0], link="identity", superclasses=["oak", "elm", "elm"])
    found = measure(predictions).numbers()
    assert (found["top1"], found["superclass_top1"]) == (0.5, 0.5)
    assert measure(predictions.rows([0])).numbers()["superclass_top1"] == 1
    tied = Predictions([[0.5, 0.25, 0.25]], [0], link="identity", superclasses=["oak", "elm", "elm"])
    assert measure(tied).numbers()["superclass_top1"] == 1
    assert "superclass_top1" not in measure(draw(link=None, superclasses=SUPERCLASSES), top_k(2)).numbers()


@pytest.mark.parametrize("kind", ["single", "many"])
def test_each_superclass_has_its_coverage(kind):
    above, rule = TREES["uneven"], threshold(0.3)
    predictions = draw(kind, superclasses=above)
    sets, target = rule(predictions.probs()).numpy(), predictions.target.numpy()
    frame = measure(predictions, rule).by_superclass()
    assert frame.index.tolist() == ["x", "y", "z"]
    assert frame["classes"].tolist() == [3, 1, 2]
    marks = ref.marks_of(target, 6)
    for name, row in frame.iterrows():
        members = [j for j, own in enumerate(above) if own == name]
        rows = np.flatnonzero(marks[:, members].any(1))
        assert row["rows"] == len(rows)
        assert row["superclass_coverage"] == pytest.approx(ref.mean(float(sets[i, members].any()) for i in rows))
        own = [float(sets[i, j]) for i in rows for j in members if marks[i, j]]
        assert row["class_coverage"] == pytest.approx(ref.mean(own))
    assert measure(draw("none", superclasses=above), rule).by_superclass().empty
    assert measure(draw(kind), rule).by_superclass().empty


def test_labels_given_beside_predictions_keep_their_superclasses_and_counts():
    whole = draw(superclasses=SUPERCLASSES, counts=[1] * 6)
    bare = Predictions(whole.scores, None, whole.classes, "softmax", None, [1] * 6, SUPERCLASSES)
    assert evaluate(bare, whole.target, top_k(2)).numbers() == pytest.approx(evaluate(whole, top_k(2)).numbers(), nan_ok=True)


def test_what_a_superclass_would_have_answered_is_that_of_a_literal_count():
    generator = torch.Generator().manual_seed(3)
    probs = (2 * torch.randn(150, 6, generator=generator)).softmax(1)
    target, groups = torch.multinomial(probs, 1, generator=generator).squeeze(1), torch.tensor([0, 0, 1, 1, 1, 2])
    sets = probs > 0.2
    found = superclass_answers(probs, sets, target, groups)
    assert found.tolist() == reference.superclass_answers(probs.tolist(), sets.tolist(), target.tolist(), groups.tolist())
    assert superclass_answers(probs, None, target, groups).tolist() == [*found[:2].tolist(), 0, 0, 0, 150]
