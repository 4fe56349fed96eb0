"""``shortlist weights``: the calibration rows with a weight for each, for rules of ``sets`` that count by them."""

import json

import numpy as np
import pandas as pd
import pytest

from shortlist import Predictions
from shortlist.sets import SetRule, effective_sample_size, lac
from shortlist.shift import class_shares, input_weights

KEYS = ("--scores-key", "p_*", "--target-key", "species", "--link", "identity")
NAMES = np.array(["ash", "elm", "oak"])


def table(path, rows, seed, *, shift=0.0, shares=(1 / 3, 1 / 3, 1 / 3), labels=True, twins=1):
    """Three overlapping classes, whose inputs move by a shift or whose shares change; as another program writes them."""
    random = np.random.default_rng(seed)
    label = random.choice(3, rows, p=shares)
    x = np.eye(3)[label] + random.normal(0, 0.7, (rows, 3)) + [shift, 0, 0]
    density = np.exp(-((x[:, None] - np.eye(3)) ** 2).sum(2) / 0.98)
    frame = pd.DataFrame(density / density.sum(1, keepdims=True), columns=[f"p_{name}" for name in NAMES])
    frame = frame.assign(id=[f"{seed}-{row}" for row in range(rows)], note="007", where="north", x_0=x[:, 0], x_1=x[:, 1])
    frame = frame.assign(species=NAMES[label]) if labels else frame
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def load(path):
    labelled = "species" in (pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)).columns
    return Predictions.load(path, scores_key="p_*", target_key="species" if labelled else None, link="identity")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("method", ["em", "black-box"])
def test_weights_by_classes_are_new_over_old_shares(run, tmp_path, suffix, method):
    old = table(tmp_path / f"old{suffix}", 800, 0)
    new = table(tmp_path / f"new{suffix}", 300, 1, shares=(0.7, 0.2, 0.1), labels=False)
    out = tmp_path / f"weighted{suffix}"
    outcome = run("weights", new, "-c", old, "--by", "classes", "--method", method, "--out", out, *KEYS)
    assert outcome.code == 0, outcome.err
    before, after = (
        pd.read_csv(path, dtype={"note": str}) if suffix == ".csv" else pd.read_parquet(path) for path in (old, out)
    )
    weights = after.pop("weight").to_numpy()
    pd.testing.assert_frame_equal(before, after)
    expected = class_shares(load(new), load(old), method=method).weights[np.searchsorted(NAMES, before["species"])]
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    assert f"the 800 calibration rows count like {effective_sample_size(expected):,.0f} among the 300 new ones" in outcome.err


def test_weights_by_inputs_are_those_of_a_regression(run, tmp_path):
    old = table(tmp_path / "old.csv", 800, 0)
    new = table(tmp_path / "new.csv", 300, 1, shift=0.5, labels=False)
    log_odds = [np.log(rows := load(path).probs().double().numpy()) - np.log1p(-rows) for path in (old, new)]
    features = [pd.read_csv(path)[["x_0", "x_1"]].to_numpy() for path in (old, new)]
    for options, given in (
        ((), log_odds),
        (("--features-key", "x_*"), features),
        (("--features-key", "x_0"), [f[:, :1] for f in features]),
    ):
        assert run("weights", new, "-c", old, "--by", "inputs", "--out", "w.csv", *KEYS, *options).code == 0
        np.testing.assert_allclose(pd.read_csv(tmp_path / "w.csv")["weight"], input_weights(*given).weights, rtol=1e-5)


def test_features_go_by_the_names_of_their_columns(run, fails, tmp_path):
    old, new = (table(tmp_path / f"{name}.csv", 300, seed, shift=seed / 2) for name, seed in (("old", 0), ("new", 1)))
    frame = pd.read_csv(new)
    frame[[*(name for name in frame if name != "x_0"), "x_0"]].to_csv(tmp_path / "moved.csv", index=False)
    frame.rename(columns={"x_1": "x_7"}).to_csv(tmp_path / "other.csv", index=False)
    command = ("-c", old, "--by", "inputs", "--features-key", "x_*", "--least", "1", *KEYS)
    for given, out in (("new.csv", "one.csv"), ("moved.csv", "two.csv")):
        assert run("weights", tmp_path / given, *command, "--out", out).code == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    message = fails("weights", tmp_path / "other.csv", *command, "--out", "three.csv")
    assert "other.csv: --features-key: expected the columns of the calibration file, 'x_0'" in message


def test_the_rows_that_it_writes_fit_a_rule_that_holds_on_new_rows(run, tmp_path):
    """A line of the program after the other, and what each of them says to do next."""
    old = table(tmp_path / "old.csv", 3000, 0)
    new = table(tmp_path / "new.csv", 3000, 1, shares=(0.1, 0.8, 0.1))
    pd.read_csv(new).drop(columns="species").to_csv(tmp_path / "unlabelled.csv", index=False)
    said = run("weights", "unlabelled.csv", "-c", old, "--by", "classes", "--out", "w.csv", *KEYS).err
    following = said.rstrip().split("next: shortlist ")[1].split()
    outcome = run(*following, *KEYS, "--rule", "lac:0.1", "--out", "sets.jsonl", "--save-rule", "rule.safetensors")
    assert outcome.code == 0, outcome.err
    rows = load(old)
    weights = pd.read_csv(tmp_path / "w.csv")["weight"].to_numpy()
    rule = SetRule.load(tmp_path / "rule.safetensors")
    assert rule.threshold == lac(0.1).fit(rows, weights=weights).threshold
    assert float(rule.threshold) != float(lac(0.1).fit(rows).threshold)
    sets = [json.loads(line)["labels"] for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    truth = pd.read_csv(new)["species"]
    assert abs(np.mean([label in labels for label, labels in zip(truth, sets, strict=True)]) - 0.9) < 0.025


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet"])
def test_files_of_ours_are_written_as_ours(run, old, new, tmp_path, suffix):
    rows = Predictions.load(old).with_columns({"site": ["north"] * 300})
    rows.save(tmp_path / f"ours{suffix}")
    outcome = run("weights", new, "-c", f"ours{suffix}", "--by", "inputs", "--out", f"w{suffix}", "--weights-key", "w")
    assert outcome.code == 0, outcome.err
    found = Predictions.load(tmp_path / f"w{suffix}")
    np.testing.assert_allclose(found.columns["w"], input_weights(rows, Predictions.load(new)).weights)
    assert (found.columns["site"] == "north").all()
    assert found.ids == rows.ids
    assert run("sets", new, "-c", f"w{suffix}", "--rule", "lac:0.1", "--weights-key", "w").code == 0


def test_too_few_effective_rows_are_refused_unless_fewer_are_accepted(run, fails, tmp_path):
    old, new = table(tmp_path / "old.csv", 150, 0), table(tmp_path / "new.csv", 100, 1, shares=(0.96, 0.02, 0.02))
    for by in ("classes", "inputs"):
        said = fails("weights", new, "-c", old, "--by", by, "--out", "w.csv", *KEYS, "--least", 140)
        assert said.startswith(f"{old}: 150 rows count like ")
        assert "at least 140 are needed" in said
        assert "pass --least to accept it" in said
        assert not (tmp_path / "w.csv").exists()
    assert "at least 100 are needed" in fails("weights", new, "-c", old, "--by", "classes", "--out", "w.csv", *KEYS)
    assert run("weights", new, "-c", old, "--by", "classes", "--out", "w.csv", *KEYS, "--least", 10).code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "class"), "--by: did you mean 'classes'? expected one of classes, inputs, got 'class'"),
        (("--by", "inputs", "--method", "em"), "--method: expected only with --by classes"),
        (("--by", "classes", "--features-key", "x_*"), "--features-key: expected only with --by inputs"),
        (("--by", "classes", "--method", "bbse"), "--method: expected one of 'em', 'black-box', 'soft'; got 'bbse'"),
        (("--by", "inputs", "--features-key", "y_*"), "old.csv: --features-key: expected columns 'y_*', found 'p_ash'"),
        (("--by", "inputs", "--features-key", "where"), "--features-key: expected a number in every row of 'where', got texts"),
        (("--by", "inputs", "--least", -1), "--least: expected a number from 0, got -1"),
        (("--by", "inputs", "--weights-key", "target"), "--weights-key: expected other names than those that files use"),
        (("--by", "inputs", "--out", "w.parquet"), "--out: expected a name that ends in .csv as that of"),
        (("--by", "inputs", "--out", "old.csv"), "old.csv is read by this command and would be overwritten"),
        (("--by", "inputs", "--scores-key", "q_*"), "expected scores under 'q_*'"),
        (("--by", "inputs", "--target-key", "kind"), "old.csv: expected a target under 'kind'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(fails, tmp_path, options, message):
    old, new = table(tmp_path / "old.csv", 150, 0), table(tmp_path / "new.csv", 50, 1, labels=False)
    given = ("weights", new, "-c", old, *(() if "--out" in options else ("--out", "w.csv")), *KEYS, *options)
    assert message in fails(*given)
    assert not (tmp_path / "w.csv").exists()


def test_rows_without_one_label_have_no_share(fails, old, new, tmp_path):
    rows = Predictions.load(old)
    Predictions(rows.scores, None, rows.classes, "softmax").save(tmp_path / "none.npz")
    said = fails("weights", new, "-c", "none.npz", "--by", "classes", "--out", "w.npz")
    assert "none.npz: expected one label in every row, by which it is weighed, got none: see --target-key" in said


def test_labels_of_new_rows_may_be_missing(run, fails, tmp_path):
    old, new = table(tmp_path / "old.csv", 150, 0), table(tmp_path / "new.csv", 50, 1, labels=False)
    assert run("shares", new, "-c", old, *KEYS).code == 0
    assert run("sets", new, "-c", old, "--rule", "lac:0.1", *KEYS).code == 0
    for way in ((), ("--split", 0.5), ("--same-rows",)):
        assert "new.csv: expected a target under 'species'" in fails("sets", new, *way, "--rule", "lac:0.1", *KEYS)
    assert "new.csv: expected a target under 'species'" in fails("evaluate", new, "-c", old, "--rule", "lac:0.1", *KEYS)


def test_a_weight_never_takes_the_place_of_scores(run, fails, tmp_path):
    random = np.random.default_rng(0)
    for name in ("old", "new"):
        label = random.integers(3, size=300)
        frame = pd.DataFrame(random.normal(size=(300, 3)) + 2 * np.eye(3)[label], columns=["height", "weight", "age"])
        frame = frame.assign(y=np.array(frame.columns)[label], id=[f"{name}{row}" for row in range(300)])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    keys = ("--scores-key", "*", "--target-key", "y", "--link", "softmax")
    given = ("weights", "new.csv", "-c", "old.csv", "--by", "classes", *keys, "--out", "out.csv")
    message = (
        "--weights-key: expected other names than those of old.csv that scores, labels, ids and quality are read from, got"
    )
    assert f"{message} 'weight': choose another name" in fails(*given)
    assert f"{message} 'y'" in fails(*given, "--weights-key", "y")
    assert not (tmp_path / "out.csv").exists()
    assert run(*given, "--weights-key", "counts").code == 0
    assert run("sets", "new.csv", "-c", "out.csv", *keys, "--weights-key", "counts", "--rule", "lac:0.1").code == 0


def test_a_column_that_the_weights_replace_is_named(run, tmp_path):
    old, new = table(tmp_path / "old.csv", 800, 0), table(tmp_path / "new.csv", 300, 1, labels=False)
    given = ("weights", new, "-c", old, "--by", "classes", *KEYS, "--out", tmp_path / "out.csv")
    outcome = run(*given, "--weights-key", "note")
    assert outcome.code == 0
    assert "warning: " in outcome.err
    assert "old.csv: 1 column is replaced in the copy ('note'): another name is given by --weights-key" in outcome.err
    assert "warning: " not in run(*given, "--weights-key", "other").err


def test_weights_have_the_decimal_comma_of_the_scores(run, tmp_path):
    for name in ("old", "new"):
        path = table(tmp_path / f"{name}.csv", 400, len(name))
        frame = pd.read_csv(path).drop(columns=["x_0", "x_1"])
        frame = frame.assign(id=[f"{row}.5" if name == "old" else f"n{row}" for row in range(400)])
        frame.to_csv(path, index=False, sep=";", decimal=",")
    outcome = run("weights", "new.csv", "-c", "old.csv", "--by", "classes", *KEYS, "--out", "out.csv")
    assert outcome.code == 0, outcome.err
    then = run("sets", "new.csv", "-c", "out.csv", *KEYS, "--weights-key", "weight", "--rule", "lac:0.1", "--out", "s.csv")
    assert then.code == 0, then.err


def test_features_are_found_under_names_that_hold_the_delimiter(run, tmp_path):
    weights = {}
    for suffix in ("csv", "parquet"):
        for name, seed, shift in (("old", 0, 0.0), ("new", 1, 1.0)):
            path = table(tmp_path / f"{name}.{suffix}", 600, seed, shift=shift)
            frame = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
            frame = frame.rename(columns={"x_0": 'x_1,"moved"'})
            frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        given = ("weights", f"new.{suffix}", "-c", f"old.{suffix}", "--by", "inputs", "--features-key", "x_*", "--least", "1")
        outcome = run(*given, *KEYS, "--out", f"out.{suffix}")
        assert outcome.code == 0, outcome.err
        out = tmp_path / f"out.{suffix}"
        weights[suffix] = (pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out))["weight"].to_numpy()
    assert np.ptp(weights["parquet"]) > 0.5
    np.testing.assert_allclose(weights["csv"], weights["parquet"])
