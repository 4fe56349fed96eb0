"""Distance to the optimum: what the best sets can reach on these rows, and how far from it a classifier is."""

import json
import math

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from shortlist import Predictions
from shortlist.data import Flora
from shortlist.errors import InputError
from shortlist.report import DistanceToOptimum, Optimum, evaluate
from shortlist.report.style import themed_svg
from shortlist.sets import average_k, top_k
from tests.references import metrics as literal
from tests.references.flora import best_of_average_size, best_of_exact_size
from tests.report.cases import measured

mpl.use("Agg")
COLUMNS = ["name", "k", "top_k", "best_top_k", "top_k_gap", "average_k", "best_average_k", "average_k_gap"]


def drawn(rows=60, classes=5, seed=0, sharpness=1.5):
    """A posterior of every row and labels drawn by it."""
    generator = torch.Generator().manual_seed(seed)
    posterior = (sharpness * torch.randn(rows, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return posterior, torch.multinomial(posterior, 1, generator=generator).squeeze(1)


def judged(posterior, target, *, noise=0.0, name="mine", rule=None, link="identity", seed=1, source=None):
    """The evaluation of a classifier that knows the posterior up to noise."""
    generator = torch.Generator().manual_seed(seed)
    off = noise * torch.randn(posterior.shape, generator=generator, dtype=posterior.dtype)
    probs = (posterior.log() + off).softmax(1)
    return evaluate(Predictions(probs, target, link=link), rule or top_k(1), name=name, source=source)


def axes_of(display):
    return display.plot().figure.axes


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_best_accuracies_are_those_of_trying_every_set_and_of_a_linear_programme():
    posterior, target = drawn(rows=7, classes=4)
    optimum = Optimum.of(posterior, target)
    weight = np.full(7, 1 / 7)
    assert optimum.k.tolist() == [1, 2, 3, 4]
    assert optimum.rows == 7
    assert optimum.top_k == pytest.approx([best_of_exact_size(posterior.numpy(), weight, k) for k in optimum.k])
    assert optimum.average_k == pytest.approx([best_of_average_size(posterior.numpy(), weight, k) for k in optimum.k])


def test_sizes_go_to_ten_or_to_the_number_of_classes_unless_given_and_are_put_in_order():
    assert Optimum.of(drawn(rows=3, classes=30)[0]).k.tolist() == list(range(1, 11))
    assert Optimum.of(drawn(rows=3, classes=4)[0], ks=[3, 1, 3]).k.tolist() == [1, 3]


def test_classes_that_no_row_can_have_do_no_harm():
    optimum = Optimum.of([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]])
    assert optimum.top_k.tolist() == [0.875, 1.0, 1.0]
    assert optimum.average_k.tolist() == [0.875, 1.0, 1.0]


def test_rounded_posteriors_promise_no_more_than_everything():
    optimum = Optimum.of([[0.5006, 0.5], [0.4995, 0.5]])
    assert optimum.top_k.tolist() == pytest.approx([(0.5006 / 1.0006 + 0.5 / 0.9995) / 2, 1])
    assert optimum.top_k.max() <= 1


def test_any_kind_of_array_will_do():
    posterior, target = drawn(rows=9)
    expected = Optimum.of(posterior, target).record()
    assert Optimum.of(posterior.numpy(), target.numpy()).record() == expected
    assert Optimum.of(posterior.clone().requires_grad_(), target.int()).record() == expected


def test_the_expectation_is_what_labels_reach_on_average_over_many_draws():
    posterior, _ = drawn(rows=40)
    optimum = Optimum.of(posterior, ks=[1, 2])
    generator = torch.Generator().manual_seed(5)
    reached = []
    for _ in range(300):
        target = torch.multinomial(posterior, 1, generator=generator).squeeze(1)
        display = DistanceToOptimum(judged(posterior, target), optimum)
        reached.append(display.frame()[["top_k", "average_k"]].to_numpy())
    mean, spread = np.mean(reached, 0), np.std(reached, 0)
    expected = np.stack([optimum.top_k, optimum.average_k], 1)
    assert (np.abs(mean - expected) < 5 * spread / math.sqrt(300) + 2e-3).all()
    # Margins bound 1.96 standard deviations: given the rows, hits vary less than if all were equally likely.
    margins = np.stack(list(optimum.margins().values()), 1)
    assert (1.96 * spread < 1.1 * margins).all()
    assert (1.96 * spread > 0.5 * margins).all()


def test_a_margin_is_that_of_a_share():
    margins = Optimum([1, 2], [0.5, 1.0], [0.8, 1.0], 400).margins()
    assert margins["top_k"].tolist() == pytest.approx([1.96 * 0.5 / 20, 0])
    assert margins["average_k"].tolist() == pytest.approx([1.96 * 0.4 / 20, 0])


def test_records_survive_json():
    optimum = Optimum.of(drawn()[0])
    again = Optimum.from_record(json.loads(json.dumps(optimum.record())))
    assert again.record() == optimum.record()
    assert again.k.dtype == np.int64
    assert again.top_k.dtype == again.average_k.dtype == np.float64
    assert repr(again).startswith("Optimum(60 rows, top-k and average-k accuracy, k=1: 0.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": []}, "optimum, k: expected at least one size, got none"),
        ({"k": 3}, "optimum, k: expected a sequence of sizes, got int"),
        ({"k": [2, 1]}, r"optimum, k: expected increasing sizes, got \[2, 1\]"),
        ({"k": [0, 1]}, "optimum, k: expected a whole number from 1, got 0"),
        ({"top_k": [0.5]}, "optimum, top_k: expected a number from 0 to 1 for each of 2 sizes"),
        ({"average_k": [0.5, 1.5]}, "optimum, average_k: expected a number from 0 to 1"),
        ({"average_k": [0.5, None]}, "optimum, average_k: expected a number from 0 to 1"),
        ({"top_k": ["a", "b"]}, "optimum, top_k: expected numbers from 0 to 1"),
        ({"rows": 0}, "optimum, rows: expected a whole number from 1, got 0"),
    ],
)
def test_records_that_cannot_be_are_refused(change, message):
    record = {"k": [1, 2], "top_k": [0.5, 0.75], "average_k": [0.5, 0.8], "rows": 10}
    Optimum.from_record(record)
    with pytest.raises(InputError, match=message):
        Optimum.from_record(record | change)


@pytest.mark.parametrize(("record", "got"), [({"k": [1], "rows": 3}, "k, rows"), ({}, "nothing"), ([1], "list")])
def test_a_record_of_something_else_is_told_from_one(record, got):
    with pytest.raises(InputError, match=f"optimum: expected a record of k, top_k, average_k, rows, got {got}"):
        Optimum.from_record(record)


@pytest.mark.parametrize(
    ("posterior", "message"),
    [
        ([0.5, 0.5], r"posterior: expected \(N, C\), N and C at least 1, got \(2,\)"),
        (torch.zeros(0, 3), r"got \(0, 3\)"),
        ([[0.5, 0.5], [0.5, 0.2]], "sum to 1 in every row, got a least of 0.2 and a sum of 0.7 in row 1"),
        ([[1.5, -0.5]], "got a least of -0.5 and a sum of 1 in row 0"),
        ([[math.nan, 1.0]], "in row 0"),
        ("probs", "posterior: expected a tensor or an array, got str"),
    ],
)
def test_what_is_no_posterior_is_refused(posterior, message):
    with pytest.raises(InputError, match=message):
        Optimum.of(posterior)


def test_sizes_beyond_the_classes_are_refused():
    with pytest.raises(InputError, match="set sizes from 1 to 2, got"):
        Optimum.of([[0.5, 0.5]], ks=[3])


def test_labels_of_other_rows_are_refused_and_those_of_the_same_are_not():
    target, posterior = Flora(species=12, genera=4).observe(400, seed=3)
    Optimum.of(posterior, target)
    with pytest.raises(InputError, match=r"^posterior: .*0\.\d+, got 0\.\d+: "):
        Optimum.of(posterior, target.roll(1))
    posterior, target = drawn(rows=400)
    Optimum.of(posterior, target)
    with pytest.raises(InputError, match="^posterior: .*got 0"):  # too good to be true
        Optimum.of(posterior, posterior.argmax(1))


def test_one_unlikely_label_is_no_reason_to_refuse():
    posterior = torch.tensor([[1 - 1e-6, 1e-6]], dtype=torch.float64).repeat(100, 1)
    target = torch.zeros(100, dtype=torch.int64)
    Optimum.of(posterior, target)
    target[7] = 1
    Optimum.of(posterior, target)
    target[:60] = 1
    with pytest.raises(InputError, match="^posterior: .*got 0"):
        Optimum.of(posterior, target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([0], "target"),
        ([0, 2], "target: expected labels from 0 to 1, got 2 in row 1"),
        ([[True, False], [False, True]], "target: expected one label a row"),
    ],
)
def test_labels_of_another_form_are_refused(target, message):
    with pytest.raises(InputError, match=message):
        Optimum.of([[0.5, 0.5], [0.9, 0.1]], target)


def test_reached_accuracies_are_those_of_the_sets_and_gaps_the_rest():
    posterior, target = drawn(rows=80)
    optimum = Optimum.of(posterior, target, ks=[1, 2, 4])
    frame = DistanceToOptimum(judged(posterior, target, noise=0.8), optimum).frame()
    generator = torch.Generator().manual_seed(1)
    probs = (posterior.log() + 0.8 * torch.randn(posterior.shape, generator=generator, dtype=posterior.dtype)).softmax(1)
    assert list(frame.columns) == COLUMNS
    assert frame["k"].tolist() == [1, 2, 4]
    assert set(frame["name"]) == {"mine"}
    for place, k in enumerate([1, 2, 4]):
        exact = literal.top_k_accuracy(probs.numpy(), target.numpy(), k)
        order = probs.flatten().argsort(descending=True)[: k * 80]  # the k · N most probable pairs
        average = float(sum(label % 5 == target[label // 5] for label in order)) / 80
        assert frame["top_k"][place] == pytest.approx(exact)
        assert frame["average_k"][place] == pytest.approx(average, abs=1 / 80 + 1e-9)  # thresholds of a fine grid
        for kind in ("top_k", "average_k"):
            assert frame[f"best_{kind}"][place] == getattr(optimum, kind)[place]
            assert frame[f"{kind}_gap"][place] == pytest.approx(getattr(optimum, kind)[place] - frame[kind][place])


def test_a_gap_grows_with_the_noise_and_is_chance_without():
    target, posterior = Flora(species=12, genera=4).observe(2000, seed=3)
    posterior = posterior.double().clamp(min=1e-9)
    optimum = Optimum.of(posterior / posterior.sum(1, keepdim=True), target, ks=[1, 2, 3])
    gaps = []
    for noise in (0.0, 2.0, 6.0):
        frame = DistanceToOptimum(judged(posterior, target, noise=noise), optimum).frame()
        gaps.append(frame[["top_k_gap", "average_k_gap"]].to_numpy())
    assert (np.abs(gaps[0]) < 2 * np.stack(list(optimum.margins().values()), 1)).all()
    assert (np.diff(gaps, axis=0) >= 0).all()
    assert (np.diff(gaps, axis=0)[:, 0] > 0.03).all()  # at k = 1


def test_both_kinds_are_drawn_beside_the_best_on_axes_that_can_be_compared():
    posterior, target = drawn()
    display = DistanceToOptimum(judged(posterior, target, noise=1.0), Optimum.of(posterior, target))
    left, right = axes_of(display)
    points = display.points()
    for ax, kind in ((left, "top_k"), (right, "average_k")):
        best, reached = ax.lines
        assert list(best.get_ydata()) == points[f"best_{kind}"]
        assert list(reached.get_ydata()) == points[kind]
        assert best.get_linestyle() == "--"
        assert texts(ax) == ["best possible", "reached"]
        low, high = ax.get_ylim()
        assert low <= min(points[kind])
        assert high >= 1
    assert left.get_ylim() == right.get_ylim()
    for panel, kind in zip(display.panels(), ("top_k", "average_k"), strict=True):
        assert panel.points() == {
            name: points[of.format(kind)]
            for name, of in (("name", "name"), ("k", "k"), ("accuracy", "{}"), ("best", "best_{}"), ("gap", "{}_gap"))
        }


def test_given_axes_are_used():
    posterior, target = drawn()
    given = Figure().subplots()
    assert DistanceToOptimum(judged(posterior, target), Optimum.of(posterior)).plot(given) is given
    assert len(given.figure.axes) == 2


def test_the_table_has_a_row_for_each_size():
    posterior, target = drawn(classes=3)
    display = DistanceToOptimum(judged(posterior, target, noise=1.0), Optimum.of(posterior))
    table = display.table()
    assert table.columns == ["k", "top-k", "best top-k", "top-k gap", "average-k", "best average-k", "average-k gap"]
    points = display.points()
    assert table.rows == [list(row) for row in zip(*(points[name] for name in COLUMNS[1:]), strict=True)]
    assert table.shown()[-1] == ["3", "100.0%", "100.0%", "0.0%", "100.0%", "100.0%", "0.0%"]


def test_rules_on_one_file_are_one_line_and_files_are_compared_size_by_size():
    posterior, target = drawn()
    optimum = Optimum.of(posterior, ks=[1, 2])
    probs = (posterior.log()).softmax(1)
    evaluations = [
        judged(posterior, target, name="mine top", source="mine"),
        judged(posterior, target, name="mine average", source="mine", rule=average_k(2).fit(probs)),
        judged(posterior, target, name="_other", noise=1.0),
    ]
    display = DistanceToOptimum(evaluations, optimum)
    assert [row[:2] for row in display.table().rows] == [["mine", 1], ["_other", 1], ["mine", 2], ["_other", 2]]
    left, right = axes_of(display)
    assert texts(left) == texts(right) == ["best possible", "mine", "_other"]


def test_without_probabilities_there_is_top_k_alone():
    posterior, target = drawn()
    display = DistanceToOptimum(judged(posterior, target, link=None), Optimum.of(posterior))
    assert len(axes_of(display)) == 1
    frame = display.frame()
    assert frame["average_k"].isna().all()
    assert frame["average_k_gap"].isna().all()
    assert display.table().shown()[0][4] == display.table().shown()[0][6] == "–"


def test_one_size_and_certain_rows_are_drawn():
    optimum = Optimum.of(torch.eye(3), [0, 1, 2], ks=[1])
    probs = torch.eye(3).clamp(min=0.1)
    display = DistanceToOptimum(evaluate(Predictions(probs, [0, 1, 2], link="identity"), top_k(1)), optimum)
    assert "<svg" in themed_svg(display)
    assert display.frame()["top_k_gap"].tolist() == [0]


def test_evaluations_that_do_not_fit_are_refused():
    optimum = Optimum([1, 2], [0.5, 0.6], [0.5, 0.7], 90)
    DistanceToOptimum(measured(), optimum)
    for kind, got in (("many", "several"), ("none", "none")):
        with pytest.raises(InputError, match=f"trees: expected one label a row .*, got {got}"):
            DistanceToOptimum(measured(kind), optimum)
    with pytest.raises(InputError, match="trees: .*got 80"):
        DistanceToOptimum([measured(), measured(rows=80)], optimum)
    with pytest.raises(InputError, match="expected at least 7 classes, as many as the largest k of the optimum, got 6"):
        DistanceToOptimum(measured(), Optimum([7], [1.0], [1.0], 90))
    with pytest.raises(InputError, match="evaluations: .*got none"):
        DistanceToOptimum([], optimum)
