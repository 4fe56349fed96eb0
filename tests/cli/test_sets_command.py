"""``shortlist sets``: tables for people, lines and files for machines, rules that are kept."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions
from shortlist.sets import SetRule, average_k, lac
from tests.cli.conftest import NAMES, draw


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def marks(records):
    return torch.tensor([[name in record["labels"] for name in NAMES] for record in records])


def test_the_table_shows_the_first_ten_rows_and_counts_the_rest(run, new):
    outcome = run("sets", new, "--rule", "top-k:2")
    head, *body = outcome.out.splitlines()
    assert outcome.code == 0
    assert head.split() == ["row", "labels"]
    assert [line.split()[0] for line in body] == [f"row-1-{n}" for n in range(10)]
    probs = Predictions.load(new).probs()[0].sort(descending=True)
    expected = ", ".join(
        f"{NAMES[j]} {p:.3f}" for p, j in zip(*map(torch.Tensor.tolist, (probs.values[:2], probs.indices[:2])), strict=True)
    )
    assert body[0].split(maxsplit=1)[1].strip() == expected
    assert "290 more" in outcome.err
    assert "300 sets, 2 labels on average, 0.0% empty" in outcome.err


def test_empty_sets_are_shown_and_counted(run, tmp_path):
    path = tmp_path / "two.safetensors"
    Predictions([[0.9, 0.1], [0.4, 0.4]], link="identity").save(path)
    outcome = run("sets", path, "--rule", "threshold:0.5")
    assert [line.split() for line in outcome.out.splitlines()[1:]] == [["0", "0", "0.900"], ["1", "–"]]
    assert "2 sets, 0.5 labels on average, 50.0% empty" in outcome.err


def test_one_set_is_not_many(run, tmp_path):
    path = tmp_path / "one.safetensors"
    Predictions([[0.9, 0.1]], link="identity").save(path)
    assert run("sets", path, "--rule", "threshold:0.5").err.startswith("1 set, 1 labels on average")


def test_scores_without_labels_are_told_where_labels_are_looked_for(fails, tmp_path):
    np.savez(tmp_path / "scores.npz", logits=-2 * np.eye(4), labels=np.arange(4))
    told = fails("sets", "scores.npz", "--scores-key", "logits", "--link", "softmax", "--split", "0.5", "--rule", "lac:0.5")
    assert "got rows without labels: name their array or column with --target-key, or call it target" in told


@pytest.mark.parametrize(("rule", "fit"), [("average-k:2", average_k(2)), ("lac:0.1", lac(0.1))])
def test_json_lines_are_the_sets_of_the_rule_fitted_on_the_calibration_file(rule, fit, run, old, new):
    outcome = run("sets", new, "--rule", rule, "--calibration", old, "--json")
    assert outcome.code == 0
    records, predictions, calibration = lines(outcome.out), Predictions.load(new), Predictions.load(old)
    assert [record["id"] for record in records] == list(predictions.ids)
    assert [record["target"] for record in records] == [[NAMES[label]] for label in predictions.target]
    expected = fit.fit(calibration.probs(), calibration.target)(predictions.probs())
    assert torch.equal(marks(records), expected)
    assert all(record["probs"] == sorted(record["probs"], reverse=True) for record in records)


def test_parquet_jsonl_and_json_lines_hold_the_same(run, old, new, tmp_path):
    arguments = ("sets", new, "--rule", "average-k:1.5", "--calibration", old)
    printed = lines(run(*arguments, "--json").out)
    for name in ("sets.parquet", "sets.jsonl"):
        outcome = run(*arguments, "--out", tmp_path / "deep" / name)
        assert (outcome.code, outcome.out) == (0, "")
        assert str(tmp_path / "deep" / name) in outcome.err
    assert lines((tmp_path / "deep" / "sets.jsonl").read_text(encoding="utf-8")) == printed
    assert pq.read_table(tmp_path / "deep" / "sets.parquet").to_pylist() == printed


def test_a_saved_rule_gives_the_same_sets_without_calibration_rows(run, old, new, tmp_path):
    rule = tmp_path / "rule.safetensors"
    first = run("sets", new, "--rule", "lac:0.2,cap:3,floor:1", "--calibration", old, "--save-rule", rule, "--json")
    second = run("sets", new, "--rule", rule, "--json")
    assert second.code == 0
    assert second.out == first.out
    assert SetRule.load(rule).text == "lac:0.2,cap:3,floor:1"


def test_a_saved_rule_remembers_the_sizes_it_had(run, old, tmp_path):
    rule, other = tmp_path / "rule.safetensors", tmp_path / "other.safetensors"
    draw(seed=3, sharpness=0.2).save(other)
    run("sets", old, "--rule", "average-k:1.5", "--same-rows", "--save-rule", rule)
    outcome = run("sets", other, "--rule", rule, "--strict")
    assert outcome.code == 3
    assert "1.5 on the 300 calibration rows" in outcome.err


def test_a_saved_prior_goes_with_its_rule_and_its_classes(run, fails, old, new, tmp_path):
    rule, fewer = tmp_path / "rule.safetensors", tmp_path / "fewer.safetensors"
    first = run("sets", new, "--rule", "pas:0.1", "--calibration", old, "--save-rule", rule, "--json")
    Predictions.load(new).with_link("softmax").save(tmp_path / "copy.npz")
    assert run("sets", tmp_path / "copy.npz", "--rule", rule, "--json").out == first.out
    Predictions(torch.zeros(3, 4), link="softmax").save(fewer)
    assert "4 classes" in fails("sets", fewer, "--rule", rule)


def test_split_is_reproducible_by_its_seed_and_answers_only_for_the_rest(run, new):
    arguments = ("sets", new, "--rule", "average-k:2", "--split", "0.25", "--json")
    first, again, other = (run(*arguments, "--seed", seed).out for seed in (7, 7, 8))
    assert first == again != other
    records, predictions = lines(first), Predictions.load(new)
    calibration, rest = predictions.split(0.25, seed=7)
    assert [record["id"] for record in records] == list(rest.ids)
    assert len(records) == 225
    assert torch.equal(marks(records), average_k(2).fit(calibration.probs())(rest.probs()))
    assert run(*arguments).out == run(*arguments, "--seed", 0).out


def test_foreign_arrays_are_read_by_name(run, tmp_path):
    path, predictions = tmp_path / "foreign.npz", draw(many=True)
    np.savez(path, logits=predictions.scores.numpy(), truth=predictions.target.numpy().astype(np.int8), extra=np.zeros(3))
    arguments = ("sets", path, "--rule", "threshold:0.5", "--scores-key", "logits", "--link", "sigmoid", "--json")
    unlabelled, labelled = lines(run(*arguments).out), lines(run(*arguments, "--target-key", "truth").out)
    assert "target" not in unlabelled[0]
    for record, row, truth in zip(labelled, predictions.scores, predictions.target, strict=True):
        assert sorted(record["labels"]) == [str(j) for j in range(5) if row[j] >= 0]
        assert record["target"] == [str(j) for j in range(5) if truth[j]]


def test_unknown_keys_are_answered_with_those_there_are(fails, tmp_path):
    path = tmp_path / "foreign.npz"
    np.savez(path, logits=np.zeros((3, 2)), truth=np.zeros(3, np.int64))
    shown = fails("sets", path, "--rule", "top-k:1")
    assert "'logits', 'truth'" in shown
    assert "--scores-key" in shown
    assert "'logits', 'truth'" in fails("sets", path, "--rule", "top-k:1", "--scores-key", "logit")
    wrong = fails("sets", path, "--rule", "top-k:1", "--scores-key", "logits", "--target-key", "labels")
    assert "'labels'" in wrong
    assert "--target-key" in wrong


def test_what_caps_and_floors_cost_is_said(run, old, new):
    outcome = run("sets", new, "--rule", "lac:0.05,cap:2", "--calibration", old, "--json")
    assert "the cap shortens" in outcome.err
    assert max(len(record["labels"]) for record in lines(outcome.out)) == 2


def test_refused_rows_are_shown_counted_and_written(run, tmp_path):
    probs, target = [[0.9, 0.1], [0.5, 0.4], [0.3, 0.7]], [[True, False], [False, False], [False, True]]
    path, out = tmp_path / "open.safetensors", tmp_path / "sets.parquet"
    Predictions(probs, target, ["ash", "elm"], "identity", list("abc")).save(path)
    outcome = run("sets", path, "--rule", "top-k:1,gate:0.5", "--same-rows")
    assert [line.split() for line in outcome.out.splitlines()[1:]] == [
        ["a", "ash", "0.900"],
        ["b", "refused"],
        ["c", "elm", "0.700"],
    ]
    assert "1 refused by the gate" in outcome.err
    run("sets", path, "--rule", "top-k:1,gate:0.5", "--same-rows", "--out", out)
    assert pq.read_table(out).column("refused").to_pylist() == [None, True, None]


def test_a_set_that_is_a_genus_is_called_so(run, tmp_path):
    path = tmp_path / "genera.safetensors"
    Predictions(
        [[0.5, 0.4, 0.1]], classes=["holm oak", "cork oak", "elm"], link="identity", superclasses=["oak", "oak", "elm"]
    ).save(path)
    outcome = run("sets", path, "--rule", "threshold:0.3")
    assert outcome.out.splitlines()[1].split() == ["0", "any", "oak", "(2", "labels)", "0.900"]
