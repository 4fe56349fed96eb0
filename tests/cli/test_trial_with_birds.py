"""What a newcomer with a messy folder of photographs stumbled over on the way to sets: each in the words of the user."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from shortlist.cli.commands import load_command
from shortlist.data.readers.class_folders import read_class_folders
from shortlist.sets import lac

QUICK = ("--epochs", "1", "--backbone", "plain-8", "--set", "size=16", "--set", "batch_size=16", "--device", "cpu")


def photographs(root, classes=("Common gull", "Grey heron", "Herring gull"), count=12, seed=0):
    random = np.random.default_rng(seed)
    for name in classes:
        (root / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 256, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.jpg")
    return root


# Folders of folders


def test_folders_of_folders_are_told(run, tmp_path):
    for number, season in enumerate(("spring", "autumn")):
        photographs(tmp_path / "parent" / season, seed=number)
    outcome = run("train", "parent", *QUICK, "--out", "here")
    assert outcome.code == 0
    assert "Common gull: is a folder in autumn, spring, which are read as the classes" in outcome.err
    assert "give one of the folders above them" in outcome.err


def test_a_folder_above_the_classes_is_refused_with_the_right_one(fails, tmp_path):
    photographs(tmp_path / "above" / "birds")
    sentence = fails("train", "above", *QUICK)
    assert "got one, birds, with 3 folders of pictures in it (Common gull, Grey heron, Herring gull)" in sentence
    assert sentence.endswith("give above/birds")


def test_a_class_whose_pictures_are_in_folders_is_told_and_read(tmp_path):
    photographs(tmp_path / "birds")
    for observer in ("anna", "ben"):
        (tmp_path / "birds" / "Tern" / observer).mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "birds" / "Tern" / observer / "1.png")
    found = read_class_folders(tmp_path / "birds")
    (problem,) = found.problems
    assert str(problem).startswith("Tern: holds no picture itself, but 2 folders of them (anna, ben), read as one class")
    assert found.train_counts.tolist() == [12, 12, 12, 2]
    Image.new("RGB", (4, 4)).save(tmp_path / "birds" / "Tern" / "2.png")
    assert not read_class_folders(tmp_path / "birds").problems


# Outputs that are there


def test_calibrate_replaces_no_file_unless_asked_to(run, fails, new, old, tmp_path):
    (tmp_path / "mine.safetensors").write_text("precious")
    arguments = ("calibrate", new, "--on", old, "--out", "mine.safetensors")
    assert "--out: mine.safetensors exists already" in fails(*arguments)
    assert (tmp_path / "mine.safetensors").read_text() == "precious"
    assert run(*arguments, "--overwrite").code == 0
    assert (tmp_path / "mine.safetensors").read_bytes() != b"precious"


# Messages


@pytest.mark.parametrize("command", [["train"], ["data", "info"], ["data", "sheet"]], ids=" ".join)
def test_a_folder_that_is_misspelt_is_named(fails, tmp_path, command):
    photographs(tmp_path / "photos")
    sentence = fails(*command, "phots")
    assert sentence == "phots: there is no such folder or file: did you mean photos?"


def test_a_run_or_a_file_of_scores_that_is_misspelt_is_named(fails, new):
    (new.parent / "runs" / "birds").mkdir(parents=True)
    assert fails("predict", "runs/bird", "x.jpg") == "runs/bird: there is no such folder: did you mean runs/birds?"
    assert fails("evaluate", "nw.safetensors", "-r", "top-k:1").endswith("did you mean new.safetensors?")


def test_a_misspelt_dataset_is_still_named(fails):
    assert "similar names: cifar100" in fails("train", "cifar1000:x")


def test_an_existing_text_file_is_not_called_missing(fails, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert fails("train", "notes.txt").startswith("notes.txt: expected a folder or a .csv")
    assert "got a file" in fails("train", "folders:notes.txt")


@pytest.mark.parametrize("option", ["--backbone", "--epochs", "--rule", "--seed", "--method"])
def test_tune_takes_the_settings_of_train_as_options(option):
    for command in ("train", "tune"):
        assert option in [name for parameter in load_command(command).params for name in parameter.opts]


def test_the_threshold_of_lac_is_a_probability():
    probs = torch.rand(200, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1)
    rule = lac(0.1).fit(probs, torch.arange(200) % 5)
    assert torch.equal(rule(probs), probs >= rule.threshold)
    assert f"threshold {float(rule.threshold):.6g}" in repr(rule)


def test_the_model_card_shows_the_interval_that_the_report_shows(run, tmp_path):
    photographs(tmp_path / "birds")
    assert run("train", "birds", *QUICK, "--out", "here").code == 0
    card = (tmp_path / "here" / "classifier" / "README.md").read_text()
    assert "| number | value | ± (95 %) | rows |" in card
    numbers = json.loads((tmp_path / "here" / "classifier" / "config.json").read_text())["about"]["numbers"]
    told = next(row for row in numbers if row.get("error"))
    assert f"| {told['value']:.4g} | {1.96 * told['error']:.4g} |" in card


# Duplicates


def test_duplicates_are_told_and_treated(run, tmp_path):
    photographs(tmp_path / "birds")
    for name in ("Common gull", "Grey heron"):
        for number in range(8):
            (tmp_path / "birds" / name / f"copy{number}.jpg").write_bytes(
                (tmp_path / "birds" / name / f"{number}.jpg").read_bytes()
            )
    checked = run("data", "info", "birds", "--check")
    assert "warning: 32 of 52 pictures have a near duplicate" in checked.err
    told = run("train", "birds", *QUICK, "--out", "keep")
    assert "pictures have a near duplicate in another split" in told.err
    for policy, said in (
        ("together", "32 pictures have near duplicates, kept together"),
        ("drop", "16 near duplicates left out (all 16)"),
    ):
        outcome = run("train", "birds", *QUICK, "--out", policy, "--duplicates", policy)
        assert outcome.code == 0
        assert said in outcome.err
        assert "in another split" not in outcome.err
        built = run("data", "build", "birds", f"built-{policy}", "--duplicates", policy)
        assert built.code == 0
        assert "near duplicate in another split" not in built.err


def test_another_word_for_duplicates_is_refused(fails, tmp_path):
    photographs(tmp_path / "birds")
    assert "duplicates: expected" in fails("train", "birds", "--duplicates", "merge")
    assert "--duplicates: expected keep, together, drop" in fails("data", "build", "birds", "built", "--duplicates", "merge")
