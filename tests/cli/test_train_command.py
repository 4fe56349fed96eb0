"""``shortlist train``, ``tune`` and ``recipes``, and the commands that take the folder of a run."""

import json
import shutil

import pytest
import torch
from PIL import Image

from shortlist import Classifier, Predictions
from shortlist.recipes import all_recipes

TINY = "flora:species=8,genera=2,train=120,val=60,test=40,size=8"
QUICK = ("--backbone", "plain-8", "--epochs", "2", "--set", "batch_size=16", "--no-tensorboard")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has ended."""
    from shortlist.cli.train import resolve, run_training

    folder = tmp_path_factory.mktemp("runs") / "tiny"
    given = {"k": 2, "backbone": "plain-8", "epochs": 2}
    run_training(
        resolve(TINY, None, given, ["batch_size=16"], None, False), folder, resume=False, device="cpu", tensorboard=False
    )
    return folder


@pytest.fixture
def here(finished, tmp_path):
    """The same run, in this test's folder."""
    return shutil.copytree(finished, tmp_path / "tiny")


def leaves(folder, classes=("ash", "elm", "oak"), rows=12, side=20):
    """A folder of class folders; a class is a colour."""
    generator = torch.Generator().manual_seed(0)
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for row in range(rows):
            pixels = torch.randint(0, 60, (side, side + row % 3, 3), generator=generator)
            pixels[..., number % 3] += 150
            Image.fromarray(pixels.to(torch.uint8).numpy()).save(folder / name / f"{row}.png")
    return folder


def test_pictures_in_folders_become_a_classifier_and_a_report(run, tmp_path):
    leaves(tmp_path / "leaves")
    outcome = run("train", "leaves", "-k", 2, *QUICK, "--set", "size=16")
    assert outcome.code == 0
    folder = tmp_path / "runs" / "leaves-average-k"
    names = {entry.name for entry in folder.iterdir()}
    assert {"classifier", "report.html", "recipe.json", "metrics.jsonl", "test.safetensors", "checkpoint.safetensors"} <= names
    classifier = Classifier.load(folder / "classifier")
    assert classifier.classes == ("ash", "elm", "oak")
    assert classifier.rule.text == "average-k:2"
    assert "Training" in (folder / "report.html").read_text()
    assert "epoch 2" in outcome.err
    assert "were set aside" in outcome.err
    answer = run("predict", folder, "leaves/oak", "--json")
    assert len(answer.out.splitlines()) == 12


def test_where_the_optimum_is_known_the_distance_is_told(run, tmp_path):
    outcome = run("train", TINY, "-k", 2, *QUICK, "--out", "mine")
    assert outcome.code == 0
    assert "labels on average the best possible classifier is right on" in outcome.err
    assert json.loads((tmp_path / "mine" / "optimum.json").read_text())["rows"] == 40
    assert "points away" in outcome.err


def test_a_run_that_was_cut_short_goes_on(run, tmp_path, monkeypatch):
    from shortlist.training.loop import Loop

    assert run("train", TINY, "-k", 2, *QUICK, "--out", "whole").code == 0
    step = Loop._step

    def cut(self, number, *others):
        if number == 9:
            raise OSError(28, "No space left on device")
        step(self, number, *others)

    save = Loop.save
    with monkeypatch.context() as patch:
        patch.setattr(
            Loop, "_step", lambda self, number, *others: (save(self) if number == 8 else None, cut(self, number, *others))
        )
        assert run("train", TINY, "-k", 2, *QUICK, "--out", "cut").code == 1
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists()
    refused = run("train", TINY, "-k", 2, *QUICK, "--out", "cut")
    assert refused.code == 1
    assert "holds a run already: go on with it by --resume" in refused.err
    assert run("train", "--out", "cut", "--resume", "--no-tensorboard").code == 0
    one, other = ((tmp_path / name / "classifier" / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "expected data to train on, or --recipe NAME"),
        (("--recipe", "flora-minuts"), "did you mean 'flora-minutes'?"),
        (("--recipe", "cifar100-top5"), "needs data: shortlist train PATH --recipe cifar100-top5"),
        (("nowhere", "--recipe", "flora-seconds"), "expected no path"),
        (("nowhere",), "there is no such folder or file"),
        ((TINY, "--method", "averge-k"), "did you mean 'average-k'?"),
        ((TINY, "--set", "lrr=0.1"), "did you mean 'lr'?"),
        ((TINY, "--set", "lr"), "--set: expected NAME=VALUE"),
        ((TINY, "--set", "lr=fast"), "lr: expected a number"),
        ((TINY, "-k", "9"), "k: expected a number from 1 to 8"),
        ((TINY, "--method", "spa"), "method spa is for any number of labels a row"),
        ((TINY + ",kind=quadrats", "--method", "average-k"), "method average-k is for exactly one label a row"),
        ((TINY, "--rule", "lac:2"), "alpha"),
        ((TINY, "--backbone", "resnet-19"), "resnet"),
        ((TINY, "--device", "gpu"), "device: expected auto, cpu or cuda"),
        ((TINY, "--resume"), "holds no run to resume"),
        (("--resume",), "--resume: expected --out"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_and_nothing_is_written(run, tmp_path, arguments, sentence):
    outcome = run("train", *arguments)
    assert outcome.code == 1
    last = outcome.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert sentence in last
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("classes", "rows", "sentence"),
    [(("ash",), 5, "expected at least two classes"), (("ash", "elm"), 0, "without a picture"), ((), 0, "no folder below it")],
)
def test_a_folder_that_cannot_be_trained_on_is_refused(run, tmp_path, classes, rows, sentence):
    (tmp_path / "leaves").mkdir()
    leaves(tmp_path / "leaves", classes, rows)
    outcome = run("train", "leaves", *QUICK)
    assert outcome.code == 1
    assert sentence in outcome.err
    assert not (tmp_path / "runs").exists()


def test_recipes_are_listed_and_shown(run):
    listed = run("recipes").out
    assert all(recipe.name in listed for recipe in all_recipes())
    shown = run("recipes", "cifar100-average5")
    assert "densenet-40-40" in shown.out
    assert "97.35" in shown.err
    record = json.loads(run("recipes", "cifar100-average5", "--json").out)
    assert record["expected"]["average-5"] == 97.35
    assert len(json.loads(run("recipes", "--json").out)) == len(all_recipes())


def test_tuning_records_every_trial_and_goes_on(run, tmp_path):
    arguments = ("tune", TINY, "-k", 2, "--grid", "alpha=0.1,1", "--set", "backbone=plain-8", "--set", "epochs=1")
    outcome = run(*arguments, "--out", "search")
    assert outcome.code == 0
    assert "best on validation: alpha" in outcome.err
    assert len((tmp_path / "search" / "trials.jsonl").read_text().splitlines()) == 2
    again = run(*arguments, "--out", "search", "--resume", "--json")
    assert len(json.loads(again.out)) == 2
    assert run(*arguments, "--out", "search").code == 1


def test_a_run_is_evaluated_by_its_own_rule_on_its_own_rows(run, here):
    numbers = json.loads(run("evaluate", here, "--json").out)[0]
    assert numbers["rule"] == "average-k:2"
    assert numbers["rows"] == 40
    assert numbers["name"] == "tiny"


def test_a_run_brings_rows_for_another_rule(run, here):
    both = json.loads(run("evaluate", here, "--rule", "lac:0.2", "--rule", "top-k:3", "--json").out)
    assert [one["rule"] for one in both] == ["lac:0.2", "top-k:3"]
    assert both[1]["size"] == 3


def test_a_file_of_scores_still_needs_a_rule(fails, here):
    assert "expected --rule" in fails("evaluate", here / "test.safetensors")


def test_the_report_of_a_run_has_its_curves_and_its_optimum(run, here, tmp_path):
    assert run("report", here, "--out", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Training" in page
    assert "best" in page.lower()


def test_two_runs_are_compared(run, here, tmp_path):
    shutil.copytree(here, tmp_path / "other")
    assert run("report", here, "other", "--out", "page.html").code == 0
    table = run("evaluate", here, "other").out
    assert "tiny" in table
    assert "other" in table


def test_sets_of_a_run(run, here):
    assert len(run("sets", here, "--json").out.splitlines()) == 40


def test_a_run_that_has_not_ended_says_so(fails, here):
    (here / "test.safetensors").unlink()
    assert "the run has not ended (test.safetensors is missing)" in fails("evaluate", here)


def test_a_classifier_gets_another_rule_and_another_link(run, here, tmp_path):
    outcome = run("calibrate", here, "--out", "new", "--rule", "lac:0.2", "--method", "platt")
    assert outcome.code == 0
    classifier = Classifier.load(tmp_path / "new")
    assert classifier.rule.text == "lac:0.2"
    assert classifier.link.kind == "platt"
    old = Classifier.load(here / "classifier")
    assert torch.equal(old.network.state_dict()["head.labels.weight"], classifier.network.state_dict()["head.labels.weight"])


def test_a_classifier_is_calibrated_on_scores_of_its_own(run, here, tmp_path):
    assert run("predict", here, TINY, "--out", "scores.safetensors").code == 0
    assert Predictions.load(tmp_path / "scores.safetensors").target is not None
    assert (
        run("calibrate", here / "classifier", "--on", "scores.safetensors", "--out", "new", "--method", "temperature").code == 0
    )
    assert Classifier.load(tmp_path / "new").rule.calibrated.rows == 20
    assert run("calibrate", "new", "--out", "newer", "--rule", "top-k:2").code == 0
    assert Classifier.load(tmp_path / "newer").rule.text == "top-k:2"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--out", "new", "--method", "plat"), "did you mean 'platt'?"),
        (("--out", "tiny/classifier", "--rule", "lac:0.1"), "expected another folder than the classifier's own"),
    ],
)
def test_calibrating_a_classifier_wrongly(run, here, arguments, sentence):
    outcome = run("calibrate", here, *arguments)
    assert outcome.code == 1
    assert sentence in outcome.err


def test_calibrating_a_classifier_without_rows(fails, here):
    assert "--on: expected labelled scores of this classifier" in fails("calibrate", here / "classifier", "--out", "new")


def test_the_demo_of_scores_needs_no_training(run, tmp_path):
    pytest.importorskip("sklearn")
    assert run("demo", "--scores", "--out", "demo").code == 0
    assert (tmp_path / "demo" / "report.html").exists()


def test_the_demo_trains_reports_and_can_be_asked_again(run, tmp_path, monkeypatch):
    import shortlist.recipes as recipes

    small = recipes.find_recipe("flora-minutes").with_settings(
        data=TINY, backbone="plain-8", rule="average-k:2", batch_size=16, epochs=2
    )
    monkeypatch.setattr(recipes, "find_recipe", lambda name: small.with_settings(epoch_rows=48))
    for _ in range(2):
        outcome = run("demo", "--out", "demo")
        assert outcome.code == 0
        assert "points away" in outcome.err
    assert (tmp_path / "demo" / "report.html").exists()


def test_k_reaches_the_method_the_rule_and_the_metric():
    from shortlist.cli.train import resolve

    recipe = resolve("somewhere", "cifar100-average5", {"k": 3.0}, [], None, False)
    assert (recipe.parameters["k"], recipe.rule, recipe.monitor) == (3, "average-k:3", None)
