"""Rows with exactly one label: probabilities against the sum over the outcomes, and searches against brute force."""

import math
import random
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.links import LDAM, Isotonic, Platt, Reweighted, Sigmoid, Softmax, SoftmaxFocalRecovery, SparseTop, Temperature
from shortlist.retrieval import Index, Query, explained_sql, render, to_sql
from shortlist.retrieval.manifest import is_exclusive
from tests.references import retrieval as reference
from tests.retrieval.drawn import queries
from tests.retrieval.small import LABELS, brute_force, exact_logs, predictions, random_query

NAMES = ["a", "b", "c", "d", "e"]
WEIGHTS = st.lists(st.sampled_from([0, 1, 3, 10, 10**6, 10**15, 10**40]), min_size=5, max_size=5).filter(any)


def normalised(rows):
    return [[Fraction(weight, sum(row)) for weight in row] for row in rows]


def columns(rows, labels=range(5)):
    log_yes = {j: np.array([reference.log(row[j]) for row in rows]) for j in labels}
    return log_yes, {j: np.array([reference.log(1 - row[j]) for row in rows]) for j in labels}


@given(queries(5, thresholds=["0.05", "0.3", "0.8"], most_leaves=14), st.lists(WEIGHTS, min_size=1, max_size=3))
@settings(max_examples=400, deadline=None)
def test_the_probability_is_the_sum_over_the_outcomes(query, weights):
    rows = normalised(weights)
    asked = Query.parse(reference.text(query, NAMES), NAMES, exclusive=True)
    found = asked.log_probability(*columns(rows))
    few = asked.log_probability(*columns(rows, asked.labels))
    for value, rough, row in zip(found, few, rows, strict=True):
        exact = reference.exclusive_probability(query, row)
        expected = reference.log(exact)
        if expected == -math.inf:
            assert value == -math.inf
        else:
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-300)
        # From the labels of the query alone the sum of the others is a difference, exact to the last places of 1.
        assert math.exp(rough) == pytest.approx(float(exact), abs=1e-14)
    if asked.contradiction is not None:
        assert (found == -np.inf).all()
    if asked.always:
        np.testing.assert_allclose(found, 0, atol=1e-15)


def test_either_of_two_is_the_sum_of_both():
    yes, no = columns([[Fraction("0.545"), Fraction("0.071"), Fraction("0.384")]], range(3))
    either = Query.parse("a or b", ["a", "b", "c"], exclusive=True)
    assert math.exp(either.log_probability(yes, no)[0]) == pytest.approx(0.616)
    independent = Query.parse("a or b", ["a", "b", "c"])
    assert math.exp(independent.log_probability(yes, no)[0]) == pytest.approx(0.577, abs=5e-4)


@pytest.mark.parametrize("text", ["a and b", "count = 2", "not (a or b or c)", "at least 2 of (a, b, c)", "a and not a"])
def test_what_one_label_cannot_satisfy_is_a_contradiction(text):
    asked = Query.parse(text, ["a", "b", "c"], exclusive=True)
    assert "exactly one label" in asked.contradiction
    assert Query.parse("not a or count = 1", ["a", "b"], exclusive=True).always


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    given = predictions(4_000, link="softmax")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return given, Index.build(given, tmp_path_factory.mktemp("exclusive") / "index")


def test_searches_find_what_brute_force_finds(index):
    given, built = index
    assert built.exclusive
    logs, draw = exact_logs(given), random.Random(0)
    texts = [random_query(draw) for _ in range(120)]
    for text in [*texts, "fork or apple", "not fork and not apple and not bus", "fork and not apple", "car > 0.5 and not bus"]:
        query = Query.parse(text, LABELS, exclusive=True)
        expected = brute_force(query, logs, 7)
        found = built.search(text, 7)
        assert [result.row for result in found] == [row for row, _ in expected], text
        np.testing.assert_allclose([result.score for result in found], [score for _, score in expected], rtol=1e-6, atol=1e-9)


def test_a_label_that_must_be_there_keeps_groups_from_being_read(index):
    _, built = index
    assert Query.parse("fork and not apple", LABELS, exclusive=True).required == ((0,), ())
    assert Query.parse("not fork and not apple", LABELS, exclusive=True).required == ((), (0,))
    assert Query.parse("fork or apple", LABELS, exclusive=True).required == ((), ())
    assert built.search("fork", 3).read <= built.search("fork or apple", 3).read


def test_queries_for_independent_labels_are_refused_and_so_is_sql(index):
    _, built = index
    with pytest.raises(InputError, match="exclusive=True"):
        built.search(Query.parse("fork", LABELS), 3)
    with pytest.raises(InputError, match="exactly one"):
        to_sql(Query.parse("fork", LABELS, exclusive=True), 3, "scores")
    with pytest.raises(InputError, match="exactly one"):
        explained_sql(built, "fork", 3)


def test_the_page_says_what_is_assumed(index):
    _, built = index
    assert "exactly one label" in render(built.search("fork or apple", 3), rows=len(built))
    contradicting = built.search("fork and apple", 3)
    assert list(contradicting) == []
    assert "exactly one label" in contradicting.note


def test_the_index_knows_from_the_link_alone():
    target = torch.arange(60) % 4
    many = torch.nn.functional.one_hot(target, 4).bool()
    scores = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) + many
    links = [Softmax(), Sigmoid(), SoftmaxFocalRecovery(2.0), LDAM(torch.ones(4)), SparseTop(), SparseTop(2)]
    links += [kind().fit(scores, labels) for kind in (Temperature, Platt, Isotonic) for labels in (target, many)]
    links += [kind(Softmax()).fit(scores, many) for kind in (Temperature, Platt)]
    links += [Reweighted(Softmax(), torch.ones(4)), Reweighted(Platt().fit(scores, target), torch.ones(4))]
    for link in links:
        assert is_exclusive(link.config()) == link.exclusive, link
    assert Predictions(scores, link="softmax").link.exclusive


def test_rare_rows_are_ranked_although_their_probability_is_a_difference(tmp_path):
    """Of labels a and b alone float32 knows 1 - η_a - η_b to 1e-8, which is a hundredth of it: the best must not be lost."""
    generator = torch.Generator().manual_seed(0)
    scores = 0.01 * torch.rand(3_000, 3, generator=generator, dtype=torch.float64)
    scores[:, 2] = math.log(1e-6) + 1e-3 * torch.rand(3_000, generator=generator, dtype=torch.float64)
    given = Predictions(scores, classes=["a", "b", "c"], link="softmax")
    built, query = Index.build(given, tmp_path / "index"), Query.parse("not a and not b", ["a", "b", "c"], exclusive=True)
    expected = brute_force(query, exact_logs(given), 5)
    assert [result.row for result in built.search("not a and not b", 5)] == [row for row, _ in expected]


@pytest.mark.parametrize(
    ("text", "outside"),
    [("a or b", (2, 3)), ("a or c", (1, 3)), ("not (b or d)", (1, 3)), ("not a", (0,)), ("b or c or d", (0,))],
)
@pytest.mark.parametrize("n", [1, 5, 40])
def test_nearly_certain_rows_are_ranked_by_what_they_miss(tmp_path, text, outside, n):
    scores = (np.random.default_rng(0).normal(size=(2000, 4)) * 6).astype(np.float32)
    built = Index.build(Predictions(scores, classes=list("abcd"), link="softmax"), tmp_path / "index")
    shifted = np.exp(scores.astype(np.longdouble) - scores.max(1, keepdims=True))
    missed = (shifted / shifted.sum(1, keepdims=True))[:, list(outside)].sum(1)
    expected = np.lexsort((np.arange(len(missed)), missed))[:n]
    assert [int(result.id) for result in built.search(text, n)] == expected.tolist()


def test_rows_whose_probability_rounds_to_nothing_are_found(tmp_path):
    probs = np.array([[0.6772224422289470, 0.3227775277710530, 3e-08], [0.5045310211257445, 0.4954689787742554, 1e-10]])
    built = Index.build(Predictions(np.log(probs), classes=list("abc"), link="softmax"), tmp_path / "index")
    assert [result.id for result in built.search("not (a or b)", 5)] == ["0", "1"]
    assert [result.id for result in built.search("a or b", 1)] == ["1"]
