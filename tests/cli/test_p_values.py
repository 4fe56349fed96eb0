"""``shortlist sets --p-values``: the p-value of every label beside the sets, in every format."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from shortlist import Predictions
from shortlist.sets import SetRule, parse_rule
from tests.cli.conftest import NAMES
from tests.references import weighted_sets as ref

COLUMNS = [f"p_value_{name}" for name in NAMES]


def written(path):
    """The labels of the sets as marks, and the p-values."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        labels, values = [row["labels"] for row in rows], [[row["p_values"][name] for name in NAMES] for row in rows]
        assert all(list(row["p_values"]) == NAMES for row in rows)
    else:
        frame = pd.read_csv(path, keep_default_na=False) if path.suffix == ".csv" else pd.read_parquet(path)
        labels = [cell.split("|") if isinstance(cell, str) else list(cell) for cell in frame["labels"]]
        assert list(frame.columns)[-len(COLUMNS) :] == COLUMNS
        values = frame[COLUMNS].to_numpy()
    return np.array([[name in row for name in NAMES] for row in labels]), np.array(values, float)


@pytest.mark.parametrize("name", ["sets.parquet", "sets.csv", "sets.jsonl"])
def test_they_are_those_of_the_definition_and_decide_the_sets(run, old, new, tmp_path, name):
    outcome = run("sets", new, "-c", old, "--rule", "lac:0.2", "--p-values", "--out", name)
    assert outcome.code == 0, outcome.err
    sets, values = written(tmp_path / name)
    rows, before = Predictions.load(new), Predictions.load(old)
    held, asked = (one.probs().double().numpy() for one in (before, rows))
    expected = ref.p_values(-held, before.target.numpy(), np.ones(300), np.ones(20), -asked[:20])
    np.testing.assert_allclose(values[:20], np.array(expected, float), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(sets, values > 0.2)
    assert len(sets) == 300


@pytest.mark.parametrize(
    "rule", ["aps:0.2:random", "raps:0.2", "lac:0.2,classwise", "aps:0.2:deterministic", "lac:0.2,by:predicted"]
)
def test_a_randomised_rule_draws_as_it_does_for_its_sets(run, old, new, tmp_path, rule):
    assert run("sets", new, "-c", old, "--rule", rule, "--p-values", "--out", "sets.csv").code == 0
    sets, values = written(tmp_path / "sets.csv")
    np.testing.assert_array_equal(sets, values > 0.2)
    again = parse_rule(rule, generator=0).fit(Predictions.load(old), keep=True)
    np.testing.assert_array_equal(again.p_values(Predictions.load(new)).numpy(), values)
    np.testing.assert_array_equal(again(Predictions.load(new)).numpy(), sets)


def test_a_saved_rule_keeps_its_values(run, fails, old, new, tmp_path):
    assert (
        run("sets", new, "-c", old, "--rule", "lac:0.2", "--p-values", "--out", "one.csv", "--save-rule", "r.safetensors").code
        == 0
    )
    assert len(SetRule.load(tmp_path / "r.safetensors").kept) == 300
    assert run("sets", new, "--rule", "r.safetensors", "--p-values", "--out", "two.csv").code == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert run("sets", new, "-c", old, "--rule", "lac:0.2", "--out", "three.csv", "--save-rule", "bare.safetensors").code == 0
    assert "p_value" not in (tmp_path / "three.csv").read_text()
    assert SetRule.load(tmp_path / "bare.safetensors").kept is None
    said = fails("sets", new, "--rule", "bare.safetensors", "--p-values", "--out", "four.csv")
    assert "--p-values: expected a rule that kept the values of its calibration rows, got lac:0.2 without" in said
    assert not (tmp_path / "four.csv").exists()


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_weights_count_in_them_and_json_goes_to_standard_output(run, old, new, tmp_path):
    weights = np.random.default_rng(0).uniform(0.5, 3, 300)
    Predictions.load(old).with_columns({"w": weights}).save(tmp_path / "w.npz")
    outcome = run("sets", new, "-c", "w.npz", "--rule", "lac:0.2", "--weights-key", "w", "--p-values", "--json")
    assert outcome.code == 0, outcome.err
    (tmp_path / "out.jsonl").write_text(outcome.out)
    sets, values = written(tmp_path / "out.jsonl")
    before, rows = Predictions.load(old), Predictions.load(new)
    held, asked = (one.probs().double().numpy() for one in (before, rows))
    expected = ref.p_values(-held, before.target.numpy(), weights, np.full(10, weights.max()), -asked[:10])
    np.testing.assert_allclose(values[:10], np.array(expected, float), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(sets, values > 0.2)


def test_cap_and_floor_leave_them_alone(run, old, new, tmp_path):
    for rule, name in (("lac:0.2", "plain.csv"), ("lac:0.2,cap:1,floor:1", "bounded.csv")):
        assert run("sets", new, "-c", old, "--rule", rule, "--p-values", "--out", name).code == 0
    plain, bounded = (written(tmp_path / name) for name in ("plain.csv", "bounded.csv"))
    np.testing.assert_array_equal(plain[1], bounded[1])
    assert (bounded[0].sum(1) == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--rule", "top-k:2"),
            "--p-values: expected a conformal rule (lac, aps, raps, pas, sure-node, classwise), got top-k:2",
        ),
        (("--rule", "average-k:2"), "--p-values: expected a conformal rule"),
        (("--rule", "lac:0.1,pac:0.05"), "--p-values: expected a conformal rule"),
        (("--rule", "lac:0.1,by:predicted:1:20"), "--p-values: expected groups with thresholds of their own"),
        (("--rule", "lac:0.1", "--engine", "ray"), "--p-values: expected --engine local, got ray"),
        (("--rule", "lac:0.1", "--p-value"), None),
    ],
)
def test_rules_without_p_values_say_so(fails, run, old, new, tmp_path, options, message):
    given = ("sets", new, "-c", old, "--out", "sets.csv", "--p-values", *options)
    if message is None:
        assert re.search("No such option: --p-value|No such option '--p-value'", run(*given).err)
    else:
        assert message in fails(*given)
    assert not (tmp_path / "sets.csv").exists()


def test_there_is_no_room_for_them_in_the_terminal(fails, old, new):
    said = fails("sets", new, "-c", old, "--rule", "lac:0.1", "--p-values")
    assert said == "--p-values: expected --out FILE or --json, which hold them, got neither"
