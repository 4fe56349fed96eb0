"""Pictures of data: the long tail as a curve."""

import html

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from shortlist.data import Dataset, LongTail, Split
from shortlist.report import ClassShares
from shortlist.report.style import themed_svg
from tests.references import building as ref


def dataset(**labels):
    splits = {
        name: Split(torch.zeros(len(own), 1), torch.tensor(own, dtype=torch.int64), [f"{name}-{n}" for n in range(len(own))])
        for name, own in labels.items()
    }
    return Dataset("garden", ["ash", "elm", "oak"], splits)


def test_the_points_are_those_of_the_lorenz_curve():
    counts = [7, 1, 0, 12, 3]
    frame = ClassShares({"garden": LongTail(counts)}).frame()
    assert list(frame.columns) == ["name", "classes", "pictures"]
    assert set(frame["name"]) == {"garden"}
    assert frame["classes"].tolist() == pytest.approx([n / 5 for n in range(6)])
    assert frame["pictures"].tolist() == pytest.approx([float(share) for share in ref.lorenz(counts)])


def test_every_split_with_a_label_has_a_curve():
    display = ClassShares.of(dataset(train=[0, 0, 0, 1], val=[], test=[2]))
    assert list(display.counts) == ["train", "test"]
    assert display.counts["train"].ascending.tolist() == [0, 1, 3]
    assert display.frame().groupby("name", sort=False).size().to_dict() == {"train": 4, "test": 4}


def test_many_labels_a_row_are_counted():
    marks = torch.tensor([[1, 1, 0], [1, 0, 0]], dtype=torch.bool)
    data = Dataset("meadow", ["ash", "elm", "oak"], {"train": Split(torch.zeros(2, 1), marks, ["a", "b"])})
    assert ClassShares.of(data).counts["train"].ascending.tolist() == [0, 1, 2]


def test_curves_and_the_diagonal_are_drawn_with_what_the_rarest_hold():
    tails = {"train": LongTail([1, 1, 1, 1, 6]), "test": LongTail([1] * 5)}
    ax = ClassShares(tails).plot()
    diagonal, train, test, _ = ax.lines
    assert np.array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    assert train.get_ydata() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 1])
    assert test.get_ydata() == pytest.approx(np.linspace(0, 1, 6))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["train: rarest 80 % hold 40%", "test: rarest 80 % hold 80%"]
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 1), (0, 1))
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_one_class_is_the_diagonal():
    ax = ClassShares({"only": LongTail([3])}).plot()
    assert ax.lines[1].get_ydata().tolist() == [0, 1]


def test_more_curves_than_colours_are_drawn():
    ax = ClassShares({str(n): LongTail([1, n + 1]) for n in range(9)}).plot()
    assert len(ax.lines) == 11


def test_plot_draws_on_the_axes_it_is_given_and_on_a_figure_of_pyplot_otherwise():
    plt.get_backend()
    before, figures = mpl.rcParams.copy(), plt.get_fignums()
    given = Figure().subplots()
    display = ClassShares({"a": LongTail([1, 2])})
    assert display.plot(given) is given
    assert plt.get_fignums() == figures
    assert display.plot().figure.number in plt.get_fignums()
    assert mpl.rcParams == before


def test_a_display_of_nothing_has_no_points():
    assert ClassShares({}).frame().empty
    assert list(ClassShares({}).frame().columns) == ["name", "classes", "pictures"]


@pytest.mark.parametrize("counts", [{}, {"_hidden": LongTail([1, 2])}])
def test_a_display_of_nothing_or_of_an_odd_name_is_drawn_without_a_warning(counts):
    assert len(ClassShares(counts).plot().lines) == 2 + len(counts)


@pytest.mark.parametrize("name", ["a_$b$_{c", "a$^$"])
def test_names_are_drawn_as_they_are_and_not_as_formulas(name):
    assert f">{html.escape(name, quote=False)}: rarest" in themed_svg(ClassShares({name: LongTail([1, 2])}))
