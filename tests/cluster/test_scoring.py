"""Scores in parts are those of one process, byte for byte, whoever dies at whatever moment: no row is lost, none is doubled."""

import random
import shutil
from contextlib import nullcontext

import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions, cluster
from shortlist.cluster import Pool
from shortlist.data import PictureFiles, Split
from shortlist.errors import InputError
from shortlist.runs.part_scoring import Saved, score_parts
from tests.cli.conftest import fails, run
from tests.cluster.stand_in import StandIn
from tests.models.classifiers import image, of_features, of_pictures

__all__ = ["fails", "run"]


class Killed(BaseException):
    """The process that hands out the work is gone."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Classifiers, and twenty pictures of which two cannot be read."""
    folder = tmp_path_factory.mktemp("scoring")
    of_features().save(folder / "features")
    of_pictures("plain-8", size=16).save(folder / "pictures")
    (folder / "leaves").mkdir()
    for number in range(20):
        image(20 + number % 3, 30, seed=number).save(folder / "leaves" / f"{number:02}.png")
    for number in (4, 11):
        (folder / "leaves" / f"{number:02}.png").write_bytes(b"no picture")
    return folder


def table(n=61, seed=0):
    classifier = of_features()
    inputs = torch.randn(n, classifier.inputs.size, generator=torch.Generator().manual_seed(seed))
    target = torch.arange(n) % len(classifier.classes)
    return Split(inputs, target, [f"row {number}" for number in range(n)], classes=classifier.classes)


def leaves(place):
    return Split(
        PictureFiles(place / "leaves", [f"{number:02}.png" for number in range(20)]), None, [f"{n:02}" for n in range(20)]
    )


def content(folder):
    assert not (folder / "writing").exists()
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_parts_hold_the_scores_of_the_classifier(place, tmp_path):
    rows, model = table(), Saved(place / "features", "cpu")
    done = score_parts(tmp_path / "scores", model, rows, batch_size=5, rows_per_part=10)
    found = Predictions.load(tmp_path / "scores")
    assert (done.rows, done.problems, len(list((tmp_path / "scores").glob("part-*.parquet")))) == (61, [], 7)
    whole = model.load().predictions(rows, batch_size=5)
    assert torch.equal(found.scores, whole.scores)
    assert torch.equal(found.target, rows.target)
    assert list(found.ids) == rows.ids
    assert (found.classes, repr(found.link), found.network_digest) == (whole.classes, repr(whole.link), whole.network_digest)


@pytest.mark.parametrize("seed", range(20))
def test_workers_and_the_process_that_hands_out_may_die_at_any_moment(place, tmp_path, seed):
    rows, model, draws = table(), Saved(place / "features", "cpu"), random.Random(seed)
    how = {"batch_size": 5, "rows_per_part": 5}
    score_parts(tmp_path / "calm", model, rows, **how)
    for _ in range(3):  # each of which is killed
        left = draws.randrange(5)

        def stop(done, left=left):
            if done >= 5 * left:  # of thirteen parts
                raise Killed

        with pytest.raises(Killed):
            score_parts(
                tmp_path / "scores", model, rows, **how, each=Pool(StandIn(draws.random(), deaths=0.2)).each, progress=stop
            )
    ray = StandIn(seed, deaths=0.2)
    assert score_parts(tmp_path / "scores", model, rows, **how, each=Pool(ray).each).problems == []
    assert content(tmp_path / "scores") == content(tmp_path / "calm")


def test_what_is_written_is_not_computed_again(place, tmp_path, monkeypatch):
    rows, model = table(), Saved(place / "features", "cpu")
    assert score_parts(tmp_path / "scores", model, rows, batch_size=5).rows == 61
    monkeypatch.setattr("shortlist.runs.part_scoring.Scoring.__call__", None)
    assert score_parts(tmp_path / "scores", model, rows, batch_size=5).rows == 0


def test_pictures_that_cannot_be_read_are_listed_and_the_others_are_there(place, tmp_path):
    rows, model = leaves(place), Saved(place / "pictures", "cpu")
    done = score_parts(tmp_path / "scores", model, rows, batch_size=3, rows_per_part=6)
    assert done.rows == 18
    assert [problem.kind for problem in done.problems] == ["unreadable picture"] * 2
    listed = pq.read_table(tmp_path / "scores" / "problems.parquet").to_pylist()
    assert [(one["part"], one["id"]) for one in listed] == [(0, "04.png"), (1, "11.png")]
    found = Predictions.load(tmp_path / "scores")
    assert list(found.ids) == [f"{n:02}" for n in range(20) if n not in (4, 11)]
    ray = StandIn(1, deaths=0.3)
    score_parts(tmp_path / "again", model, rows, batch_size=3, rows_per_part=6, each=Pool(ray).each)
    assert content(tmp_path / "again") == content(tmp_path / "scores")


def test_workers_go_on_with_what_one_process_began(run, place, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(StandIn(deaths=0.1))))
    command = ("predict", place / "pictures", place / "leaves", "--device", "cpu", "--rows-per-part", 4, "--out")
    for folder in ("scores", "calm"):
        assert run(*command, folder).code == 0
    for number in (1, 3):
        (tmp_path / "scores" / f"part-{number:05}.parquet").unlink()
    assert "3 of 5 parts are there already" in run(*command, "scores", "--engine", "ray").err
    assert content(tmp_path / "scores") == content(tmp_path / "calm")


def test_a_picture_that_was_replaced_is_noticed(fails, run, place, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(StandIn())))
    copied = tmp_path / "leaves"
    shutil.copytree(place / "leaves", copied)
    command = ("predict", place / "pictures", copied, "--device", "cpu", "--rows-per-part", 4, "--engine", "ray", "--out")
    assert run(*command, "scores").code == 0
    shutil.copy(copied / "06.png", copied / "05.png")
    assert "the rows of part-00001.parquet have changed" in fails(*command, "scores")


def test_other_rows_and_another_classifier_are_refused(place, tmp_path):
    rows, model = table(), Saved(place / "features", "cpu")
    score_parts(tmp_path / "scores", model, rows, batch_size=5)
    for other in (table(seed=1), table(n=60)):
        with pytest.raises(InputError, match="the rows of part-00000.parquet have changed"):
            score_parts(tmp_path / "scores", model, other, batch_size=5)
    with pytest.raises(InputError, match="batch size '5', got '6'"):
        score_parts(tmp_path / "scores", model, rows, batch_size=6, rows_per_part=16385)
    with pytest.raises(InputError, match="rows: expected some, got none"):
        score_parts(tmp_path / "none", model, rows.rows(torch.arange(0)))


def test_labels_that_the_classifier_does_not_know_are_left_out(place, tmp_path):
    rows, known = table(n=9), torch.arange(9) % 4 > 0
    done = score_parts(tmp_path / "scores", Saved(place / "features", "cpu"), rows, known=known, batch_size=5)
    assert done.rows == 6
    assert [problem.where for problem in done.problems] == ["row 0", "row 4", "row 8"]
    assert list(Predictions.load(tmp_path / "scores").ids) == [rows.ids[n] for n in known.nonzero()[:, 0].tolist()]


def test_the_command_writes_a_folder_that_others_read(run, fails, place, tmp_path, monkeypatch):
    def pool(*_, **__):
        return nullcontext(Pool(StandIn(deaths=0.1)))

    monkeypatch.setattr(cluster, "pool", pool)
    command = ("predict", place / "pictures", place / "leaves", "--device", "cpu", "--batch-size", 4, "--out")
    outcome = run(*command, "scores", "--engine", "ray")
    assert outcome.code == 0, outcome.err
    assert "18 rows of scores" in outcome.err
    assert "skipped 2 of the 20 pictures, which could not be read" in outcome.err
    assert run(*command, "one.safetensors").code == 0
    found, whole = Predictions.load(tmp_path / "scores"), Predictions.load(tmp_path / "one.safetensors")
    assert torch.equal(found.scores, whole.scores)
    assert list(found.ids) == list(whole.ids)
    assert "all parts are there already, 18 rows" in run(*command, "scores", "--engine", "ray").err
    assert fails(*command, "scores.parquet", "--engine", "ray").startswith("--engine ray: expected --out FOLDER")


def test_a_cluster_with_gpus_wants_to_know_whether_they_are_used(fails, place, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(StandIn(machines=[(3, 1)]))))
    command = ("predict", place / "pictures", place / "leaves", "--engine", "ray", "--out", tmp_path / "scores")
    assert fails(*command).startswith("--device: the cluster has GPUs: expected cuda")
    assert not (tmp_path / "scores").exists()
