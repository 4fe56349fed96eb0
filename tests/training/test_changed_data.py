"""A run is continued, calibrated and measured only with what belongs to it."""

import json
import shutil

import pytest
import torch

import shortlist as sl
from shortlist.data import Dataset, Split
from shortlist.errors import InputError
from shortlist.recipes import tune
from shortlist.training.run_folder import RunFolder
from tests.training.small import dataset, recipe, run
from tests.training.test_resume import CutAfter, PowerCut


def table(rows=120, *, before=0, relabelled=0, ids=True, classes=("ash", "elm", "oak")):
    """Features without splits, which training draws: rows put before the others change them all."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, 4, generator=generator)
    target = features[:, :3].argmax(1)
    target[:relabelled] = (target[:relabelled] + 1) % 3
    features = torch.cat([torch.full((before, 4), 9.0) + torch.arange(before)[:, None], features])
    target = torch.cat([torch.zeros(before, dtype=torch.int64), target])
    names = [f"new {n}" for n in range(before)] + [f"row {n}" for n in range(rows)]
    split = Split(features, target, names if ids else [str(n) for n in range(rows + before)])
    return Dataset("table", list(classes), {"all": split})


def settings():
    from shortlist.recipes import find_recipe

    return {"backbone": find_recipe("table").backbone, "size": None}


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """A run on the table that was cut in the middle."""
    folder = tmp_path_factory.mktemp("cut") / "run"
    with pytest.raises(PowerCut):
        run(folder, table(), callback=CutAfter(5), **settings())
    return folder


CHANGED = {
    "rows put before": (lambda: table(before=12), r"12 rows were added, \d+ rows moved between splits"),
    "rows without ids put before": (lambda: table(before=12, ids=False), r"12 rows were added, \d+ rows moved between splits"),
    "rows removed": (lambda: table(100), r"20 rows were removed"),
    "labels": (lambda: table(relabelled=3), r"3 rows were relabelled"),
    "names of classes": (lambda: table(classes=("ash", "elm", "yew")), r"1 class \('yew'\) was added, 1 class \('oak'\) was"),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_a_run_is_not_resumed_on_other_data(tmp_path, cut, kind):
    folder = shutil.copytree(cut, tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    data, words = CHANGED[kind]
    with pytest.raises(InputError, match=rf"^{folder}: the data are not those that this run began with \({words}"):
        run(folder, data(), resume=True, **settings())
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_the_same_data_read_again_are_the_same(tmp_path, cut):
    folder = shutil.copytree(cut, tmp_path / "run")
    assert run(folder, table(), resume=True, **settings()).history[-1]["epoch"] == 2


def test_a_run_whose_rows_are_lost_is_still_not_resumed_on_other_data(tmp_path, cut):
    folder = shutil.copytree(cut, tmp_path / "run")
    (folder / "rows.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"not those that this run began with: restore them"):
        run(folder, table(before=1), resume=True, **settings())


@pytest.mark.parametrize("record", [3, [], {}, {"digest": 3}, None])
def test_a_damaged_record_of_the_data_is_not_taken_for_a_new_run(tmp_path, cut, record):
    folder = shutil.copytree(cut, tmp_path / "run")
    written = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps(written | {"data": record}))
    with pytest.raises(InputError, match="not those that this run began with"):
        run(folder, table(), resume=True, **settings())


def test_a_checkpoint_of_other_data_is_refused(tmp_path, cut):
    folder = shutil.copytree(cut, tmp_path / "run")
    with pytest.raises(PowerCut):
        run(tmp_path / "other", table(relabelled=1), callback=CutAfter(5), **settings())
    shutil.copy(tmp_path / "other" / "checkpoint.safetensors", folder)
    with pytest.raises(InputError, match="another training: it was trained on other data"):
        run(folder, table(), resume=True, **settings())


def test_a_run_that_died_while_it_read_the_data_takes_those_that_are_there(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.write_recipe(recipe(**settings()))
    run(folder.path, table(), resume=True, **settings())
    with pytest.raises(InputError, match="3 rows were relabelled"):
        run(folder.path, table(relabelled=3), resume=True, **settings())


def test_picture_files_that_changed_on_disk_are_noticed(tmp_path):
    from PIL import Image

    for name in ("elm", "oak"):
        (tmp_path / "trees" / name).mkdir(parents=True)
        for number in range(20):
            Image.new("RGB", (8, 8), (number, 9, 90)).save(tmp_path / "trees" / name / f"{number}.png")
    how = {"folder": tmp_path / "run", "k": 1, "epochs": 1, "backbone": "plain-8", "device": "cpu", "report": False}
    sl.train(tmp_path / "trees", **how)
    sl.train(folder=tmp_path / "run", resume=True, device="cpu", report=False)
    (tmp_path / "trees" / "elm" / "3.png").rename(tmp_path / "trees" / "oak" / "33.png")
    with pytest.raises(InputError, match=r"1 row was added, 1 row was removed"):
        sl.train(folder=tmp_path / "run", resume=True, device="cpu", report=False)


GRID = {"lr": (0.05, 0.1)}


def test_a_search_is_not_resumed_on_other_data(tmp_path):
    how = {"grid": GRID, "device": "cpu"}
    tune(recipe(epochs=1, **settings()), tmp_path / "search", dataset=table(), **how)
    for data, words in CHANGED.values():
        with pytest.raises(InputError, match=rf"not those that this search began with \({words.partition(',')[0]}"):
            tune(recipe(epochs=1, **settings()), tmp_path / "search", dataset=data(), resume=True, **how)
    again = tune(recipe(epochs=1, **settings()), tmp_path / "search", dataset=table(), resume=True, **how)
    assert [trial.failed for trial in again.trials] == [None, None]


def test_a_search_that_began_before_its_data_were_read_takes_those_that_are_there(tmp_path):
    from shortlist.recipes.tuning import TUNING

    how = {"grid": GRID, "device": "cpu"}
    tune(recipe(epochs=1, **settings()), tmp_path / "search", dataset=table(), **how)
    written = json.loads((tmp_path / "search" / TUNING).read_text())
    del written["data"]
    (tmp_path / "search" / TUNING).write_text(json.dumps(written))
    with pytest.raises(InputError, match="not those that this search began with"):  # its trials were trained on something
        tune(recipe(epochs=1, **settings()), tmp_path / "search", dataset=table(), resume=True, **how)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two runs of the same classes on other data."""
    place = tmp_path_factory.mktemp("finished")
    for name, data in (("one", dataset()), ("two", dataset(70))):
        run(place / name, data, epochs=1)
    return place


@pytest.mark.parametrize("part", ["test.safetensors", "val.safetensors", "calibration.safetensors", "classifier"])
def test_results_of_another_run_are_not_taken_for_this_one_s(tmp_path, finished, part):
    folder = shutil.copytree(finished / "one", tmp_path / "one")
    if part == "classifier":
        shutil.rmtree(folder / part)
        shutil.copytree(finished / "two" / part, folder / part)
    else:
        shutil.copy(finished / "two" / part, folder / part)
    found = sl.runs.Run(folder)
    ask = {
        "classifier": lambda: found.classifier,
        "test.safetensors": found.report,
        "val.safetensors": lambda: found.predictions("val"),
        "calibration.safetensors": lambda: found.calibration_path,
    }[part]
    with pytest.raises(InputError, match=rf"{folder / part} is not the file that this run wrote"):
        ask()
    run(folder, resume=True, epochs=1)  # writes them again
    found.report()
    assert found.classifier.classes == tuple(dataset().classes)


def test_a_model_card_may_be_edited(tmp_path, finished):
    folder = shutil.copytree(finished / "one", tmp_path / "one")
    (folder / "classifier" / "README.md").write_text("mine")
    assert sl.runs.Run(folder).evaluate().coverage is not None
