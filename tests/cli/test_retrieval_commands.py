"""``shortlist index``, ``search`` and ``retrieval-eval``, as a person types them."""

import json

import pytest
import torch
from PIL import Image

from shortlist import Predictions
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
    assert lines[0].split() == ["row", "probability", "fork", "dining", "table"]
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
    assert "nothing: fork and not fork: fork cannot be both present and absent" in shown.err


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
    assert "are in the index already" in fails("index", "add", more, index)
    assert "30 rows added, 230 in" in run("index", "add", more, index, "--replace").err
    listed = tmp_path / "ids.txt"
    listed.write_text("0.jpg\n1.jpg\n")
    assert "3 rows deleted, 227 in" in run("index", "delete", index, "new 3", "--ids-from", listed).err
    assert "227 rows in one segment" in run("index", "compact", index).err
    told = json.loads(run("index", "info", index, "--json", "--check").out)
    assert (told["rows"], told["segments"], told["deleted"], told["damaged"]) == (227, 1, 0, [])
    assert told["classes"] == list(LABELS)
    shown = run("index", "info", index, "--check")
    assert "everything can be read" in shown.err
    assert "kB" in shown.out
    assert "sigmoid" in shown.out


def test_what_cannot_be_indexed_is_said(tmp_path, scores, index, fails):
    assert "expected a new or empty folder" in fails("index", "build", scores, index)
    plain = tmp_path / "plain.safetensors"
    Predictions(torch.zeros(3, 2), classes=["a", "b"]).save(plain)
    assert "--link" in fails("index", "build", plain, tmp_path / "other")
    assert "no reading as probabilities" in fails("index", "build", plain, tmp_path / "other", "--link", "none")
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
        assert ("5.jpg" in built.err and "there is no thumbnail" in built.err) == (name == "small")
        page = tmp_path / f"{name}.html"
        assert "6 rows →" in run("search", "fork and not knife", tmp_path / name, "--html", page).err
        text = page.read_text()
        assert text.count("data:image/jpeg;base64,") == 5
        assert text.count("<article>") == 6
        assert "excluded" in text


def test_a_page_of_nothing_goes_to_the_screen(index, run, fails):
    shown = run("search", "fork and not fork", index, "--html", "-")
    assert "None of 200 rows" in shown.out
    assert "cannot be both" in shown.out
    assert "one thing to print" in fails("search", "fork", index, "--html", "-", "--json")


def test_a_query_without_quotes_is_told_to_have_them(index, fails):
    assert "the query in quotes, got 4 words" in fails("search", "fork", "and", "apple", index)


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
    assert "Not tried on other engines" in shown
    assert "--sql alone" in fails("search", "fork", index, "--sql", "--json")


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
    assert "one of them twice" in fails("retrieval-eval", labelled["good"], labelled["good"])


def test_other_rows_are_said_not_to_compare(tmp_path, labelled, run):
    few = tmp_path / "few.safetensors"
    Predictions.load(labelled["good"]).rows(slice(50)).save(few)
    assert "few 50 rows × 4 labels" in run("retrieval-eval", labelled["good"], few, "--longest", 2).err


def test_what_was_drawn_has_an_interval(labelled, run):
    shown = run("retrieval-eval", labelled["good"], "--longest", 3, "--most", 0, "--sample", 5).out.splitlines()[1]
    assert shown.count("±") >= 2
