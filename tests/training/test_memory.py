"""The memory that is free decides how fast training is, never what is trained."""

import signal
import warnings

import pytest
import torch

import shortlist as sl
from shortlist.errors import ShortlistWarning
from shortlist.training import loaded_data
from shortlist.training.interruption import Interrupted
from tests.training.small import same
from tests.training.test_hard_conditions import QUICK, AtStep, photos

PLENTY, NONE = loaded_data._Limits(1e9, 1e9), loaded_data._Limits(0, 0)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Textured pictures, larger than training reads them, two of which cannot be read."""
    folder = photos(tmp_path_factory.mktemp("damaged") / "photos")
    for name in ("ash/3.png", "elm/8.png"):
        (folder / name).write_bytes(b"no picture")
    return folder


@pytest.fixture
def train(monkeypatch):
    """A function that trains with so much memory, in one process."""
    monkeypatch.setattr("shortlist.training.row_sources.cores_per_process", lambda: 0)

    def start(memory, data, folder, **settings):
        monkeypatch.setattr(loaded_data, "_limits", lambda *_: memory)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortlistWarning)
            return sl.train(data, folder=folder, report=False, **(QUICK | settings))

    return start


def weights(run):
    return run.classifier.network.state_dict()


@pytest.mark.parametrize("first", [PLENTY, NONE])
@pytest.mark.parametrize("settings", [
    {"augmentation": "crop-flip"},
    {"augmentation": "shift-flip", "method": "role", "k": 1},
])  # fmt: skip
def test_a_run_resumed_with_other_memory_ends_as_it_would_have(tmp_path, train, damaged, first, settings):
    whole = train(first, damaged, tmp_path / "whole", **settings)
    stops = AtStep(5, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted):
        train(first, damaged, tmp_path / "cut", callback=stops, **settings)
    again = train(NONE if first is PLENTY else PLENTY, damaged, tmp_path / "cut", resume=True, **settings)
    assert same(weights(whole), weights(again))
    assert whole.classifier.inputs == again.classifier.inputs
    assert torch.equal(whole.classifier.train_counts, again.classifier.train_counts)
    assert [line["step"] for line in whole.history] == [line["step"] for line in again.history]


def test_fresh_runs_end_alike_with_any_memory(tmp_path, train, damaged):
    near, streamed = (
        train(memory, damaged, tmp_path / str(number), augmentation="resized-crop-flip", test_fit="center")
        for number, memory in enumerate((PLENTY, NONE))
    )
    assert same(weights(near), weights(streamed))
    assert near.remarks == streamed.remarks
    for split in ("val", "test"):
        assert near.predictions(split).ids == streamed.predictions(split).ids
        assert torch.equal(near.predictions(split).scores, streamed.predictions(split).scores)


@pytest.mark.parametrize("memory", [PLENTY, NONE])
def test_pictures_left_out_are_a_warning_a_remark_and_part_of_the_report(tmp_path, monkeypatch, damaged, memory):
    monkeypatch.setattr(loaded_data, "_limits", lambda *_: memory)
    monkeypatch.setattr("shortlist.training.row_sources.cores_per_process", lambda: 0)
    with pytest.warns(ShortlistWarning, match=r"2 unreadable pictures .*3\.png: "):
        run = sl.train(damaged, folder=tmp_path / "run", **QUICK)
    assert sum("2 unreadable pictures" in remark for remark in run.remarks) == 1
    assert "2 unreadable pictures" in (tmp_path / "run" / "report.html").read_text()
