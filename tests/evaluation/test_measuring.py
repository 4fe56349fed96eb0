"""Evaluation: one pass over blocks gives what the functions of shortlist.metrics give for the whole matrix."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import Predictions, metrics
from shortlist.errors import InputError, NotFittedError
from shortlist.evaluation import measure, tally
from shortlist.metrics import calibration_definition
from shortlist.sets import average_k, mass, threshold, top_k
from tests.references import metrics as ref, training
from tests.report.cases import CLASSES, COUNTS, KINDS, draw

RULES = {"top-k": lambda: top_k(2), "threshold": lambda: threshold(0.45)}


def standard_error(sets, target, accuracy):
    """Of a ratio of two sums over independent rows: the labels of one row hit or miss together."""
    if target.ndim == 1:
        return (accuracy * (1 - accuracy) / len(target)).sqrt()
    residuals = [float((row & marks).sum() - accuracy * marks.sum()) for row, marks in zip(sets, target, strict=True)]
    return math.sqrt(sum(residual**2 for residual in residuals)) / int(target.sum())


def whole_matrix_numbers(predictions, rule):
    """Every number by its public function, all rows at once."""
    shown, target = predictions.plausibility(), predictions.target
    sets = rule(shown)
    sizes = sets.sum(1).double()
    numbers = {
        "rows": len(predictions),
        "size": metrics.set_size(sets),
        "size_se": sizes.std() / math.sqrt(len(predictions)),
        "size_sd": sizes.std(),
        "empty": metrics.empty_rate(sets),
    }
    if target is None:
        return numbers
    word = "coverage" if target.ndim == 1 else "recall"
    accuracy = metrics.coverage(sets, target)
    numbers |= {
        word: accuracy,
        f"{word}_se": standard_error(sets, target, accuracy),
        f"macro_{word}": metrics.coverage(sets, target, average="macro"),
        "size_stratified": metrics.size_stratified_coverage(sets, target, edges=(1, 3, 10, 100, 1000), min_rows=20),
    }
    if predictions.train_counts is not None:
        numbers |= metrics.shot_coverage(sets, target, train_counts=predictions.train_counts)
    if target.ndim == 1:
        numbers["top1"] = metrics.top_k_accuracy(shown, target, k=1)
        numbers["top1_se"] = (numbers["top1"] * (1 - numbers["top1"]) / len(predictions)).sqrt()
    else:
        numbers["precision"] = metrics.set_precision(sets, target)
        shares = [
            float((row & marks).sum() / marks.sum()) if marks.any() else 1.0 for row, marks in zip(sets, target, strict=True)
        ]
        numbers["row_recall"] = sum(shares) / len(shares)
        numbers["f1_top_n"] = metrics.top_n_f1(shown, target, n=4)
        numbers |= {f"map_{axis}": metrics.mean_average_precision(shown, target, axis=axis) for axis in ("class", "example")}
    if predictions.link is not None:
        numbers |= calibration_numbers(shown, target)
        numbers["log_loss"] = training.log_loss(shown.double().numpy(), target.numpy())
        if target.ndim == 2 and not target.any(1).all():
            numbers |= outlier_numbers(shown, target)
    return numbers


def calibration_numbers(probs, target):
    """Three norms over three choices of pairs, and what is measured about classes and by the test."""
    pairs = {"top": "top", "all": "all"} | ({"top_n": 4} if target.ndim == 2 else {})
    norms = {"calibration": "expected", "ace": "average", "mce": "max"}
    return {
        f"{name}_{over}": metrics.calibration_error(probs, target, norm=norm, over=counted)
        for name, norm in norms.items()
        for over, counted in pairs.items()
    } | {
        **brier_numbers(probs, target),
        "smooth": metrics.smooth_calibration_error(probs, target),
        "calibration_classwise": metrics.classwise_calibration_error(probs, target),
        "calibration_p": metrics.calibration_test(probs, target).p_value,
    }


def brier_numbers(probs, target):
    parts = metrics.brier_decomposition(probs, target)
    found = {f"brier_{name}": parts[name] for name in ("reliability", "resolution", "uncertainty")}
    within = parts["within_variance"] - parts["within_covariance"]
    return found | {"brier": metrics.brier_score(probs, target), "brier_within": within}


def outlier_numbers(probs, target):
    """Rows with a label against rows without one."""
    known = target.any(1)
    right = [bool(marks[row.argmax()]) for row, marks in zip(probs[known], target[known], strict=True)]
    return {
        "top1_in": sum(right) / len(right),
        "confidence_in": metrics.mean_max_confidence(probs[known]),
        "confidence_out": metrics.mean_max_confidence(probs, target),
        "auroc_confidence": metrics.outlier_auroc(probs, target),
        "auroc_any_label": metrics.outlier_auroc(probs, target, by="any-label"),
        "fpr95": metrics.outlier_fpr(probs, target),
    }


@pytest.fixture(params=[1, 7, 33, 10**6], ids="{} rows a block".format)
def block_rows(request, monkeypatch):
    whole = Predictions.blocks
    entries = request.param * len(CLASSES)
    monkeypatch.setattr(Predictions, "blocks", lambda self: whole(self, entries))
    return request.param


@pytest.mark.parametrize("counts", [None, COUNTS], ids=["no counts", "counts"])
@pytest.mark.parametrize(("link", "rule"), [("softmax", "top-k"), ("softmax", "threshold"), (None, "top-k")])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("block_rows")
def test_numbers_are_those_of_the_metrics_on_the_whole_matrix_whatever_the_blocks(kind, link, rule, counts):
    predictions, rule = draw(kind, link=link, counts=counts), RULES[rule]()
    found = measure(predictions, rule, name="trees").numbers()
    assert found.pop("name") == "trees"
    assert found.pop("rule") == rule.text
    expected = whole_matrix_numbers(predictions, rule)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # float32 sigmoids round by place in the block, and what varies within bins is a difference of larger numbers
        assert found[name] == pytest.approx(float(value), rel=1e-6, abs=1e-8 * (name == "brier_within"), nan_ok=True), name


@pytest.mark.parametrize("kind", ["single", "many"])
@pytest.mark.usefixtures("block_rows")
def test_curves_reliability_and_groups_are_those_of_the_whole_matrix(kind):
    predictions, rule = draw(kind, counts=COUNTS), threshold(0.45)
    found, probs, target = measure(predictions, rule), predictions.probs(), predictions.target
    curve = metrics.size_accuracy_curve(probs, target)
    for part, whole in zip(found.size_curve, curve, strict=True):
        torch.testing.assert_close(part, whole)
    pairs = {
        over: ref.width_bins(ref.confidence_pairs(probs.double().numpy(), target.numpy(), over), 15) for over in ("top", "all")
    }
    for over, table in pairs.items():
        counts, confidence, right = found.reliability[over].tolist()
        assert counts == [len(part) for part in table]
        assert confidence == pytest.approx([sum(c for c, _ in part) for part in table])
        assert right == [sum(o for _, o in part) for part in table]
    counted = ["top", "all", *([4] if kind == "many" else [])]
    assert list(found.calibration()) == [calibration_definition("expected", 15, "width", over) for over in counted]
    groups = {"few": [0, 1], "medium": [2, 3], "many": [4, 5]}
    sizes, marks = rule(probs).sum(1), ref.marks_of(target.numpy(), len(CLASSES))
    for group, members in groups.items():
        rows = [int(size) for size, row in zip(sizes, marks, strict=True) if row[members].any()]
        assert found.group_sizes[group].tolist() == [rows.count(size) for size in range(len(CLASSES) + 1)]
    if kind == "many":
        assert found.rank_curve is None
        return
    for part, whole in zip(found.rank_curve, metrics.rank_curve(probs, target), strict=True):
        torch.testing.assert_close(part, whole)


@pytest.mark.parametrize("link", ["softmax", None])
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_known_is_absent_rather_than_guessed(kind, link):
    found = measure(draw(kind, link=link), top_k(2))
    labelled = kind != "none"
    assert found.labelled == labelled
    assert (found.size_curve is not None) == (labelled and link is not None)
    assert bool(found.reliability) == (labelled and link is not None)
    assert (found.rank_curve is not None) == (kind == "single")
    assert set(found.mean_average_precision) == ({"map_class", "map_example"} if kind == "many" else set())
    assert math.isnan(found.coverage) == math.isnan(found.coverage_error) == (not labelled)
    assert found.group_sizes == found.shot_coverages() == {}


@pytest.mark.usefixtures("block_rows")
def test_binned_average_precision_stands_in_beyond_the_limit_and_its_bounds_hold_the_exact_value(monkeypatch):
    predictions = draw("many", rows=200)
    exact = float(metrics.mean_average_precision(predictions.probs(), predictions.target))
    monkeypatch.setattr(tally, "EXACT_ENTRIES", predictions.scores.numel())
    assert measure(predictions, threshold(0.5)).mean_average_precision["map_class"] == pytest.approx(exact, rel=1e-12)
    monkeypatch.setattr(tally, "EXACT_ENTRIES", predictions.scores.numel() - 1)
    found = measure(predictions, threshold(0.5)).mean_average_precision
    low, high = found["map_class_low"], found["map_class_high"]
    assert low - 1e-9 <= exact <= high + 1e-9
    assert low - 1e-9 <= found["map_class"] <= high + 1e-9
    assert found["map_class"] == pytest.approx(exact, abs=0.05)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**20), rows=st.integers(1, 40), spread=st.sampled_from([0.0, 0.01, 3.0, 60.0]))
def test_bounds_of_binned_average_precision_hold_under_ties_and_saturation(seed, rows, spread):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(rows, 3, generator=generator)
    target = torch.rand(rows, 3, generator=generator) < 0.4
    predictions = Predictions(scores, target, link="sigmoid")
    exact = float(metrics.mean_average_precision(predictions.probs(), target))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "EXACT_ENTRIES", 0)
        found = measure(predictions, threshold(0.5)).mean_average_precision
    if target.any():
        assert found["map_class_low"] - 1e-9 <= exact <= found["map_class_high"] + 1e-9
    else:
        assert all(math.isnan(value) for value in found.values())


def test_scores_without_a_link_are_never_binned(monkeypatch):
    predictions = draw("many", link=None)
    monkeypatch.setattr(tally, "EXACT_ENTRIES", 0)
    exact = float(metrics.mean_average_precision(predictions.scores, predictions.target))
    assert measure(predictions, top_k(1)).mean_average_precision["map_class"] == pytest.approx(exact, rel=1e-12)


@pytest.mark.usefixtures("block_rows")
def test_progress_counts_the_rows_done_up_to_all(block_rows):
    seen = []
    measure(draw(rows=90), top_k(1), progress=seen.append)
    assert seen == [min(90, done) for done in range(block_rows, 90 + block_rows, block_rows)]


@pytest.mark.parametrize("rows", [1, 2])
def test_one_or_two_rows_are_enough(rows):
    numbers = measure(draw(rows=rows), top_k(2)).numbers()
    assert (numbers["rows"], numbers["size"], numbers["size_sd"]) == (rows, 2.0, 0.0)


def test_nothing_to_evaluate_an_unfitted_rule_and_unreadable_scores_are_refused():
    with pytest.raises(InputError, match="expected rows to evaluate, got none"):
        measure(draw(rows=90).rows(slice(0, 0)), top_k(1))
    with pytest.raises(NotFittedError, match="call fit"):
        measure(draw(), average_k(2))
    with pytest.raises(InputError, match=r"as probabilities, which mass:0\.1 needs"):
        measure(draw(link=None), mass(0.1))


def test_notes_of_the_fit_come_along():
    tied = torch.full((4, 6), 1 / 6)
    with pytest.warns(match="average-k:2"):
        rule = average_k(2).fit(tied)
    assert measure(draw(), rule).notes == list(rule.notes) != []


@pytest.mark.parametrize(
    ("scores", "target", "link", "expected"),
    [
        ([[0.0, 100.0]], [0], "softmax", 100.0),
        ([[0.0, 1000.0]], [0], "softmax", 1000.0),
        ([[0.0, 70.0, 70.0]], [0], "softmax", 70 + math.log(2)),
        ([[200.0, 0.0]], [[False, False]], "sigmoid", (200 + math.log(2)) / 2),
        ([[0.0, 1.0]], [0], "identity", 745.0),
    ],
)
def test_the_log_loss_of_very_wrong_rows_has_no_cap(scores, target, link, expected):
    found = measure(Predictions(torch.tensor(scores), torch.tensor(target), link=link)).numbers()["log_loss"]
    assert found == pytest.approx(expected, rel=1e-6)
