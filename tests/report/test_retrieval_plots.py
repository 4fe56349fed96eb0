"""Pictures of retrieval: lines, bands and points are the numbers of the scores."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from shortlist.errors import InputError
from shortlist.metrics import evaluate_retrieval
from shortlist.report import QueryReliability, RetrievalByLength
from shortlist.report.retrieval_plots import MapByLength, PrecisionByLength
from shortlist.report.style import DASHES, SERIES, themed_svg

COLUMNS = {
    MapByLength: ["name", "length", "map", "low", "high", "queries", "exact"],
    PrecisionByLength: ["name", "length", "precision_at_10", "precision_low", "precision_high", "queries", "exact"],
    RetrievalByLength: [
        *("name", "length", "map", "low", "high", "queries", "exact"),
        *("precision_at_10", "precision_low", "precision_high"),
    ],
    QueryReliability: ["name", "bin", "results", "probability", "frequency"],
}
every_display = pytest.mark.parametrize("kind", COLUMNS)


def measured(power=1.0, **settings):
    random = np.random.default_rng(0)
    probs = random.beta(0.5, 1, size=(60, 7))
    target = random.uniform(size=probs.shape) < probs
    return evaluate_retrieval(np.log(probs**power), np.log1p(-(probs**power)), target, **settings)


@pytest.fixture(scope="module")
def whole():
    return measured()


@pytest.fixture(scope="module")
def several(whole):
    return {"plain": whole, "drawn": measured(most=315, sample=100), "flat_$x": measured(0.2, max_length=3)}


def names(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


@every_display
def test_plot_draws_on_the_axes_it_is_given_and_on_new_ones_otherwise(kind, several):
    given = Figure().subplots()
    assert kind(several).plot(given) is given
    own = kind(several).plot()
    assert own.figure is not given.figure
    for ax in (given, own):
        assert ax.has_data()
        assert ax.get_xlabel()
        assert ax.get_ylabel()


@every_display
def test_plot_opens_one_figure_that_pyplot_shows_and_leaves_its_settings_alone(kind, several):
    plt.get_backend()
    before, figures = mpl.rcParams.copy(), plt.get_fignums()
    own = kind(several).plot()
    assert mpl.rcParams == before
    assert set(plt.get_fignums()) - set(figures) == {own.figure.number}
    kind(several).plot(Figure().subplots())
    assert len(plt.get_fignums()) == len(figures) + 1


@every_display
def test_frame_has_its_columns_whether_or_not_there_is_anything_to_show(kind, several):
    assert list(kind(several).frame().columns) == COLUMNS[kind]
    nothing = kind({})
    assert list(nothing.frame().columns) == COLUMNS[kind]
    assert nothing.frame().empty
    assert nothing.plot().get_legend() is None


@every_display
def test_scores_of_nothing_draw_nothing(kind):
    empty = evaluate_retrieval(np.full((3, 2), -1.0), np.full((3, 2), -0.5), np.zeros((3, 2), bool))
    assert kind(empty).frame().empty
    assert names(kind(empty).plot()) == []


@every_display
def test_a_display_becomes_a_themed_svg(kind, several):
    svg = themed_svg(kind(several))
    assert svg.startswith("<svg")
    assert SERIES[0] not in svg
    assert "var(--series-3)" in svg


@every_display
def test_a_display_says_what_it_shows(kind):
    assert kind.title
    assert kind.caption.endswith(".")


def test_lines_are_the_numbers_of_each_length(several):
    frame = RetrievalByLength(several).frame()
    assert frame.groupby("name", sort=False).size().to_dict() == {"plain": 5, "drawn": 5, "flat_$x": 3}
    for kind, value in ((MapByLength, "map"), (PrecisionByLength, "precision_at_10")):
        ax = kind(several).plot()
        for line, (name, own) in zip(ax.get_lines(), frame.groupby("name", sort=False), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), own["length"])
            np.testing.assert_array_equal(line.get_ydata(), own[value])
            expected = [getattr(one, value) for one in several[name].by_length]
            np.testing.assert_array_equal(line.get_ydata(), expected)


def test_sampled_points_are_open_and_lie_in_their_band(several):
    frame = MapByLength(several).frame()
    drawn = frame[frame["name"] == "drawn"]
    assert drawn["exact"].tolist() == [True, True, True, False, False]
    assert (drawn["low"] < drawn["high"]).tolist() == [False, False, False, True, True]
    points = [artist for artist in MapByLength(several).plot().collections if isinstance(artist, PathCollection)]
    faces = [to_hex(colour) for colour in points[1].get_facecolor()]
    assert faces == [SERIES[1]] * 3 + ["#ffffff"] * 2


def test_everything_drawn_is_within_the_axes(several):
    for kind, low, high in ((MapByLength, "low", "high"), (PrecisionByLength, "precision_low", "precision_high")):
        frame = kind(several).frame()
        bottom, top = kind(several).plot().get_ylim()
        assert bottom < frame[low].min()
        assert frame[high].max() < top


def test_two_panels_stand_side_by_side_with_one_legend(several):
    ax = RetrievalByLength(several).plot()
    assert [panel.get_ylabel() for panel in ax.figure.axes] == ["mean average precision", "precision at 10"]
    assert [names(panel) for panel in ax.figure.axes] == [[], ["plain", "drawn", "flat_$x"]]


def test_one_method_needs_no_name(whole):
    assert names(MapByLength(whole).plot()) == []
    (name,) = names(QueryReliability(whole).plot())
    assert name == f"ECE {whole.calibration_error:.3f}"


def below(legend, axes):
    """Whether the legend is under the axes and their labels, and on the figure."""
    box, edge = legend.get_window_extent(), axes.figure.bbox
    return box.y1 <= axes.xaxis.label.get_window_extent().y0 and box.y0 >= 0 and box.x0 >= 0 and box.x1 <= edge.x1


@pytest.mark.parametrize("named", [[f"method {n}" for n in range(8)], ["short", "a name of " + "very " * 30 + "many words"]])
def test_many_or_long_names_stand_once_below_both_panels(whole, named):
    ax = RetrievalByLength(dict.fromkeys(named, whole)).plot()
    ax.figure.draw_without_rendering()
    (legend,) = ax.figure.legends
    assert [names(panel) for panel in ax.figure.axes] == [[], []]
    assert len(legend.get_texts()) == len(named)
    assert all(below(legend, panel) for panel in ax.figure.axes)


def test_many_methods_have_their_names_below_the_picture_and_are_told_apart(whole):
    many = {f"method {n}": whole for n in range(8)}
    for kind in (MapByLength, QueryReliability):
        ax = kind(many).plot()
        ax.figure.draw_without_rendering()
        assert below(ax.get_legend(), ax)
        lines = [line for line in ax.get_lines() if line.get_color() in SERIES]
        assert len({(line.get_color(), str(line.get_linestyle())) for line in lines}) == 8
        assert lines[6].get_color() == SERIES[0]
    assert len(DASHES) * len(SERIES) >= 8


def test_reliability_points_are_the_bins(several):
    frame = QueryReliability(several).frame()
    ax = QueryReliability(several).plot()
    lines = ax.get_lines()[1:]  # the first is the diagonal
    for line, (name, own) in zip(lines, frame.groupby("name", sort=False), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), own["probability"])
        np.testing.assert_array_equal(line.get_ydata(), own["frequency"])
        table = several[name].overall.bins
        assert own["results"].sum() == pytest.approx(sum(results for results, _, _ in table))
        assert ((own["probability"] * 15).astype(int).clip(upper=14) == own["bin"]).all()
    assert names(ax) == [f"{name}, ECE {found.calibration_error:.3f}" for name, found in several.items()]


@every_display
def test_what_is_no_score_is_refused(kind):
    with pytest.raises(InputError, match="scores of BCE: .*got float"):
        kind({"BCE": 0.5})
