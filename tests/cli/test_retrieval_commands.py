"""``shortlist index``, ``search`` and ``retrieval-eval``, as a person types them."""

import io
import json
import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from shortlist import Predictions
from shortlist.retrieval import Index
from tests.retrieval.small import LABELS, predictions


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.safetensors"
    predictions(200, ids=[f"{row}.jpg" for row in range(200)]).save(path)
    return path


@pytest.fixture
def index(tmp_path, scores, run):
    run("index", "build", scores, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def refused(run):
    """The sentence about a query, with the query and the caret below."""

    def call(*arguments):
        outcome = run(*arguments)
        assert (outcome.code, outcome.out) == (1, "")
        return outcome.err.removeprefix("error: ")

    return call


def test_from_scores_to_what_was_found(index, run):
    shown = run("search", "fork and not 'dining table'", index, "-n", 3)
    lines = shown.out.splitlines()
    assert lines[0].split() == ["row", "probability", "fork", "not", "dining", "table"]
    assert len(lines) == 4
    assert ".jpg" in lines[1]


def test_json_tells_everything(index, run):
    records = [json.loads(line) for line in run("search", "fork and apple", index, "-n", 2, "--json").out.splitlines()]
    assert len(records) == 2
    assert records[0]["probability"] >= records[1]["probability"]
    assert [why["label"] for why in records[0]["why"]] == ["fork", "apple"]


def test_a_contradiction_answers_nothing_and_says_why(index, run):
    shown = run("search", "fork and not fork", index)
    assert shown.out == ""
    assert "no results: fork and not fork: fork cannot be both present and absent" in shown.err


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        ("frok and apple", ["fork", "^"]),
        ("", ["empty"]),
        ("(fork and apple", ["^"]),
        ("fork'; drop table rows; --", ["^"]),
        ("fork apple", ["^"]),
    ],
)
def test_queries_that_are_none_are_one_sentence_with_a_caret(index, refused, query, sentences):
    message = refused("search", query, index)
    for sentence in sentences:
        assert sentence in message


def test_a_query_too_long_or_too_deep_is_refused(index, refused):
    assert "terms" in refused("search", " and ".join(["fork"] * 10_000), index)
    assert "deep" in refused("search", "(" * 1000 + "fork" + ")" * 1000, index)


def test_rows_are_added_deleted_and_compacted(tmp_path, index, run, fails):
    more = tmp_path / "more.safetensors"
    predictions(30, seed=1, ids=[f"new {row}" for row in range(30)]).save(more)
    assert "30 rows added, 230 in" in run("index", "add", more, index).err
    refused = fails("index", "add", more, index)
    assert "are in the index already" in refused
    assert "--replace on the command line" in refused
    replaced = run("index", "add", more, index, "--replace").err
    assert "30 rows added, 30 of them replacing old ones, 230 in" in replaced
    listed = tmp_path / "ids.txt"
    listed.write_text("0.jpg\n1.jpg\n")
    assert "3 rows deleted, 227 in" in run("index", "delete", index, "new 3", "--ids-from", listed).err
    assert "227 rows in one segment" in run("index", "compact", index).err
    files = sorted(path.name for path in index.iterdir())
    run("index", "compact", index)  # which has nothing to do
    assert sorted(path.name for path in index.iterdir()) == files
    told = json.loads(run("index", "info", index, "--json", "--check").out)
    assert (told["rows"], told["segments"], told["deleted"], told["damaged"]) == (227, 1, 0, [])
    assert told["classes"] == list(LABELS)
    shown = run("index", "info", index, "--check")
    assert "no damage found" in shown.err
    assert "kB" in shown.out
    assert "sigmoid" in shown.out


def test_what_cannot_be_indexed_is_said(tmp_path, scores, index, fails):
    assert "expected a new or empty folder" in fails("index", "build", scores, index)
    plain = tmp_path / "plain.safetensors"
    Predictions(torch.zeros(3, 2), classes=["a", "b"]).save(plain)
    assert "--link" in fails("index", "build", plain, tmp_path / "other")
    assert "predictions: expected scores with a link" in fails("index", "build", plain, tmp_path / "other", "--link", "none")
    assert "other" not in [path.name for path in tmp_path.iterdir()]
    assert "expected the folder of an index" in fails("search", "fork", tmp_path / "nowhere")
    assert "expected ids of rows" in fails("index", "delete", index)
    assert "--thumbnails: expected --pictures" in fails("index", "build", scores, tmp_path / "x", "--thumbnails", 32)
    assert "there is no 0.jpg" in fails("index", "build", scores, tmp_path / "x", "--pictures", tmp_path)


def test_a_page_with_the_pictures(tmp_path, run):
    for row in range(6):
        Image.new("RGB", (40, 30), (40 * row, 90, 20)).save(tmp_path / f"{row}.jpg")
    (tmp_path / "5.jpg").write_bytes(b"no picture")
    scores = tmp_path / "scores.safetensors"
    predictions(6, ids=[f"{row}.jpg" for row in range(6)]).save(scores)
    for name, options in (("small", ["--thumbnails", "32"]), ("paths", [])):
        built = run("index", "build", scores, tmp_path / name, "--pictures", tmp_path, *options)
        assert ("5.jpg" in built.err and "no thumbnail" in built.err) == (name == "small")
        page = tmp_path / f"{name}.html"
        assert "6 rows →" in run("search", "fork and not knife", tmp_path / name, "--html", page).err
        text = page.read_text()
        assert text.count("data:image/jpeg;base64,") == 5
        assert text.count("<article>") == 6
        assert "excluded" in text


def test_a_page_of_nothing_goes_to_the_screen(index, run, fails):
    shown = run("search", "fork and not fork", index, "--html", "-")
    assert "No matches among 200 rows" in shown.out
    assert "cannot be both" in shown.out
    assert "--html - and --json" in fails("search", "fork", index, "--html", "-", "--json")


def test_a_page_is_written_to_a_page_alone(index, fails, tmp_path):
    scores = tmp_path / "scores.npz"
    scores.write_bytes(b"precious")
    assert "--html: expected a name that ends in .html, got" in fails("search", "fork", index, "--html", scores)
    assert scores.read_bytes() == b"precious"


def test_a_query_without_quotes_is_told_to_have_them(index, fails):
    assert "the query in quotes, got 4 arguments" in fails("search", "fork", "and", "apple", index)


def test_names_are_escaped_on_the_page(tmp_path, run):
    scores = tmp_path / "scores.safetensors"
    predictions(3, labels=("<script>alert(1)</script>", "b"), ids=["<i>1", "2", "3"]).save(scores)
    run("index", "build", scores, tmp_path / "index")
    run("search", '"<script>alert(1)</script>" and b', tmp_path / "index", "--html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<script>" not in text
    assert "&lt;i&gt;1" in text


def test_sql_is_printed_and_not_run(index, run, fails):
    shown = run("search", "fork and not knife", index, "--sql").out
    assert "yes_0 + no_2" in shown
    assert "fork" not in shown
    assert "For other engines" in shown
    assert "--sql cannot be combined" in fails("search", "fork", index, "--sql", "--json")


def test_an_unknown_engine_is_said(index, fails):
    assert "expected arrow or duckdb" in fails("search", "fork", index, "--engine", "sqlite")


@pytest.fixture
def labelled(tmp_path):
    generator = torch.Generator().manual_seed(3)
    target = torch.rand(300, 4, generator=generator) < 0.4
    scores = 2 * target.float() - 1 + torch.randn(300, 4, generator=generator)
    paths = {}
    for name, factor in (("good", 1.0), ("loud", 5.0)):
        paths[name] = tmp_path / f"{name}.safetensors"
        Predictions(scores * factor, target, list("abcd"), "sigmoid").save(paths[name])
    return paths


def test_retrieval_is_measured_and_drawn(tmp_path, labelled, run):
    curve, reliable = tmp_path / "curve.svg", tmp_path / "reliable.png"
    shown = run("retrieval-eval", *labelled.values(), "--plot", curve, "--reliability", reliable, "--longest", 3)
    assert [line.split()[0] for line in shown.out.splitlines()] == ["predictions", "good", "loud"]
    assert curve.read_text().lstrip().startswith("<?xml")
    assert reliable.read_bytes().startswith(b"\x89PNG")
    told = json.loads(run("retrieval-eval", labelled["good"], "--json").out)["good"]
    assert len(told["by_length"]) == 4  # there are no longer queries of four labels
    assert 0 < told["overall"]["map"] <= 1


def test_what_cannot_be_measured_is_said(tmp_path, labelled, scores, fails):
    assert "expected labels to measure against" in fails("retrieval-eval", scores)
    assert "--plot: expected a name that ends in" in fails("retrieval-eval", labelled["good"], "--plot", tmp_path / "x.txt")
    assert "--link" in fails("retrieval-eval", labelled["good"], "--link", "none")
    assert "good.safetensors twice" in fails("retrieval-eval", labelled["good"], labelled["good"])


def test_other_rows_are_said_not_to_compare(tmp_path, labelled, run):
    few = tmp_path / "few.safetensors"
    Predictions.load(labelled["good"]).rows(slice(50)).save(few)
    assert "few 50 rows × 4 labels" in run("retrieval-eval", labelled["good"], few, "--longest", 2).err
    given, other = Predictions.load(labelled["good"]), tmp_path / "other.safetensors"
    Predictions(given.scores, given.target.flip(0), list("abcd"), "sigmoid").save(other)
    assert "not comparable" in run("retrieval-eval", labelled["good"], other, "--longest", 2).err
    assert "not comparable" not in run("retrieval-eval", *labelled.values(), "--longest", 2).err
    Predictions(given.scores.flip(1), given.target.flip(1), list("dcba"), "sigmoid").save(
        other
    )  # another order is no other data
    assert "not comparable" not in run("retrieval-eval", labelled["good"], other, "--longest", 2).err


def test_what_was_drawn_has_an_interval(labelled, run):
    shown = run("retrieval-eval", labelled["good"], "--longest", 3, "--most", 0, "--sample", 5).out.splitlines()[1]
    assert shown.count("±") >= 2
    precision = [cell for cell in shown.split("  ") if cell.strip()][-2]
    assert "±" in precision


@pytest.fixture
def album(tmp_path, monkeypatch):
    """A folder of wide pictures, and their scores under the paths that a person in the folder above sees."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for row in range(4):
        Image.new("RGB", (60, 20), (40 * row, 90, 20)).save(tmp_path / "photos" / f"{row}.jpg")
    predictions(4, ids=[f"photos/{row}.jpg" for row in range(4)]).save(tmp_path / "scores.safetensors")
    return tmp_path / "scores.safetensors"


def test_pictures_are_found_where_they_were_scored(tmp_path, album, run, fails):
    for folder in ("photos", tmp_path / "photos", "."):
        made = tmp_path / f"of {str(folder)[-2:]}"
        run("index", "build", album, made, "--pictures", folder, "--thumbnails", 32)
        (found, *_) = Index.open(made).search("fork")
        assert Image.open(io.BytesIO(found.thumbnail)).size == (32, 11)  # all of it, not its middle
        assert found.path == str(tmp_path / found.id)
    assert "there is no folder nowhere" in fails("index", "build", album, "x", "--pictures", "nowhere")


def test_a_picture_that_is_missing_is_said_and_the_others_are_shown(tmp_path, album, run, fails):
    (tmp_path / "photos" / "2.jpg").unlink()
    assert (
        "1 row without an image in photos, such as photos/2.jpg"
        in run("index", "build", album, "a", "--pictures", "photos").err
    )
    assert "photos/2.jpg" in run("index", "build", album, "b", "--pictures", "photos", "--thumbnails", 16).err
    run("search", "fork", "b", "--html", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/jpeg") == 3
    assert page.count(f'<a href="{(tmp_path / "photos").as_uri()}/') == 4
    (tmp_path / "empty").mkdir()
    assert "there is no photos/0.jpg" in fails("index", "build", album, "c", "--pictures", "empty")


def test_replacing_rows_does_not_lose_their_pictures(tmp_path, album, run, fails):
    run("index", "build", album, "a", "--pictures", "photos", "--thumbnails", 16)
    assert "4 of the rows are in the index with columns that the new rows lack (path, thumbnail)" in fails(
        "index", "add", album, "a", "--replace"
    )
    assert "lack (thumbnail)" in fails("index", "add", album, "a", "--replace", "--pictures", "photos")
    whole = ["--replace", "--pictures", "photos", "--thumbnails", 16]
    assert "4 of them replacing old ones" in run("index", "add", album, "a", *whole).err
    predictions(2, ids=["x", "y"]).save("more.safetensors")
    assert "the new rows lack columns that the index has: path, thumbnail" in run("index", "add", "more.safetensors", "a").err
    assert "2 rows added, 2 of them" in run("index", "add", "more.safetensors", "a", "--replace").err  # they never had any
    predictions(2).save("nameless.safetensors")
    assert "expected scores whose rows have ids" in fails("index", "add", "nameless.safetensors", "a", "--replace")


def test_labels_that_exclude_each_other_are_said(tmp_path, run):
    predictions(4, link="softmax").save(tmp_path / "one.safetensors")
    assert "each row has exactly one label" in run("index", "build", tmp_path / "one.safetensors", tmp_path / "one").err


def test_the_most_telling_of_many_labels_are_shown(tmp_path, run):
    names = [f"l{place}" for place in range(20)]
    scores = torch.full((3, 20), -4.0)
    scores[:, 15:] = 3.0
    Predictions(scores, classes=names, link="sigmoid").save(tmp_path / "s.safetensors")
    run("index", "build", tmp_path / "s.safetensors", tmp_path / "many")
    query = f"at least 3 of ({', '.join(names)})"
    shown = run("search", query, tmp_path / "many")
    assert {"l15", "l16", "l17", "l18", "l19"} < set(shown.out.split())
    assert "14 more labels" in shown.err
    page = run("search", query, tmp_path / "many", "--html", "-").out
    assert "and 8 more labels" in page
    assert all(f'title="l{place}"' in page for place in range(15, 20))
    assert "excluded" not in page
    assert "blank" not in page.split("</style>")[1]  # no index of pictures: no empty frames


def test_a_name_does_not_steer_the_terminal(tmp_path, run):
    predictions(1, ids=["a\x1b[31m\nb\u00a0é"]).save(tmp_path / "s.safetensors")
    run("index", "build", tmp_path / "s.safetensors", tmp_path / "one")
    assert "a\\x1b[31m\\nb\u00a0é" in run("search", "fork", tmp_path / "one").out


def test_a_name_of_which_a_word_was_typed_is_offered(index, refused):
    assert 'did you mean "dining table"' in refused("search", "table", index)


def test_columns_of_a_table_come_with_results(tmp_path, scores, run, fails):
    table = tmp_path / "places.csv"
    table.write_text("id,place,year,seen\n" + "\n".join(f"{row}.jpg,town {row},{1900 + row},2020-01-02" for row in range(199)))
    built = run("index", "build", scores, tmp_path / "index", "--columns", table)
    assert "1 row without values" in built.err
    for line in run("search", "fork", tmp_path / "index", "-n", 200, "--json").out.splitlines():
        found = json.loads(line)
        row = found["row"]
        values = {"place": f"town {row}", "year": 1900 + row, "seen": "2020-01-02"}
        assert found["columns"] == (values if row < 199 else dict.fromkeys(values))
    assert "columns place, year, seen" in " ".join(run("index", "info", tmp_path / "index").out.replace("│", " ").split())
    shown = run("search", "fork", tmp_path / "index", "-n", 1).out.splitlines()
    assert shown[0].split() == ["row", "probability", "fork", "place", "year", "seen"]
    assert "town" in shown[1]
    other = tmp_path / "other.csv"
    other.write_text("id,place\nx,y\n")
    assert "such as '0.jpg', got none" in fails("index", "build", scores, tmp_path / "x", "--columns", other)
    other.write_text("name,place\nx,y\n")
    assert "other.csv: expected a column id" in fails("index", "build", scores, tmp_path / "x", "--columns", other)
    assert "--columns: cannot read" in fails("index", "build", scores, tmp_path / "x", "--columns", tmp_path / "no.csv")


def test_ids_of_a_table_are_text_unique_and_known(tmp_path, run, fails):
    predictions(3, ids=["007", "8", "9"]).save(tmp_path / "s.safetensors")
    table = tmp_path / "places.csv"
    table.write_text("id,place\n007,Lyon\n8,Rome\n10,Bern\n")
    built = run("index", "build", "s.safetensors", "one", "--columns", table)
    assert "1 row without values" in built.err
    assert "1 id of" in built.err
    assert "not among the scores: '10'" in built.err
    rows = [json.loads(line) for line in run("search", "fork", "one", "--json").out.splitlines()]
    assert {row["id"]: row["columns"]["place"] for row in rows} == {"007": "Lyon", "8": "Rome", "9": None}
    table.write_text("id,place\n8,Lyon\n8,Rome\n")
    assert "expected each id once, got '8'" in fails("index", "build", "s.safetensors", "two", "--columns", table)
    table.write_text("id,place,place\n8,Lyon,Rome\n")
    sentence = fails("index", "build", "s.safetensors", "two", "--columns", table)
    assert "expected columns with different names, got 'place' more than once" in sentence


@pytest.mark.parametrize("mark", [";", "\t"])
def test_tables_with_other_delimiters_are_read(tmp_path, run, fails, mark):
    predictions(2, ids=["8", "9"]).save(tmp_path / "s.safetensors")
    table = tmp_path / "places.csv"
    table.write_text("id,place\n8,Rome\n9,Bern\n".replace(",", mark))
    assert run("index", "build", "s.safetensors", "one", "--columns", table).code == 0
    rows = [json.loads(line) for line in run("search", "fork", "one", "--json").out.splitlines()]
    assert {row["id"]: row["columns"]["place"] for row in rows} == {"8": "Rome", "9": "Bern"}
    table.write_text("id,place\n8,Rome\n", encoding="utf-16")
    assert "places.csv: expected UTF-8 text, got UTF-16" in fails("index", "build", "s.safetensors", "two", "--columns", table)


def test_codes_dates_and_times_stay_as_they_are_written(tmp_path, run):
    predictions(3, ids=["a", "b", "c"]).save(tmp_path / "s.safetensors")
    lines = ["id,code,part,long,whole,share,day,hour,seen", "a,0017,01.5,12345678901234567890,7,0.5,2020-01-02,08:30,true"]
    lines += ["b,0,2,1,,NA,,,false", "c,3,0.25,2,-3,1e3,2021-03-04,9:15,true"]
    (tmp_path / "places.csv").write_text("\n".join(lines) + "\n")
    assert run("index", "build", "s.safetensors", "one", "--columns", "places.csv").code == 0
    rows = {row["id"]: row["columns"] for row in map(json.loads, run("search", "fork", "one", "--json").out.splitlines())}
    assert rows["a"] == {
        "code": "0017", "part": "01.5", "long": "12345678901234567890", "whole": 7, "share": 0.5,
        "day": "2020-01-02", "hour": "08:30", "seen": True,
    }  # fmt: skip
    assert (rows["b"]["whole"], rows["b"]["share"], rows["b"]["code"], rows["b"]["day"]) == (None, None, "0", None)
    assert (rows["c"]["whole"], rows["c"]["share"]) == (-3, 1000.0)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.1", "1.10", "2"], None),
        (["1.2", "1.10", "3"], None),
        (["1.20e3", "4", "5"], None),
        (["2.0", "2", "3.5"], None),
        (["1e3", "1000", "3"], None),
        (["0.12345678901234567890", "0.12345678901234567891", "3"], None),
        (["-0", "0", "3"], None),
        (["1.0", "", "3.0"], [1.0, None, 3.0]),
        (["0.0", "0.05", "10.5"], [0.0, 0.05, 10.5]),
        (["1.5", "1.5", "NA"], [1.5, 1.5, None]),
        (["10", "100", "10"], [10, 100, 10]),
        (["1.0", "1e-10", "2.5E+20"], [1.0, 1e-10, 2.5e20]),
        (["NA", "NA", "NA"], None),
        (["N/A", "", "n/a"], ["N/A", None, "n/a"]),
        (["NaN", "", "nan"], [None, None, None]),
        (["0017", "NA", "12"], None),
        (["0x1A", "0xFF", "0X10"], None),
        (["0xFF", "12", "7"], None),
        (["1E-400", "2", "3"], None),
        (["1E+400", "2.5", "3"], None),
        (["0.0", "inf", "1e-300"], [0.0, math.inf, 1e-300]),
        (["1e5", "2e7", "123e4"], None),
        (["true", "1", "false"], None),
        (["true", "", "false"], [True, None, False]),
        (["oak", "", "NA"], ["oak", None, "NA"]),
    ],
)
def test_columns_are_numbers_only_if_no_two_cells_become_one(tmp_path, run, cells, values):
    """The versions 1.1 and 1.10 were both kept as 1.1."""
    predictions(3, ids=["a", "b", "c"]).save(tmp_path / "s.safetensors")
    rows = zip("abc", cells, strict=True)
    (tmp_path / "t.csv").write_text("id,v,w\n" + "".join(f"{name},{cell},x\n" for name, cell in rows))
    assert run("index", "build", "s.safetensors", "one", "--columns", "t.csv").code == 0
    found = {row["id"]: row["columns"]["v"] for row in map(json.loads, run("search", "fork", "one", "--json").out.splitlines())}
    assert [found[name] for name in "abc"] == (cells if values is None else values)


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        (["0017", "3"], ["17", "4"], ["17", "4"]),
        (["1.10", "3"], ["1.2", ""], ["1.2", None]),
        (["1.10", "x"], ["true", "false"], ["true", "false"]),
        (["FR", "NA"], ["NA", "NA"], ["NA", "NA"]),
        (["FR", "NA"], ["7", "NA"], ["7", "NA"]),
        (["FR", "NA"], ["NaN", ""], ["NaN", None]),
        (["1.25", "3"], ["NA", "NA"], [None, None]),
        (["1.25", "3"], ["1e5", "2"], [1e5, 2.0]),
        (["1.25", "3"], ["0.50", "2.00"], [0.5, 2.0]),
        (["1.25", "3"], ["4", "5"], [4.0, 5.0]),
        (["1.25", "3"], ["1.1", "1.10"], "expected numbers, got text"),
        (["1.25", "3"], ["0017", "3"], "expected numbers, got text"),
        (["1.25", "3"], ["1E-400", "3"], "expected numbers, got text"),
        (["7", "3"], ["0xFF", "3"], "expected whole numbers, got text"),
    ],
)
def test_columns_of_added_rows_are_read_as_the_index_holds_them(tmp_path, run, fails, first, second, values):
    for ids, cells in (("ab", first), ("cd", second)):
        predictions(2, ids=list(ids)).save(tmp_path / f"{ids}.safetensors")
        rows = zip(ids, cells, strict=True)
        (tmp_path / f"{ids}.csv").write_text("id,v,w\n" + "".join(f"{name},{cell},x\n" for name, cell in rows))
    run("index", "build", "ab.safetensors", "one", "--columns", "ab.csv")
    adding = ("index", "add", "cd.safetensors", "one", "--columns", "cd.csv")
    if isinstance(values, str):
        assert values in fails(*adding)
        return
    assert run(*adding).code == 0
    found = {row["id"]: row["columns"]["v"] for row in map(json.loads, run("search", "fork", "one", "--json").out.splitlines())}
    assert [found[name] for name in "cd"] == values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([[1], [2], [3]]), "column 'l': expected text, .*got list<"),
        (pa.array([2**64 - 1, 1, 2], pa.uint64()), "column 'l': .*18446744073709551615 .*as text"),
        (pa.array([{"x": 1}] * 3), "column 'l': expected text, .*got struct<"),
    ],
)
@pytest.mark.parametrize("name", ["l", "id"])
def test_columns_that_an_index_cannot_hold_are_refused(tmp_path, fails, values, message, name):
    predictions(3, ids=["a", "b", "c"]).save(tmp_path / "s.safetensors")
    columns = {"id": pa.array(["a", "b", "c"]), "l": values} if name == "l" else {"id": values}
    pq.write_table(pa.table(columns), tmp_path / "places.parquet")
    sentence = fails("index", "build", "s.safetensors", "one", "--columns", "places.parquet")
    assert re.search(f"--columns: .*places.parquet: {message.replace(chr(39) + 'l' + chr(39), repr(name))}", sentence)
    assert not (tmp_path / "one").exists()


def test_ids_to_delete_from_a_file_with_a_byte_order_mark(tmp_path, run):
    predictions(3, ids=["a", "b", "c"]).save(tmp_path / "s.safetensors")
    run("index", "build", "s.safetensors", "one")
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    assert "2 rows deleted, 1 in" in run("index", "delete", "one", "--ids-from", "ids.txt").err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("twice", ["id", "target", "scores.a"])
def test_a_column_of_scores_that_is_there_twice_is_named(tmp_path, fails, suffix, twice):
    import pyarrow as pa
    from pyarrow import csv, parquet

    columns = {"id": ["x", "y"], "target": [0, 1], "scores.a": [1.0, 2.0], "scores.b": [2.0, 1.0]}
    names = [*columns, twice]
    table = pa.Table.from_arrays([pa.array(columns[name]) for name in names], names=names)
    (parquet.write_table if suffix == "parquet" else csv.write_csv)(table, tmp_path / f"s.{suffix}")
    sentence = fails("sets", f"s.{suffix}", "-r", "top-k:1", "--link", "sigmoid", "--scores-key", "scores.*")
    assert f"expected columns with different names, got '{twice}' more than once" in sentence


@pytest.mark.parametrize("name", ["index.json", "logs-000001.parquet", "rows-000001.parquet"])
def test_no_command_writes_over_a_file_of_an_index(run, fails, index, scores, name):
    before = {path.name: path.read_bytes() for path in index.iterdir()}
    label = Predictions.load(scores).class_names[0]
    assert "is part of the index in" in fails("search", label, index, "--html", index / name)
    assert {path.name: path.read_bytes() for path in index.iterdir()} == before
    assert run("search", label, index, "--html", index / "page.html").code == 0
