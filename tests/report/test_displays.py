"""Displays: plots on given or new axes, and the numbers behind them."""

import html
import math
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from shortlist.report import (
    CoverageBySize,
    EvaluationDisplay,
    GroupSizeHistogram,
    Lorenz,
    PairReliability,
    Reliability,
    SizeCoverage,
    SizeHistogram,
    TopNReliability,
    evaluate,
)
from shortlist.report.confusions import ConfusionMatrix
from shortlist.report.evaluating import EvaluationPanels
from shortlist.report.page import DISPLAYS
from shortlist.report.style import themed_svg
from shortlist.sets import aps, threshold, top_k
from tests.report.cases import COUNTS, draw, measured

COLUMNS = {
    SizeHistogram: ["name", "size", "rows", "share"],
    CoverageBySize: ["name", "size", "rows", "share", "coverage", "low", "high"],
    GroupSizeHistogram: ["name", "group", "size", "rows", "share"],
    SizeCoverage: ["name", "kind", "size", "coverage"],
    Reliability: ["name", "over", "bin", "pairs", "confidence", "frequency", "low", "high"],
    PairReliability: ["name", "over", "bin", "pairs", "confidence", "frequency", "low", "high"],
    TopNReliability: ["name", "over", "bin", "pairs", "confidence", "frequency", "low", "high"],
    Lorenz: ["name", "classes", "examples"],
}


@pytest.fixture(scope="module")
def single():
    return measured(counts=COUNTS, rows=400, top_n=2)


@pytest.fixture(scope="module")
def many():
    return measured("many", name="woods", rows=300)


@pytest.fixture(scope="module")
def unlabelled():
    return measured("none", name="new")


def texts(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_every_display_is_in_the_page():
    known = {*EvaluationDisplay.__subclasses__(), *Reliability.__subclasses__()} - {ConfusionMatrix}  # in a section of its own
    assert set(DISPLAYS) == set(COLUMNS) == known


@pytest.mark.parametrize("kind", DISPLAYS)
def test_plot_draws_on_the_axes_it_is_given_and_on_new_ones_otherwise(kind, single):
    given = Figure().subplots()
    assert kind(single).plot(given) is given
    assert given.has_data()
    own = kind(single).plot()
    assert own.has_data()
    assert own.figure is not given.figure
    for ax in (given, own):
        assert ax.get_xlabel()
        assert ax.get_ylabel()


@pytest.mark.parametrize("kind", DISPLAYS)
def test_plot_opens_one_figure_that_pyplot_shows_and_leaves_its_settings_alone(kind, single):
    plt.get_backend()  # chosen when first asked for
    before, figures = mpl.rcParams.copy(), plt.get_fignums()
    own = kind(single).plot()
    assert mpl.rcParams == before
    assert set(plt.get_fignums()) - set(figures) == {own.figure.number}
    kind(single).plot(Figure().subplots())
    assert len(plt.get_fignums()) == len(figures) + 1


@pytest.mark.parametrize("kind", DISPLAYS)
def test_frame_has_the_columns_of_points_whether_or_not_there_is_anything_to_show(kind, single):
    assert list(kind(single).frame().columns) == COLUMNS[kind]
    nothing = kind([]).frame()
    assert list(nothing.columns) == COLUMNS[kind]
    assert nothing.empty


@pytest.mark.parametrize("kind", DISPLAYS)
def test_a_display_of_nothing_draws_empty_axes(kind):
    assert kind([]).plot().get_xlabel()


def test_names_in_any_script_are_drawn_on_the_page_without_a_warning(single):
    both = [single, measured(name="線杉松")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "線杉松" in themed_svg(SizeHistogram(both))


def test_size_histogram_counts_the_sets(single):
    frame = SizeHistogram(single).frame().set_index("size")
    assert frame["rows"].to_dict() == {size: int(n) for size, n in enumerate(single.sizes.tolist()) if n}
    assert frame["share"].sum() == pytest.approx(1)
    assert (frame["share"] * frame.index).sum() == pytest.approx(single.size.mean)
    heights = [bar.get_height() for bar in SizeHistogram(single).plot().patches]
    assert heights == pytest.approx([n / single.rows for n in single.sizes.tolist()][: len(heights)])


def test_group_histogram_counts_the_rows_of_each_group(single):
    frame = GroupSizeHistogram(single).frame()
    for group, part in frame.groupby("group"):
        assert part["share"].sum() == pytest.approx(1)
        assert part["rows"].sum() == sum(single.hits[1, place] for place in _members(group))
    assert frame["rows"].sum() == single.rows
    assert texts(GroupSizeHistogram(single).plot()) == ["few-shot", "medium-shot", "many-shot"]


def _members(group):
    return {"few": [0, 1], "medium": [2, 3], "many": [4, 5]}[group]


def test_size_coverage_holds_both_curves_and_the_rule(single):
    frame = SizeCoverage(single).frame()
    for kind, curve in (("top-k", single.rank_curve), ("average-k", single.size_curve)):
        part = frame[frame["kind"] == kind]
        assert part["size"].tolist() == curve.sizes.tolist()
        assert part["coverage"].tolist() == curve.accuracies.tolist()
    (rule,) = frame[frame["kind"] == "rule"].to_dict("records")
    assert (rule["size"], rule["coverage"]) == (single.size.mean, single.coverage)


def test_size_coverage_keeps_the_rule_in_sight(single):
    ax = SizeCoverage(single).plot()
    assert ax.get_xlim()[0] <= single.size.mean <= ax.get_xlim()[1]
    assert ax.get_ylim()[0] <= single.coverage <= ax.get_ylim()[1]


def test_coverage_is_called_recall_where_rows_have_many_labels(single, many):
    assert SizeCoverage(single).plot().get_ylabel() == "coverage"
    assert SizeCoverage(many).plot().get_ylabel() == "recall"


def test_reliability_points_are_the_means_of_their_bins_and_give_the_calibration_error(many):
    frame = Reliability(many).frame()
    for over, part in frame.groupby("over"):
        inside = part["confidence"].between(part["bin"] / 15, (part["bin"] + 1) / 15)
        assert inside.all()
        gaps = (part["confidence"] - part["frequency"]).abs() * part["pairs"]
        assert gaps.sum() / part["pairs"].sum() == pytest.approx(many.numbers()[f"calibration_{over}"])
    assert frame.groupby("over")["pairs"].sum().to_dict() == {"top": 300, "all": 1800, "top_n": 1200}


def test_several_classifiers_are_compared_over_the_top_label_all_labels_and_the_top_n_each_with_a_band():
    both = [measured("many", name=name, seed=seed, rows=300) for seed, name in enumerate(("garden", "meadow"))]
    words = {Reliability: "top label", PairReliability: "all labels", TopNReliability: "top 4 labels"}
    for kind, label in words.items():
        ax = kind(both).plot()
        assert texts(ax) == [f"{label}, garden", f"{label}, meadow"]
        frame = kind(both).frame().query("over == @kind.over")
        for (_, part), line, band in zip(frame.groupby("name"), ax.lines[1:], ax.collections[::2], strict=True):
            part = part.query("pairs >= 20")
            assert line.get_ydata().tolist() == part["frequency"].tolist()
            assert (part["low"] <= part["frequency"] + 1e-12).all()
            assert (part["frequency"] <= part["high"] + 1e-12).all()
            corners = set(map(tuple, band.get_paths()[0].vertices.tolist()))
            assert corners >= set(zip(part["confidence"], part["low"], strict=True))
            assert corners >= set(zip(part["confidence"], part["high"], strict=True))


def test_bins_with_few_pairs_are_faded_points_without_a_line():
    evaluation = measured(rows=150)
    ax = Reliability(evaluation).plot()
    for over, line, points in zip(("top", "all"), ax.lines[1:], ax.collections[1::2], strict=True):
        frame = Reliability(evaluation).frame()
        part = frame[frame["over"] == over]
        few = (part["pairs"] < 20).tolist()
        assert any(few)
        assert not all(few)
        assert points.get_offsets()[:, 0].tolist() == part["confidence"].tolist()
        assert [alpha < 0.5 for alpha in points.get_alpha()] == few
        assert line.get_xdata().tolist() == part["confidence"][~np.array(few)].tolist()


def test_a_report_draws_only_what_says_something():
    balanced = measured(counts=[50] * 6)
    assert not Lorenz(balanced).tells
    assert Lorenz(measured(counts=COUNTS)).tells
    assert not GroupSizeHistogram(balanced).tells  # all classes in one group
    assert GroupSizeHistogram(measured(counts=COUNTS)).tells
    assert not SizeHistogram(measured(rule=top_k(2))).tells
    assert SizeHistogram(measured()).tells
    assert not Reliability(measured("none")).tells


def test_bands_of_the_top_label_are_wilson_intervals(many):
    part = Reliability(many).frame().query("over == 'top'")
    for _, row in part.iterrows():
        low, high = proportion_interval(row["frequency"], row["pairs"])
        assert (row["low"], row["high"]) == pytest.approx((low, high))


def proportion_interval(share, n, z=1.959963984540054):
    """The two roots of (x - share)² = z² x (1 - x) / n."""
    a, b, c = 1 + z * z / n, -(2 * share + z * z / n), share * share
    root = math.sqrt(b * b - 4 * a * c)
    return max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))


def test_lorenz_follows_training_counts_and_labels_where_there_are_none(single, many):
    for evaluation, counts in ((single, COUNTS), (many, many.hits[1].tolist())):
        frame = Lorenz(evaluation).frame()
        held = [0.0]
        for count in sorted(counts):
            held.append(held[-1] + count / sum(counts))
        assert frame["examples"].tolist() == pytest.approx(held)
        assert frame["classes"].tolist() == pytest.approx([n / 6 for n in range(7)])
    assert "training examples" in Lorenz(single).plot().get_ylabel()
    assert "labels" in Lorenz(many).plot().get_ylabel()


@pytest.mark.parametrize("kind", DISPLAYS)
def test_several_evaluations_are_drawn_and_named_side_by_side(kind, single):
    other = measured(name="other", counts=[5, 5, 50, 50, 500, 500], seed=1, top_n=2)
    both = kind([single, other])
    assert set(both.frame()["name"]) == {"trees", "other"}
    assert both.frame().query("name == 'trees'")[COLUMNS[kind]].equals(kind(single).frame())
    named = " ".join(texts(both.plot()))
    assert "trees" in named
    assert "other" in named


def test_files_of_one_problem_share_their_long_tail(single):
    ax = Lorenz([single, measured(name="other", counts=COUNTS)]).plot()
    assert len(ax.lines) == 2  # the diagonal and one curve


def four():
    """Two runs with two rules each, as a comparison has them."""
    return [
        evaluate(draw(counts=COUNTS, seed=seed), rule, name=f"{run}, {rule.text}", source=run)
        for seed, run in enumerate(("garden", "meadow"))
        for rule in (threshold(0.45), threshold(0.2))
    ]


@pytest.mark.parametrize("kind", [GroupSizeHistogram, SizeCoverage])
def test_many_names_stand_below_the_picture_and_hide_nothing(kind):
    ax = kind(four()).plot()
    ax.figure.draw_without_rendering()
    legend, label = (part.get_window_extent() for part in (ax.get_legend(), ax.xaxis.label))
    assert len(texts(ax)) > 5
    assert legend.y1 <= label.y0
    assert legend.y0 >= 0
    assert legend.x0 >= 0
    assert legend.x1 <= ax.figure.bbox.x1
    assert ax.get_window_extent().height > 200  # as high as a picture with the names inside
    plain = Figure().subplots()  # without a layout nothing would make room
    kind(four()).plot(plain)
    plain.figure.draw_without_rendering()
    assert plain.get_legend().get_window_extent().y0 > plain.xaxis.label.get_window_extent().y1


@pytest.mark.parametrize("kind", [SizeCoverage, Reliability])
def test_a_long_name_is_shortened_below_the_picture(kind, single):
    ax = kind([single, measured(name="begins " + "and goes on " * 20 + "ends", seed=1)]).plot()
    ax.figure.draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    assert any("begins" in text and "…" in text for text in texts(ax))
    assert legend.y1 <= ax.xaxis.label.get_window_extent().y0
    assert legend.x0 >= 0
    assert legend.x1 <= ax.figure.bbox.x1


def test_groups_have_colours_and_evaluations_dashes_and_each_is_named_once():
    assert texts(GroupSizeHistogram(four()).plot()) == [
        "few-shot",
        "medium-shot",
        "many-shot",
        "garden, threshold:0.45",
        "garden, threshold:0.2",
        "meadow, threshold:0.45",
        "meadow, threshold:0.2",
    ]
    assert texts(GroupSizeHistogram(four()[0]).plot()) == ["few-shot", "medium-shot", "many-shot"]


def test_a_line_that_stands_for_several_evaluations_says_so():
    both, alone = four(), four()[0]
    twin = evaluate(draw(counts=COUNTS), threshold(0.3), name="copy", source="copy")
    assert texts(Reliability(alone).plot()) == ["top label", "all labels"]
    assert texts(Reliability(both[:2]).plot()) == ["top label (the same for all 2)", "all labels (the same for all 2)"]
    assert texts(PairReliability(both).plot()) == ["all labels, garden", "all labels, meadow"]
    assert texts(Reliability(both).plot()) == ["top label, garden", "top label, meadow"]
    assert texts(Reliability([*both, twin]).plot()) == ["top label, garden and copy (the same)", "top label, meadow"]
    assert texts(SizeCoverage(both[:2]).plot())[:2] == ["average-k (the same for all 2)", "top-k (the same for all 2)"]
    assert "average-k, meadow" in texts(SizeCoverage(both).plot())


@pytest.mark.parametrize("kind", DISPLAYS)
def test_more_evaluations_than_colours_are_drawn(kind, single):
    assert kind([single] * 9).plot().has_data()


@pytest.mark.parametrize("kind", [SizeHistogram, SizeCoverage, Reliability, GroupSizeHistogram])
def test_a_name_that_begins_with_an_underscore_is_in_the_legend_too(kind, single):
    ax = kind([single, measured(name="_test", counts=COUNTS)]).plot()
    assert any("_test" in text for text in texts(ax))


@pytest.mark.parametrize("name", ["a_$b$_{c", r"$\nothing$", "a & <b>"])
def test_names_of_files_are_drawn_as_they_are_and_not_as_formulas(name, single):
    svg = themed_svg(SizeHistogram([single, measured(name=name)]))
    assert f">{html.escape(name, quote=False)}</text>" in svg


def test_displays_leave_out_what_they_cannot_show(single, many, unlabelled):
    shown = {kind: [e.name for e in kind([single, many, unlabelled]).evaluations] for kind in DISPLAYS}
    assert shown == {
        SizeHistogram: ["trees", "woods", "new"],
        CoverageBySize: ["trees", "woods"],
        GroupSizeHistogram: ["trees"],
        SizeCoverage: ["trees", "woods"],
        Reliability: ["trees", "woods"],
        PairReliability: ["trees", "woods"],
        TopNReliability: ["trees", "woods"],
        Lorenz: ["trees", "woods"],
    }
    assert Reliability(measured(link=None)).evaluations == []
    assert SizeCoverage(measured(link=None)).frame()["kind"].unique().tolist() == ["top-k", "rule"]


def test_coverage_by_size_draws_the_sizes_that_enough_rows_have_and_the_coverage_asked_for():
    evaluation = evaluate(draw(rows=300), aps(0.2).fit(draw(rows=300, seed=1)))
    display = CoverageBySize(evaluation)
    frame, ax = display.frame(), display.plot()
    drawn = frame[frame["rows"] >= 20]
    assert [label.get_text() for label in ax.get_xticklabels()] == drawn["size"].tolist()
    shown = [points.get_offsets()[0][1] for points in ax.collections]
    assert shown == pytest.approx(drawn["coverage"].tolist())
    assert ax.get_ylim()[0] < drawn["low"].min()
    assert 0.8 in [round(line.get_ydata()[0], 6) for line in ax.lines if line.get_linestyle() == ":"]
    assert not CoverageBySize(measured(rows=400, rule=top_k(2))).tells


def test_one_giant_set_does_not_flatten_the_histogram():
    evaluation = measured(rows=400)
    evaluation.sizes.copy_(torch.tensor([0.0, 3000, 0, 0, 0, 0, 1]))
    assert len(SizeHistogram(evaluation).plot().patches) == 2
    assert SizeHistogram(evaluation).frame()["size"].tolist() == [1, 6]


@pytest.mark.parametrize("kind", [*DISPLAYS, EvaluationPanels])
def test_a_notebook_shows_a_display_without_opening_a_figure(kind, single):
    figures = plt.get_fignums()
    assert kind(single)._repr_png_().startswith(b"\x89PNG")
    assert plt.get_fignums() == figures
