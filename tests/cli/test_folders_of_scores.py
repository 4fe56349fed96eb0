"""``shortlist predict --out scores``: a folder of parts that any kill leaves to be continued, and that every command reads."""

import json
import random
import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from shortlist import Predictions
from shortlist.models import Classifier
from tests import warm
from tests.models.classifiers import NAMES, fitted, image, labels, of_features, of_pictures, rows

ROWS = 23
KILLED = """
import os, signal, sys, torch
from shortlist.cli import program
torch.set_num_threads(1)
number = int(sys.argv[1])
moments, command = [int(text) for text in sys.argv[2 : number + 2]], sys.argv[number + 2 :]

def predict(folder):
    sys.argv[1:] = [*command, folder]
    try:
        program.main()
    except SystemExit:
        pass

predict("calm")  # everything is imported once
for place, moment in enumerate(moments):
    if os.fork():
        os.wait()
        continue
    folder, left = f"killed {place}", moment
    def count(event, arguments):
        global left
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and folder in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    predict(folder)
    print(place, moment - left, flush=True)
    os._exit(0)
"""


def killed(folder, command, moments):
    """Run the command once for each moment, killed when it has touched so many files; how many those touch that end."""
    with warm.Program(KILLED, len(moments), *moments, *command, folder=folder) as program:
        return [int(line.split()[1]) for line in program.stdout.read().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifiers")
    fitted(of_features(), "lac:0.3").save(folder / "features")
    fitted(of_pictures("plain-8", size=16)).save(folder / "pictures")
    return folder


@pytest.fixture
def table(tmp_path):
    features = rows(ROWS)
    names = ",".join(f"f{column}" for column in range(features.shape[1]))
    given = [NAMES[label] for label in labels(ROWS).tolist()]
    lines = [",".join([*map(str, features[row].tolist()), given[row], f"row {row}"]) for row in range(ROWS)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join([f"{names},label,id", *lines]) + "\n")
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_holds_what_a_file_does(run, made, table):
    run("predict", made / "features", table, "--out", "scores.safetensors", "--batch-size", "4")
    outcome = run("predict", made / "features", table, "--out", "scores/", "--rows-per-part", "5", "--batch-size", "5")
    assert (outcome.code, "23 rows of scores" in outcome.err) == (0, True)
    whole, found = Predictions.load("scores.safetensors"), Predictions.load("scores")
    assert [len(shard) for shard in found.shards] == [5, 5, 5, 5, 3]
    assert (found.ids, found.classes, found.network_digest) == (whole.ids, whole.classes, whole.network_digest)
    assert torch.equal(found.target, whole.target)
    torch.testing.assert_close(found.scores, whole.scores)
    assert (
        "all parts are there already, 23 rows"
        in run("predict", made / "features", table, "--out", "scores", "--rows-per-part", "5").err
    )


def test_ten_kills(run, made, table, tmp_path):
    command = ["predict", made / "features", table, "--rows-per-part", "5", "--out"]
    (moments,) = killed(tmp_path, command, [10**9])
    calm = contents(tmp_path / "calm")
    assert contents(tmp_path / "killed 0") == calm
    assert moments > 50
    shutil.rmtree(tmp_path / "killed 0")
    shutil.rmtree(tmp_path / "calm")
    assert killed(tmp_path, command, sorted(random.Random(0).sample(range(1, moments + 1), 10))) == []
    finished = 0
    for place in range(10):
        folder = tmp_path / f"killed {place}"
        done = contents_of_parts(folder)
        finished += len(done)
        assert run(*command, folder).code == 0
        assert contents(folder) == calm, place
        assert all(calm[name] == content for name, content in done.items())
    assert finished > 10  # parts that were not computed again


def contents_of_parts(folder):
    """The parts that have a receipt."""
    noted = [folder / f"{path.stem}.parquet" for path in (folder / "writing").glob("*.json")]
    return {path.name: path.read_bytes() for path in noted}


def test_what_was_written_is_not_computed_again(run, made, table, monkeypatch):
    command = ["predict", made / "features", table, "--rows-per-part", "5", "--out", "scores"]
    run(*command)
    before = contents(table.parent / "scores")
    (table.parent / "scores" / "part-00002.parquet").unlink()
    scored = []
    from shortlist.models import Classifier

    real = Classifier.score_batches

    def counted(self, part, **more):
        scored.append(len(part))
        return real(self, part, **more)

    monkeypatch.setattr(Classifier, "score_batches", counted)
    outcome = run(*command)
    assert "4 of 5 parts are there already" in outcome.err
    assert scored == [5]
    assert contents(table.parent / "scores") == before


def test_another_source_or_classifier_is_refused(run, made, table):
    command = ["predict", made / "features", table, "--rows-per-part", "5", "--out", "scores"]
    run(*command)
    before = contents(table.parent / "scores")
    other = of_features()
    with torch.no_grad():
        next(other.network.parameters()).add_(1)
    other.save(table.parent / "other")
    changed = table.parent / "changed.csv"
    changed.write_text(table.read_text().replace("row 7", "row x"))
    for arguments, message in (
        ([made / "features", changed, *command[3:]], "the rows of part-00001.parquet have changed"),
        ([made / "features", table, "--rows-per-part", "6", "--out", "scores"], "begun with rows per part '5', got '6'"),
        ([table.parent / "other", table, *command[3:]], "begun with another network"),
    ):
        outcome = run("predict", *arguments)
        assert (outcome.code, message in outcome.err) == (1, True)
        assert contents(table.parent / "scores") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--out", "taken"],
            "expected a new or empty folder, or one of parts of scores, got one with other files",
        ),
        (["--out", "file"], "got a file: file"),
        (["--out", "scores.csv", "--rows-per-part", "5"], "--rows-per-part applies only to a folder"),
    ],
)
def test_other_folders_are_refused(fails, made, table, arguments, message):
    (table.parent / "taken").mkdir()
    (table.parent / "taken" / "notes.txt").write_text("mine")
    (table.parent / "file").write_text("mine")
    assert message in fails("predict", made / "features", table, *arguments)


def test_pictures_that_cannot_be_read_are_noted(run, made, tmp_path):
    (tmp_path / "new").mkdir()
    for number in range(6):
        image(20, 30, seed=number).save(tmp_path / "new" / f"{number}.png")
    (tmp_path / "new" / "3.png").write_bytes(b"no picture")
    outcome = run("predict", made / "pictures", "new", "--out", "scores", "--rows-per-part", "2")
    assert "skipped 1 of the 6 pictures" in outcome.err
    found = Predictions.load("scores")
    assert [len(shard) for shard in found.shards] == [2, 1, 2]
    (problem,) = pq.read_table("scores/problems.parquet").to_pylist()
    assert (problem["part"], problem["kind"]) == (1, "unreadable picture")
    assert problem["id"].endswith("3.png")
    assert json.loads((tmp_path / "scores" / "manifest.json").read_text())["problems"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit": "center"}, "with another preparation of inputs"),
        ({"size": 24}, "with another preparation of inputs"),
        ({"mean": (0.5, 0.4, 0.2)}, "with another preparation of inputs"),
        (None, "by an earlier version of shortlist, which did not note how inputs are prepared"),
    ],
)
def test_a_folder_holds_scores_of_one_preparation_of_pictures(run, made, tmp_path, change, message):
    (tmp_path / "new").mkdir()
    for number in range(6):
        image(20, 30, seed=number).save(tmp_path / "new" / f"{number}.png")
    command = ["new", "--out", "scores", "--rows-per-part", "2"]
    assert run("predict", made / "pictures", *command).code == 0
    (tmp_path / "scores" / "part-00001.parquet").unlink()  # as if it had been killed there
    if change is None:
        manifest = tmp_path / "scores" / "manifest.json"
        record = json.loads(manifest.read_text())
        record["columns"]["network_digest"] = record["columns"]["network_digest"].partition("-")[0]
        manifest.write_text(json.dumps(record))
    other = Classifier.load(made / "pictures").with_rule(None)
    other.network.inputs = replace(other.network.inputs, **(change or {}))
    other.save("other")
    before = contents(tmp_path / "scores")
    outcome = run("predict", "other", *command)
    assert (outcome.code, f"the folder was begun {message}" in outcome.err) == (1, True), outcome.err
    assert contents(tmp_path / "scores") == before


def test_scores_of_another_preparation_do_not_calibrate(run, fails, made, table):
    features = Classifier.load(made / "features")
    features.network.inputs = replace(features.network.inputs, mean=(0.5, 0.5, 0.25))
    features.save("other")
    assert run("predict", "other", table, "--out", "theirs.npz").code == 0
    message = fails("calibrate", made / "features", "--on", "theirs.npz", "--rule", "lac:0.2", "--out", "new")
    assert "scores of another preparation of inputs" in message


def test_a_large_picture_that_changes_in_its_middle_is_another_row(run, made, tmp_path):
    """A BMP keeps its size and its ends, whatever it shows."""
    (tmp_path / "new").mkdir()
    picture = Image.new("RGB", (200, 200), "white")
    picture.save(tmp_path / "new" / "0.bmp")
    command = ["predict", made / "pictures", "new", "--out", "scores"]
    assert run(*command).code == 0
    before = contents(tmp_path / "scores")
    picture.paste("green", (50, 50, 150, 150))
    picture.save(tmp_path / "new" / "0.bmp")
    outcome = run(*command)
    assert (outcome.code, "the rows of part-00000.parquet have changed" in outcome.err) == (1, True)
    assert contents(tmp_path / "scores") == before


def test_every_command_reads_a_folder(run, made, table):
    run("predict", made / "features", table, "--out", "scores.safetensors", "--batch-size", "5")
    run("predict", made / "features", table, "--out", "scores", "--rows-per-part", "5")
    for command in (
        ["sets", "--rule", "lac:0.2", "--split", "0.5", "--json"],
        ["sets", "--rule", "aps:0.2", "--split", "0.5", "--seed", "3", "--json"],
        ["evaluate", "--rule", "average-k:2", "--split", "0.5", "--rule", "top-k:2", "--csv"],
        ["evaluate", "--rule", "lac:0.2", "--same-rows", "--json"],
        ["retrieval-eval", "--link", "sigmoid", "--json"],
    ):
        answers = [run(command[0], name, *command[1:]) for name in ("scores.safetensors", "scores")]
        assert [answer.code for answer in answers] == [0, 0], answers[1].err
        assert answers[0].out == answers[1].out
    for name in ("scores.safetensors", "scores"):
        assert run("report", name, "--rule", "top-k:2", "--out", f"{name}.html").code == 0
        assert run("calibrate", name, "--on", name, "--same-rows", "--out", f"{name}.npz", "--method", "platt").code == 0
        assert run("index", "build", name, f"{name}.index", "--link", "sigmoid").code == 0
    assert (table.parent / "scores.html").read_text() == (table.parent / "scores.safetensors.html").read_text()
    assert run("search", NAMES[0], "scores.index").out == run("search", NAMES[0], "scores.safetensors.index").out
    files = [Predictions.load(f"{name}.npz") for name in ("scores", "scores.safetensors")]
    assert torch.equal(files[0].probs(), files[1].probs())


@pytest.mark.parametrize(
    ("finished", "place", "message"),
    [
        (True, "number", "part-00002.parquet cannot be read: could not verify page integrity"),
        (True, "header", "part-00002.parquet: expected 5 rows, got 0: the file is damaged"),
        (False, "number", ""),
    ],
)
def test_a_damaged_part_is_written_again(run, fails, made, table, finished, place, message):
    command = ["predict", made / "features", table, "--rows-per-part", "5", "--out", "scores"]
    run(*command)
    folder = table.parent / "scores"
    before = contents(folder)
    checked = run("data", "info", "scores", "--check")
    assert (checked.code, "23 rows in 5 parts" in checked.err, "5 parts read" in checked.err) == (0, True, True)
    part = folder / "part-00002.parquet"
    damaged = bytearray(part.read_bytes())
    column = pq.read_metadata(part).row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    # The kind of a page, in its header, is under no checksum: Arrow leaves out pages of kinds that it does not know.
    damaged[column.data_page_offset + 1 if place == "header" else start + column.total_compressed_size - 1] ^= 1
    part.write_bytes(damaged)
    if not finished:
        (folder / "part-00004.parquet").unlink()
    else:
        assert "part-00002.parquet is damaged" in fails("data", "info", "scores", "--check")
        assert message in fails("evaluate", "scores", "--rule", "top-k:2")
        shutil.copy(part, "alone.parquet")
        assert "alone.parquet" in fails("evaluate", "alone.parquet", "--rule", "top-k:2")
    outcome = run(*command)
    assert "scores: damaged parts are written again: part-00002.parquet" in outcome.err
    assert f"{4 if finished else 3} of 5 parts are there already" in outcome.err
    assert (outcome.code, contents(folder)) == (0, before)
    assert "all parts are there already" in run(*command).err


def test_a_folder_is_described_in_json(run, made, table):
    run("predict", made / "features", table, "--rows-per-part", "5", "--out", "scores")
    record = json.loads(run("data", "info", "scores", "--json").out)
    assert (record["rows"], record["parts"], record["classes"], record["labels"]) == (23, 5, 4, "one")
    assert record["bytes"] == sum(path.stat().st_size for path in (table.parent / "scores").glob("part-*"))


def test_an_unfinished_folder_is_refused(run, fails, made, table):
    run("predict", made / "features", table, "--out", "scores", "--rows-per-part", "5")
    manifest = table.parent / "scores" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"complete": False, "parts": None}))
    assert "not all of 5 parts are written yet" in fails("evaluate", "scores", "--rule", "top-k:2")
    (table.parent / "empty").mkdir()
    assert "manifest.json" in fails("evaluate", "empty", "--rule", "top-k:2")
