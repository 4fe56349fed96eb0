"""Both engines find the same, and what an engine may leave out."""

import itertools
import math
import operator
import random
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.retrieval import Index, Query, explained_sql, find_engine
from shortlist.retrieval.engines import margin
from shortlist.retrieval.segments import Segment
from tests.retrieval.small import LABELS, brute_force, exact_logs, predictions, random_conjunction, random_query


def test_an_unknown_engine_is_said():
    with pytest.raises(InputError, match="engine: .*got 'oracle'"):
        find_engine("oracle")


def test_duckdb_finds_what_brute_force_finds(tmp_path):
    pytest.importorskip("duckdb")
    given = predictions(300)
    index, logs, draw = Index.build(given, tmp_path / "it's an index"), exact_logs(given), random.Random(1)
    for number in range(60):
        text = random_conjunction(draw) if number % 2 else random_query(draw)
        query = Query.parse(text, LABELS)
        expected = [] if query.contradiction else brute_force(query, logs, 20)
        assert [result.row for result in index.search(text, 20, engine="duckdb")] == [row for row, _ in expected], text


def test_duckdb_leaves_out_deleted_rows(tmp_path):
    pytest.importorskip("duckdb")
    index = Index.build(predictions(100), tmp_path / "index")
    index.add(predictions(50, seed=1))
    index.delete([result.id for result in index.search("apple", 10)])
    arrow, duckdb = (index.search("apple and not bus", 150, engine=name) for name in ("arrow", "duckdb"))
    assert list(arrow) == list(duckdb)
    assert len(duckdb) == 140


@pytest.mark.parametrize("text", ["fork or apple", "at least 2 of (fork, apple, bus)"])
def test_deleted_rows_displace_none_of_the_others(text, tmp_path):
    given = predictions(300)
    index = Index.build(given, tmp_path / "index")
    ranked = [row for row, _ in brute_force(Query.parse(text, LABELS), exact_logs(given), 300)]
    gone, left = ranked[:40:2], ranked[1:40:2]
    index.delete([str(row) for row in gone])
    assert [result.row for result in index.search(text, 10)] == left[:10]


def test_the_printed_sql_finds_the_same(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    index = Index.build(predictions(200), tmp_path / "index")
    index.delete(["3", "5"])
    for text in ("fork and not knife", "at least 2 of (fork, apple, bus)", '"dining table" > 0.3 and count >= 2'):
        rows = duckdb.connect().execute(explained_sql(index, text, 10)).fetchall()
        results = index.search(text, 10)
        assert [row[0] for row in rows] == [result.row for result in results]
        assert [row[2] for row in rows] == pytest.approx([result.score for result in results], rel=1e-5)


def test_labels_never_become_part_of_the_sql(tmp_path):
    labels = ("fork'; drop table x; --", 'a"b', "c\nd")
    index = Index.build(predictions(50, labels=labels), tmp_path / "index")
    text = r'''"fork'; drop table x; --" and not "a\"b"'''
    sql = explained_sql(index, text, 5)
    assert "drop" not in sql
    assert 'a"b' not in sql
    contradiction = explained_sql(index, f"{text} and " + r'"a\"b"', 5)
    assert "drop" not in contradiction
    assert len(index.search(text, 5)) == 5


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files are held by their handles on Linux")
def test_duckdb_searches_the_state_that_was_opened_while_the_index_is_compacted(tmp_path):
    pytest.importorskip("duckdb")
    Index.build(predictions(200), tmp_path / "index").add(predictions(50, ids=[f"new-{row}" for row in range(50)]))
    index = Index.open(tmp_path / "index")
    before = index.search("apple and not bus", 100)
    other = Index.open(tmp_path / "index")
    other.delete([result.id for result in before[:30]])
    other.compact()
    assert not index.snapshot.segments[0].paths[0].exists()
    assert list(index.search("apple and not bus", 100, engine="duckdb")) == list(before)
    index.refresh()
    assert list(index.search("apple and not bus", 70, engine="duckdb")) == list(other.search("apple and not bus", 70))


def test_duckdb_without_handles_says_that_the_index_has_changed(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    index = Index.build(predictions(20), tmp_path / "index")
    monkeypatch.setattr(Segment, "searched_path", lambda segment: segment.paths[0])
    for path in index.snapshot.segments[0].paths:
        path.unlink()
    with pytest.raises(InputError, match="the index has changed since it was opened: call refresh"):
        index.search("fork", engine="duckdb")


def test_duckdb_cannot_skip_what_is_damaged(tmp_path):
    pytest.importorskip("duckdb")
    index = Index.build(predictions(10), tmp_path / "index")
    with pytest.raises(InputError, match="skip_damaged: .*got True"):
        index.search("fork", engine="duckdb", skip_damaged=True)


@pytest.mark.parametrize("text", ["fork", "fork and not apple", "fork or apple", "count >= 2"])
@pytest.mark.parametrize("score", [-1e-12, -1.0, -700.0])
def test_the_margin_is_small_and_above_the_rounding(text, score):
    query = Query.parse(text, LABELS)
    assert 2.0**-24 * abs(score) < margin(query, score) < 1e-3 * max(1.0, abs(score))
    assert math.isfinite(margin(query, score))


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
@pytest.mark.parametrize("text", ["a", "a and b", "not c", "a and not c", "a or b", "at least 2 of (a, b, not c)"])
def test_rows_that_float32_takes_for_certain_keep_their_order(tmp_path, text, engine):
    """log η of a score above 104 rounds to 0 in float32, and ranks in float64 up to a score of 745."""
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    scores = torch.from_numpy(np.random.default_rng(0).uniform(60, 160, size=(300, 3))) * torch.tensor([1.0, 1.0, -1.0])
    given = Predictions(scores, classes=["a", "b", "c"], link="sigmoid")
    index, query = Index.build(given, tmp_path / "index"), Query.parse(text, ["a", "b", "c"])
    expected = brute_force(query, exact_logs(given), 10)
    assert [result.row for result in index.search(text, 10, engine=engine)] == [row for row, _ in expected]


TRUE_WHEN = {
    "a": lambda a, b, c: a,
    "not c": lambda a, b, c: not c,
    "a and not c": lambda a, b, c: a and not c,
    "a or not c": lambda a, b, c: a or not c,
    "not (a and c) or b": lambda a, b, c: not (a and c) or b,
    "count = 2": lambda a, b, c: a + b + c == 2,
    "count >= 1": lambda a, b, c: a + b + c >= 1,
    "at least 2 of (a, b, not c)": lambda a, b, c: a + b + (not c) >= 2,
}


def improbability(row, is_true):
    """The probability that the query is false, from the log odds of a row, to 400 digits."""
    etas = [Decimal(odds).exp() / (1 + Decimal(odds).exp()) for odds in row]
    worlds = [world for world in itertools.product([True, False], repeat=len(row)) if not is_true(*world)]
    return sum(math.prod((eta if there else 1 - eta for eta, there in zip(etas, world, strict=True))) for world in worlds)


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
@pytest.mark.parametrize("signs", [(1, 1, -1), (1, -1, 1)])
def test_rankings_of_nearly_certain_rows_are_those_of_exact_arithmetic(tmp_path, engine, signs):
    """Independently of the library: float32 holds none of these probabilities, float64 not their difference from 1."""
    pytest.importorskip("duckdb")
    odds = np.random.default_rng(3).uniform(60, 250, size=(25, 3)) * np.array(signs)
    index = Index.build(Predictions(torch.from_numpy(odds), classes=["a", "b", "c"], link="sigmoid"), tmp_path / "index")
    with localcontext() as context:
        context.prec = 400
        for text, is_true in TRUE_WHEN.items():
            exact = [improbability(row, is_true) for row in odds.tolist()]
            expected = sorted(range(25), key=lambda row: (exact[row], row))
            found = [result.row for result in index.search(text, 25, engine=engine)]
            assert found == expected[: len(found)], text
            assert len(found) == 25, text


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
@pytest.mark.parametrize(("link", "dtype"), [*itertools.product(["identity", "sigmoid"], [torch.float32, torch.float64])])
def test_a_row_whose_probability_is_the_threshold_is_neither_above_nor_below_it(tmp_path, link, dtype, engine):
    """Many rows share each probability: those that do not meet a condition must not take the places of others."""
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    hundredths, other = np.repeat(np.arange(1, 100), 3), np.tile([0.3, 0.5, 0.7], 99)
    probs = np.stack([hundredths / 100, other], 1)
    scores = torch.from_numpy(probs if link == "identity" else np.log(probs / (1 - probs))).to(dtype)
    index = Index.build(Predictions(scores, classes=["a", "b"], link=link), tmp_path / "index")
    signs = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
    for threshold, (sign, compare) in itertools.product((5, 7, 16, 29, 55, 93), signs.items()):
        met = np.flatnonzero(compare(hundredths, threshold))
        assert [found.row for found in index.search(f"a {sign} {threshold}%", 1000, engine=engine)] == met.tolist()
        best = sorted(met.tolist(), key=lambda row: (-other[row], row))[:2]
        found = index.search(f"b and a {sign} {threshold / 100}", 2, engine=engine)
        assert [each.row for each in found] == best, (threshold, sign)
    before = [found.row for found in index.search("a >= 0.16", 1000)]
    index.compact()
    assert [found.row for found in index.search("a >= 0.16", 1000)] == before
