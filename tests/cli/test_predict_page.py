"""``predict --html``, ``predict --rule``, and sets as CSV."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

import shortlist
from shortlist import Run
from shortlist.models import Classifier
from shortlist.report import read_human_sets
from shortlist.sets import parse_rule
from tests.cli.test_train_command import leaves

FLORA = "flora:species=6,genera=2,train=60,val=120,test=20,size=8"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    shortlist.train(FLORA, folder=folder, device="cpu", k=2, backbone="plain-8", epochs=1, report=False)
    return folder


@pytest.fixture
def pictures(tmp_path):
    leaves(tmp_path / "leaves")
    return tmp_path / "leaves"


def answers(run, *arguments):
    outcome = run("predict", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_a_page_has_a_card_for_every_picture(run, trained, pictures, tmp_path):
    outcome = run("predict", trained, pictures, "--html", "answers.html", "--out", "sets.jsonl")
    assert outcome.code == 0
    assert "36 cards → answers.html" in outcome.err
    page = (tmp_path / "answers.html").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    cards = re.findall(r"<article>(.*?)</article>", page, re.DOTALL)
    assert len(cards) == len(rows) == 36
    for card, row in zip(cards, rows, strict=True):
        assert row["id"] in card
        assert 'src="data:image/jpeg;base64,' in card
        assert all(name in card for name in row["labels"])
    assert Run(trained).rule.guarantee in page


def test_a_page_shows_the_first_pictures_only(run, trained, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.cli.predicting.MOST_CARDS", 5)
    assert run("predict", trained, pictures, "--html", "answers.html").code == 0
    page = (tmp_path / "answers.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 5
    assert "36 sets" in page
    assert "the first 5 are shown" in page


def test_pages_that_make_no_sense_are_refused(fails, trained, pictures):
    assert "--html: expected a name that ends in .html, got x.txt" in fails("predict", trained, pictures, "--html", "x.txt")
    assert "--html shows sets, but --out writes scores" in fails(
        "predict", trained, pictures, "--html", "x.html", "--out", "scores.npz"
    )


def test_another_rule_that_needs_no_fit(run, trained, pictures):
    assert {len(row["labels"]) for row in answers(run, trained, pictures, "--rule", "top-k:3")} == {3}
    own = answers(run, trained / "classifier", pictures, "--rule", "top-k:1")
    assert {len(row["labels"]) for row in own} == {1}


def test_another_rule_is_fitted_on_the_calibration_rows_of_the_run(run, trained, pictures):
    outcome = run("predict", trained, pictures, "--rule", "lac:0.2", "--json")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    calibration = Run(trained).predictions("calibration")
    assert f"lac:0.2, fitted on the {len(calibration)} calibration rows" in outcome.err
    rule = parse_rule("lac:0.2").fit(calibration)
    expected = Classifier.load(trained / "classifier").with_rule(rule).predict(sorted(pictures.rglob("*.png")))
    names = {Path(row["id"]).parts[-2:]: row["labels"] for row in rows}
    assert names == {Path(path).parts[-2:]: labels for path, labels in zip(expected.ids, expected.names, strict=True)}


def test_a_saved_rule_is_used_as_it_is(run, trained, pictures):
    parse_rule("lac:0.2").fit(Run(trained).predictions("calibration")).save("rule.safetensors")
    assert answers(run, trained / "classifier", pictures, "--rule", "rule.safetensors") == answers(
        run, trained, pictures, "--rule", "lac:0.2"
    )


def test_a_rule_that_needs_rows_a_classifier_has_not_is_refused(fails, trained, pictures):
    sentence = fails("predict", trained / "classifier", pictures, "--rule", "lac:0.2")
    assert "--rule: lac:0.2 is fitted on calibration rows" in sentence
    assert "--save-rule" in sentence
    assert "nosuch" in fails("predict", trained, pictures, "--rule", "nosuch:1")


def test_sets_are_written_as_csv_that_a_report_reads_again(run, trained, pictures, tmp_path):
    assert run("predict", trained, pictures, "--out", "sets.csv").code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sets.csv").read_text(encoding="utf-8"))))
    expected = answers(run, trained, pictures)
    assert [row["id"] for row in rows] == [row["id"] for row in expected]
    assert [row["labels"].split("|") if row["labels"] else [] for row in rows] == [row["labels"] for row in expected]
    assert [[float(p) for p in row["probs"].split("|") if p] for row in rows] == [row["probs"] for row in expected]
    people = read_human_sets(tmp_path / "sets.csv")
    assert people.by_person["sets"][rows[0]["id"]] == frozenset(expected[0]["labels"])


def test_sets_of_scores_are_written_as_csv(run, trained, tmp_path):
    here = shutil.copytree(trained, tmp_path / "tiny")
    assert run("sets", here, "--out", "sets.csv").code == 0
    assert run("sets", here, "--out", "sets.jsonl").code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sets.csv").read_text(encoding="utf-8"))))
    expected = [json.loads(line) for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    assert [(row["labels"], row["target"]) for row in rows] == [("|".join(one["labels"]), one["target"][0]) for one in expected]


def test_a_class_whose_name_holds_the_separator_is_refused_in_csv(fails, tmp_path):
    shortlist.Predictions([[0.9, 0.1]], classes=["a|b", "c"], link="identity").save(tmp_path / "scores.npz")
    sentence = fails("sets", tmp_path / "scores.npz", "--rule", "top-k:1", "--out", "sets.csv")
    assert "the class 'a|b' contains |" in sentence
    assert not (tmp_path / "sets.csv").exists()
