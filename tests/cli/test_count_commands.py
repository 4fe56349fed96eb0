"""Weights and votes of calibration rows from the command line: a column, or an array of the file."""

import json
import re

import numpy as np
import pytest

from shortlist import Predictions
from shortlist.models import Classifier
from shortlist.sets import SetRule, parse_rule
from tests.models.classifiers import NAMES, of_features

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
READ = ("--scores-key", "p_*", "--target-key", "species", "--link", "identity")


def data(rows, seed):
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.ones(3), rows).round(6)
    target = (probs.cumsum(1) > random.uniform(size=(rows, 1))).argmax(1).clip(0, 2)
    return probs, target, random.choice([0.5, 1, 4], rows), random.integers(0, 3, (rows, 3)) + np.eye(3)[target]


def table(path, rows, seed, *, counted=True):
    """Probabilities and labels, with the weight of each row and the votes for each label; as CSV."""
    probs, target, weights, votes = data(rows, seed)
    names = ["ash", "elm", "oak"]
    lines = [",".join([*(f"p_{name}" for name in names), "species", *(["w", *(f"v_{n}" for n in names)] if counted else [])])]
    for row in range(rows):
        more = [weights[row], *votes[row]] if counted else []
        lines.append(",".join(map(str, [*probs[row], names[target[row]], *more])))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("rule", ["lac:0.2", "risk-control:recall:0.2", "lac:0.2,by:species"])
@pytest.mark.parametrize(
    ("options", "kinds"),
    [(("--weights-key", "w"), "w"), (("--votes-key", "v_*"), "v"), (("--weights-key", "w", "--votes-key", "v_*"), "wv")],
)
def test_a_rule_is_fitted_on_rows_that_count_by_a_column(run, tmp_path, rule, options, kinds):
    old, new = table(tmp_path / "old.csv", 200, 0), table(tmp_path / "new.csv", 50, 1, counted=False)
    outcome = run("sets", new, "-c", old, "--rule", rule, *READ, *options, "--save-rule", "r.safetensors", "--out", "s.jsonl")
    assert outcome.code == 0, outcome.err
    probs, target, weights, votes = data(200, 0)
    groups = np.array(["ash", "elm", "oak"])[target]
    given = {"weights": weights} if "w" in kinds else {}
    given |= {"groups": groups} if "by" in rule else {}
    expected = parse_rule(rule).fit(probs, votes.astype(float) if "v" in kinds else target, **given)
    found = SetRule.load(tmp_path / "r.safetensors")
    assert float(found.threshold) == float(expected.threshold) != float(parse_rule("lac:0.2").fit(probs, target).threshold)
    assert found.guarantee == expected.guarantee
    first = json.loads(run("evaluate", new, "-c", old, "--rule", rule, *READ, *options, "--json").out)[0]
    assert ("by their weights" in first["guarantee"]) == ("w" in kinds)
    assert run("report", new, "-c", old, "--rule", rule, *READ, *options, "--out", "page.html").code == 0


def test_split_and_same_rows_take_the_weights_of_their_rows(run, tmp_path):
    old = table(tmp_path / "old.csv", 200, 0)
    probs, target, weights, votes = data(200, 0)
    first, _ = Predictions(probs, target).split_rows(0.5)
    for options, part in ((("--split", "0.5"), first.numpy()), (("--same-rows",), slice(None))):
        for key, labels, given in (("--weights-key=w", target, {"weights": weights[part]}), ("--votes-key=v_*", votes, {})):
            assert run("sets", old, *options, "--rule", "lac:0.2", *READ, key, "--save-rule", "r.safetensors").code == 0
            expected = parse_rule("lac:0.2").fit(probs[part], labels[part], **given)
            assert float(SetRule.load(tmp_path / "r.safetensors").threshold) == float(expected.threshold)


@pytest.mark.parametrize("name", ["old.npz", "old.safetensors"])
def test_arrays_hold_weights_and_votes(run, tmp_path, name):
    probs, target, weights, votes = data(200, 0)
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, scores=probs, target=target, w=weights, v=votes)
    else:
        from safetensors.numpy import save_file

        save_file({"scores": probs, "target": target, "w": weights, "v": votes.astype(np.float32)}, path)
    for options, labels, given in (
        (("--weights-key", "w"), target, {"weights": weights}),
        (("--votes-key", "v"), votes.astype(float), {}),
    ):
        outcome = run(
            "sets", path, "--same-rows", "--rule", "lac:0.2", "--link", "identity", *options, "--save-rule", "r.safetensors"
        )
        assert outcome.code == 0, outcome.err
        expected = parse_rule("lac:0.2").fit(probs, labels, **given)
        assert float(SetRule.load(tmp_path / "r.safetensors").threshold) == float(expected.threshold)


@pytest.mark.parametrize("method", ["none", "platt"])
def test_a_classifier_is_calibrated_by_weight(run, tmp_path, method):
    classifier = of_features()
    classifier.save(tmp_path / "model")
    random = np.random.default_rng(0)
    features = random.normal(size=(120, 3)).astype(np.float32)
    weights = random.uniform(0.2, 3, 120)
    rows = classifier.predictions(features, random.integers(0, len(NAMES), 120)).with_columns({"w": weights})
    rows.save(tmp_path / "rows.parquet")
    outcome = run(
        "calibrate", "model", "--on", "rows.parquet", "--out", "new", "--rule", "lac:0.3", "-m", method, "--weights-key", "w"
    )
    assert outcome.code == 0, outcome.err
    found = Classifier.load(tmp_path / "new")
    part = rows if method == "none" else rows.rows(rows.split_rows(0.5)[1])
    expected = parse_rule("lac:0.3").fit(part.with_link(found.link), weights=part.columns["w"])
    assert float(found.rule.threshold) == float(expected.threshold)
    assert "by their weights" in found.rule.guarantee


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rule", "lac:0.2", "--weights-key", "x"), "old.csv: --weights-key: expected 'x', found"),
        (("--rule", "lac:0.2", "--weights-key", "species2"), "--weights-key: expected 'species2'"),
        (("--rule", "lac:0.2", "--weights-key", "site"), "--weights-key: expected a number in every row of 'site', got texts"),
        (("--rule", "lac:0.2", "--weights-key", "seen"), "expected a number in every row of 'seen', got true and false"),
        (("--rule", "lac:0.2", "--votes-key", "no_*"), "--votes-key: expected a vote in every row, got none for row 1"),
        (("--rule", "lac:0.2", "--votes-key", "x_*"), "--votes-key: expected 'x_ash', found"),
        (("--rule", "lac:0.2", "--votes-key", "v"), r"--votes-key: expected an array 'v' of an .npz or .safetensors file"),
        (
            ("--rule", "top-k:2", "--weights-key", "w"),
            "--weights-key and --votes-key: expected a rule that is fitted here, got none",
        ),
        (("--rule", "lac:0.2,pac:0.1", "--weights-key", "w"), "--weights-key: expected none, because what .*thinned"),
        (("--rule", "average-k:2", "--votes-key", "v_*"), "target: expected labels or none, got votes"),
        (("--rule", "lac:0.2", "--weights-key", "w", "--engine", "ray"), "expected --engine local, got ray|cluster"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(run, tmp_path, options, message):
    path = table(tmp_path / "old.csv", 60, 0)
    lines = path.read_text().splitlines()
    cells = [",site,seen,no_ash,no_elm,no_oak", ",north,true,1,0,0", *[",north,true,0,0,0"] * 59]
    path.write_text("\n".join(line + more for line, more in zip(lines, cells, strict=True)) + "\n")
    outcome = run("sets", path, *READ, "--same-rows", *options)
    assert outcome.code != 0
    assert re.search(message, outcome.err.replace("\n", " ")), outcome.err
    assert "Traceback" not in outcome.err
