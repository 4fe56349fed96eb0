"""Queries as SQL, run by DuckDB on Parquet files, against the probabilities that numpy computes."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from shortlist.errors import InputError
from shortlist.retrieval.query import Query
from shortlist.retrieval.sql import parquet_source, sql_string, to_sql
from tests.references import retrieval as reference
from tests.retrieval.drawn import queries

duckdb = pytest.importorskip("duckdb")

NAMES = ["a", "b", "c", "d", "e"]
ROWS = 200


def logs(odds):
    """log η and log(1 - η) in float32, as an index holds them."""
    return [{j: (-np.logaddexp(0, sign * odds[:, j])).astype(np.float32) for j in range(odds.shape[1])} for sign in (-1, 1)]


def table(log_yes, log_no):
    rows = len(log_yes[0])
    columns = {f"yes_{j}": column for j, column in log_yes.items()} | {f"no_{j}": column for j, column in log_no.items()}
    return pa.table({"row": np.arange(rows), "id": [f"picture {row}" for row in range(rows)], **columns})


@pytest.fixture(scope="module")
def scores():
    random = np.random.default_rng(0)
    odds = random.normal(0, 8, (ROWS, 5))
    for value in (np.inf, -np.inf, 0):
        odds[random.uniform(size=odds.shape) < 0.06] = value
    odds[10:20] = odds[0]  # ties
    return logs(odds)


@pytest.fixture(scope="module")
def files(scores, tmp_path_factory):
    """Two files with names that want escaping, and one that a pattern would find too."""
    folder = tmp_path_factory.mktemp("it's an index")
    paths = [folder / 'a "[1]*.parquet', folder / "b?.parquet"]
    whole = table(*scores)
    for path, part in zip(paths, (whole.slice(0, 90), whole.slice(90)), strict=True):
        pq.write_table(part, path, row_group_size=50)
    pq.write_table(whole, folder / "bc.parquet")
    return paths


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as opened:
        yield opened


def check(connection, query, n, source, scores):
    found = connection.execute(to_sql(query, n, source)).fetchall()
    expected = query.log_probability(*scores)
    possible = np.flatnonzero(expected > -np.inf)
    assert len(found) == min(n, len(possible))
    rows, values = np.array([row for row, _, _ in found], int), np.array([value for _, _, value in found])
    assert [name for _, name, _ in found] == [f"picture {row}" for row in rows]
    assert (values <= 0).all()
    # Both compute the same sums of products, so that not even near 1 or near 0 more than the last digits differ.
    np.testing.assert_allclose(values, expected[rows], rtol=1e-12, atol=1e-300)
    best = possible[np.lexsort((possible, -expected[possible]))][:n]
    np.testing.assert_allclose(values, expected[best], rtol=1e-12, atol=1e-300)  # the same ranking, up to the last digits
    pairs = list(zip(-values, rows, strict=True))
    assert pairs == sorted(pairs)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=queries(5, thresholds=["0.05", "0.5", "0.8", "0", "1"], most_leaves=12))
def test_any_query_finds_the_same_rows_in_the_same_order(connection, files, scores, query):
    check(connection, Query.parse(reference.text(query, NAMES), NAMES), ROWS, parquet_source(files), scores)


@pytest.mark.parametrize(
    "text",
    [
        "a and b and not c",
        "a or b or not c",
        "(a and b) or (not a and c) or (b and c)",
        "at least 2 of (a, b, c, d, e)",
        "exactly 2 of (a and b, c, not d, e or a)",
        "count >= 3",
        "count > 1 and count < 4 and not e",
        "a > 0.8",
        "a > 0.5 and b <= 0.5",
        "a > 0.8 and (b or c > 0.5)",
        "a > 0 and b <= 0",
        "a and not a",
        "a or not a",
    ],
)
def test_each_kind_of_query(connection, files, scores, text):
    for n in (1, 7, 2**62):
        check(connection, Query.parse(text, NAMES), n, parquet_source(files), scores)


@pytest.mark.parametrize(
    "text",
    ["count >= 3", "count = 20", "count >= 35", "count <= 1 or l0", "{or}", "{and}", "not ({and})", "at least 4 of ({pairs})"],
)
def test_many_labels(connection, text):
    names = [f"l{j}" for j in range(40)]
    pairs = ", ".join(f"{x} and not {y}" for x, y in zip(names[::2], names[1::2], strict=True))
    joined = {"{or}": " or ".join(names), "{and}": " and ".join(names), "{pairs}": pairs}
    for mark, words in joined.items():
        text = text.replace(mark, words)
    scores = logs(np.random.default_rng(1).normal(-2, 3, (50, 40)))
    many = table(*scores)
    connection.register("many", many)
    check(connection, Query.parse(text, names), 20, "many", scores)


def test_a_thousand_terms_are_not_too_deep(connection):
    names = [f"l{j}" for j in range(1_000)]
    scores = logs(np.random.default_rng(2).normal(4, 1, (5, 1_000)))
    connection.register("wide", table(*scores))
    check(connection, Query.parse(" and ".join(names), names), 5, "wide", scores)


def test_labels_are_numbers_in_sql_and_nothing_else():
    evil = ['x"; DROP TABLE y; --', "'; SELECT 1 --", "secret"]
    query = Query.parse("'x\"; DROP TABLE y; --' and not \"'; SELECT 1 --\" or secret > 0.5 and count >= 2", evil)
    text = to_sql(query, 5, "scores")
    assert not re.search(r"DROP|secret|--|;|SELECT 1|'", text)
    words = set(re.findall(r"[A-Za-z_]+", text)) - {"E"}
    assert words <= {
        *("WITH", "AS", "SELECT", "FROM", "WHERE", "AND", "ORDER", "BY", "DESC", "LIMIT", "CAST", "DOUBLE", "PRECISION"),
        *("CASE", "WHEN", "THEN", "ELSE", "END", "EXP", "LN"),
        *("row", "id", "score", "scored", "scores", "step_", "yes_", "no_", "p_", "q_", "v_"),
    }


def test_sources_and_numbers_are_checked():
    query = Query.parse("a", NAMES)
    for n in (0, -1, 2.0, True, "5"):
        with pytest.raises(InputError, match="n: expected a whole number from 1, got"):
            to_sql(query, n, "scores")
    with pytest.raises(InputError, match="paths: expected at least one file"):
        parquet_source([])
    with pytest.raises(InputError, match="null character"):
        sql_string("a\0b")
    names = [f"l{j}" for j in range(3_000)]
    with pytest.raises(InputError, match="more SQL than engines accept"):
        to_sql(Query.parse("count = 1500", names), 5, "scores")
