"""What validation measures, against metrics typed literally, and which number decides."""

import math

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.evaluation.selections import OF_OUTLIERS
from shortlist.links import Identity, Link, Quasibinary, Sigmoid, Softmax, Temperature
from shortlist.methods import all_methods
from shortlist.metrics import average_k_accuracy, calibration_error, mean_average_precision, top_k_accuracy
from shortlist.training.monitor import Monitor, make_monitor
from shortlist.training.recipe import Recipe
from tests.references import links, metrics, training as reference

N, C = 60, 7


def recipe(method="average-k", **settings):
    return Recipe("mine", "flora", method=method, **settings)


def draw(seed=0, many=False):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(N, C, generator=generator, dtype=torch.float64)
    if many:
        return scores, torch.rand(N, C, generator=generator) < 0.3
    return scores, torch.randint(C, (N,), generator=generator)


def test_metrics_of_one_label_are_those_of_the_formulas():
    scores, target = draw()
    found = Monitor("top-1", 3, Softmax()).measure(scores, target)
    probs, labels = links.softmax(scores.numpy()), target.numpy()
    assert found == pytest.approx(
        {
            "top-1": metrics.top_k_accuracy(probs, labels, 1),
            "top-3": metrics.top_k_accuracy(probs, labels, 3),
            "macro-top-3": metrics.top_k_accuracy(probs, labels, 3, "macro"),
            "average-3": metrics.average_k_accuracy(probs, labels, 3),
            "macro-average-3": metrics.average_k_accuracy(probs, labels, 3, average="macro"),
            "ace": metrics.calibration_error(probs, labels, "average", over="all"),
            "nll": reference.log_loss(probs, labels),
        },
        rel=1e-9,
    )


def test_metrics_of_many_labels_are_those_of_the_formulas():
    scores, target = draw(many=True)
    found = Monitor("map", 5, Sigmoid()).measure(scores, target)
    probs, labels = np.vectorize(links.sigmoid)(scores.numpy()), target.numpy()
    assert 0 < target.any(1).sum() < N
    inside = [row for row in range(N) if labels[row].any()]
    assert found == pytest.approx(
        {
            "map": metrics.mean_average_precision(probs, labels),
            "ace": metrics.calibration_error(probs, labels, "average", over="all"),
            "nll": reference.log_loss(probs, labels),
            "top1-in": sum(labels[row, probs[row].argmax()] for row in inside) / len(inside),
            "confidence-in": sum(max(probs[row]) for row in inside) / len(inside),
            "confidence-out": metrics.mean_max_confidence(probs, labels),
            "auroc-confidence": metrics.outlier_auroc(probs, labels),
            "auroc-any-label": metrics.outlier_auroc(probs, labels, "any-label"),
            "fpr95": metrics.outlier_fpr(probs, labels),
        },
        rel=1e-9,
    )


@pytest.mark.parametrize("kept", [True, False])
def test_without_rows_of_both_kinds_there_are_no_outlier_numbers(kept):
    scores, target = draw(many=True)
    rows = target.any(1) == kept
    assert set(Monitor("map", 5, Sigmoid()).measure(scores[rows], target[rows])) == {"map", "ace", "nll"}


@pytest.mark.parametrize("name", OF_OUTLIERS)
def test_outlier_numbers_decide_where_rows_without_a_label_are_validated(name):
    chosen = recipe("quasibinary", monitor=name)
    link = Quasibinary()
    monitor = make_monitor(chosen, link, C, outliers=True)
    assert monitor.better({name: 0.2}, {name: 0.4}) == (name in ("fpr95", "confidence-out"))
    scores, target = draw(many=True)
    assert math.isnan(monitor.measure(scores, target)[name])
    link.update(scores, target)
    assert math.isfinite(monitor.measure(scores, target)[name])
    with pytest.raises(InputError, match=f"monitor: .*got '{name}', which needs validation rows .*without one"):
        make_monitor(chosen, link, C)
    with pytest.raises(InputError, match=f"monitor: .*got '{name}'$"):
        make_monitor(recipe("average-k", monitor=name), Softmax(), C, outliers=True)


def test_metrics_are_the_librarys_own():
    scores, target = (draw()[0].float(), draw()[1])
    found, probs = Monitor("top-1", 2.5, Softmax()).measure(scores, target), Softmax().probs(scores)
    assert found["top-2"] == float(top_k_accuracy(probs, target, 2))
    assert found["macro-top-2"] == float(top_k_accuracy(probs, target, 2, average="macro"))
    assert found["average-2.5"] == float(average_k_accuracy(probs, target, 2.5))
    assert found["macro-average-2.5"] == float(average_k_accuracy(probs, target, 2.5, average="macro"))
    assert found["ace"] == float(calibration_error(probs, target, norm="average", over="all"))
    scores, target = draw(many=True)
    assert Monitor("map", 5, None).measure(scores, target) == {"map": float(mean_average_precision(scores, target))}


def test_scores_without_a_link_are_ranked_as_they_are():
    scores, target = draw()
    found = Monitor("average-3", 3, None).measure(scores, target)
    assert set(found) == {"top-1", "top-3", "macro-top-3", "average-3", "macro-average-3"}
    assert found["average-3"] == pytest.approx(metrics.average_k_accuracy(scores.numpy(), target.numpy(), 3))


@pytest.mark.parametrize("link", [Quasibinary(), Temperature()])
def test_a_link_without_its_numbers_counts_as_none(link):
    scores, target = draw()
    assert Monitor("top-1", 3, link).measure(scores, target) == Monitor("top-1", 3, None).measure(scores, target)


def test_a_running_link_counts_once_it_has_its_number():
    scores, target = draw(many=True)
    link = Quasibinary()
    link.update(scores, target)
    found = Monitor("map", 3, link).measure(scores, target)
    assert {"ace", "nll"} < set(found)
    assert all(math.isfinite(value) for value in found.values())


def test_probabilities_of_nothing_cost_much_and_not_without_end():
    scores = torch.tensor([[200.0, -200.0]])
    assert Monitor("nll", 1, Softmax()).measure(scores, torch.tensor([1]))["nll"] == pytest.approx(400)
    many = torch.tensor([[False, True]])
    assert Monitor("nll", 1, Sigmoid()).measure(scores, many)["nll"] == pytest.approx(200)
    nothing = torch.tensor([[1.0, 0.0]])
    assert Monitor("nll", 1, Identity()).measure(nothing, torch.tensor([1]))["nll"] == pytest.approx(745)


def test_rows_without_any_label_have_no_map():
    scores, _ = draw()
    assert math.isnan(Monitor("map", 5, None).measure(scores, torch.zeros(N, C, dtype=torch.bool))["map"])


def test_tied_scores_give_no_warning():
    found = Monitor("average-2", 2, Softmax()).measure(torch.zeros(4, 5), torch.tensor([0, 1, 2, 3]))
    assert 0 <= found["average-2"] <= 1


@pytest.mark.parametrize(("deciding", "values", "kept"), [
    ("top-1", [0.5, 0.4, 0.6, 0.6, math.nan, 0.7], [0.5, 0.6, 0.7]),
    ("map", [math.nan, 0.1, math.nan, 0.1], [0.1]),
    ("nll", [2.0, 2.5, 1.0, 1.0, math.nan, 0.5], [2.0, 1.0, 0.5]),
    ("ace", [0.0, 0.1, math.nan], [0.0]),
    ("average-5", [0.0, -0.0, 1.0], [0.0, 1.0]),
])  # fmt: skip
def test_the_best_is_the_first_of_the_best_and_never_no_number(deciding, values, kept):
    monitor, best, found = Monitor(deciding, 5, None), None, []
    for value in values:
        if monitor.better({deciding: value}, best):
            best = {deciding: value}
            found.append(value)
    assert found == kept


@pytest.mark.parametrize(("deciding", "numbers", "kept"), [
    # Saturated from the first epoch on: the log-loss decides.
    ("average-5", [{"average-5": 1.0, "nll": 1.6}, {"average-5": 1.0, "nll": 0.4}, {"average-5": 1.0, "nll": 0.9}], 1),
    ("average-5", [{"average-5": 1.0, "nll": 1.6}, {"average-5": 0.9, "nll": 0.4}], 0),
    ("average-5", [{"average-5": 0.9, "nll": 0.1}, {"average-5": 1.0, "nll": 0.4}], 1),
    # Without probabilities top-1 accuracy decides, and between equals the first epoch is kept.
    ("macro-top-3", [{"macro-top-3": 1.0, "top-1": 0.3}, {"macro-top-3": 1.0, "top-1": 0.6}], 1),
    ("top-1", [{"top-1": 1.0}, {"top-1": 1.0}], 0),
    # A link that training had not updated yet in the first epoch, and NaN as JSON has it.
    ("map", [{"map": 1.0}, {"map": 1.0, "nll": 0.4}, {"map": 1.0, "nll": 0.3}], 0),
    ("map", [{"map": 1.0, "nll": 0.4}, {"map": None, "nll": 0.1}, {"map": 1.0, "nll": math.nan}], 0),
    ("nll", [{"nll": 0.4, "top-1": 0.5}, {"nll": 0.4, "top-1": 0.6}], 1),
])  # fmt: skip
def test_a_tie_is_broken_by_log_loss_or_top_1(deciding, numbers, kept):
    monitor, best = Monitor(deciding, 5, None), None
    for candidate in numbers:
        best = candidate if monitor.better(candidate, best) else best
    assert best is numbers[kept]


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_the_deciding_metric_is_what_the_method_is_for(method):
    monitor = make_monitor(recipe(method.name), None, 100)
    if method.labels == "any":
        assert monitor.deciding == "map"
    elif "topk" in method.name:
        assert monitor.deciding == "macro-top-5"
    else:
        assert monitor.deciding == "average-5"


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_the_deciding_metric_is_one_of_those_measured(method):
    scores, target = draw(many=method.labels == "any")
    link = Softmax()
    for classes_link in (None, link):
        monitor = make_monitor(recipe(method.name), classes_link, C)
        assert monitor.deciding in monitor.measure(scores, target)


def test_one_label_read_as_many_is_decided_by_map():
    assert make_monitor(recipe("bce", labels="any"), Sigmoid(), 10).deciding == "map"


@pytest.mark.parametrize(("k", "classes", "deciding"), [
    (2, 3, "average-2"), (2.5, 3, "average-2.5"), (2.5, 10, "average-2.5"), (1, 2, "average-1"),
    (3, 3, "nll"), (5, 3, "nll"),  # accuracies of sets of all classes are 100 % in every epoch
])  # fmt: skip
def test_the_deciding_metric_can_differ_between_epochs(k, classes, deciding):
    monitor = make_monitor(recipe(parameters={"k": k}), Softmax(), classes)
    assert monitor.deciding == deciding
    assert make_monitor(recipe(parameters={"k": k}), None, classes).deciding == ("top-1" if deciding == "nll" else deciding)
    scores = torch.randn(8, classes, generator=torch.Generator().manual_seed(0))
    assert deciding in monitor.measure(scores, torch.zeros(8, dtype=torch.int64))


def test_a_monitor_of_more_labels_than_classes_measures_all_of_them():
    scores, target = draw()
    found = Monitor("top-1", 50, Softmax()).measure(scores, target)
    assert found[f"top-{C}"] == found[f"macro-top-{C}"] == found["average-50"] == 1.0


@pytest.mark.parametrize(("classes", "deciding"), [
    (2, "average-1"), (3, "average-1"), (5, "average-2"), (7, "average-3"), (10, "average-5"),
])  # fmt: skip
def test_without_a_k_the_metric_suits_the_number_of_classes(classes, deciding):
    assert make_monitor(recipe("cross-entropy"), Softmax(), classes).deciding == deciding


@pytest.mark.parametrize("name", ["top-3", "macro-top-3", "average-3", "macro-average-3"])
def test_a_metric_that_is_always_100_percent_is_refused(name):
    with pytest.raises(InputError, match=rf"^monitor: .*top-1, ace, nll; got '{name}', which is 100 % .* 3 classes$"):
        make_monitor(recipe("cross-entropy", rule="top-k:3", monitor=name), Softmax(), 3)


@pytest.mark.parametrize("name", ["top-1", "top-3", "macro-top-3", "average-3", "macro-average-3", "ace", "nll"])
def test_every_metric_may_decide(name):
    monitor = make_monitor(recipe(monitor=name, parameters={"k": 3}), Softmax(), 10)
    assert monitor.deciding == name
    assert name in monitor.measure(*draw())


@pytest.mark.parametrize(("settings", "link", "message"), [
    ({"monitor": "accuracy"}, Softmax(), "macro-top-5, average-5, macro-average-5, ace, nll; got 'accuracy'"),
    ({"monitor": "top-4"}, Softmax(), "got 'top-4'"),
    ({"monitor": "map"}, Softmax(), "got 'map'"),
    ({"monitor": "nll"}, None, "monitor: expected one of top-1, top-5, macro-top-5, average-5, macro-average-5; got 'nll'"),
    ({"monitor": "top-1", "method": "bce"}, Sigmoid(), "monitor: expected one of map, ace, nll; got 'top-1'"),
    ({"monitor": "ace", "method": "two-way"}, None, "monitor: expected one of map; got 'ace'"),
])  # fmt: skip
def test_other_metrics_are_refused(settings, link, message):
    with pytest.raises(InputError) as error:
        make_monitor(recipe(**settings), link, 100)
    assert message in str(error.value)


def test_the_monitor_reads_by_the_link_it_was_given():
    link: Link = Softmax()
    assert make_monitor(recipe(), link, 10).link is link


def test_a_metric_of_probabilities_needs_a_link_that_has_its_numbers():
    with pytest.raises(InputError, match=r"^monitor: .*got 'nll'"):
        make_monitor(recipe("bce", monitor="nll"), Quasibinary(), C)


def test_a_running_link_has_its_numbers_once_training_moved_it():
    scores, target = draw(many=True)
    link = Quasibinary()
    monitor = make_monitor(recipe("quasibinary", monitor="nll"), link, C)
    assert math.isnan(monitor.measure(scores, target)["nll"])
    assert not monitor.better(monitor.measure(scores, target), None)
    link.update(scores, target)
    assert math.isfinite(monitor.measure(scores, target)["nll"])
