"""Rankings, samples and totals of queries, against literal loops, scikit-learn's definitions and the textbook."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chisquare

from shortlist.query_rankings.asking import count_queries
from shortlist.query_rankings.ranking import LONG_ROW, rank_queries
from shortlist.query_rankings.sampling import Stratum, estimate, frame_of, sets_of_rows
from shortlist.query_rankings.totals import KindTotals
from tests.references import metrics as ref, retrieval_evaluation as slow


def draw(rows=25, classes=4, seed=0):
    random = np.random.default_rng(seed)
    probs = random.uniform(size=(rows, classes))
    target = random.uniform(size=probs.shape) < probs
    target[0] = False
    return probs, target


@pytest.mark.parametrize(("classes", "length"), [(4, 1), (4, 2), (5, 3), (6, 4)])
def test_queries_are_counted(classes, length):
    queries = list(ref.retrieval_queries(classes, length))
    assert count_queries(classes, length) == len(queries) == len(set(queries))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 60), long=st.booleans(), seed=st.integers(0, 999), kind=st.sampled_from(["far", "near", "ties"]))
def test_rankings_equal_scikit_learn_and_a_stable_sort(rows, long, seed, kind):
    """Scores of any size: nearly 0, beyond the exponents that the first sort tells apart, infinite, equal."""
    random = np.random.default_rng(seed)
    rows += LONG_ROW if long else 0
    spread = {"far": 300.0, "near": 1e-12, "ties": 3.0}[kind]
    scores = -random.exponential(size=(3, rows)) * spread
    scores = np.round(scores) if kind == "ties" else scores
    scores[random.uniform(size=scores.shape) < 0.1] = -np.inf
    scores[random.uniform(size=scores.shape) < 0.05] = -0.0
    right = random.uniform(size=scores.shape) < random.choice([0.02, 0.5])
    right[range(3), random.integers(rows, size=3)] = True
    found = rank_queries(scores, right)
    for query in range(3):
        assert found.precision[query] == pytest.approx(slow.average_precision(scores[query], right[query]), rel=1e-12)
        best = slow.best(scores[query])
        np.testing.assert_allclose(found.stated[query], np.exp(scores[query][best]), rtol=1e-14)
        for value in np.unique(scores[query][best]):  # right ones are counted, in the order of rows, within each tie
            tied = scores[query][best] == value
            assert found.right[query][tied].sum() == right[query][best][tied].sum()


def test_the_best_that_tie_are_taken_by_row():
    scores = np.log(np.array([[0.9, *[0.5] * 12]]))
    right = np.zeros((1, 13), dtype=bool)
    right[0, [3, 9, 10, 12]] = True  # of the rows that tie, 1 to 9 are shown
    found = rank_queries(scores, right)
    assert found.right.sum() == 2
    assert found.precision[0] == pytest.approx(4 / 13)


def test_the_ratio_and_its_error_are_those_of_the_textbook():
    random = np.random.default_rng(0)
    strata, literal = [], []
    for size, n in ((None, 30), (5000, 40), (90, 25)):
        z = (random.uniform(size=n) < 0.7).astype(float)
        y = z * random.uniform(size=n)
        kind = KindTotals(n, int(z.sum()), np.array([y.sum(), (y * y).sum()]), np.array([y.sum(), (y * y).sum()]))
        strata.append(Stratum(1, 1, n if size is None else size, kind))
        literal.append((size, y, z))
    found, (mean, error) = estimate(strata, "precision"), slow.combined_ratio(literal)
    assert found.mean == pytest.approx(mean, rel=1e-12)
    assert found.error == pytest.approx(error, rel=1e-10)
    assert found.error > 0


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sets_of_rows_are_those_that_some_row_has(size):
    _, target = draw(12, 6, seed=2)
    expected = [p for p in itertools.combinations(range(6), size) if target[:, p].all(1).any()]
    assert sets_of_rows(target, size).tolist() == [list(p) for p in expected]
    assert sets_of_rows(target, size, most=0) is None or not expected


def test_labels_too_many_to_number_their_sets_are_drawn_without_a_list():
    marks = np.zeros((1, 10_000), dtype=bool)
    marks[0, :6] = True
    assert sets_of_rows(marks, 5) is None
    assert len(sets_of_rows(marks, 3)) == 20


@pytest.mark.parametrize("most", [0, 1000], ids=["all sets", "listed sets"])
@pytest.mark.parametrize(("present", "absent"), [(1, 0), (1, 2), (2, 1), (3, 0), (2, 2)])
def test_a_frame_draws_each_of_its_queries_alike(present, absent, most):
    _, target = draw(12, 6, seed=2)
    frame = frame_of(target, present, absent, most)
    everything = {tuple(query) for query in frame.all().tolist()}
    assert len(everything) == len(frame.all()) == frame.size
    for query in everything:
        labels = [column // 2 for column in query]
        assert labels == sorted(set(labels))
        assert sum(column % 2 == 0 for column in query) == present
    drawn, counts = np.unique(frame.draw(200 * frame.size, np.random.default_rng(0)), axis=0, return_counts=True)
    assert {tuple(query) for query in drawn.tolist()} == everything
    assert frame.size == 1 or chisquare(counts).pvalue > 1e-4


def test_every_satisfiable_query_is_in_its_frame():
    _, target = draw(12, 6, seed=2)
    for present, absent in slow.every_query(6, 4):
        if slow.satisfies(target, present, absent).any():
            query = sorted([2 * j for j in present] + [2 * j + 1 for j in absent])
            assert query in frame_of(target, len(present), len(absent)).all().tolist()
