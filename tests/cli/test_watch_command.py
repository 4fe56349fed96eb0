"""``shortlist watch``: files in their order, state between days, one line for each alarm."""

import json

import pytest

from shortlist import Predictions
from shortlist.sets import by, lac, top_k
from tests.cli.conftest import draw


@pytest.fixture
def rule(old, tmp_path):
    path = tmp_path / "rule.safetensors"
    lac(0.2).fit(Predictions.load(old)).save(path)
    return path


@pytest.fixture
def odd(tmp_path):
    """Rows on which the classifier is much less sure than it was."""
    path = tmp_path / "odd.safetensors"
    draw(seed=2, sharpness=0.5).save(path)
    return path


def test_calm_rows_are_said_to_be_calm(run, rule, old, new):
    outcome = run("watch", rule, new, "--reference", old, "--strict")
    assert outcome.code == 0
    assert "nothing has changed on 300 rows (false alarms: 1.00% of such watches)" in outcome.err
    assert "coverage " in outcome.err


def test_an_alarm_is_one_line_and_fails_when_strict(run, rule, old, new, odd):
    outcome = run("watch", rule, new, odd, "--reference", old, "--strict")
    assert outcome.code == 3
    (line,) = [line for line in outcome.err.splitlines() if "confidence" in line]
    assert "odd.safetensors" in line or "new.safetensors" in line


def test_a_watch_goes_on_where_it_stopped(run, rule, old, new, odd, tmp_path):
    whole = json.loads(run("watch", rule, new, odd, "--reference", old, "--json").out)
    state = tmp_path / "state.safetensors"
    run("watch", rule, new, "--reference", old, "--state", state)
    outcome = run("watch", rule, new, odd, "--state", state, "--json")
    assert "new.safetensors was watched before" in outcome.err
    assert json.loads(outcome.out) == whole
    assert whole["rows"] == 600
    assert {alarm["signal"] for alarm in whole["alarms"]} >= {"confidence"}


def test_what_does_not_fit_is_refused(fails, rule, old, new, tmp_path):
    assert "--state: expected a name that ends in .safetensors" in fails("watch", rule, new, "--state", "s.json")
    other = tmp_path / "other.safetensors"
    top_k(2).save(other)
    state = tmp_path / "state.safetensors"
    from shortlist.shift import Watch

    Watch(top_k(2)).save(state)
    assert "watches another rule than" in fails("watch", rule, new, "--state", state)
    assert "there is no such file" in fails("watch", rule, "nowhere.parquet", "--reference", new)
    assert "cannot read a rule" in fails("watch", new, new)


def test_a_rule_with_groups_reads_their_column(run, tmp_path):
    old, new = (draw(seed=seed).with_columns({"site": [f"{row % 3}" for row in range(300)]}) for seed in (0, 1))
    for name, rows in (("old", old), ("new", new)):
        rows.save(tmp_path / f"{name}.safetensors")
    rule = by(lac(0.2), "site").fit(old)
    rule.save(tmp_path / "by.safetensors")
    outcome = run(
        "watch", tmp_path / "by.safetensors", tmp_path / "new.safetensors", "--reference", tmp_path / "old.safetensors"
    )
    assert outcome.code == 0
    missed = 300 - int(rule(new)[range(300), new.target].sum())
    assert f"coverage {1 - missed / 300:.1%} on 300" in outcome.err
    draw(seed=2).save(tmp_path / "bare.safetensors")
    outcome = run("watch", tmp_path / "by.safetensors", tmp_path / "bare.safetensors")
    assert outcome.code == 1
    assert "bare.safetensors: columns: expected 'site'" in outcome.err
