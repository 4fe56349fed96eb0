"""Answers from a tree of superclasses: the class, its superclass, or everything."""

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.sets import SetRule, parse_rule, sure_node

ABOVE = ["rose", "rose", "oak", "oak", "oak", "elm"]


def law(random, rows):
    """Labels from their own probabilities, which are clustered by superclass."""
    probs = random.dirichlet(np.full(6, 0.4), rows)
    return probs, (probs.cumsum(1) > random.uniform(size=(rows, 1))).argmax(1)


def nodes(sets):
    """The name of each answer: a class number, a superclass, or everything."""
    families = {name: frozenset(np.flatnonzero(np.array(ABOVE) == name).tolist()) for name in ABOVE}
    known = {frozenset([j]): j for j in range(6)} | {frozenset(range(6)): "everything"}
    known = {members: name for name, members in families.items()} | known
    return [known[frozenset(np.flatnonzero(row).tolist())] for row in sets]


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.3])
def test_every_answer_is_a_node_above_the_most_probable_class(alpha):
    random = np.random.default_rng(0)
    rule = sure_node(alpha, ABOVE).fit(*law(random, 500))
    probs, _ = law(random, 300)
    cut = rule.threshold.item()
    for row, node in zip(probs, nodes(rule(probs)), strict=True):
        first = int(row.argmax())
        family = row[[name == ABOVE[first] for name in ABOVE]].sum()
        # A superclass of one class is that class.
        expected = first if row[first] > cut or (ABOVE.count(ABOVE[first]) == 1 and family > cut) else None
        expected = expected if expected is not None else ABOVE[first] if family > cut else "everything"
        assert node == expected or {node, expected} == {5, "elm"}


def test_coverage_on_average_over_calibrations_is_at_least_what_was_asked_for():
    """And not much more: ranks of continuous scores but for those at 0."""
    random, covered, tries = np.random.default_rng(1), 0, 1500
    for _ in range(tries):
        probs, target = law(random, 30)
        sets = sure_node(0.2, ABOVE).fit(probs[:29], target[:29])(probs[29:])
        covered += bool(sets[0, target[29]])
    error = (0.2 * 0.8 / tries) ** 0.5
    assert 0.8 - 3 * error < covered / tries < 0.8 + 1 / 30 + 3 * error


def test_it_is_written_as_text_and_saved(tmp_path):
    random = np.random.default_rng(2)
    probs, target = law(random, 200)
    rows = Predictions(probs, target, link="identity", superclasses=ABOVE)
    rule = parse_rule("sure-node:0.2", superclasses=lambda: rows.superclasses).fit(rows)
    rule.save(tmp_path / "rule")
    assert torch.equal(SetRule.load(tmp_path / "rule")(rows), rule(rows))
    with pytest.raises(InputError, match="needs the superclass of each class"):
        parse_rule("sure-node:0.2")
    with pytest.raises(InputError, match="superclasses: expected one for each of 6 classes, got 2"):
        sure_node(0.2, ["a", "b"]).fit(probs, target)


def test_half_precision_and_a_row_that_is_rounded_beyond_one():
    random = np.random.default_rng(3)
    probs, target = law(random, 400)
    for dtype in (torch.float16, torch.float32):
        rule = sure_node(0.005, ABOVE).fit(torch.from_numpy(probs).to(dtype), target)
        assert rule(torch.full((1, 6), 1 / 6, dtype=dtype)).all()
