"""Rows that are left out before logarithms are computed are not among the best; most others are."""

import math
import random

import numpy as np
import pytest

from shortlist.retrieval import Query
from shortlist.retrieval.rough import _at_least, _reaching, promising
from shortlist.retrieval.segments import logs_of_odds, searched_logs
from tests.retrieval.small import LABELS, random_query

ROWS = 400


def columns(odds):
    """float32 log η and log(1 - η) of each label, as the searched file holds them."""
    yes, no = (searched_logs(part) for part in logs_of_odds(odds.T))
    return dict(enumerate(yes)), dict(enumerate(no))


def drawn_odds(draw, kind):
    odds = np.random.default_rng(draw.randrange(2**32)).standard_normal((ROWS, len(LABELS)))
    if kind == "ties":
        return odds.round() * 2
    return {"usual": 2, "certain": 12, "improbable": 40, "extreme": 300}[kind] * odds - {"improbable": 40}.get(kind, 0)


def exclusive_columns(odds):
    probs = np.exp(odds - odds.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.log(probs), np.log1p(-np.minimum(probs, 1))
    yes, no = (searched_logs(part.T) for part in logs)
    return dict(enumerate(yes)), dict(enumerate(no))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", ["usual", "ties", "certain", "improbable", "extreme"])
def test_no_row_that_may_be_among_the_best_is_left_out(kind, exclusive):
    draw = random.Random(f"{kind}{exclusive}")
    for _ in range(40):
        query = Query.parse(random_query(draw, depth=3), LABELS, exclusive=exclusive)
        if query.contradiction or query.always:
            continue
        yes, no = (exclusive_columns if exclusive else columns)(drawn_odds(draw, kind))
        asked = {j: yes[j] for j in query.labels}, {j: no[j] for j in query.labels}
        scores = query.log_probability(*asked)
        undecided = query.undecided(asked[0])
        decided = np.sort(scores[~undecided])[::-1]
        for n in (1, 7, ROWS):
            for floor in (-math.inf, *decided[[0, min(n, len(decided)) - 1, -1]], -1e-3, -5.0):
                kept = promising(query, *asked, rows=ROWS, n=n, floor=floor)
                lowest = floor if floor > -math.inf else decided[n - 1] if n <= len(decided) else -math.inf
                wanted = np.flatnonzero((scores >= lowest) | undecided)
                assert set(wanted) <= set(kept), (query.text, n, floor)


@pytest.mark.parametrize(
    ("text", "exclusive"),
    [
        ("fork or apple", False),
        ("at least 2 of (fork, apple, knife)", False),
        ("(fork or bus) and apple", False),
        ("not (fork or car)", False),
        ("fork or apple", True),
        ("not (fork or car)", True),
    ],
)
def test_most_rows_are_left_out(text, exclusive):
    query = Query.parse(text, LABELS, exclusive=exclusive)
    yes, no = (exclusive_columns if exclusive else columns)(drawn_odds(random.Random(0), "usual"))
    score = np.sort(query.log_probability(yes, no))[-20]
    assert len(promising(query, yes, no, rows=ROWS, n=20, floor=-math.inf)) <= 25
    assert len(promising(query, yes, no, rows=ROWS, n=20, floor=score)) <= 25


def test_rows_that_float32_cannot_decide_are_kept():
    query = Query.parse("fork > 0.5 and (apple or bus)", LABELS)
    yes, no = columns(drawn_odds(random.Random(0), "ties"))
    undecided = np.flatnonzero(query.undecided(yes))
    assert len(undecided) > 20
    assert set(undecided) <= set(promising(query, yes, no, rows=ROWS, n=3, floor=-math.inf))
    assert set(undecided) <= set(promising(query, yes, no, rows=ROWS, n=3, floor=-1e-9))


def test_only_the_columns_that_are_needed_are_looked_up():
    asked = []

    class Watched(dict):
        def __getitem__(self, label):
            asked.append((self.name, label))
            return super().__getitem__(label)

    yes, no = (Watched(part) for part in columns(drawn_odds(random.Random(1), "usual")))
    yes.name, no.name = "yes", "no"
    query = Query.parse("not (fork and apple)", LABELS)
    promising(query, yes, no, rows=ROWS, n=5, floor=math.log(0.9))
    assert set(asked) == {("yes", 0), ("yes", 1)}


@pytest.mark.parametrize("kind", ["usual", "ties", "certain", "improbable", "extreme"])
@pytest.mark.parametrize("size", [3, 6])
def test_sums_of_the_largest_logarithms_bound_how_many_labels_are_true(kind, size):
    draw = random.Random(f"{kind}{size}")
    yes, no = columns(drawn_odds(draw, kind))
    names = [f'{"not " if place % 3 == 2 else ""}"{label}"' for place, label in enumerate(LABELS[:size])]
    for number in range(2, size):
        for text in (f"at least {number} of", f"at most {size - number} of"):
            query = Query.parse(f"{text} ({', '.join(names)})", LABELS)
            scores = query.log_probability(yes, no)
            asked = _at_least(query)
            assert asked[0] == number
            for floor in (*np.sort(scores)[[0, 200, 380, 399]], math.log(0.4), math.log(0.6)):
                if -math.inf < floor < 0:
                    kept = _reaching(asked, yes, no, floor)
                    assert set(np.flatnonzero(scores >= floor)) <= set(kept), (query.text, floor)
            if kind == "usual":
                assert len(_reaching(asked, yes, no, np.sort(scores)[-20])) < ROWS / 2


@pytest.mark.parametrize(
    "text", ["fork", "fork or bus", "exactly 2 of (fork, bus, car)", "at least 2 of (fork, bus, car and apple)"]
)
def test_other_queries_have_no_such_bound(text):
    assert _at_least(Query.parse(text, LABELS)) is None
    assert _at_least(Query.parse("at least 2 of (fork, bus, car)", LABELS, exclusive=True)) is None
