"""Rows that tie: ranked by their exact probabilities, few of them looked up, and only where nothing else can be known."""

import random

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions
from shortlist.retrieval import Index, Query, find_engine
from shortlist.retrieval.segments import logs_of_odds, searched_logs
from shortlist.retrieval.snapshot import Snapshot
from shortlist.retrieval.ties import UNKNOWN, Alike, SettledColumns
from tests.references.retrieval import settled_from
from tests.retrieval.small import LABELS, brute_force, exact_logs, random_conjunction, random_query

QUERIES = [
    "fork",
    "not fork",
    "fork and apple and not knife",
    "fork or apple",
    "not (fork and apple)",
    "fork and (apple or not knife)",
    "at least 2 of (fork, apple, knife)",
    "at least 2 of (fork, apple, knife, car, bus)",
    "fork > 0.4 and apple",
    "count >= 4",
]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr("shortlist.retrieval.segments.SEARCHED_GROUP", 64)
    monkeypatch.setattr("shortlist.retrieval.segments.RECORD_GROUP", 16)


def stepped(rows, seed, close=(), labels=LABELS):
    """Log odds in steps, as of an isotonic link: whole numbers; of these labels ones too close together for float32."""
    draw = np.random.default_rng(seed)
    odds = draw.integers(-3, 3, size=(rows, len(labels))).astype(np.float64)
    for label in close:
        odds[:, label] += draw.integers(0, 3, size=rows) * 1e-12
    return Predictions(
        torch.from_numpy(odds), classes=list(labels), link="sigmoid", ids=[f"{seed}-{row}" for row in range(rows)]
    )


def together(parts):
    return Predictions(torch.cat([part.scores for part in parts]), classes=parts[0].classes, link="sigmoid")


def found(results):
    return [(result.row, pytest.approx(result.score, rel=1e-12)) for result in results]


@pytest.fixture
def looked_up(monkeypatch):
    """The numbers of rows that are looked up, call by call."""
    calls, exact = [], Snapshot.exact

    def counted(snapshot, rows, damaged=None):
        calls.append(len(rows))
        return exact(snapshot, rows, damaged)

    monkeypatch.setattr(Snapshot, "exact", counted)
    return calls


@pytest.mark.parametrize("close", [(), (0,), (1, 2), (0, 1, 2, 3, 4, 5)])
@pytest.mark.parametrize("old", [False, True])
def test_rows_that_tie_are_ranked_as_brute_force_ranks_them(tmp_path, monkeypatch, close, old):
    """Values of the close labels tie in float32 and not in float64."""
    if old:  # as an index was written before, or with Arrow 16
        monkeypatch.delattr(pq.ParquetWriter, "add_key_value_metadata")
    parts = [stepped(300, seed=1, close=close), stepped(150, seed=2), stepped(70, seed=3, close=close)]
    index = Index.build(parts[0], tmp_path / "index")
    for part in parts[1:]:
        index.add(part)
    gone = [f"1-{row}" for row in range(0, 300, 7)] + ["2-3", "3-0"]
    index.delete(gone)
    ids = [name for part in parts for name in part.ids]
    kept = [row for row in range(520) if ids[row] not in set(gone)]
    logs = tuple(part[kept] for part in exact_logs(together(parts)))
    draw = random.Random(f"{close}")
    texts = [*QUERIES, *(random_query(draw) for _ in range(15)), *(random_conjunction(draw) for _ in range(10))]
    for text in texts:
        query = Query.parse(text, LABELS)
        for n in (1, 9, 60):
            expected = [] if query.contradiction else [(kept[row], score) for row, score in brute_force(query, logs, n)]
            assert found(index.search(text, n)) == expected, (text, n)
    index.compact()
    for text in QUERIES:
        expected = [(kept[row], score) for row, score in brute_force(Query.parse(text, LABELS), logs, 9)]
        assert found(index.search(text, 9)) == expected, text


@pytest.mark.parametrize("text", QUERIES)
def test_few_of_the_rows_that_tie_are_looked_up(tmp_path, looked_up, text):
    """At most n, and one for each combination of values that float32 cannot tell from the n-th best."""
    rows, n, labels = 4_000, 7, ["fork", "apple", "knife", "car", "bus"]
    draw = np.random.default_rng(5)
    odds = torch.from_numpy(draw.choice([-1.0, 2.0], size=(rows, len(labels))))
    given = Predictions(odds, classes=labels, link="sigmoid")
    index, query = Index.build(given, tmp_path / "index"), Query.parse(text, labels)
    results = index.search(text, n)
    combinations = 2 ** len(query.labels)
    tied = brute_force(query, exact_logs(given), rows)
    assert sum(score == tied[n - 1][1] for _, score in tied) > 100 > combinations + n
    assert found(results) == tied[:n]
    assert sum(looked_up) <= combinations + n
    assert len(find_engine("arrow").candidates(index.snapshot, query, n, skip_damaged=False).rows) <= combinations * n


def test_values_above_those_that_float32_confuses_are_settled(tmp_path, looked_up):
    """A third of the rows at the largest value, as where probabilities are cut; all others differ."""
    draw = np.random.default_rng(6)
    odds = draw.normal(size=(3_000, 2)).clip(-3, 0.5)
    given = Predictions(torch.from_numpy(odds), classes=["a", "b"], link="sigmoid")
    index = Index.build(given, tmp_path / "index")
    assert (odds[:, 0] == 0.5).sum() > 800
    for text in ("a", "a or b"):
        assert found(index.search(text, 5)) == brute_force(Query.parse(text, ["a", "b"]), exact_logs(given), 5)
    assert sum(looked_up) < 30


@pytest.mark.parametrize("text", ["a", "not b", "a or b", "not (a or b)", "a and b > 0.2", "exactly 1 of (a, b)"])
def test_exclusive_labels_that_tie_are_told_apart_by_the_others(tmp_path, text):
    """With a softmax the probability of *a or b* is computed from those of the other labels too."""
    draw = np.random.default_rng(7)
    probs = np.full((3_000, 4), 0.35)
    probs[:, 2] = draw.uniform(0.1, 0.2, size=3_000)
    probs[:, 3] = 1 - probs[:, :3].sum(1)
    given = Predictions(torch.from_numpy(probs).log(), classes=list("abcd"), link="softmax")
    odds = given.link.log_odds(given.scores).numpy()
    same = (odds[:, :2] == np.median(odds[:, :2], axis=0)).all(1)  # the others differ
    given = given.rows(torch.from_numpy(np.flatnonzero(same)))
    index = Index.build(given, tmp_path / "index")
    assert max(index.snapshot.segments[0].settled_from(name) for name in ("yes_0", "yes_1")) < 0
    query = Query.parse(text, list("abcd"), exclusive=True)
    odds = given.link.log_odds(given.scores).numpy()
    expected = brute_force(query, logs_of_odds(odds), 11)
    assert [(result.row, result.score) for result in index.search(text, 11)] == expected


def test_segments_settle_values_each_for_itself(tmp_path):
    """The same float32 logarithms, and others in float64."""
    odds = torch.tensor([1.0, 2.0], dtype=torch.float64).repeat(40)[:, None]
    parts = [
        Predictions(odds + row * 1e-12, classes=["a"], link="sigmoid", ids=[f"{row}-{n}" for n in range(80)])
        for row in range(3)
    ]
    index = Index.build(parts[0], tmp_path / "index")
    for part in parts[1:]:
        index.add(part)
    assert [result.row for result in index.search("a", 100)] == [*range(161, 240, 2), *range(81, 160, 2), *range(1, 40, 2)]


@pytest.mark.parametrize("text", ["at least 2 of (a, b, c, d, e)", "a and b and c and d and e"])
def test_one_row_of_each_combination_is_looked_up(tmp_path, looked_up, text):
    """The values of a row are those of any other in another order: all are candidates, and tie but for rounding."""
    draw = np.random.default_rng(9)
    odds = torch.from_numpy(draw.permuted(np.tile([2.0, 2.0, -1.0, -1.0, -1.0], (3_000, 1)), axis=1))
    given = Predictions(odds, classes=list("abcde"), link="sigmoid")
    index, query = Index.build(given, tmp_path / "index"), Query.parse(text, list("abcde"))
    assert len(find_engine("arrow").candidates(index.snapshot, query, 30, skip_damaged=False).rows) == 10 * 30
    assert found(index.search(text, 30)) == brute_force(query, exact_logs(given), 30)
    assert sum(looked_up) <= 10 + 30


def test_every_label_has_to_be_settled():
    first, second = np.array([-1, -1, -1, -2], np.float32), np.array([-3, -1, -1, -1], np.float32)
    assert Alike().numbers(0, [[(first, -1.0)], [(second, -2.0)]]).tolist() == [UNKNOWN, 0, 0, UNKNOWN]
    assert Alike().numbers(0, [[(first, -1.0), (second, -2.0)]]).tolist() == [0, 1, 1, 2]  # by one of its columns


def test_tied_rows_replace_those_that_cannot_be_read(tmp_path):
    given = Predictions(torch.zeros(100, 2), classes=["a", "b"], link="sigmoid")
    Index.build(given, tmp_path / "index")
    path = tmp_path / "index" / "rows-000001.parquet"
    column = pq.ParquetFile(path).metadata.row_group(0).column(2)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    results = Index.open(tmp_path / "index").search("a", 5, skip_damaged=True)
    assert [result.row for result in results] == [16, 17, 18, 19, 20]
    assert len(results.damaged) == 1


@pytest.mark.parametrize("kind", ["steps", "close steps", "cut", "with zeros and ones", "certain", "all different"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("most", [4_096, 5])
def test_settled_values_against_the_definition(monkeypatch, kind, blocks, most):
    monkeypatch.setattr("shortlist.retrieval.ties.MOST_VALUES", most)
    draw = np.random.default_rng(8)
    odds = draw.integers(-4, 5, size=(3, 300)).astype(np.float64)
    match kind:
        case "close steps":
            odds += draw.integers(0, 2, size=odds.shape) * (odds < [[0], [2], [9]]) * 1e-9
        case "cut":
            odds = draw.normal(size=odds.shape).clip(-1, 1)
        case "with zeros and ones":
            odds[draw.random(odds.shape) < 0.2] = np.inf
            odds[draw.random(odds.shape) < 0.2] = -np.inf
        case "certain":
            odds *= 400
        case "all different":
            odds = draw.normal(size=odds.shape)
    logs = [searched_logs(part) for part in logs_of_odds(odds)]
    columns = SettledColumns(3)
    for part in np.array_split(np.arange(300), blocks):
        columns.add(odds[:, part], *(side[:, part] for side in logs))
    for side, column in enumerate(logs):
        for label in range(3):
            least, start = settled_from(column[label].tolist(), odds[label].tolist()), columns.starts[side, label]
            if kind == "all different":
                assert start == np.inf
            elif most == 5:
                assert start >= least  # fewer values may be settled, never more
                assert start <= column[label].max() or start == least == np.inf
            else:
                present = set(column[label].tolist())
                assert {value for value in present if value >= max(start, -3e38)} == {
                    value for value in present if value >= least
                }
