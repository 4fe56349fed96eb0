"""An index: what it finds, and how it changes."""

import errno
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.retrieval import Index, Query, segments as layout
from shortlist.retrieval.manifest import json_seal
from shortlist.retrieval.parquet import DamagedError
from tests.retrieval.small import LABELS, brute_force, exact_logs, predictions, random_conjunction, random_query


@pytest.fixture
def small_groups(monkeypatch):
    """Groups of few rows, so that small indexes have many of them."""
    monkeypatch.setattr(layout, "SEARCHED_GROUP", 64)
    monkeypatch.setattr(layout, "RECORD_GROUP", 16)


def found(results):
    return [(result.row, pytest.approx(result.score, rel=1e-12, abs=1e-300)) for result in results]


@pytest.mark.parametrize("link", ["sigmoid", "softmax", "spa", "temperature"])
def test_a_thousand_random_queries_find_what_brute_force_finds(tmp_path, small_groups, link):
    given = predictions(500, link="sigmoid" if link == "temperature" else link)
    if link == "temperature":  # log odds that float32 cannot hold
        given = Predictions(given.scores.double() / 3, classes=given.classes, link="sigmoid")
    index, logs, draw = Index.build(given, tmp_path / "index"), exact_logs(given), random.Random(link)
    for number in range(250):
        text = random_conjunction(draw) if number % 2 else random_query(draw)
        query = Query.parse(text, LABELS, exclusive=index.exclusive)
        n = draw.choice([1, 5, 20, 500, 1000])
        expected = [] if query.contradiction else brute_force(query, logs, n)
        assert [(row, score) for row, score in expected] == found(index.search(text, n)), text


@pytest.mark.parametrize("apart", [1e-9, 5e-7])  # closer than float32 can tell, and so that it orders some wrongly
def test_near_neighbours_that_float32_cannot_tell_apart_are_ranked_exactly(tmp_path, apart):
    base = torch.full((400, 3), 0.7, dtype=torch.float64)
    scores = base + torch.rand(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * apart
    given = Predictions(scores, classes=["a", "b", "c"], link="sigmoid")
    index = Index.build(given, tmp_path / "index")
    query = Query.parse("a and b and not c", given.classes)
    for n in (5, 20, 30):
        assert [result.row for result in index.search(query, n)] == [row for row, _ in brute_force(query, exact_logs(given), n)]


def test_equal_rows_come_in_their_order(tmp_path):
    given = Predictions(torch.zeros(300, 2), classes=["a", "b"], link="sigmoid")
    index = Index.build(given, tmp_path / "index")
    assert [result.row for result in index.search("a or b", 7)] == list(range(7))


def test_what_cannot_be_is_not_found(tmp_path):
    given = Predictions([[0.0, 0.5], [0.3, 1.0], [1.0, 0.0]], classes=["a", "b"], link="identity")
    index = Index.build(given, tmp_path / "index")
    assert [result.row for result in index.search("a")] == [2, 1]
    assert [result.row for result in index.search("not b")] == [2, 0]
    assert index.search("a and not b")[0].probability == 1.0


def test_a_contradiction_says_why(tmp_path):
    index = Index.build(predictions(10), tmp_path / "index")
    results = index.search("fork and not fork")
    assert results == []
    assert "fork" in results.note


def test_results_tell_why(tmp_path):
    index = Index.build(predictions(50, ids=[f"pictures/{row}.jpg" for row in range(50)]), tmp_path / "index")
    best = index.search("fork and not knife", 3)[0]
    assert best.id == f"pictures/{best.row}.jpg"
    assert [(reason.label, reason.wanted) for reason in best.why] == [("fork", True), ("knife", False)]
    assert best.probability == pytest.approx(best.why[0].probability * (1 - best.why[1].probability))


def test_hopeless_groups_are_not_read(tmp_path, small_groups):
    given = predictions(1000)
    order = given.scores[:, 0].argsort(descending=True)
    index = Index.build(given.rows(order), tmp_path / "index")
    results = index.search("fork", 5)
    assert results.groups == 16
    assert results.read < 4
    assert [result.row for result in results] == [0, 1, 2, 3, 4]


def test_rows_are_added_deleted_and_compacted(tmp_path, small_groups):
    parts = [predictions(200, seed=seed, ids=[f"{seed}/{row}" for row in range(200)]) for seed in range(3)]
    index = Index.build(parts[0], tmp_path / "index")
    for part in parts[1:]:
        index.add(part)
    whole = Predictions(torch.cat([part.scores for part in parts]), classes=LABELS, link="sigmoid")
    logs, query = exact_logs(whole), Query.parse("apple and not bus", LABELS)
    expected = brute_force(query, logs, 600)
    assert found(index.search(query, 600)) == expected
    gone = {row for row, _ in expected[:300:2]}
    names = [f"{row // 200}/{row % 200}" for row in sorted(gone)]
    assert index.delete(names) == len(names)
    kept = [pair for pair in expected if pair[0] not in gone]
    assert len(index) == 450
    assert found(index.search(query, 600)) == kept
    index.compact()
    assert len(index.manifest.segments) == 1
    assert found(index.search(query, 600)) == kept
    assert {result.id for result in index.search(query, 600)} == {f"{row // 200}/{row % 200}" for row, _ in kept}
    index.add(predictions(10, seed=9, ids=[f"new {row}" for row in range(10)]))
    assert max(result.row for result in index.search(query, 600)) >= 600  # numbers are never given twice
    files = {path.name for path in (tmp_path / "index").iterdir()}
    assert files == index.manifest.files()


def test_everything_can_be_deleted(tmp_path):
    index = Index.build(predictions(5), tmp_path / "index")
    index.delete(map(str, range(5)))
    assert len(index) == 0
    assert index.search("fork") == []
    index.compact()
    assert index.search("fork") == []
    index.add(predictions(3, seed=1))
    assert [result.id for result in index.search("fork or not fork", 9)] == ["5", "6", "7"]


def test_an_id_that_is_there_is_refused_or_replaced(tmp_path):
    index = Index.build(predictions(20, ids=[f"a{row}" for row in range(20)]), tmp_path / "index")
    more = predictions(5, seed=4, ids=["a3", "a4", "b0", "b1", "b2"])
    with pytest.raises(InputError, match=r"2 of the ids are in the index already, such as 'a3'"):
        index.add(more)
    assert len(index) == 20
    index.add(more, replace=True)
    assert len(index) == 23
    by_id = {result.id: result for result in index.search("fork", 23)}
    assert by_id["a3"].why[0].probability == pytest.approx(float(more.probs()[0, 0]))


def test_ids_that_are_not_there_are_refused_and_nothing_is_deleted(tmp_path):
    index = Index.build(predictions(5), tmp_path / "index")
    with pytest.raises(InputError, match="1 of the ids are not in the index, such as 'x'; nothing was deleted"):
        index.delete(["1", "x"])
    assert len(index) == 5


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"labels": ("fork", "apple", "spoon", "dining table", "car", "bus")}, "class 2 is 'spoon', not 'knife'"),
        ({"labels": LABELS[:5]}, "5, not 6"),
        ({"link": "softmax"}, "expected the link .* sigmoid, got softmax"),
    ],
)
def test_other_classes_and_other_links_are_refused(tmp_path, other, sentence):
    index = Index.build(predictions(5), tmp_path / "index")
    with pytest.raises(InputError, match=sentence):
        index.add(predictions(5, **other))


def test_a_fitted_link_with_other_numbers_is_another_link(tmp_path):
    from shortlist.links import Platt

    parts = [
        predictions(200, seed=seed, target=torch.rand(200, 6, generator=torch.Generator().manual_seed(seed)) < 0.4)
        for seed in (0, 1)
    ]
    fitted = [part.with_link(Platt().fit(part.scores, part.target)) for part in parts]
    index = Index.build(fitted[0], tmp_path / "index")
    with pytest.raises(InputError, match="with other parameters"):
        index.add(fitted[1])


def test_scores_without_a_link_are_refused(tmp_path):
    with pytest.raises(InputError, match="predictions: .*got none"):
        Index.build(Predictions([[1.0]], classes=["a"]), tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_readers_see_one_state_whatever_happens(tmp_path):
    index = Index.build(predictions(100), tmp_path / "index")
    reader = Index.open(tmp_path / "index")
    before = found(reader.search("fork", 200))
    index.add(predictions(100, seed=1))
    index.delete(["3"])
    index.compact()  # removes the files that the reader has open
    assert found(reader.search("fork", 200)) == before
    reader.refresh()
    assert len(reader) == 199


def test_two_writers_do_not_meet(tmp_path):
    from shortlist.locks import folder_lock

    index = Index.build(predictions(10), tmp_path / "index")
    with folder_lock(tmp_path / "index"), pytest.raises(InputError, match="being written to by another process"):
        index.delete(["1"])
    assert index.delete(["1"]) == 1


def flip(path, group, column, place=1000):
    """Change a byte in the middle of a column of a group."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(column)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + min(place, chunk.total_compressed_size - 8)] ^= 0xFF
    path.write_bytes(content)


def test_a_damaged_group_is_named_and_the_rest_answers_if_asked(tmp_path, small_groups):
    given = predictions(500)
    Index.build(given, tmp_path / "index")
    path = tmp_path / "index" / "logs-000001.parquet"
    names = pq.ParquetFile(path).schema_arrow.names
    flip(path, 2, names.index("yes_0"))
    index = Index.open(tmp_path / "index")
    with pytest.raises(InputError, match=r"logs-000001.parquet: row group 2, places 128 to 191, is damaged"):
        index.search("fork", 500)
    results = index.search("fork", 500, skip_damaged=True)
    assert len(results.damaged) == 1
    expected = brute_force(Query.parse("fork", LABELS), exact_logs(given), 500)
    assert found(results) == [pair for pair in expected if not 128 <= pair[0] < 192]
    assert found(index.search("apple", 3)) == brute_force(Query.parse("apple", LABELS), exact_logs(given), 3)
    assert len(index.check()) == 1


def test_damaged_answers_are_named_too(tmp_path, small_groups):
    Index.build(predictions(100), tmp_path / "index")
    path = tmp_path / "index" / "rows-000001.parquet"
    flip(path, 1, pq.ParquetFile(path).schema_arrow.names.index("odds"), 100)
    index = Index.open(tmp_path / "index")
    with pytest.raises(InputError, match=r"rows-000001.parquet: row group 1, places 16 to 31, is damaged"):
        index.search("fork", 100)
    results = index.search("fork", 100, skip_damaged=True)
    assert len(results) == 84
    assert len(results.damaged) == 1


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: (folder / "index.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "index.json").write_text("[]"), "expected an index of format 1"),
        (lambda folder: (folder / "index.json").write_text('{"version": 1}'), "is damaged or was edited by hand"),
        (lambda folder: (folder / "index.json").unlink(), "without index.json"),
        (lambda folder: (folder / "logs-000001.parquet").unlink(), "logs-000001.parquet is missing"),
        (lambda folder: (folder / "logs-000001.parquet").write_bytes(b"PAR1"), "cannot be read"),
        (lambda folder: (folder / "rows-000001.parquet").write_bytes(b""), "cannot be read"),
    ],
)
def test_what_is_no_index_is_said(tmp_path, spoil, sentence):
    Index.build(predictions(10), tmp_path / "index")
    spoil(tmp_path / "index")
    with pytest.raises(InputError, match=sentence):
        Index.open(tmp_path / "index")


@pytest.mark.parametrize("change", [{"deleted": "../deleted-1.parquet"}, {"segments": "../../000001"}])
def test_a_manifest_that_leads_outside_is_refused_whatever_its_seal(tmp_path, change):
    Index.build(predictions(10), tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    content = json.loads(path.read_text())
    content.pop("seal")
    if "segments" in change:
        content["segments"][0]["name"] = change["segments"]
    else:
        content |= change
    path.write_text(json.dumps(content | {"seal": json_seal(content)}))
    with pytest.raises(InputError, match=r"index\.json names files that no index has"):
        Index.open(tmp_path / "index")


@pytest.mark.parametrize("name", ["index.json", "logs-000001.parquet", "rows-000001.parquet", "deleted-000002.parquet"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_a_file_that_the_system_does_not_open_is_not_called_damaged(tmp_path, monkeypatch, name, number):
    Index.build(predictions(10), tmp_path / "index").delete(["3"])
    open_file = io.open

    def refused(file, *given, **options):
        if Path(file).name == name:
            raise OSError(number, os.strerror(number), str(file))
        return open_file(file, *given, **options)

    monkeypatch.setattr(io, "open", refused)
    with pytest.raises(InputError, match=rf"{name} cannot be read: {os.strerror(number).lower()}$") as caught:
        Index.open(tmp_path / "index")
    assert not isinstance(caught.value, DamagedError)


def test_nothing_there_is_said(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        Index.open(tmp_path / "nothing")


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_n_is_a_number_of_rows(tmp_path, n):
    index = Index.build(predictions(10), tmp_path / "index")
    with pytest.raises(InputError, match="n: expected a whole number from 1, got"):
        index.search("fork", n)


def test_searching_loads_neither_torch_nor_pandas(tmp_path):
    Index.build(predictions(100), tmp_path / "index").delete(["7"])
    code = (
        "import sys; from shortlist.retrieval import Index; "
        f"found = Index.open({str(tmp_path / 'index')!r}).search('fork and (apple or not bus)'); "
        "assert len(found) == 20; print(sorted({'torch', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_thumbnails_and_paths_come_with_what_is_found(tmp_path):
    from PIL import Image

    from shortlist.data import PictureFiles
    from shortlist.retrieval import Thumbnails

    names = [f"{number}.png" for number in range(4)]
    for number, name in enumerate(names):
        Image.new("RGB", (20, 30), (60 * number, 0, 0)).save(tmp_path / name)
    (tmp_path / "2.png").write_bytes(b"no picture")
    thumbnails = Thumbnails(PictureFiles(tmp_path, names), side=16)
    paths = {"path": [str(tmp_path / name) for name in names]}
    index = Index.build(predictions(4, ids=names), tmp_path / "index", columns=paths, thumbnails=thumbnails)
    assert [problem.where for problem in thumbnails.problems] == ["2.png"]
    index.add(predictions(2, seed=1, ids=["x", "y"]))
    for results in (index.search("fork", 6), (index.compact(), index.search("fork", 6))[1]):
        by_id = {result.id: result for result in results}
        assert by_id["0.png"].thumbnail.startswith(b"\xff\xd8")
        assert by_id["0.png"].path == str(tmp_path / "0.png")
        assert by_id["2.png"].thumbnail is None
        assert by_id["x"].path is None
    assert index.info()["columns"] == {"path": "text", "thumbnail": "bytes"}


def test_logs_keep_their_digits_at_both_ends():
    odds = np.array([-800.0, -40.0, -1e-9, 0.0, 1e-9, 40.0, 800.0, np.inf, -np.inf])
    yes, no = layout.logs_of_odds(odds)
    assert yes.tolist() == pytest.approx(
        [-800.0, -40.0, *[-np.log(2)] * 3, -np.exp(-40), -np.exp(-800), 0.0, -np.inf], rel=1e-8
    )
    assert np.array_equal(no[::-1][2:], yes[:7])


def test_floats_are_read_straight_from_the_file_once_they_were_verified(tmp_path, small_groups, monkeypatch):
    given = predictions(500)
    index = Index.build(given, tmp_path / "index")
    query, searches = Query.parse("fork and not bus", LABELS), []
    expected = brute_force(query, exact_logs(given), 20)
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *arguments: searches.append(arguments) or read(*arguments))
    for turn in (1, 2):
        assert found(index.search(query)) == expected
        assert len(searches) == turn * 8 * 2  # two columns of eight groups, compared with Arrow's, then alone
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *arguments, **options: pytest.fail("read again"))
    segment = index.snapshot.segments[0]
    assert len(segment.summed_logs(0, ["yes_0", "no_5"])) == 64


def test_a_file_that_is_cut_short_while_it_is_open_is_said(tmp_path, small_groups):
    index = Index.build(predictions(500), tmp_path / "index")
    index.search("fork")
    path = tmp_path / "index" / "logs-000001.parquet"
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match="is damaged"):
        index.search("fork")


def test_what_is_not_ours_in_the_folder_stays(tmp_path):
    index = Index.build(predictions(50), tmp_path / "index")
    others = [".git", ".dvcignore", "rows-mine.parquet", "notes.txt", ".new-notes"]
    (tmp_path / "index" / others[0]).mkdir()
    for name in others[1:]:
        (tmp_path / "index" / name).write_text("mine")
    works = ["..new.0a1b2c3d.partial", ".deleted-000009.parquet.0a1b2c3d.partial", ".index.json.0a1b2c3d.partial"]
    left = [".new", *works, "logs-000077.parquet"]
    for name in left[:-1]:
        (tmp_path / "index" / name).mkdir()
    (tmp_path / "index" / left[-1]).write_text("left behind")
    index.delete(["3"])
    index.compact()
    names = {path.name for path in (tmp_path / "index").iterdir()}
    assert names >= set(others)
    assert names.isdisjoint(left)


@pytest.mark.parametrize("name", ["logs-000001.parquet", "rows-000001.parquet", "deleted-000002.parquet", "index.json"])
def test_a_byte_that_changes_anywhere_is_noticed_or_harmless(tmp_path, name):
    Index.build(predictions(20, labels=("a", "b")), tmp_path / "index").delete(["3"])
    path, draw = tmp_path / "index" / name, random.Random(name)
    content = path.read_bytes()
    expected = found(Index.open(tmp_path / "index").search("a and not b", 20))
    for place in [*range(len(content) - 40, len(content)), *(draw.randrange(len(content)) for _ in range(150))]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            assert found(Index.open(tmp_path / "index").search("a and not b", 20)) == expected
        except InputError:
            continue


def test_numbers_as_ids_do_not_meet_ids_that_are_numbers(tmp_path):
    index = Index.build(predictions(4, ids=["12", "13", "5", "x"]), tmp_path / "index")
    with pytest.raises(InputError, match="3 of the ids are in the index already, such as '12'"):
        index.add(predictions(10, seed=1))
    with pytest.raises(InputError, match="1 of the ids are not in the index, such as 'nosuch'"):
        index.delete(["5", "nosuch"])
    with pytest.raises(InputError, match="expected a list of ids, got the text '12'"):
        index.delete("12")
    assert len(index) == 4


@pytest.mark.parametrize("text", ["a < 0.9999", "not a or not b", "at most 2 of (a, b, c)", "count <= 3", "a or not a"])
def test_queries_that_nearly_all_rows_satisfy_have_few_candidates(tmp_path, text):
    from shortlist.retrieval import find_engine

    scores = torch.randn(5_000, 4, generator=torch.Generator().manual_seed(0)) - 12
    given = Predictions(scores, classes=list("abcd"), link="sigmoid")
    index, query = Index.build(given, tmp_path / "index"), Query.parse(text, list("abcd"))
    candidates = find_engine("arrow").candidates(index.snapshot, query, 20, skip_damaged=False)
    assert len(candidates.rows) < 200
    assert found(index.search(query, 20)) == brute_force(query, exact_logs(given), 20)


def test_many_candidates_are_looked_at_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.retrieval.ranking.RANKED_AT_ONCE", 7)
    scores = torch.stack([1 - torch.arange(100).div(2).floor(), torch.zeros(100)], dim=1)  # every value twice
    index = Index.build(Predictions(scores, classes=["a", "b"], link="sigmoid"), tmp_path / "index")
    assert [result.row for result in index.search("a and not b", 30)] == list(range(30))
    assert [result.row for result in index.search("a and not b", 30, skip_damaged=True)] == list(range(30))


def test_names_that_no_file_holds_are_refused_in_a_sentence(tmp_path):
    """Half of a surrogate pair, as names of files have that are not UTF-8."""
    scores = [[1.0, 2.0], [0.5, 0.1]]
    for given in ({"ids": ["\ud800", "b"]}, {"classes": ["\ud800", "b"]}):
        with pytest.raises(InputError, match="half of a surrogate pair"):
            Index.build(Predictions(scores, link="sigmoid", **given), tmp_path / "index")
    assert not (tmp_path / "index").exists()
    index = Index.build(Predictions(scores, link="sigmoid", ids=["a", "b"]), tmp_path / "index")
    with pytest.raises(InputError, match="half of a surrogate pair"):
        index.add(Predictions(scores[:1], link="sigmoid", ids=["\ud800"]))
    with pytest.raises(InputError, match="half of a surrogate pair"):
        index.delete(["\ud800"])
    assert len(Index.open(tmp_path / "index")) == 2
