"""Callbacks, and the files that they write."""

import json
import math
import warnings

import pytest

from shortlist.errors import InputError
from shortlist.training.callbacks import Callback, Callbacks, MetricsFile, tensorboard_if_installed
from shortlist.training.run_folder import METRICS

LINES = [
    {
        "epoch": 1,
        "step": 10,
        "loss": 0.1 + 0.2,
        "lr": 0.1,
        "rows_per_second": 100.0,
        "metrics": {"top-1": 1 / 3, "nll": math.nan},
    },
    {"epoch": 2, "step": 20, "loss": None, "value": math.nan, "best": False},
    {"epoch": 3, "step": 30, "name": "Höhe \u2028 and a\nline"},
]


def strict(text):
    """JSON as it is defined, in which NaN and Infinity are nothing."""

    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_metrics_are_lines_of_json_with_null_for_what_is_no_number(tmp_path):
    MetricsFile(tmp_path / METRICS).epoch_ended(LINES[-1], LINES)
    text = (tmp_path / METRICS).read_text(encoding="utf-8")
    assert text.endswith("\n")
    found = [strict(line) for line in text.removesuffix("\n").split("\n")]
    assert found[0] == LINES[0] | {"metrics": {"top-1": 1 / 3, "nll": None}}
    assert found[1] == LINES[1] | {"value": None}
    assert found[2] == LINES[2]


def test_the_history_itself_keeps_its_numbers(tmp_path):
    MetricsFile(tmp_path / METRICS).epoch_ended(LINES[1], LINES[:2])
    assert math.isnan(LINES[1]["value"])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.inf, None),
        (-math.inf, None),
        ([1.0, math.nan], [1.0, None]),
        ((1, (math.inf, "a")), [1, [None, "a"]]),
        ([{"x": math.nan}], [{"x": None}]),
    ],
    ids=str,
)
def test_other_values_that_json_lacks_become_null(tmp_path, value, written):
    MetricsFile(tmp_path / METRICS).epoch_ended({"value": value}, [{"value": value}])
    assert strict((tmp_path / METRICS).read_text()) == {"value": written}


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cannot write .*metrics.jsonl: .*continue with resume=True$"):
        MetricsFile(tmp_path / "file" / METRICS).epoch_ended(LINES[2], LINES)


def test_the_file_always_holds_the_whole_history(tmp_path):
    file = MetricsFile(tmp_path / METRICS)
    for end in range(1, 4):
        file.epoch_ended(LINES[end - 1], LINES[:end])
        assert len((tmp_path / METRICS).read_text(encoding="utf-8").removesuffix("\n").split("\n")) == end
    file.epoch_ended(LINES[0], LINES[:1])  # a training taken up again from an earlier checkpoint
    assert len((tmp_path / METRICS).read_text(encoding="utf-8").removesuffix("\n").split("\n")) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [METRICS]


class Recorder(Callback):
    def __init__(self, log, name):
        self.log, self.name = log, name

    def training_started(self, steps, steps_per_epoch, rows, done):
        self.log.append((self.name, "started", steps, steps_per_epoch, rows, done))

    def step_ended(self, step, loss):
        self.log.append((self.name, "step", step, loss))

    def epoch_ended(self, line, history):
        self.log.append((self.name, "epoch", line, history))

    def message(self, sentence):
        self.log.append((self.name, "message", sentence))


def tell(callback):
    callback.training_started(100, 10, 32, 5)
    callback.step_ended(6, 0.5)
    callback.epoch_ended(LINES[0], LINES[:1])
    callback.message("a sentence")


def test_all_callbacks_are_told_everything_in_order():
    log, alone = [], []
    tell(Callbacks(Recorder(log, "a"), Callbacks(Recorder(log, "b"))))
    tell(Recorder(alone, "a"))
    assert log[::2] == alone
    assert log[1::2] == [("b", *entry[1:]) for entry in alone]
    assert [entry[1] for entry in alone] == ["started", "step", "epoch", "message"]


def test_a_callback_does_nothing_of_its_own(tmp_path):
    tell(Callback())
    tell(Callbacks())


def test_every_thing_that_can_be_told_is_passed_on():
    public = [name for name in vars(Callback) if not name.startswith("_")]
    assert all(name in vars(Callbacks) for name in public)


def test_curves_are_written_where_tensorboard_is_installed(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tensorboard_if_installed(tmp_path)
        if not found:
            pytest.skip("tensorboard is not installed")
        for place in range(2):
            found[0].epoch_ended(LINES[place], LINES[: place + 1])
        (file,) = (tmp_path / "tensorboard").iterdir()
        content = file.read_bytes()
    assert file.name.startswith("events.out.tfevents")
    for name in (b"loss", b"lr", b"rows_per_second", b"validation/top-1"):
        assert name in content


def test_without_tensorboard_there_is_no_callback(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    assert tensorboard_if_installed(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
