"""``shortlist watch``: files in their order, state between days, one line for each alarm."""

import json

import pytest

from shortlist import Predictions
from shortlist.cli import watching
from shortlist.predictions import ShardedWriter
from shortlist.sets import by, lac, risk_control, top_k
from shortlist.shift import Watch
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


def test_files_are_known_by_their_content(run, rule, old, new, odd, tmp_path):
    state = tmp_path / "state.safetensors"
    run("watch", rule, new, "--reference", old, "--state", state)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(new.read_bytes())
    spelt = tmp_path / ".." / tmp_path.name / new.name
    outcome = run("watch", rule, spelt, copy, "--state", state, "--json")
    assert json.loads(outcome.out)["rows"] == 300
    assert outcome.err.count(f"was watched before, as {new}, and is passed over") == 2
    new.write_bytes(odd.read_bytes())
    outcome = run("watch", rule, new, odd, "--state", state, "--json")
    assert json.loads(outcome.out)["rows"] == 600
    assert f"{new} has another content than the file of this name that was watched before" in outcome.err
    assert f"{odd} was watched before, as {new} (2), and is passed over" in outcome.err
    assert [name for name, _ in Watch.load(state).sources] == [str(new), f"{new} (2)"]


def test_files_of_a_state_without_contents_are_known_by_their_names(run, rule, old, new, odd, tmp_path):
    state = tmp_path / "state.safetensors"
    run("watch", rule, new, "--reference", old, "--state", state)
    watched = Watch.load(state)
    watched.contents = {}
    watched.save(state)
    outcome = run("watch", rule, new, odd, "--state", state, "--json")
    assert "new.safetensors was watched before and is passed over" in outcome.err
    assert json.loads(outcome.out)["rows"] == 600


def test_a_folder_of_parts_is_known_by_its_files(run, rule, new, tmp_path):
    rows, state = Predictions.load(new), tmp_path / "state.safetensors"
    for name in ("june", "july"):
        with ShardedWriter(tmp_path / name, rows, ["first", "second"]) as writer:
            for number, part in enumerate((rows.rows(slice(0, 100)), rows.rows(slice(100, 300)))):
                writer.write(number, [part])
            writer.finish()
    outcome = run("watch", rule, tmp_path / "june", tmp_path / "july", "--state", state, "--json")
    assert json.loads(outcome.out)["rows"] == 300


def test_two_watches_of_one_state_lose_no_rows(run, rule, old, new, odd, tmp_path, monkeypatch):
    """The second command comes while the first one reads its rows."""
    state, meanwhile = tmp_path / "days" / "state.safetensors", []
    add = watching._add

    def add_while_another_comes(watched, path, reading):
        if path == new:
            meanwhile.append(run("watch", rule, odd, "--state", tmp_path / "other.safetensors"))
            meanwhile.append(run("watch", rule, odd, "--state", state))
        add(watched, path, reading)

    monkeypatch.setattr(watching, "_add", add_while_another_comes)
    assert run("watch", rule, new, "--reference", old, "--state", state).code == 0
    other, second = meanwhile
    assert other.code == 0
    assert second.code == 1
    assert f"error: {state} is being written to by another process" in second.err
    assert second.err.endswith("wait for it to finish, or choose another name\n")
    assert Watch.load(state).rows == 300
    assert run("watch", rule, odd, "--state", state).code == 0
    assert Watch.load(state).rows == 600
    assert [entry.name for entry in state.parent.iterdir()] == [state.name]


def test_a_watch_that_fails_leaves_no_folder(run, rule, tmp_path):
    assert run("watch", rule, tmp_path / "none.csv", "--state", tmp_path / "days" / "state.safetensors").code == 1
    assert not (tmp_path / "days").exists()


def test_rows_are_not_compared_with_themselves(fails, run, rule, old, new, tmp_path):
    assert fails("watch", rule, old, "--reference", old).startswith(f"{old} holds the reference rows themselves")
    again = tmp_path / "again.safetensors"
    again.symlink_to(new)
    assert "again.safetensors holds the reference rows themselves" in fails("watch", rule, again, "--reference", new)
    assert run("watch", rule, old).code == 0


def test_another_level_than_that_of_the_state_is_refused(run, fails, rule, new, odd, tmp_path):
    state = tmp_path / "state.safetensors"
    assert json.loads(run("watch", rule, new, "--state", state, "--level", "0.05", "--json").out)["level"] == 0.05
    assert "--level: " in fails("watch", rule, odd, "--state", state, "--level", "0.2")
    assert "watches at 0.05, got 0.2" in fails("watch", rule, odd, "--state", state, "--level", "0.2")
    for given in ([], ["--level", "0.05"]):
        assert json.loads(run("watch", rule, odd, "--state", state, *given, "--json").out)["level"] == 0.05


def test_labels_of_rows_that_may_have_several_are_watched_by_their_recall(run, tmp_path):
    for name, seed in (("old", 0), ("new", 1)):
        draw(seed=seed, many=True).save(tmp_path / f"{name}.safetensors")
    rule = risk_control("recall", 0.2).fit(Predictions.load(tmp_path / "old.safetensors"))
    rule.save(tmp_path / "rule.safetensors")
    wanted = ("watch", tmp_path / "rule.safetensors", tmp_path / "new.safetensors", "--reference", tmp_path / "old.safetensors")
    outcome = run(*wanted, "--json")
    told = json.loads(outcome.out)
    assert (told["coverage"], told["labelled"], told["alarms"]) == (None, 300, [])
    assert told["recall"]["low"] < told["recall"]["share"] < told["recall"]["high"]
    assert f"recall {told['recall']['share']:.1%} on 300 labelled rows" in outcome.err


def test_what_does_not_fit_is_refused(fails, rule, old, new, tmp_path):
    assert "--state: expected a name that ends in .safetensors" in fails("watch", rule, new, "--state", "s.json")
    other = tmp_path / "other.safetensors"
    top_k(2).save(other)
    state = tmp_path / "state.safetensors"
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
