"""Gates by quality from the command line: from a table with a column, and from pictures by their sharpness."""

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from shortlist import Predictions
from shortlist.sets import parse_rule
from tests.models.classifiers import NAMES, fitted, of_features, of_pictures, pictures


def table(path, rows, seed, column="focus", nothing=""):
    """Probabilities, labels and a quality that is lower for rows without a label; as CSV."""
    random = np.random.default_rng(seed)
    lines = [f"file,p_ash,p_elm,species,{column}"]
    for row in range(rows):
        label = [nothing, "ash", "elm"][row % 3]
        ash = random.uniform(0.5, 1) if label == "ash" else random.uniform(0, 0.5)
        lines.append(f"{path.stem}-{row}.jpg,{ash:.6f},{1 - ash:.6f},{label},{random.normal(0 if label == nothing else 3):.6f}")
    path.write_text("\n".join(lines) + "\n")
    return path


READ = ("--scores-key", "p_*", "--target-key", "species", "--link", "identity", "--quality-key", "focus", "--no-label", "")


def test_from_a_table_with_a_quality_to_sets_with_refused_rows(run, tmp_path):
    calibration, new = table(tmp_path / "old.csv", 300, 0), table(tmp_path / "new.csv", 90, 1)
    rule = "lac:0.2,gate:0.9:quality"
    outcome = run(
        "sets",
        new,
        "-c",
        calibration,
        "--rule",
        rule,
        *READ,
        "--ids-key",
        "file",
        "--out",
        "s.jsonl",
        "--save-rule",
        "r.safetensors",
    )
    assert outcome.code == 0
    reading = {"scores_key": "p_*", "target_key": "species", "ids_key": "file", "quality_key": "focus", "link": "identity"}
    first, second = (Predictions.load(path, **reading, no_label="") for path in (calibration, new))
    assert first.target.sum() == 200
    expected = parse_rule(rule).fit(first)(second)
    records = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert [len(record["labels"]) for record in records] == expected.sum(1).tolist()
    refused = [record.get("refused", False) for record in records]
    level = float(parse_rule(rule).fit(first).gate.threshold)
    assert refused == (second.quality <= level).tolist()
    assert f"{sum(refused)} refused by the gate" in outcome.err
    again = run("sets", new, "--rule", "r.safetensors", *READ)
    assert f"{sum(refused)} refused by the gate" in again.err
    outcome = run("evaluate", new, "-c", calibration, "--rule", rule, *READ, "--json")
    (numbers,) = json.loads(outcome.out)
    assert numbers["refused"] == pytest.approx(sum(refused) / 90)
    assert numbers["auroc_quality"] > 0.9
    assert "refused with probability at least 0.9" in numbers["guarantee"]
    outcome = run("report", new, "-c", calibration, "--rule", rule, *READ, "--out", "page.html")
    assert "quality above" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--rule", "lac:0.2,gate:0.9:quality"),
            "old.csv: lac:0.2,gate:0.9:quality compares rows by their quality.*--quality-key",
        ),
        (("--rule", "lac:0.2,gate:0.9:sharpness"), "old.csv: .*by their sharpness.*predict --quality sharpness"),
        (("--rule", "lac:0.2,gate:0.9:quality", "--quality-key", "blur"), "quality under 'blur'.*'focus'.*set --quality-key"),
        (("--rule", "lac:0.2,gate:0.9:quality", "--quality-key", "file"), "--quality-key: 'file' cannot be"),
        (("--rule", "lac:0.2,gate:0.9:qualty"), "qualty"),
    ],
)
def test_what_the_file_lacks_is_said_in_one_sentence(run, tmp_path, options, message):
    path = table(tmp_path / "old.csv", 60, 0)
    outcome = run("sets", path, *READ[:6], "--no-label", "", "--split", "0.5", *options)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert re.search(message, outcome.err)
    assert "Traceback" not in outcome.err


@pytest.fixture
def photos(tmp_path):
    """Twenty-four pictures, the last twelve out of focus."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for row, pixels in enumerate(pictures(24, 32, seed=5)):
        image = Image.fromarray(pixels.permute(1, 2, 0).numpy())
        (image if row < 12 else image.filter(ImageFilter.GaussianBlur(3))).save(folder / f"{row:02}.png")
    return folder


def test_predict_refuses_blurred_pictures(run, photos, tmp_path):
    classifier = of_pictures("plain-8", size=32)
    images = pictures(60, 32)
    images[:30] = 100 + images[:30] // 32
    target = torch.nn.functional.one_hot(torch.arange(60) % 4, 4).bool() & (torch.arange(60) >= 30)[:, None]
    read = classifier.predictions(images, target, quality="sharpness")
    classifier.fit_rule("average-k:2,floor:1,gate:0.9:sharpness", read).save(tmp_path / "model")
    outcome = run("predict", tmp_path / "model", photos, "--out", "sets.jsonl")
    assert "12 refused by the gate" in outcome.err
    records = [json.loads(line) for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    assert [record.get("refused", False) for record in records] == [False] * 12 + [True] * 12
    run("predict", tmp_path / "model", photos, "--out", "scores.safetensors")
    scores = Predictions.load(tmp_path / "scores.safetensors")
    assert scores.quality[:12].min() > scores.quality[12:].max()
    of_files = run("sets", "scores.safetensors", "--rule", "top-k:1")
    assert of_files.code == 0
    described = run("export", tmp_path / "model", "--out", "model.onnx")
    assert described.code == 0
    assert "input quality" not in described.err


def test_a_classifier_without_such_a_rule_can_be_given_one(run, photos, tmp_path):
    fitted(of_pictures("plain-8", size=32)).save(tmp_path / "plain")
    run("predict", tmp_path / "plain", photos, "--out", "bare.npz")
    assert Predictions.load(tmp_path / "bare.npz").quality is None
    run("predict", tmp_path / "plain", photos, "--out", "scores.npz", "--quality", "sharpness")
    scores = Predictions.load(tmp_path / "scores.npz")
    target = torch.nn.functional.one_hot(torch.arange(24) % 4, 4).bool() & (torch.arange(24) < 12)[:, None]
    for name, quality in (("bare", None), ("known", scores.quality)):
        labelled = Predictions(scores.scores, target, NAMES, scores.link, scores.ids, quality=quality)
        labelled.save(tmp_path / f"{name}.safetensors")
    arguments = ("calibrate", tmp_path / "plain", "--rule", "average-k:1,gate:0.9:sharpness", "--out", "gated", "--on")
    outcome = run(*arguments, "bare.safetensors")
    assert outcome.code != 0
    assert "bare.safetensors: average-k:1,gate:0.9:sharpness compares rows by their sharpness" in outcome.err
    assert run(*arguments, "known.safetensors").code == 0
    assert "12 refused by the gate" in run("predict", tmp_path / "gated", photos).err


def test_a_quality_that_cannot_be_computed_is_refused_before_the_work(run, photos, tmp_path):
    classifier = of_pictures("plain-8", size=32)
    images, target = pictures(40, 32), torch.eye(4, dtype=torch.bool).repeat(10, 1)
    target[::2] = False
    read = classifier.predictions(images, target, quality=range(40))
    classifier.fit_rule("top-k:1,gate:0.5:quality", read).save(tmp_path / "model")
    outcome = run("predict", tmp_path / "model", photos)
    assert outcome.code != 0
    assert "the rule top-k:1,gate:0.5:quality compares rows by a quality that cannot be computed here" in outcome.err
    assert run("predict", tmp_path / "model", photos, "--out", "scores.npz").code == 0
    assert Predictions.load(tmp_path / "scores.npz").quality is None
    assert "input quality float64 (batch)" in run("export", tmp_path / "model", "--out", "model.onnx").err
    assert (
        "--quality: expected sharpness, got 'sharpnes'"
        in run("predict", tmp_path / "model", photos, "--quality", "sharpnes").err
    )
    fitted(of_features()).save(tmp_path / "features")
    assert "reads features" in run("predict", tmp_path / "features", photos, "--quality", "sharpness").err
