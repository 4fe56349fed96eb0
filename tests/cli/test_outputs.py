"""What commands read is never overwritten: by whatever name, whichever folder it is in, whichever command writes."""

import os
from pathlib import Path

import numpy as np
import pytest

from shortlist.cli.outputs import check_outputs, named_paths
from shortlist.errors import InputError
from shortlist.predictions import ShardedWriter
from tests.cli.conftest import draw
from tests.cli.test_unwritable import snapshot
from tests.data.drawings import write_picture
from tests.models.classifiers import fitted, of_features, of_pictures
from tests.retrieval.small import predictions


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "below").mkdir(parents=True)
    for name in ("data/labels.csv", "data/below/labels.csv", "other.csv"):
        (tmp_path / name).write_text(name)
    return tmp_path


def linked(path, target, folder=False):
    path.symlink_to(target, target_is_directory=folder)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "data/labels.csv",
        "data/below/labels.csv",
        "./data/../data/labels.csv",
        "link/labels.csv",
        "link.csv",
        "other.csv",  # a link in the folder leads to it
        "far/deep/labels.csv",  # in a folder that a link in the folder leads to
    ],
)
def test_a_file_that_exists_in_a_folder_that_is_read_is_not_an_output(here, name):
    linked(here / "link", here / "data", folder=True)
    linked(here / "link.csv", here / "data" / "below" / "labels.csv")
    linked(here / "data" / "below" / "inner.csv", here / "other.csv")
    linked(here / "data" / "round", here / "data", folder=True)
    (here / "far" / "deep").mkdir(parents=True)
    (here / "far" / "deep" / "labels.csv").write_text("far")
    linked(here / "data" / "far", here / "far", folder=True)
    for read in ("data", "link", "data/../data", "."):
        with pytest.raises(InputError, match="which this command reads, and would be overwritten"):
            check_outputs([Path(name)], [Path(read)])


def test_new_files_in_such_a_folder_and_files_elsewhere_are_outputs(here):
    linked(here / "data" / "nowhere", here / "nothing")
    check_outputs([Path("data/new.csv"), Path("other.csv"), Path("elsewhere/labels.csv")], [Path("data"), Path("none"), None])


def test_an_input_is_not_an_output_by_another_name(here):
    os.link(here / "other.csv", here / "hard.csv")
    linked(here / "soft.csv", here / "other.csv")
    for name in ("other.csv", "data/../other.csv", "hard.csv", "soft.csv"):
        with pytest.raises(InputError, match="is read by this command and would be overwritten"):
            check_outputs([Path(name)], [Path("other.csv")])


def test_two_outputs_are_two_files_whatever_their_names(here):
    linked(here / "link", here / "data", folder=True)
    for second in ("data/new.csv", "data/below/../new.csv", "link/new.csv", "data/New.csv"):
        with pytest.raises(InputError, match="different names"):
            check_outputs([Path("data/new.csv"), None, Path(second)], [])
    check_outputs([Path("data/new.csv"), Path("new.csv")], [])


def test_the_report_of_a_run_may_be_written_again_and_no_other_file(here):
    (here / "data" / "recipe.json").write_text("{}")
    for name in ("report.html", "own.html"):
        (here / "data" / name).write_text(name)
    check_outputs([Path("data/report.html")], [Path("data")])
    for name in ("own.html", "recipe.json"):
        with pytest.raises(InputError, match=name):
            check_outputs([Path("data") / name], [Path("data")])


def test_a_case_that_the_disk_ignores_is_ignored(here, monkeypatch):
    monkeypatch.setattr(Path, "samefile", lambda one, other: str(one.resolve()).lower() == str(Path(other).resolve()).lower())
    (here / "DATA").mkdir()
    (here / "DATA" / "labels.csv").write_text("as on a disk that ignores case")
    with pytest.raises(InputError, match="would be overwritten"):
        check_outputs([Path("DATA/labels.csv")], [Path("data")])


def test_the_paths_that_the_text_of_a_dataset_names():
    assert Path("b") in named_paths(["benchmark:b,pictures_root=p"])
    assert Path("p") in named_paths(["benchmark:b,pictures_root=p"])
    assert named_paths([""]) == []


@pytest.fixture
def made(tmp_path):
    """What the commands read, each kind in a folder with a file that its command would overwrite."""
    draw(60, seed=0).save(tmp_path / "old.npz")
    draw(60, seed=1).save(tmp_path / "new.npz")
    folders = {"pictures": of_pictures(), "features": of_features()}
    for name, classifier in folders.items():
        fitted(classifier, "lac:0.3").save(tmp_path / name)
        for other in ("mine.onnx", "mine.csv", "mine.html"):
            (tmp_path / name / other).write_text("mine")
    for number in range(20):
        write_picture(tmp_path / "archive" / ("ash", "oak")[number % 2] / f"{number}.png", (12 * number, 9, 9 * number % 256))
    for name in ("archive/mine.csv", "archive/mine.html", "archive/mine.png"):
        (tmp_path / name).write_text("mine")
    np.savez(tmp_path / "rows.npz", X=np.zeros((4, 3)))
    return tmp_path


COMMANDS = {
    "predict": ("predict", "pictures", "benchmark:built", "--out", "built/manifest.csv"),
    "predict a page": ("predict", "pictures", "archive", "--html", "archive/mine.html"),
    "predict pictures": ("predict", "pictures", "archive", "--out", "archive/mine.csv"),
    "predict in the classifier": ("predict", "features", "rows.npz", "--out", "features/mine.csv"),
    "export": ("export", "features", "--out", "features/mine.onnx"),
    "data sheet": ("data", "sheet", "folders:archive", "--out", "archive/mine.png"),
    "report": ("report", "new.npz", "-r", "top-k:1", "--pictures", "folders:archive", "--out", "archive/mine.html"),
    "search": ("search", "fork", "index", "--html", "index/mine.html"),
    "demo": ("demo", "--scores", "--out", "demo"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_overwrites_a_file_in_a_folder_that_it_reads(name, made, run, fails):
    if name == "predict":
        assert run("data", "build", "archive", "built", "--pictures", "copy").code == 0
    if name == "search":
        predictions(20).save(made / "many.safetensors")
        assert run("index", "build", "many.safetensors", "index").code == 0
        (made / "index" / "mine.html").write_text("mine")
    if name == "demo":
        (made / "demo").mkdir()
        draw(9).save(made / "demo" / "test.safetensors")
    before = snapshot(made)
    assert "would be overwritten" in fails(*COMMANDS[name])
    assert snapshot(made) == before


def test_a_demo_may_be_repeated(made, run):
    for _ in range(2):
        assert run("demo", "--scores", "--out", "demo").code == 0


@pytest.mark.parametrize("name", ["part-00000.parquet", "part-9.parquet", "manifest.json", "problems.parquet"])
def test_parts_of_a_folder_are_never_outputs_of_another_command(tmp_path, name):
    whole = predictions(4, seed=0)
    with ShardedWriter(tmp_path / "scores", whole, ["all"]) as writer:
        writer.write(0, whole)
        writer.finish()
    with pytest.raises(InputError, match=f"{name} is part of the scores"):
        check_outputs([tmp_path / "scores" / name], [])
    check_outputs([tmp_path / "scores" / "report.html", tmp_path / name], [])


def test_a_link_in_a_circle_is_no_output_and_hides_none(here):
    """Python 3.11 raises a RuntimeError for it, and below a folder it must not end the search for other links."""
    linked(here / "round.csv", "round.csv")
    for name in ("round.csv", "round.csv/new.csv", "missing/../round.csv"):
        with pytest.raises(InputError, match=rf"{name}: its links lead in a circle"):
            check_outputs([Path(name)], [])
    for name in ("a", "z"):
        linked(here / "data" / name, name)
    linked(here / "data" / "inner.csv", here / "other.csv")
    with pytest.raises(InputError, match="which this command reads, and would be overwritten"):
        check_outputs([Path("other.csv")], [Path("data")])
