"""Run: what a finished training left in its folder."""

import json
import shutil

import pytest
import torch

import shortlist
from shortlist import Run
from shortlist.errors import InputError
from shortlist.report import evaluate
from shortlist.sets import top_k
from tests.training.small import dataset

FLORA = "flora:species=6,genera=2,train=120,val=60,test=40,size=8"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run on generated pictures, whose optimum is known."""
    folder = tmp_path_factory.mktemp("runs") / "leaves"
    shortlist.train(FLORA, folder=folder, device="cpu", k=2, backbone="plain-8", epochs=2, batch_size=12)
    return folder


def test_everything_is_read_from_the_folder(finished):
    run = Run(finished)
    assert run.recipe.data == FLORA
    assert [line["epoch"] for line in run.history] == [1, 2]
    assert run.splits == ["val", "calibration", "test"]
    assert len(run.predictions("test")) == 40
    assert len(run.predictions("val")) + len(run.predictions("calibration")) == 60
    assert run.classifier is run.classifier
    assert run.rule.text == run.classifier.rule.text == "average-k:2"
    assert repr(run) == f"Run({str(finished)!r})"


def test_predictions_have_the_link_of_the_classifier(finished):
    run = Run(finished)
    assert run.predictions().link.fingerprint() == run.classifier.link.fingerprint()
    answers = run.classifier.predict(shortlist.data.open_dataset(FLORA).splits["test"])
    torch.testing.assert_close(answers.scores, run.predictions().scores, atol=1e-5, rtol=1e-4)
    assert list(answers.ids) == list(run.predictions().ids)


def test_a_run_is_evaluated_by_its_own_rule_or_by_another(finished):
    run = Run(finished)
    expected = evaluate(run.predictions(), rule=run.rule, name=run.recipe.name)
    assert repr(run.evaluate().numbers()) == repr(expected.numbers())  # as text, since some are NaN
    assert run.evaluate(shots=[5]).by_shots().index.tolist() == ["0-5", "6+"]
    other = run.evaluate("val", top_k(3))
    assert (other.rule_text, other.rows) == ("top-k:3", len(run.predictions("val")))


def test_the_distance_to_the_optimum(finished):
    run = Run(finished)
    posterior = shortlist.data.open_dataset(FLORA).splits["test"].posterior.double()
    best = posterior.flatten().sort(descending=True).values[: 2 * len(posterior)].sum() / len(posterior)
    assert run.optimum.rows == 40
    assert float(run.optimum.average_k[list(run.optimum.k).index(2)]) == pytest.approx(float(best), abs=1e-6)
    assert "with 2 labels on average" in run.distance_to_optimum().sentence(2)


def test_without_posteriors_there_is_no_optimum(tmp_path):
    run = shortlist.train(dataset(), folder=tmp_path, device="cpu", k=2, backbone="plain-8", epochs=1, report=False)
    assert run.optimum is None
    assert run.distance_to_optimum() is None


def test_the_report_is_written_beside_the_run_or_elsewhere(finished, tmp_path):
    run = Run(shutil.copytree(finished, tmp_path / "leaves"))
    before = run.report_path.read_text()
    run.report_path.unlink()
    assert run.report() == run.report_path
    assert run.report_path.read_text() == before
    assert run.report(tmp_path / "page.html") == tmp_path / "page.html"
    page = (tmp_path / "page.html").read_text()
    assert "Training" in page
    assert run.recipe.title in page


def test_remarks_of_the_training_are_kept(finished, tmp_path):
    run = Run(shutil.copytree(finished, tmp_path / "leaves"))
    kept = json.loads((run.classifier_path / "config.json").read_text())["about"]["remarks"]
    assert run.remarks == kept


def test_a_run_without_a_rule_says_so(finished, tmp_path):
    run = Run(shutil.copytree(finished, tmp_path / "leaves"))
    run.write_classifier(run.classifier.with_rule(None))
    with pytest.raises(InputError, match="classifier has no set rule"):
        Run(run.path).evaluate()
    assert Run(run.path).evaluate(rule=top_k(2)).rule_text == "top-k:2"


def test_a_folder_that_is_no_run_says_so(tmp_path):
    run = Run(tmp_path)
    for name in ("recipe", "classifier", "rule"):
        with pytest.raises(InputError, match=str(tmp_path)):
            getattr(run, name)
    with pytest.raises(InputError, match=str(tmp_path)):
        run.report()


def test_published_numbers_beside_those_of_a_run(tmp_path):
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (600, 3, 8, 8), generator=generator, dtype=torch.uint8)
    data = shortlist.data.as_dataset((pictures, torch.arange(600) % 100), name="CIFAR-100")
    settings = {"backbone": "plain-8", "epochs": 2, "milestones": "1", "batch_size": 100}
    run = shortlist.train(data, recipe="cifar100-top5", folder=tmp_path / "run", device="cpu", **settings)
    found = {row.quantity: row for row in run.comparison().rows}
    assert list(found) == ["top-5, val rows", "top-5", "top-1"]
    assert found["top-5"].measured == run.evaluate().coverage
    assert found["top-1"].measured == run.evaluate().numbers()["top1"]
    assert found["top-5, val rows"].measured in [line["metrics"]["top-5"] for line in run.history if line["best"]]
    page = run.report_path.read_text()
    assert "Beside the published numbers" in page
    assert "Garcin 2022, Table 4" in page
    assert "epochs 2 instead of 300" in page
    other = shortlist.train(
        data, recipe="cifar100-resnet18", folder=tmp_path / "other", device="cpu", compile=False, **settings
    )
    assert other.comparison() is None
    assert "published numbers" not in other.report_path.read_text()


def test_one_label_by_a_classifier_for_any_number(tmp_path):
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (200, 3, 8, 8), generator=generator, dtype=torch.uint8)
    data = shortlist.data.as_dataset((pictures, torch.arange(200) % 10), name="CIFAR-10")
    settings = {"backbone": "plain-8", "epochs": 2, "milestones": "1", "batch_size": 50, "size": 8}
    for changes in ({}, {"method": "bce"}, {"method": "cross-entropy", "labels": "as-given"}):
        folder = tmp_path / changes.get("method", "quasibinary")
        run = shortlist.train(data, recipe="cifar10-quasibinary", folder=folder, device="cpu", **settings, **changes)
        (row,) = run.comparison().rows
        predictions = run.predictions()
        labels = predictions.target if predictions.target.ndim == 1 else predictions.target.int().argmax(1)
        assert row.quantity == "top-1 error"
        assert row.measured == pytest.approx(float((predictions.scores.argmax(1) != labels).double().mean()))
