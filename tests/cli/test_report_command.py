"""``shortlist report`` on runs and files: pictures, facts, comparisons."""

import re
import shutil
from dataclasses import replace

import pytest
import torch

import shortlist
from shortlist import Predictions, Run
from shortlist.runs.facts import short_source
from tests.cli.conftest import draw
from tests.cli.test_train_command import leaves

SETTINGS = {"device": "cpu", "backbone": "plain-8", "epochs": 1, "rule": "lac:0.2", "method": "cross-entropy"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two runs on a folder of pictures, and the folder."""
    folder = tmp_path_factory.mktemp("work")
    leaves(folder / "leaves", rows=40)
    for name, size in (("small", 8), ("large", 16)):
        shortlist.train(str(folder / "leaves"), folder=folder / name, size=size, batch_size=16, **SETTINGS)
    return folder


def embedded(page):
    return re.findall(r'<img src="data:image/jpeg;base64,[^"]+"', page)


def test_training_writes_a_report_with_pictures_and_facts(trained):
    page = (trained / "small" / "report.html").read_text()
    assert len(embedded(page)) > 5
    facts = dict(re.findall(r"<li><span>(.*?)</span> (.*?)</li>", page))
    assert facts["data"] == "leaves"
    assert facts["backbone"] == "plain-8"
    assert facts["size"] == "8 pixels"
    assert facts["epochs"] == "1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["trained"])
    assert "torch" in facts["with"]
    assert str(trained) not in page  # nobody else's business
    assert Run(trained / "small").facts.items() <= {**facts, "method": "cross-entropy"}.items()


def test_the_report_is_written_again_with_its_pictures_or_without(run, trained, tmp_path):
    here = shutil.copytree(trained / "small", tmp_path / "small")
    assert run("report", here, "--out", "page.html").code == 0
    assert (tmp_path / "page.html").read_text() == (here / "report.html").read_text()
    assert "of these rows were compared with the calibration rows" in (here / "report.html").read_text()
    assert run("report", here, "--out", "bare.html", "--no-pictures").code == 0
    assert not embedded((tmp_path / "bare.html").read_text())
    assert run("report", here, "--out", "tiny.html", "--picture-mb", "0.005").code == 0
    page = (tmp_path / "tiny.html").read_text()
    assert 0 < sum(map(len, embedded(page))) < 5200
    assert "pictures were left out: the page holds up to 0.005 MB" in page


def test_a_run_whose_data_have_moved_says_so_and_takes_others(run, trained, tmp_path):
    here = shutil.copytree(trained / "small", tmp_path / "small")
    text = (here / "recipe.json").read_text()
    (here / "recipe.json").write_text(text.replace(str(trained / "leaves"), "gone"))
    assert run("report", here, "--out", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert not embedded(page)
    assert "Pictures are left out, because the data of the run were not found here" in page
    assert run("report", here, "--out", "page.html", "--pictures", trained / "leaves").code == 0
    assert embedded((tmp_path / "page.html").read_text())


def test_two_runs_are_compared_on_the_same_rows(run, trained, tmp_path):
    assert run("report", trained / "small", trained / "large", "--out", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "large less small" in page
    differing = re.search(r"<th>what differs</th>.*?</table>", page).group()
    assert "8 pixels" in differing
    assert "16 pixels" in differing
    assert "plain-8" not in differing
    assert "plain-8" in page
    assert embedded(page)
    assert "What the calibration rows can promise" in page


def test_scores_find_their_pictures_by_id(run, fails, trained, tmp_path):
    predictions = Run(trained / "small").predictions("test")
    predictions.save(tmp_path / "scores.npz")
    arguments = ("report", "scores.npz", "--rule", "top-k:1")
    assert run(*arguments, "--out", "page.html", "--pictures", trained / "leaves").code == 0
    assert embedded((tmp_path / "page.html").read_text())
    assert run(*arguments, "--out", "page.html").code == 0
    assert not embedded((tmp_path / "page.html").read_text())
    Predictions(predictions.scores, predictions.target, predictions.classes, "softmax").save(tmp_path / "scores.npz")
    sentence = fails(*arguments, "--pictures", trained / "leaves")
    assert "--pictures: " in sentence
    assert "has no picture with the id of a row of scores" in sentence


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--pictures", "gone"), "--pictures: "),
        (("--pictures", "gone", "--no-pictures"), "expected --pictures or --no-pictures, got both"),
        (("--picture-mb", "-1"), "--picture-mb: .*got -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(fails, trained, more, words):
    assert re.search(words, fails("report", trained / "small", "--out", "page.html", *more))


def test_the_source_of_the_data_is_named_without_the_folders_above():
    assert short_source("/home/me/birds") == "birds"
    assert short_source("table:/home/me/rows.csv,target=y") == "table:rows.csv,target=y"
    assert short_source("flora") == "flora"


def test_rows_that_are_like_the_calibration_rows_are_a_remark_and_others_a_warning(run, old, new, tmp_path):
    odd = tmp_path / "odd.safetensors"
    draw(seed=2, sharpness=0.5).save(odd)
    wanted = ("--rule", "lac:0.2", "--calibration", old, "--out", "page.html", "--strict")
    calm, page = run("report", new, *wanted), (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (calm.code, "nothing differs" in page, 'class="warning"' in page) == (0, True, False)
    changed, page = run("report", odd, *wanted), (tmp_path / "page.html").read_text(encoding="utf-8")
    assert changed.code == 3
    (warning,) = [part for part in page.split('<p class="warning"')[1:] if "are not like the calibration rows" in part]
    assert "fit the rule on 1,537 labelled rows like them" in warning
    assert page.index("are not like the calibration rows") < page.index("<h2")
    assert page.count("are not like the calibration rows") == 1
    assert "are not like the calibration rows" in " ".join(changed.err.split())


def test_rows_that_a_watch_does_not_take_are_a_remark_that_says_why(run, tmp_path):
    for name, seed in (("old", 1), ("new", 2)):
        rows = draw(seed=seed)
        marks = torch.nn.functional.one_hot(rows.target, rows.num_classes).bool() & (torch.arange(len(rows)) % 5 > 0)[:, None]
        replace(rows, target=marks).save(tmp_path / f"{name}.safetensors")
    wanted = ("--rule", "lac:0.2,gate:0.5", "--calibration", tmp_path / "old.safetensors", "--out", "page.html")
    assert run("report", tmp_path / "new.safetensors", *wanted).code == 0
    remark = (tmp_path / "page.html").read_text(encoding="utf-8").partition("were not compared with the calibration rows")[2]
    assert "gate" in remark[:200]
