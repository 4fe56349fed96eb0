"""``shortlist predict`` and ``shortlist export``: the answers are those of the classifier, and nothing is lost on the way."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.cli import exporting
from shortlist.data import read_class_folders, read_picture_table
from shortlist.links import Sigmoid
from shortlist.models import Classifier, Network
from shortlist.sets import parse_rule, top_k
from shortlist.training.run_folder import RunFolder
from tests.data.drawings import write_picture
from tests.models.classifiers import NAMES, fitted, image, labels, of_features, of_pictures, rows

PROGRAM = Path(sys.executable).with_name("shortlist")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Classifiers in folders: of pictures and of features, with a rule and without; loaded once."""
    folder = tmp_path_factory.mktemp("classifiers")
    counts = torch.tensor([5, 0, 50, 7])
    kinds = {
        "pictures": fitted(of_pictures("plain-8", size=16, train_counts=counts)),
        "features": fitted(of_features(), "lac:0.3"),
        "several": fitted(of_features(link=Sigmoid(), single_label=False), "threshold:0.5", many=True),
        "bare": of_pictures("plain-8", size=16),
    }
    for name, classifier in kinds.items():
        classifier.save(folder / name)
    return folder


@pytest.fixture
def leaves(tmp_path):
    """Twelve pictures of several sizes and formats below one folder, by class."""
    folder = tmp_path / "leaves"
    for number in range(12):
        name = f"{NAMES[number % 3]}/{number:02}.{'png' if number % 2 else 'jpg'}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image(20 + number, 30, seed=number).save(folder / name)
    return folder


def found(folder):
    return sorted(str(path) for path in folder.rglob("*.*g"))


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def check(records, answers, ids):
    """The lines are the answers, numbers included."""
    assert [record["id"] for record in records] == list(map(str, ids))
    assert [record["labels"] for record in records] == answers.names
    for record, answer in zip(records, answers, strict=True):
        assert record["probs"] == pytest.approx([number for _, number in answer], abs=1e-6)


def table(path, features, **columns):
    """A CSV table of numbers and other columns."""
    names = [f"x{column}" for column in range(features.shape[1])]
    texts = [",".join([*names, *columns])]
    texts += [
        ",".join([*(repr(float(x)) for x in row), *(str(column[n]) for column in columns.values())])
        for n, row in enumerate(features)
    ]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


# Sets


@pytest.mark.parametrize("batch_size", [5, 256])
def test_json_lines_are_the_answers_of_the_classifier(batch_size, run, made, leaves):
    outcome = run("predict", made / "pictures", "leaves", "--json", "--batch-size", batch_size, "--device", "cpu")
    assert outcome.code == 0
    files = found(leaves)
    ids = [str(Path(file).relative_to(leaves.parent)) for file in files]
    check(lines(outcome.out), Classifier.load(made / "pictures").predict(files), ids)
    assert all("target" not in record for record in lines(outcome.out))
    assert outcome.err.startswith("12 sets, ")
    assert "pictures/s on cpu" in outcome.err


def test_the_table_shows_the_first_ten_and_counts_the_rest(run, made, leaves):
    outcome = run("predict", made / "pictures", leaves)
    head, *body = outcome.out.splitlines()
    answers = Classifier.load(made / "pictures").predict(found(leaves))
    assert head.split() == ["picture", "labels"]
    assert [line.split()[0] for line in body] == found(leaves)[:10]
    expected = [", ".join(f"{name} {number:.3f}" for name, number in row) or "–" for row in answers[:10]]
    assert [line.split(maxsplit=1)[1].strip() for line in body] == expected
    assert "… and 2 more" in outcome.err
    sizes = answers.sets.sum(1).double()
    assert f"12 sets, {sizes.mean():.4g} labels on average, {float((sizes == 0).double().mean()):.1%} empty, " in outcome.err


def test_files_folders_and_lines_on_disk(run, made, leaves, tmp_path):
    alone = write_picture(tmp_path / "alone.png")
    outcome = run(
        "predict", made / "pictures", alone, leaves / "elm", "--out", tmp_path / "deep" / "sets.jsonl", "--batch-size", 2
    )
    assert (outcome.code, outcome.out) == (0, "")
    assert f"→ {tmp_path / 'deep' / 'sets.jsonl'}" in outcome.err
    ids = [alone, *found(leaves / "elm")]
    records = lines((tmp_path / "deep" / "sets.jsonl").read_text(encoding="utf-8"))
    check(records, Classifier.load(made / "pictures").predict(ids), ids)


def test_a_run_answers_by_its_classifier(run, fails, made, leaves, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.json").write_text("{}")
    assert "the run has not finished" in fails("predict", folder, leaves)
    RunFolder(folder).write_classifier(Classifier.load(made / "pictures"))
    assert run("predict", folder, leaves, "--json").out == run("predict", made / "pictures", leaves, "--json").out
    assert f"{folder} is one" in fails("predict", folder.parent, leaves)


# Scores


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "parquet"])
def test_scores_are_the_predictions_of_the_classifier(suffix, run, made, leaves, tmp_path):
    path = tmp_path / f"scores.{suffix}"
    outcome = run("predict", made / "pictures", leaves, "--out", path, "--batch-size", 5)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("12 rows of scores, ")
    written, expected = Predictions.load(path), Classifier.load(made / "pictures").predictions(found(leaves))
    assert torch.allclose(written.scores, expected.scores, atol=1e-6)
    assert list(written.ids) == found(leaves)
    assert list(written.classes) == NAMES
    assert repr(written.link) == repr(expected.link)
    assert written.train_counts.tolist() == [5, 0, 50, 7]
    assert written.target is None
    assert run("sets", path, "--rule", "top-k:2").code == 0


def test_scores_need_no_rule_and_sets_do(run, fails, made, leaves, tmp_path):
    assert "has no set rule" in fails("predict", made / "bare", leaves)
    assert "--out scores.safetensors" in fails("predict", made / "bare", leaves, "--out", "sets.jsonl")
    outcome = run("predict", made / "bare", leaves, "--out", "scores.npz")
    assert outcome.code == 0
    assert "labels on average" not in outcome.err
    assert len(Predictions.load(tmp_path / "scores.npz")) == 12


def test_the_proposal_head_on_request(run, fails, made, tmp_path):
    classifier, given = fitted(of_features(head="two-head", link=Sigmoid())), rows(20)
    classifier.save(tmp_path / "two")
    source, path = table(tmp_path / "rows.csv", given), tmp_path / "scores.safetensors"
    assert run("predict", tmp_path / "two", source, "--head", "proposal", "--out", path).code == 0
    written, expected = Predictions.load(path), classifier.predictions(given, head="proposal")
    torch.testing.assert_close(written.scores, expected.scores)
    assert (written.link.kind, written.network_digest) == ("softmax", expected.network_digest)
    assert run("predict", tmp_path / "two", source, "--head", "labels", "--json").out == (
        run("predict", tmp_path / "two", source, "--json").out
    )
    message = fails("predict", tmp_path / "two", source, "--head", "proposal")
    assert "--head: the rule average-k:2 was fitted on the scores of the other head" in message
    assert "--head: did you mean 'proposal'?" in fails("predict", tmp_path / "two", source, "--head", "propsal")
    assert "--head: expected 'labels'" in fails("predict", made / "features", source, "--head", "proposal")


def test_sets_of_another_size_than_the_calibrated_ones_are_warned_of(run, made, tmp_path):
    model = Classifier.load(made / "features")
    near, far = rows(200), table(tmp_path / "far.csv", 100 + rows(60))
    rule = parse_rule("lac:0.3").fit(model.predictions(near, labels(200)))
    model.with_rule(rule).save(tmp_path / "calibrated")
    outcome = run("predict", "calibrated", far, "--out", "scores.npz")
    assert outcome.code == 0
    assert "warning: sets hold 1 labels on average on these 60 rows" in outcome.err
    assert "calibration rows: more than chance" in outcome.err
    same = table(tmp_path / "same.csv", near)
    assert "labels on average on these" not in run("predict", "calibrated", same, "--out", "scores.npz").err


def test_scores_without_a_reading_as_probabilities_are_called_scores(run, made, tmp_path):
    model = Classifier.load(made / "features").with_link(None).with_rule(top_k(2))
    model.save(tmp_path / "plain")
    given = rows(4)
    records = lines(run("predict", "plain", table(tmp_path / "rows.csv", given), "--json").out)
    best = model.predictions(given).scores.topk(2)
    assert [record["labels"] for record in records] == [[NAMES[label] for label in row] for row in best.indices]
    assert [record["scores"] for record in records] == [pytest.approx(row) for row in best.values.tolist()]
    assert all("probs" not in record for record in records)


# Labels


def test_labels_of_a_dataset_go_with_the_classes_of_their_names(run, made, leaves, tmp_path):
    outcome = run("predict", made / "pictures", f"folders:{leaves}", "--out", "scores.safetensors")
    assert outcome.code == 0
    written, dataset = Predictions.load(tmp_path / "scores.safetensors"), read_class_folders(leaves)
    assert list(dataset.classes) == ["ash", "birch", "elm"]
    part = dataset.splits["all"]
    assert [NAMES[label] for label in written.target] == [dataset.classes[label] for label in part.target]
    assert list(written.ids) == list(part.ids)
    assert run("evaluate", "scores.safetensors", "--rule", "top-k:2", "--json").code == 0


def test_labels_of_a_table_in_another_order_are_the_same_labels(run, made, leaves, tmp_path):
    files = [str(Path(file).relative_to(tmp_path)) for file in found(leaves)]
    truth = ["oak", "elm", "birch"] * 4
    path = tmp_path / "leaves.csv"
    path.write_text("file,species\n" + "".join(f"{f},{t}\n" for f, t in zip(files, truth, strict=True)), encoding="utf-8")
    assert list(read_picture_table(path).classes) != NAMES
    assert run("predict", made / "pictures", path, "--out", "scores.parquet").code == 0
    written = Predictions.load(tmp_path / "scores.parquet")
    assert [NAMES[label] for label in written.target] == truth
    assert list(written.ids) == files
    records = lines(run("predict", made / "pictures", path, "--json").out)
    assert [record["target"] for record in records] == [[name] for name in truth]


def test_a_label_that_the_classifier_does_not_know_costs_its_rows_alone(run, made, tmp_path):
    truth = ["oak", "yew", "oak", "elm", "yew"]
    path = table(tmp_path / "rows.csv", rows(5), id=list("abcde"), label=truth)
    outcome = run("predict", made / "features", path, "--out", "scores.npz")
    assert outcome.code == 0
    assert "labels are ignored: 'yew' (2 rows) is not among the 4 classes" in outcome.err
    assert "b: the classifier does not know its label: left out" in outcome.err
    assert "e: the classifier does not know its label: left out" in outcome.err
    assert "3 rows of scores" in outcome.err
    written = Predictions.load(tmp_path / "scores.npz")
    assert list(written.ids) == ["a", "c", "d"]
    assert [written.classes[label] for label in written.target] == ["oak", "oak", "elm"]
    everything = run("predict", made / "features", table(tmp_path / "bare.csv", rows(5)), "--out", "all.npz")
    assert everything.code == 0
    assert torch.equal(Predictions.load(tmp_path / "all.npz").scores[[0, 2, 3]], written.scores)


def test_sets_are_given_for_rows_whose_label_is_unknown(run, made, tmp_path):
    path = table(tmp_path / "rows.csv", rows(3), label=["oak", "yew", "elm"])
    records = lines(run("predict", made / "features", path, "--json").out)
    assert [record.get("target") for record in records] == [["oak"], None, ["elm"]]
    assert len(records) == 3


def test_labels_of_which_the_classifier_knows_none_are_ignored(run, made, tmp_path):
    path = table(tmp_path / "rows.csv", rows(2), label=["yew", "box"])
    outcome = run("predict", made / "features", path, "--out", "scores.npz")
    assert "labels are ignored: 2 of the 2 labels ('box' first) are not among the 4 classes" in outcome.err
    written = Predictions.load(tmp_path / "scores.npz")
    assert written.target is None
    assert len(written) == 2


def test_several_labels_a_row(run, made, tmp_path):
    given = rows(5)
    np.savez(tmp_path / "rows.npz", X=given.numpy(), target=np.eye(5, 2, dtype=np.int64), classes=["oak", "ash"])
    result = run("predict", made / "several", "rows.npz", "--out", "scores.npz")
    assert result.code == 0
    assert "labels are ignored: expected labels of every class, got none of" in result.err
    assert Predictions.load(tmp_path / "scores.npz").target is None
    (tmp_path / "scores.npz").unlink()
    others = [name for name in Classifier.load(made / "several").classes if name not in ("oak", "ash")]
    np.savez(
        tmp_path / "rows.npz",
        X=given.numpy(),
        target=np.eye(5, 4, dtype=np.int64) * [1, 1, 0, 0],
        classes=["oak", "ash", *others],
    )
    assert run("predict", made / "several", "rows.npz", "--out", "scores.npz").code == 0
    written = Predictions.load(tmp_path / "scores.npz")
    expected = torch.zeros(5, 4, dtype=torch.bool)
    expected[0, 3] = expected[1, 0] = True
    assert torch.equal(written.target, expected)
    assert torch.allclose(written.scores, Classifier.load(made / "several").predictions(given).scores, atol=1e-6)


# Features


def test_rows_of_a_table_of_features(run, made, tmp_path):
    given = rows(7)
    path = table(tmp_path / "rows.csv", given, id=[f"row {n}" for n in range(7)])
    outcome = run("predict", made / "features", path, "--json")
    check(lines(outcome.out), Classifier.load(made / "features").predict(given), [f"row {n}" for n in range(7)])
    assert "rows/s" in outcome.err
    given[2, 1] = torch.nan
    outcome = run("predict", made / "features", table(path, given), "--out", "scores.npz")
    assert "warning: 2: has no number in 'x1': left out" in outcome.err
    assert list(Predictions.load(tmp_path / "scores.npz").ids) == ["0", "1", "3", "4", "5", "6"]


def test_rows_that_share_a_name_go_by_their_number(run, made, tmp_path):
    outcome = run("predict", made / "features", table(tmp_path / "rows.csv", rows(3), id=["a", "b", "a"]), "--out", "s.npz")
    assert "have the same name" in outcome.err
    assert list(Predictions.load(tmp_path / "s.npz").ids) == ["0", "1", "2"]


# Pictures that cannot be read


def test_unreadable_pictures_are_named_counted_and_left_out(run, made, leaves, tmp_path):
    for number in range(13):
        (leaves / f"broken-{number:02}.png").write_bytes(b"no picture")
    outcome = run("predict", made / "pictures", leaves, "--json", "--batch-size", 4)
    assert outcome.code == 0
    files = [file for file in found(leaves) if "broken" not in file]
    check(lines(outcome.out), Classifier.load(made / "pictures").predict(files), files)
    warnings = [line for line in outcome.err.splitlines() if line.startswith("warning: ")]
    assert sum("broken-" in line for line in warnings) == 10
    assert any("… and 3 more of this kind" in line for line in warnings)
    assert any("13 of the 25 pictures" in line for line in warnings)


def test_what_follows_an_unreadable_picture_keeps_its_name_its_scores_and_its_label(run, made, leaves, tmp_path):
    for name in ("ash/00-broken.png", "birch/02.png"):
        (leaves / name).write_bytes(b"no picture")
    arguments = ("predict", made / "pictures", f"folders:{leaves}", "--batch-size", 4)
    records = lines(run(*arguments, "--json").out)
    assert run(*arguments, "--out", "scores.npz").code == 0
    written = Predictions.load(tmp_path / "scores.npz")
    files = [str(leaves / name) for name in written.ids]
    assert files == [file for file in found(leaves) if not file.endswith(("00-broken.png", "birch/02.png"))]
    classifier = Classifier.load(made / "pictures")
    assert torch.allclose(written.scores, classifier.predictions(files).scores, atol=1e-6)
    assert [NAMES[label] for label in written.target] == [Path(file).parent.name for file in files]
    check(records, classifier.predict(files), written.ids)
    assert [record["target"] for record in records] == [[Path(file).parent.name] for file in files]


def test_where_nothing_can_be_read_nothing_is_written(fails, made, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    for name in ("deep/sets.jsonl", "deep/scores.npz"):
        assert "none of the 1 pictures could be read; the first is broken.png: " in fails(
            "predict", made / "pictures", "broken.png", "--out", name
        )
    assert [path.name for path in tmp_path.iterdir()] == ["broken.png"]


def test_an_end_in_the_middle_leaves_no_file(fails, made, leaves, monkeypatch, tmp_path):
    def full(self, scores, *more, seen=[], **named):  # noqa: B006 (counts the calls)
        seen.append(1)
        if len(seen) > 1:
            raise OSError("no space left on device")
        return decide(self, scores, *more, **named)

    decide = Classifier.decide
    monkeypatch.setattr(Classifier, "decide", full)
    for name in ("sets.jsonl", "scores.npz"):
        assert "no space left" in fails("predict", made / "pictures", leaves, "--out", name, "--batch-size", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["leaves"]


def test_a_gpu_without_room_is_said_in_words(fails, made, leaves, monkeypatch):
    def full(self, prepared):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Network, "label_scores", full)
    assert (
        fails("predict", made / "pictures", leaves)
        == "the GPU has too little memory for 256 pictures at once: choose a smaller batch size"
    )


# What is refused


def test_what_is_no_classifier_is_said(fails, leaves, tmp_path):
    (tmp_path / "file.safetensors").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    assert "gone: there is no such folder" in fails("predict", "gone", leaves)
    assert "file.safetensors: expected the folder of a classifier, got a file" in fails("predict", "file.safetensors", leaves)
    assert fails("predict", leaves, leaves).endswith("got one with ash, birch, elm")
    assert "got an empty one" in fails("export", "empty", "--out", "x.onnx")


def test_inputs_that_do_not_fit_the_classifier_are_refused(fails, made, leaves, tmp_path):
    features = table(tmp_path / "rows.csv", rows(4))
    np.savez(tmp_path / "rows.npz", X=np.zeros((4, 3)))
    assert "rows.csv: expected a table of pictures" in fails("predict", made / "pictures", features)
    assert "rows.npz: expected pictures" in fails("predict", made / "pictures", "rows.npz")
    labelled = table(tmp_path / "labelled.csv", rows(4), label=list("abab"))
    assert "expected pictures, which this classifier reads, got a table of 3 features" in fails(
        "predict", made / "pictures", f"features:{labelled}"
    )
    assert "expected a table of 3 features, which this classifier reads, got pictures" in fails(
        "predict", made / "features", leaves
    )
    (tmp_path / "paths.csv").write_text("path\nx.png\n")
    assert "expected a table of features, got one of pictures" in fails("predict", made / "features", "paths.csv")
    wide = table(tmp_path / "wide.csv", rows(4, 5))
    assert "expected 3 features, as this classifier reads, got 5: 'x0', 'x1'" in fails("predict", made / "features", wide)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["leavs"], "leavs: there is no such folder or file"),
        (["leaves", "gone.png"], "gone.png: there is no such file or folder"),
        (["leaves", "--split", "test"], "which have none"),
        (["folders:leaves", "--split", "test"], "splits of folders:leaves (all), got 'test'"),
        (["leaves", "--out", "sets.txt"], "ends in .jsonl, .csv, .safetensors, .npz, .parquet, got sets.txt"),
        (["leaves", "--out", "sets.jsonl", "--json"], "expected --out or --json, got both"),
        (["leaves", "--out", "taken.jsonl"], "got the folder taken.jsonl"),
        (["leaves", "--device", "tpu"], "--device: expected auto, cpu or cuda, got 'tpu'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_a_sentence(arguments, words, fails, made, leaves, tmp_path):
    (tmp_path / "taken.jsonl").mkdir()
    assert words in fails("predict", made / "pictures", *arguments)


def test_a_gpu_that_is_not_there_is_said(fails, made, leaves, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "--device: cuda" in fails("predict", made / "pictures", leaves, "--device", "cuda")


def test_inputs_are_not_overwritten(fails, made, tmp_path):
    own = tmp_path / "own"
    Classifier.load(made / "features").save(own)
    np.savez(tmp_path / "rows.npz", X=np.zeros((4, 3)), y=np.array(["oak"] * 4))
    np.savez(tmp_path / "rows,1.npz", X=np.zeros((4, 3)), y=np.array(["oak"] * 4))
    (tmp_path / "link.npz").symlink_to("rows.npz")
    before = {path: path.read_bytes() for path in [tmp_path / "rows.npz", tmp_path / "rows,1.npz", *own.iterdir()]}
    for given, out in [
        ("rows.npz", "rows.npz"),
        ("rows.npz", "link.npz"),
        ("features:rows.npz", "./rows.npz"),
        ("rows,1.npz,superclass=first-word", "rows,1.npz"),
        ("features:rows,1.npz,superclass=first-word", "rows,1.npz"),
    ]:
        assert "would be overwritten" in fails("predict", own, given, "--out", out)
    assert "part of the classifier" in fails("predict", own, "rows.npz", "--out", "own/model.safetensors")
    assert {path: path.read_bytes() for path in before} == before


def test_a_reader_that_has_had_enough_is_no_error(made, tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.zeros((20_000, 3), np.float32))
    arguments = [PROGRAM, "predict", made / "features", tmp_path / "rows.npz", "--json", "--device", "cpu"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["id"] == "0"
        process.stdout.close()
        told = process.stderr.read()
        assert (process.wait(60), told) == (0, "")


# Export


def test_the_exported_graph_is_the_one_that_is_described(run, made, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    outcome = run("export", made / "features", "--out", "deep/model.onnx")
    assert (outcome.code, outcome.out) == (0, "")
    session = onnxruntime.InferenceSession(str(tmp_path / "deep" / "model.onnx"), providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": "float32", "tensor(bool)": "bool"}
    (given,) = session.get_inputs()
    assert f"input {given.name} {kinds[given.type]} (batch, {given.shape[1]}); " in outcome.err
    described = ", ".join(f"{part.name} {kinds[part.type]} (batch, {part.shape[1]})" for part in session.get_outputs())
    assert f"outputs {described}" in outcome.err
    classes = session.get_modelmeta().custom_metadata_map["shortlist.classes"]
    assert json.loads(classes) == NAMES
    features = rows(6)
    (sets,) = session.run(["sets"], {"features": features.numpy()})
    assert torch.equal(torch.from_numpy(sets), Classifier.load(made / "features").predict(features).sets)


def test_the_export_says_how_pictures_must_be_prepared(run, made):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    outcome = run("export", made / "bare", "--out", "model.onnx")
    assert Classifier.load(made / "bare").inputs.preparation in outcome.err
    assert "16 × 16" in outcome.err


def test_what_the_graph_of_pictures_without_a_rule_puts_out(made):
    assert exporting._outputs(Classifier.load(made / "bare")) == "scores float32 (batch, 4), probs float32 (batch, 4)"
    whole = Classifier.load(made / "bare").with_rule(top_k(2))
    assert exporting._outputs(whole).endswith("sets bool (batch, 4)")


def test_exports_to_other_names_and_old_operators_are_refused(fails, made):
    assert "ends in .onnx, got model.pt" in fails("export", made / "features", "--out", "model.pt")
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    assert "opset: expected a whole number from 18, got 9" in fails(
        "export", made / "features", "--out", "m.onnx", "--opset", 9
    )
