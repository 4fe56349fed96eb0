"""Training curves: what was recorded is what is drawn, and gaps in the record are gaps or nothing."""

import html
import json
import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from shortlist.errors import InputError
from shortlist.report import TrainingCurves
from shortlist.report.style import themed_svg

mpl.use("Agg")
COLUMNS = ["name", "epoch", "loss", "log_loss", "monitor", "value", "chosen"]


def epoch(number, loss, value=None, best=False, validation=None, monitor="top-1"):
    record = {"epoch": number, "step": 10 * number, "loss": loss, "lr": 0.1, "seconds": 1.5, "rows_per_second": 100.0}
    if value is not None:
        record |= {"monitor": monitor, "value": value, "best": best, "metrics": {monitor: value, "nll": validation}}
    return record


HISTORY = [
    epoch(1, 2.5, 0.5, True, 2.6),
    epoch(2, 1.5, 0.7, True, 1.9),
    epoch(3, 1.0, 0.6, False, 2.0),
    epoch(4, 0.8, 0.65, False, 2.3),
]


def panels(display):
    """The axes of a display drawn on axes of its own."""
    return display.plot().figure.axes


def lines(ax):
    """What is drawn as a line: (x, y), rings left out."""
    drawn = [line for line in ax.lines if line.get_linestyle() != "None"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in drawn]


def rings(ax):
    drawn = [line for line in ax.lines if line.get_linestyle() == "None"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in drawn]


def texts(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_points_are_the_record():
    frame = TrainingCurves(HISTORY).frame()
    assert list(frame.columns) == COLUMNS
    assert frame["epoch"].tolist() == [1, 2, 3, 4]
    assert frame["loss"].tolist() == [2.5, 1.5, 1.0, 0.8]
    assert frame["log_loss"].tolist() == [2.6, 1.9, 2.0, 2.3]
    assert frame["value"].tolist() == [0.5, 0.7, 0.6, 0.65]
    assert frame["chosen"].tolist() == [False, True, False, False]
    assert set(frame["monitor"]) == {"top-1"}


def test_loss_log_loss_and_metric_stand_side_by_side_with_the_kept_epoch_ringed():
    left, middle, right = panels(TrainingCurves(HISTORY))
    assert lines(left) == [([1, 2, 3, 4], [2.5, 1.5, 1.0, 0.8])]
    assert lines(middle) == [([1, 2, 3, 4], [2.6, 1.9, 2.0, 2.3])]
    assert lines(right) == [([1, 2, 3, 4], [0.5, 0.7, 0.6, 0.65])]
    assert rings(left) == [(2, 1.5)]
    assert rings(middle) == [(2, 1.9)]
    assert rings(right) == [(2, 0.7)]
    assert texts(right) == ["epoch 2, kept"]
    assert (left.get_xlabel(), left.get_ylabel()) == ("epoch", "training loss")
    assert (middle.get_xlabel(), middle.get_ylabel()) == ("epoch", "validation log-loss")
    assert (right.get_xlabel(), right.get_ylabel()) == ("epoch", "top-1")
    left.figure.draw_without_rendering()
    assert left.get_position().x1 < middle.get_position().x0
    assert middle.get_position().x1 < right.get_position().x0


def test_what_a_training_writes_has_a_log_loss_that_is_drawn(tmp_path):
    """The name under which training keeps it and the one under which it is looked for are the same."""
    from tests.training.small import run

    display = TrainingCurves(run(tmp_path / "run").history)
    assert [panel.title for panel in display.panels()] == ["Loss", "Validation log-loss", "Monitored metric"]
    assert display.frame()["log_loss"].gt(0).all()


def test_the_normaliser_of_a_quasibinary_training_is_kept_by_epoch_and_drawn(tmp_path):
    """Liao, Fig. 2; the kept epoch has the normaliser of the classifier."""
    from tests.training.small import dataset, run

    found = run(tmp_path / "run", dataset(multi=True), method="quasibinary", epochs=3)
    values = [line["log_normalizer"] for line in found.history]
    assert len(set(values)) == 3
    kept = [line for line in found.history if line["best"]][-1]
    assert float(found.classifier.link.log_normalizer) == kept["log_normalizer"]
    written = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["log_normalizer"] for line in written] == values
    display = TrainingCurves(written)
    assert [panel.title for panel in display.panels()] == ["Loss", "Validation log-loss", "Normaliser", "Monitored metric"]
    drawn = panels(display)[2]
    assert lines(drawn) == [([1, 2, 3], values)]
    assert rings(drawn) == [(kept["epoch"], kept["log_normalizer"])]
    assert drawn.get_ylabel() == "log C"
    assert display.frame()["log_normalizer"].tolist() == values
    assert list(display.frame().columns) == [*COLUMNS, "log_normalizer"]
    assert all("log_normalizer" not in line for line in run(tmp_path / "other").history)


def test_runs_with_and_without_a_normaliser_stand_in_one_plot():
    both = {"one": HISTORY, "other": [line | {"log_normalizer": 2.0 + line["epoch"]} for line in HISTORY]}
    display = TrainingCurves(both)
    (panel,) = [panel for panel in display.panels() if panel.title == "Normaliser"]
    assert [run.name for run in panel.runs] == ["other"]
    assert display.frame()["log_normalizer"].isna().sum() == len(HISTORY)
    with pytest.raises(InputError, match="history, log normaliser of epoch 1: .*got much"):
        TrainingCurves([{"epoch": 1, "log_normalizer": "much"}])


def test_scores_that_are_no_probabilities_have_no_log_loss():
    history = [{"epoch": 1, "loss": 1.0, "monitor": "top-1", "value": 0.5, "best": True, "metrics": {"top-1": 0.5}}]
    assert [panel.title for panel in TrainingCurves(history).panels()] == ["Loss", "Monitored metric"]


def test_panels_can_be_drawn_one_by_one_and_have_their_own_numbers():
    loss, surprise, metric = TrainingCurves(HISTORY).panels()
    assert loss.frame()["loss"].tolist() == [2.5, 1.5, 1.0, 0.8]
    assert surprise.frame()["log_loss"].tolist() == [2.6, 1.9, 2.0, 2.3]
    assert metric.frame()["chosen"].tolist() == [False, True, False, False]
    for panel in (loss, surprise, metric):
        given = Figure().subplots()
        assert panel.plot(given) is given
        assert given.figure.axes == [given]
        assert panel.title
        assert panel.caption


def test_epochs_are_whole_numbers_on_the_axis_too():
    for history in (HISTORY[:1], HISTORY[:2], HISTORY):
        for ax in panels(TrainingCurves(history)):
            low, high = ax.get_xlim()
            ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
            assert ticks
            assert all(tick == round(tick) for tick in ticks)


def test_given_axes_become_the_left_panel_within_their_place():
    figure = Figure(figsize=(10, 6))
    above, below = figure.subplots(2)
    whole = below.get_position()
    assert TrainingCurves(HISTORY).plot(below) is below
    assert len(figure.axes) == 4
    left, right = below.get_position(), figure.axes[3].get_position()
    assert left.x0 == pytest.approx(whole.x0)
    assert right.x1 == pytest.approx(whole.x1)
    assert left.width == pytest.approx(right.width)
    assert left.x1 < right.x0
    assert [left.y0, left.y1] == pytest.approx([whole.y0, whole.y1])
    assert not above.has_data()


def test_axes_that_belong_to_no_grid_are_parted_too():
    figure = Figure()
    given = figure.add_axes((0.1, 0.2, 0.8, 0.7))
    TrainingCurves(HISTORY).plot(given)
    left, middle, right = (ax.get_position() for ax in figure.axes)
    assert (left.x0, right.x1) == pytest.approx((0.1, 0.9))
    assert left.x1 < middle.x0
    assert middle.x1 < right.x0
    assert left.width == pytest.approx(right.width)
    assert left.x1 < right.x0
    assert (right.y0, right.height) == pytest.approx((0.2, 0.7))


def test_plot_opens_one_figure_that_pyplot_shows_and_leaves_its_settings_alone():
    plt.get_backend()  # chosen when first asked for
    before, figures = mpl.rcParams.copy(), plt.get_fignums()
    own = TrainingCurves(HISTORY).plot()
    assert mpl.rcParams == before
    assert set(plt.get_fignums()) - set(figures) == {own.figure.number}
    TrainingCurves(HISTORY).plot(Figure().subplots())
    assert len(plt.get_fignums()) == len(figures) + 1


def test_a_single_epoch_is_a_dot():
    drawn = panels(TrainingCurves(HISTORY[:1]))
    assert [lines(ax) for ax in drawn] == [[([1], [2.5])], [([1], [2.6])], [([1], [0.5])]]
    assert all(line.get_marker() == "o" for ax in drawn for line in ax.lines)


def test_epochs_without_validation_are_bridged_and_nan_is_not():
    history = [epoch(1, 3.0), epoch(2, 2.0, 0.5, True, 2.1), epoch(3, math.nan), epoch(4, 1.0, 0.6, True, math.inf)]
    display = TrainingCurves(history)
    (training,), (validation,), (metric,) = map(lines, panels(display))
    assert training[0] == [1, 2, 3, 4]
    assert np.isnan(training[1]).tolist() == [False, False, True, False]
    assert validation[0] == [2, 4]
    assert np.isnan(validation[1]).tolist() == [False, True]
    assert metric == ([2, 4], [0.5, 0.6])
    frame = display.frame()
    assert frame["value"].isna().tolist() == [True, False, True, False]
    assert frame["monitor"].isna().tolist() == [True, False, True, False]
    assert frame["log_loss"].tolist()[3] == math.inf


def test_null_breaks_a_line_where_something_was_measured():
    history = [
        *HISTORY[:2],
        {"epoch": 3, "loss": None, "monitor": "top-1", "value": None, "best": False, "metrics": {"top-1": None, "nll": None}},
        {"epoch": 4, "loss": 0.5, "monitor": None, "value": None, "best": False, "metrics": None},
        epoch(5, 0.4, 0.8, True, 1.5),
    ]
    (training,), (validation,), (metric,) = map(lines, panels(TrainingCurves(history)))
    assert [x for x, y in zip(*training, strict=True) if math.isnan(y)] == [3]
    for line in (validation, metric):
        assert line[0] == [1, 2, 3, 5]
        assert np.isnan(line[1]).tolist() == [False, False, True, False]


@pytest.mark.parametrize("empty", [{}, {"value": None, "metrics": None, "monitor": None, "best": None}, {"metrics": {}}])
def test_without_validation_there_is_the_training_loss_alone_and_no_epoch_kept(empty):
    display = TrainingCurves([{"epoch": n, "loss": 1 / n} | empty for n in (1, 2)])
    (only,) = panels(display)
    assert lines(only) == [([1, 2], [1.0, 0.5])]
    assert rings(only) == []
    assert not any(display.frame()["chosen"])
    assert display.table().rows == [[None, 2, "2 (last)", None, 0.5, None]]


def test_a_history_of_nothing_but_nan_is_drawn():
    display = TrainingCurves([epoch(1, math.nan, math.nan, False, math.nan), epoch(2, None)])
    assert "<svg" in themed_svg(display)


def test_where_the_log_loss_is_monitored_it_is_not_drawn_twice():
    history = [epoch(n, 1.0, 2 / n, True, 2 / n, monitor="nll") for n in (1, 2)]
    left, right = panels(TrainingCurves(history))
    assert (rings(left), rings(right)) == ([(2, 1.0)], [(2, 1.0)])
    assert right.get_ylabel() == "validation log-loss"


def test_the_last_epoch_that_was_best_is_kept_and_an_epoch_run_again_counts_once():
    again = [HISTORY[0], HISTORY[1], HISTORY[2], epoch(2, 1.4, 0.55, False, 1.8), epoch(3, 1.1, 0.9, True, 1.7)]
    frame = TrainingCurves(again).frame()
    assert frame["epoch"].tolist() == [1, 2, 3]
    assert frame["loss"].tolist() == [2.5, 1.4, 1.1]
    assert frame["chosen"].tolist() == [False, False, True]


def test_runs_are_compared_by_name():
    display = TrainingCurves({"wide": HISTORY, "_deep": [epoch(1, 3.0, 0.4, True, 3.1), epoch(2, 2.0)]})
    left, middle, right = panels(display)
    assert [len(lines(ax)) for ax in (left, middle, right)] == [2, 2, 2]
    assert texts(left) == texts(middle) == texts(right) == ["wide", "_deep"]
    assert rings(right) == [(2, 0.7), (1, 0.4)]
    frame = display.frame()
    assert frame.query("name == 'wide'")[COLUMNS].equals(TrainingCurves({"wide": HISTORY}).frame())
    assert display.table().rows == [
        ["wide", "top-1", 4, "2 (kept)", 0.7, 1.5, 1.9],
        ["_deep", "top-1", 2, "1 (kept)", 0.4, 3.0, 3.1],
    ]


def test_runs_that_monitor_different_metrics_say_so():
    other = [epoch(1, 3.0, 0.4, True, 3.1, monitor="average-5")]
    *_, right = panels(TrainingCurves({"a": HISTORY, "b": other}))
    assert right.get_ylabel() == "monitored metric"
    assert texts(right) == ["a, top-1", "b, average-5"]


def test_more_runs_than_colours_and_many_epochs_are_drawn():
    history = [epoch(n, 1 / n, n / 200, True, 2 / n) for n in range(1, 101)]
    left, _, right = panels(TrainingCurves({str(n): history for n in range(9)}))
    assert len(lines(left)) == 9
    assert len(lines(right)) == 9
    assert {line.get_marker() for line in right.lines if line.get_linestyle() != "None"} == {""}


@pytest.mark.parametrize("name", ["a_$b$_{c", r"$\nothing$", "a & <b>"])
def test_names_are_drawn_as_they_are_and_not_as_formulas(name):
    history = [epoch(1, 1.0, 0.5, True, 1.0, monitor=name)]
    *_, metric = TrainingCurves({name: history, "other": history}).panels()
    assert themed_svg(metric).count(f">{html.escape(name, quote=False)}</text>") == 2


def test_numbers_of_numpy_and_torch_are_numbers():
    frame = TrainingCurves([{"epoch": np.int64(1), "loss": np.float32(0.5), "value": torch.tensor(0.25)}]).frame()
    assert frame[["epoch", "loss", "value"]].to_numpy().tolist() == [[1, 0.5, 0.25]]


def test_lines_may_come_one_by_one():
    assert len(TrainingCurves(line for line in HISTORY).frame()) == 4


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([], "history of training: expected at least one epoch, got none"),
        ({}, "history: expected at least one run, got none"),
        ({"a": []}, "history of a: expected at least one epoch, got none"),
        (5, "history of training: expected a sequence of epochs, got int"),
        ("metrics.jsonl", "history of training: expected a sequence of epochs, got str"),
        (HISTORY[0], "history of epoch: expected a sequence of epochs, got int"),
        ([3], "history: expected a dictionary for each epoch, got int"),
        ([{"loss": 1.0}], "history, epoch: expected a whole number from 0, got None"),
        ([{"epoch": 1.5}], "history, epoch: expected a whole number from 0, got 1.5"),
        ([{"epoch": 1, "loss": "low"}], "history, loss of epoch 1: expected a number or nothing, got low"),
        ([{"epoch": 1, "value": True}], "history, value of epoch 1: expected a number or nothing, got True"),
        ([{"epoch": 1, "metrics": {"nll": [1]}}], "history, validation log-loss of epoch 1: expected a number or nothing"),
        ([{"epoch": 1, "metrics": [1]}], "history, metrics of epoch 1: expected numbers by name, got list"),
    ],
)
def test_what_is_no_history_is_refused_in_one_sentence(history, message):
    with pytest.raises(InputError) as error:
        TrainingCurves(history)
    assert str(error.value).startswith(message)
