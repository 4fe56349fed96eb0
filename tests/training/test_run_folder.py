"""The folder of a run: what can be written where, what is read back, and what is missing."""

import json
import os
import shutil

import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.training.run_folder import RunFolder
from tests.training.small import recipe


@pytest.fixture
def begun(tmp_path):
    """A folder with a recipe, as a run leaves it that was just started."""
    folder = RunFolder(tmp_path / "run")
    folder.write_recipe(recipe(lr=0.25), commit="abc")
    return folder


def test_the_recipe_is_read_as_it_was_written(begun):
    assert begun.recipe == recipe(lr=0.25)
    assert json.loads((begun.path / "recipe.json").read_text())["commit"] == "abc"
    assert begun.network_record is None


def test_the_record_of_a_network_is_kept(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.write_recipe(recipe(), network={"class": "Mine", "factory": None})
    assert folder.network_record == {"class": "Mine", "factory": None}


def test_a_folder_without_a_recipe_is_not_a_run(tmp_path, begun):
    assert RunFolder.holds_run(begun.path)
    assert not RunFolder.holds_run(tmp_path)
    with pytest.raises(InputError, match=r"recipe\.json"):
        _ = RunFolder(tmp_path).recipe


@pytest.mark.parametrize("text", ["{", "[]", '{"recipe": {"name": "a"}}', '{"recipe": 3}', "{}"])
def test_a_damaged_recipe_raises(begun, text):
    (begun.path / "recipe.json").write_text(text)
    with pytest.raises(InputError):
        _ = begun.recipe


def test_a_new_run_needs_a_new_or_empty_folder(tmp_path, begun):
    RunFolder(tmp_path / "new").check_new()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden").write_text("")
    RunFolder(tmp_path / "empty").check_new()
    with pytest.raises(InputError, match="run already holds a run"):
        begun.check_new()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="full: .*got one with files in it"):
        RunFolder(tmp_path / "full").check_new()
    with pytest.raises(InputError, match="thesis.tex: .*got a file"):
        RunFolder(tmp_path / "full" / "thesis.tex").check_new()
    with pytest.raises(InputError, match=r"thesis\.tex is a file"):
        RunFolder(tmp_path / "full" / "thesis.tex" / "run").check_new()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_raises(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match="locked is not writable"):
        RunFolder(tmp_path / "locked" / "run").check_new()


def test_only_a_run_of_the_same_recipe_is_resumed(tmp_path, begun):
    begun.check_resumable(recipe(lr=0.25))
    with pytest.raises(InputError, match="lr 0.5 here, 0.25 there"):
        begun.check_resumable(recipe(lr=0.5))
    with pytest.raises(InputError, match="nothing holds no run to resume"):
        RunFolder(tmp_path / "nothing").check_resumable(recipe())


def test_space_is_checked_on_the_disk_of_the_folder(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=3_000_000))
    folder = RunFolder(tmp_path / "not" / "yet")
    folder.check_space(3_000_000)
    with pytest.raises(InputError, match=r"expected 3,100,000 bytes .*got 3,000,000:"):
        folder.check_space(3_100_000)


def test_history_is_one_dictionary_per_line(begun):
    assert begun.history == []
    begun.metrics_path.write_text('{"epoch": 1}\n\n{"epoch": 2, "loss": null}\n')
    assert begun.history == [{"epoch": 1}, {"epoch": 2, "loss": None}]
    begun.metrics_path.write_text('{"epoch": ')
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        _ = begun.history


def test_predictions_are_kept_by_split(begun):
    assert begun.splits == []
    with pytest.raises(InputError, match="split: .*got 'train'"):
        begun.predictions_path("train")
    with pytest.raises(InputError, match=r"not finished \(test.safetensors is missing\).*--out "):
        begun.predictions()
    for number, split in enumerate(("test", "val")):
        begun.write_predictions(split, Predictions(torch.full((2, 3), float(number)), [0, 1]))
    assert begun.splits == ["val", "test"]
    assert begun.predictions("val").scores.unique().tolist() == [1.0]
    assert begun.predictions().scores.unique().tolist() == [0.0]


def test_rules_are_fitted_on_calibration_rows_or_else_on_validation_rows(begun):
    begun.write_predictions("val", Predictions(torch.zeros(2, 3), [0, 1]))
    assert begun.calibration_path.name == "val.safetensors"
    begun.write_predictions("calibration", Predictions(torch.zeros(2, 3), [0, 1]))
    assert begun.calibration_path.name == "calibration.safetensors"


def test_a_run_without_a_classifier_has_not_finished(begun):
    with pytest.raises(InputError, match=r"not finished \(classifier is missing\)"):
        _ = begun.classifier_path


def test_the_optimum_is_optional(begun):
    assert begun.read_optimum() is None
    begun.write_optimum({"rows": 3})
    assert begun.read_optimum() == {"rows": 3}


def test_leftovers_of_this_run_alone_are_removed(begun):
    own = {".env", ".testing", ".recipe.json.swp", ".test.env", ".metrics.db", ".report.notes", ".classifier.old.notes"}
    for name in own - {".report.notes", ".classifier.old.notes"}:
        (begun.path / name).write_text("")
    for name in (".report.notes", ".classifier.old.notes"):
        (begun.path / name).mkdir()
        (begun.path / name / "a.txt").write_text("")
    (begun.path / ".classifier.old.abcd_123").mkdir()
    (begun.path / ".classifier.old.abcd_123" / "config.json").write_text("{}")
    (begun.path / ".classifier.old.abcd_124").mkdir()  # before the first of the two renames
    begun.remove_leftovers()
    assert {entry.name for entry in begun.path.iterdir()} == {"recipe.json", *own}


def test_how_to_resume_depends_on_how_far_the_run_got(tmp_path, begun):
    command = f"shortlist train --resume --out {begun.path}"
    stopped = "stopped after step 3"
    assert begun.how_to_resume(stopped).startswith("stopped after step 3; ")
    assert begun.how_to_resume(stopped).endswith(command)
    assert command in begun.how_to_resume()
    assert "first checkpoint" in begun.how_to_resume()
    begun.checkpoint_path.write_text("")
    assert "since the last checkpoint" in begun.how_to_resume()
    assert "--resume" not in RunFolder(tmp_path / "nothing").how_to_resume()
    spaced = RunFolder(tmp_path / "my run")
    assert spaced.how_to_resume(stopped).endswith("my run'")
