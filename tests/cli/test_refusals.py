"""What the program refuses, in one sentence; what it warns of; what it leaves untouched."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.cli.alike import shares_rows
from tests.cli.conftest import draw

PROGRAM = Path(sys.executable).with_name("shortlist")
COMMANDS = {
    "sets": lambda scores, fit: ("sets", scores, "--rule", "lac:0.1", "--calibration", fit),
    "evaluate": lambda scores, fit: ("evaluate", scores, "--rule", "lac:0.1", "--calibration", fit),
    "report": lambda scores, fit: ("report", scores, "--rule", "lac:0.1", "--calibration", fit),
    "calibrate": lambda scores, fit: ("calibrate", scores, "--on", fit, "--out", "calibrated.npz"),
}


def rewritten(path, name, *, ids, flip=False):
    """The rows of a file in another file, with or without ids, backwards or not."""
    part = Predictions.load(path)
    part = part.rows(slice(None)) if not flip else part.rows(torch.arange(len(part) - 1, -1, -1))
    copy = path.with_name(name)
    Predictions(part.scores, part.target, part.classes, part.link, part.ids if ids else None, part.train_counts).save(copy)
    return copy


@pytest.mark.parametrize("command", COMMANDS)
def test_the_rows_a_thing_is_fitted_on_do_not_measure_it(command, fails, new, tmp_path):
    same_ids = rewritten(new, "ids.parquet", ids=True, flip=True)
    same_scores = rewritten(new, "scores.npz", ids=False, flip=True)
    for other in (new, same_ids, same_scores):
        before = set(tmp_path.iterdir())
        sentence = fails(*COMMANDS[command](new, other))
        assert f"{other} and {new} share rows" in sentence
        assert "--same-rows" in sentence
        assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["sets", "evaluate"])
def test_same_rows_are_allowed_when_asked_for_and_warned_of(command, run, new):
    outcome = run(command, new, "--rule", "lac:0.1", "--same-rows", "--json")
    assert outcome.code == 0
    assert "warning: new: fitted and measured on the same rows" in outcome.err
    assert run(command, new, "--rule", "lac:0.1", "--same-rows", "--strict").code == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_way_out_that_a_refusal_names_is_open(command, run, new):
    """Row numbers as ids look like shared rows in any two files, so what the sentence offers must work as it stands."""
    other = rewritten(new, "other.npz", ids=True)
    assert run(*COMMANDS[command](new, other), "--same-rows").code == 0


def test_rows_are_told_apart_by_ids_where_both_have_them_and_else_by_most_of_their_scores():
    first, second = draw(40, seed=0), draw(40, seed=1)
    assert not shares_rows(first, second)
    assert shares_rows(first, first.rows([39]))
    bare = [Predictions(part.scores) for part in (first, second)]
    assert not shares_rows(*bare)
    assert shares_rows(bare[0], Predictions(first.scores.flip(0)))
    saturated = torch.zeros(40, 5)
    mixed = torch.cat([saturated[:5], second.scores[:35]])
    assert not shares_rows(Predictions(torch.cat([saturated[:5], first.scores[:35]])), Predictions(mixed))


@pytest.mark.parametrize("command", COMMANDS)
def test_one_label_and_any_number_of_labels_are_not_fitted_on_each_other(command, fails, old, new, tmp_path):
    part = Predictions.load(old)
    several = torch.nn.functional.one_hot(part.target, part.num_classes).bool() | (part.scores > 0)
    Predictions(part.scores, several, part.classes, part.link, part.ids).save(tmp_path / "several.npz")
    sentence = fails(*COMMANDS[command](new, tmp_path / "several.npz"))
    assert "several.npz has any number of labels per row and" in sentence
    assert "has one label: " in sentence


def test_files_with_classes_in_another_order_are_compared_by_name(run, new, tmp_path):
    part = Predictions.load(new)
    order = torch.arange(part.num_classes - 1, -1, -1)
    names = [part.class_names[place] for place in order]
    Predictions(part.scores[:, order], order.argsort()[part.target], names, part.link, part.ids).save(tmp_path / "turned.npz")
    assert "different rows" not in run("evaluate", new, "turned.npz", "--rule", "top-k:1").err
    renamed = [f"other {name}" for name in names]
    Predictions(part.scores, part.target, renamed, part.link, part.ids).save(tmp_path / "renamed.npz")
    outcome = run("evaluate", new, "renamed.npz", "--rule", "top-k:1")
    assert "have different rows (labels of other classes)" in outcome.err + outcome.out


def test_a_rule_to_fit_without_rows_to_fit_on_says_how_to_get_some(fails, new):
    sentence = fails("evaluate", new, "--rule", "average-k:2")
    assert "--calibration FILE" in sentence
    assert "--split 0.5" in sentence


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("averge-k:2", "did you mean 'average-k'?"),
        ("lac:0.1,caps:3", "did you mean 'cap'?"),
        ("lac", "expected lac:ALPHA, got 'lac'"),
        ("lac:1.5", "1.5"),
        ("top-k:two", "two"),
        ("top-k:0", "0"),
        ("", "not a rule"),
        ("missing.safetensors", "cannot read a rule from missing.safetensors"),
    ],
)
def test_a_misspelt_rule_is_answered_with_what_was_expected(rule, words, fails, new):
    assert words in fails("evaluate", new, "--rule", rule, "--split", "0.5")


def test_a_file_of_scores_is_no_rule(fails, old, new):
    assert "not written by SetRule.save" in fails("evaluate", new, "--rule", old)


@pytest.mark.parametrize("rule", ["mass:0.1", "aps:0.1", "pas:0.1", "threshold:0.5"])
def test_rules_that_need_probabilities_refuse_scores_that_are_none(rule, fails, new):
    sentence = fails("evaluate", new, "--rule", rule, "--link", "none", "--split", "0.5")
    assert f"which {rule} needs" in sentence
    assert "softmax" in sentence


@pytest.mark.parametrize("rule", ["top-k:2", "average-k:2", "lac:0.1"])
def test_rules_that_need_an_order_alone_take_scores_as_they_are(rule, run, new):
    outcome = run("evaluate", new, "--rule", rule, "--link", "none", "--split", "0.5", "--json")
    assert outcome.code == 0
    assert "calibration_top" not in json.loads(outcome.out)[0]


def test_prior_rules_need_training_counts_and_others_do_not_mind_their_absence(run, fails, tmp_path):
    bare, zero = tmp_path / "bare.npz", tmp_path / "zero.npz"
    draw(counts=False).save(bare)
    part = draw()
    Predictions(part.scores, part.target, link="softmax", train_counts=[0] * 5).save(zero)
    assert "train_counts" in fails("evaluate", bare, "--rule", "pas:0.1", "--split", "0.5")
    assert "training examples" in fails("evaluate", zero, "--rule", "pas:0.1", "--split", "0.5")
    for path in (bare, zero):
        assert run("evaluate", path, "--rule", "lac:0.1", "--split", "0.5").code == 0


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        (("--split", "0.5", "--same-rows"), "got --split and --same-rows"),
        (("--split", "1.5"), "1.5"),
        (("--split", "0"), "0"),
        (("--split", "nan"), "nan"),
        (("--split", "0.001"), "one would be empty"),
    ],
)
def test_impossible_ways_to_choose_rows_are_refused(ways, words, fails, new):
    assert words in fails("evaluate", new, "--rule", "lac:0.1", *ways)


def test_other_classes_or_another_order_of_them_are_refused(fails, new, tmp_path):
    fewer, turned = tmp_path / "fewer.npz", tmp_path / "turned.npz"
    Predictions(torch.zeros(9, 4), [0] * 9, link="softmax").save(fewer)
    draw(classes=["oak", "fir", "elm", "beech", "ash"]).save(turned)
    assert "has 4 classes" in fails("evaluate", new, "--rule", "lac:0.1", "--calibration", fewer)
    assert "in another order" in fails("evaluate", new, "--rule", "lac:0.1", "--calibration", turned)


def test_files_that_are_missing_broken_or_hold_no_numbers_are_named(fails, tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    np.savez(tmp_path / "nan.npz", scores=np.full((2, 2), np.nan))
    (tmp_path / "a.txt").write_text("")
    for name, words in (
        ("missing.npz", "no such file"),
        ("broken.npz", "cannot read"),
        ("nan.npz", "finite"),
        ("a.txt", "ends in"),
    ):
        sentence = fails("sets", tmp_path / name, "--rule", "top-k:1")
        assert name in sentence
        assert words in sentence


@pytest.mark.parametrize("more", [("--rule", "top-k:1"), ()], ids=["rule", "no rule"])
@pytest.mark.parametrize("command", ["sets", "evaluate", "report"])
@pytest.mark.parametrize("name", ["runs/gardn", "gardn.safetensors", "gardn.txt"])
def test_a_path_where_nothing_is_says_that_before_anything_else(command, name, more, fails):
    assert fails(command, name, *more) == f"{name}: there is no such file or folder"


def test_calibrating_what_is_not_there(fails, new):
    assert fails("calibrate", "runs/gardn", "--out", "new") == "runs/gardn: there is no such file or folder"
    assert fails("calibrate", new, "--on", "gardn", "--out", "new.npz") == "gardn: there is no such file or folder"


def test_a_folder_that_is_no_run_says_so(fails, tmp_path):
    (tmp_path / "runs").mkdir()
    wanted = "runs: expected a file of scores or the folder of a run, got a folder without recipe.json"
    assert fails("evaluate", "runs") == fails("calibrate", "runs", "--out", "new")
    assert fails("evaluate", "runs").startswith(wanted)


@pytest.mark.parametrize("command", ["sets", "evaluate", "report"])
def test_a_file_without_rows_is_refused_in_words(command, fails, tmp_path):
    Predictions(torch.zeros(0, 3), link="softmax").save(tmp_path / "empty.npz")
    assert "rows" in fails(command, tmp_path / "empty.npz", "--rule", "top-k:1")


@pytest.mark.parametrize("command", ["sets", "evaluate", "report"])
def test_a_shift_in_size_is_warned_of_and_strict_makes_it_an_exit_code(command, run, old, tmp_path):
    other = tmp_path / "blurred.safetensors"
    draw(seed=2, sharpness=0.1).save(other)
    arguments = (command, other, "--rule", "average-k:1.5", "--calibration", old)
    outcome = run(*arguments)
    assert outcome.code == 0
    assert "warning: blurred: sets hold" in outcome.err
    assert "are the two from the same source?" in outcome.err
    assert run(*arguments, "--strict").code == 3


def test_strict_is_content_where_there_is_nothing_to_warn_of(run, old, new):
    outcome = run("evaluate", new, "--rule", "average-k:1.5", "--calibration", old, "--strict")
    assert (outcome.code, outcome.err) == (0, "")


def test_ties_at_the_cut_are_warned_of_on_standard_error_alone(run, tmp_path):
    path = tmp_path / "tied.npz"
    Predictions(torch.zeros(8, 4), torch.arange(8) % 4, link="softmax").save(path)
    outcome = run("evaluate", path, "--rule", "average-k:1", "--split", "0.5", "--json")
    assert "warning: average-k:1" in outcome.err
    assert json.loads(outcome.out)[0]["warnings"]


@pytest.mark.parametrize(
    ("command", "name"), [("sets", "out.jsonl"), ("sets", "out.parquet"), ("report", "out.html"), ("calibrate", "out.npz")]
)
def test_an_error_leaves_the_output_file_as_it_was(command, name, fails, new, tmp_path):
    out = tmp_path / name
    out.write_bytes(b"what was there")
    np.savez(tmp_path / "unlabelled.npz", scores=np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32))
    fit = ("--on",) if command == "calibrate" else ("--rule", "lac:0.1", "--calibration")
    fails(command, new, *fit, tmp_path / "unlabelled.npz", "--out", out)
    assert out.read_bytes() == b"what was there"
    assert {path.name for path in tmp_path.iterdir()} == {"new.safetensors", "unlabelled.npz", name}


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("command", "name", "written"),
    [
        ("sets", "out.jsonl", "shortlist.sets.lists.json.dumps"),
        ("report", "out.html", "pathlib.Path.write_text"),
        ("calibrate", "out.safetensors", "shortlist.predictions.array_sinks.SafetensorsSink.add"),
    ],
)
def test_a_full_disk_is_told_with_the_file_and_what_to_do(command, name, written, fails, new, old, tmp_path, monkeypatch):
    fit = ("--on", old) if command == "calibrate" else ("--rule", "lac:0.1", "--calibration", old)
    monkeypatch.setattr(written, full_disk)
    assert fails(command, new, *fit, "--out", name) == (
        f"cannot write {name}: no space left on device: make room, or choose another place"
    )
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith((".", "out"))]


def test_a_full_disk_behind_standard_output_is_a_sentence_too(fails, new, monkeypatch):
    monkeypatch.setattr("shortlist.cli.console.emit", full_disk)
    wanted = "no space left on device: make room, or write to another place"
    assert fails("evaluate", new, "--rule", "top-k:1", "--json") == wanted


@pytest.mark.parametrize(("option", "words"), [("--out", ".parquet, .jsonl or .csv"), ("--save-rule", ".safetensors")])
def test_outputs_of_unknown_kind_are_refused(option, words, fails, old, new, tmp_path):
    before = set(tmp_path.iterdir())
    assert words in fails("sets", new, "--rule", "lac:0.1", "--calibration", old, option, tmp_path / "out.txt")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("sets",),
        ("sets", "x.npz", "--rul", "top-k:1"),
        ("set",),
        ("report", "--rule", "top-k:1"),
        ("evaluate", "x.npz", "-r", "top-k:1", "--split", "half"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2_and_says_so_on_standard_error(arguments, run):
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage" in outcome.err
    assert "Traceback" not in outcome.err


def test_the_real_program_tells_an_error_in_one_sentence_without_traceback(new):
    done = subprocess.run([PROGRAM, "sets", new, "--rule", "averge-k:2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    draw(20_000).save(tmp_path / "long.safetensors")
    command = [PROGRAM, "sets", tmp_path / "long.safetensors", "--rule", "top-k:2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        first = program.stdout.readline()
        program.stdout.close()
        assert b"rror" not in program.stderr.read()  # neither an error nor a traceback
    assert json.loads(first)["labels"]
    assert program.returncode == 0


def test_nothing_that_is_read_is_written_over(fails, old, new):
    before = old.read_bytes()
    assert "overwritten" in fails("sets", old, "--rule", "top-k:1", "--save-rule", old)
    assert "overwritten" in fails("calibrate", new, "--on", old, "--out", old)
    assert old.read_bytes() == before


def test_a_link_is_never_guessed(fails, tmp_path):
    np.savez(tmp_path / "theirs.npz", scores=np.random.default_rng(0).normal(size=(20, 3)))
    assert "--link softmax or sigmoid" in fails("sets", tmp_path / "theirs.npz", "--rule", "top-k:1")


@pytest.mark.parametrize(("given", "expected"), [(None, "passive"), ("active", "active")])
def test_threads_wait_without_spinning_unless_told_to(run, monkeypatch, given, expected):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    run("--version")
    assert os.environ["OMP_WAIT_POLICY"] == expected


def test_labels_of_one_npy_file_are_not_those_of_the_rows_to_fit_on(fails, run, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("val", "test", "other"):
        np.save(tmp_path / f"{name}.npy", rng.dirichlet(np.ones(3), 40))
        np.save(tmp_path / f"{name}_labels.npy", rng.integers(0, 3, 40))
    test, val = tmp_path / "test.npy", tmp_path / "val.npy"
    fitted = ("--target-key", "test_labels.npy", "--link", "identity", "--rule", "lac:0.1")
    for command in (("evaluate", test, "-c", val, *fitted), ("sets", test, "-c", val, *fitted)):
        assert "--target-key: expected other labels for" in fails(*command)
    linked = ("--target-key", "val_labels.npy", "--link", "identity", "--out", tmp_path / "c.npz")
    assert "--target-key: expected other labels for" in fails("calibrate", test, "--on", val, *linked)
    assert not (tmp_path / "c.npz").exists()
    both = run(
        "evaluate", test, tmp_path / "other.npy", "--target-key", "test_labels.npy", "--link", "identity", "--rule", "top-k:1"
    )
    assert both.code == 0, both.err  # two classifiers on the same rows


@pytest.mark.parametrize("command", [("sets", "--out"), ("evaluate", "--per-class")])
def test_the_file_of_class_names_is_not_overwritten(fails, tmp_path, command):
    names = tmp_path / "classes.csv"
    names.write_text("ash\nelm\noak\n")
    np.savez(tmp_path / "s.npz", scores=np.random.default_rng(0).dirichlet(np.ones(3), 40), target=np.arange(40) % 3)
    given = ("--link", "identity", "--rule", "lac:0.2", "--split", "0.5", "--classes", names)
    assert "would be overwritten" in fails(command[0], tmp_path / "s.npz", *given, command[1], names)
    assert names.read_text() == "ash\nelm\noak\n"
