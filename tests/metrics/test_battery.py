"""Laws of every metric, as a function and streaming."""

import inspect
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torchmetrics import Metric, MetricCollection

from shortlist import metrics
from shortlist.errors import InputError
from tests.metrics.cases import CASES, CLASSES, SYNONYMS, as_numbers, camel, draw, pairs, tensors

every_metric = pytest.mark.parametrize("case", CASES, ids=str)
both_targets = pytest.mark.parametrize("many_labels", [False, True], ids=["one label", "many labels"])


def equal(found, expected, **kwargs):
    np.testing.assert_allclose(as_numbers(found), as_numbers(expected), rtol=1e-11, atol=1e-13, **kwargs)


def streamed(case, parts):
    metric = case.streaming()
    for values, target in parts:
        metric.update(values, target)
    return metric


@pytest.mark.parametrize("name", pairs())
def test_the_streaming_form_has_the_keywords_and_defaults_of_the_function(name):
    function, metric = pairs()[name]
    values, target, *others = inspect.signature(function).parameters.values()
    assert values.name in ("sets", "probs")
    assert target.name == "target"
    own = inspect.signature(metric).parameters.values() if "__init__" in vars(metric) else []
    assert {p.name: p.default for p in own if p.kind is not p.VAR_KEYWORD} == {p.name: p.default for p in others}
    assert all(p.kind is p.KEYWORD_ONLY for p in others if p.default is not p.empty)


def test_every_function_streams_unless_it_is_no_number():
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert functions - set(pairs()) - set(SYNONYMS) == {
        "calibration_definition",
        "calibration_test",
        "evaluate_retrieval",
        "logs_of",
        "retrieval_curve",
        "worst_slab_coverage",  # needs all rows, and their features
    }


def test_every_streaming_metric_has_its_function_but_for_the_one_in_bins():
    classes = {c for c in (getattr(metrics, name) for name in metrics.__all__) if inspect.isclass(c) and issubclass(c, Metric)}
    assert {c.__name__ for c in classes} - {camel(name) for name in pairs()} == {"BinnedMeanAveragePrecision"}


def test_every_pair_has_a_case_but_for_the_curves():
    assert {case.name for case in CASES} == set(pairs()) - {"rank_curve", "size_accuracy_curve"}


@every_metric
@both_targets
@pytest.mark.parametrize("seed", [0, 1])
def test_the_function_equals_the_literal_formula(case, many_labels, seed):
    values, target = draw(case, many_labels=many_labels, seed=seed)
    expected = case.expected(values, target)
    equal(case.function(values, target), expected)
    equal(case.function(*tensors(values, target)), expected)


@every_metric
@both_targets
def test_answers_are_float64(case, many_labels):
    answer = case.function(*tensors(*draw(case, many_labels=many_labels)))
    for value in answer.values() if isinstance(answer, dict) else [answer]:
        assert value.dtype == torch.float64
        assert value.ndim == (case.keywords.get("average") == "none")


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "retrieval_map"], ids=str)
@both_targets
def test_arrays_lists_and_frames_give_plain_numbers_and_tensors_give_tensors(case, many_labels):
    values, target = draw(case, many_labels=many_labels)
    labels = pd.DataFrame(target) if target.ndim == 2 else pd.Series(target)
    whole = case.function(*tensors(values, target))
    per_class = case.keywords.get("average") == "none"
    for arguments in ((values, target), (values.tolist(), target.tolist()), (pd.DataFrame(values), labels)):
        answer = case.function(*arguments)
        np.testing.assert_allclose(as_numbers(answer), as_numbers(whole), atol=1e-6)  # lists of floats are float32
        for value in answer.values() if isinstance(answer, dict) else [answer]:
            assert isinstance(value, np.ndarray if per_class else float)


@pytest.mark.parametrize(("synonym", "name"), SYNONYMS.items())
def test_synonyms_are_the_same_function_and_class(synonym, name):
    assert getattr(metrics, synonym) is getattr(metrics, name)
    assert getattr(metrics, camel(synonym)) is getattr(metrics, camel(name))


def test_words_of_other_libraries_are_understood_or_answered():
    probs, target = np.random.default_rng(0).dirichlet(np.ones(4), 30), np.arange(30) % 4
    assert metrics.calibration_error(probs, target, n_bins=7) == metrics.calibration_error(probs, target, bins=7)
    assert metrics.calibration_error(probs, target, norm="l1") == metrics.calibration_error(probs, target, norm="expected")
    assert metrics.CalibrationError(n_bins=7, norm="l1").definition.startswith("ECE, 7 bins")
    assert metrics.top_k_accuracy(probs, target, top_k=2) == metrics.top_k_accuracy(probs, target, k=2)
    assert metrics.TopKAccuracy(top_k=2).rule.text == "top-k:2"
    for call in (
        lambda: metrics.calibration_error(probs, target, num_classes=4),
        lambda: metrics.CalibrationError(num_classes=4),
        lambda: metrics.coverage(probs > 0.3, target, num_classes=4),
        lambda: metrics.Coverage(num_classes=4),
        lambda: metrics.MeanAveragePrecision(num_classes=4),
    ):
        with pytest.raises(TypeError, match="num_classes: not needed"):
            call()
    with pytest.raises(TypeError, match="top_k: .*top_k_accuracy"):
        metrics.coverage(probs > 0.3, target, top_k=2)
    with pytest.raises(TypeError, match="top_k: .*over=n"):
        metrics.calibration_error(probs, target, top_k=2)


@every_metric
@both_targets
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, 40), max_size=6), seed=st.integers(0, 9))
def test_any_batching_and_order_gives_the_same(case, many_labels, cuts, seed):
    values, target = draw(case, many_labels=many_labels)
    order = np.random.default_rng(seed).permutation(len(values))
    bounds = [0, *sorted(cuts), len(values)]
    parts = [(values[order[a:b]], target[order[a:b]]) for a, b in itertools.pairwise(bounds)]
    equal(streamed(case, parts).compute(), case.function(values, target))


@every_metric
@both_targets
def test_two_metrics_merge_into_one(case, many_labels):
    values, target = draw(case, many_labels=many_labels)
    first, second = streamed(case, [(values[:17], target[:17])]), streamed(case, [(values[17:], target[17:])])
    first.merge_state(second)
    equal(first.compute(), case.function(values, target))


@every_metric
def test_a_metric_merges_with_one_that_saw_nothing(case):
    values, target = draw(case)
    metric = streamed(case, [(values, target)])
    metric.merge_state(case.streaming())
    equal(metric.compute(), case.function(values, target))


def kept(metric):
    """The metric after a round trip of its state through ``state_dict``, as in a checkpoint."""
    metric.persistent(True)
    metric.load_state_dict(metric.state_dict())
    return metric


@both_targets
@pytest.mark.parametrize("takes", ["sets", "probs"])
@pytest.mark.parametrize("again", [lambda m: m, lambda m: pickle.loads(pickle.dumps(m)), kept], ids=["", "pickled", "loaded"])
def test_metrics_in_a_collection_never_share_a_state(many_labels, takes, again):
    """Whatever the first batch gives: here every total of sets is the same for coverage and precision, top 1 and top 2."""
    cases = {str(case).replace(".", "_"): case for case in CASES if (case.takes == "sets") == (takes == "sets")}
    if not many_labels:
        cases = {name: case for name, case in cases.items() if case.takes != "many"}
    first, second = (tensors(*draw(case=next(iter(cases.values())), many_labels=many_labels, seed=s)) for s in (0, 1))
    alike = torch.eye(CLASSES)
    alike = alike > 0 if takes == "sets" else alike
    batches = [(alike, alike > 0 if many_labels else torch.arange(CLASSES)), first, second]
    collection = MetricCollection({name: case.streaming() for name, case in cases.items()})
    for _ in range(2):
        for batch in batches:
            collection.update(*batch)
            collection = again(collection)
        rows = [torch.cat(parts) for parts in zip(*batches, strict=True)]
        for name, case in cases.items():
            equal(collection[name].compute(), case.function(*rows))
        collection.reset()


def test_metrics_of_a_collection_with_equal_totals_of_the_first_batch_stay_apart():
    sets, target = torch.tensor([[True, False], [True, True]]), torch.tensor([0, 1])
    ends = MetricCollection([metrics.SetSize(), metrics.SetPrecision(), metrics.EmptyRate()])
    ends.update(sets[:1], target[:1])
    ends.update(sets, target)
    assert {name: float(value) for name, value in ends.compute().items()} == pytest.approx(
        {"SetSize": 4 / 3, "SetPrecision": 3 / 4, "EmptyRate": 0}
    )


@every_metric
def test_a_call_answers_for_its_batch_and_is_remembered(case):
    values, target = tensors(*draw(case, many_labels=case.takes == "many"))
    metric = case.streaming()
    metric(values[:20], target[:20])
    equal(metric(values[20:], target[20:]), case.function(values[20:], target[20:]))
    equal(metric.compute(), case.function(values, target))


@every_metric
def test_a_reset_forgets_everything(case):
    values, target = draw(case)
    metric = streamed(case, [(values, target)])
    metric.reset()
    metric.update(values[:9], target[:9])
    equal(metric.compute(), case.function(values[:9], target[:9]))


@every_metric
def test_a_metric_survives_being_pickled(case):
    values, target = draw(case)
    metric = pickle.loads(pickle.dumps(streamed(case, [(values, target)])))
    equal(metric.compute(), case.function(values, target))


@pytest.mark.parametrize("case", [case for case in CASES if case.constant_size], ids=str)
def test_the_state_has_one_size_whatever_the_number_of_rows(case):
    def size(batches):
        metric = streamed(case, [draw(case, seed=seed) for seed in range(batches)])
        return sum(torch.as_tensor(getattr(metric, name)).numel() for name in metric._defaults)

    assert size(1) == size(7)
    # Three numbers a bin, and how many batches had one label a row or several; four or six numbers a bin and class. One more
    # marks the state as not shared.
    by_class = {"classwise_calibration_error": 4, "brier_decomposition": 6}
    if case.name != "smooth_calibration_error":
        assert size(1) <= 1 + (15 * by_class[case.name] * CLASSES if case.name in by_class else 15 * 3 + 2)


# Sums of logarithms, which retrieval ranks by, tie or not by rounding: no grid for it.
ON_A_GRID = [case for case in CASES if case.takes != "sets" and case.name != "retrieval_map"]


@pytest.mark.parametrize("case", ON_A_GRID, ids=str)
@both_targets
@pytest.mark.filterwarnings("ignore:.*tie at the cut")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_ties_on_a_grid_that_every_precision_holds_equal_the_literal_formula(case, many_labels, dtype):
    values, target = tensors(*draw(case, many_labels=many_labels))
    grid = (values * 16).round() / 16
    equal(case.function(grid.to(dtype), target), case.expected(grid.numpy(), target.numpy()))


@every_metric
@both_targets
def test_no_rows_are_no_number(case, many_labels):
    values, target = draw(case, many_labels=many_labels, rows=3)
    try:
        answer = case.function(values[:0], target[:0])
    except InputError:
        assert case.name == "average_k_accuracy"
        return
    assert np.isnan(as_numbers(answer)).all()


@every_metric
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_a_metric_that_saw_nothing_says_nothing_or_why(case):
    """NaN, or an error in words: never one about the index of a tensor."""
    try:
        answer = case.streaming().compute()
    except InputError:
        return
    assert np.isnan(as_numbers(answer)).all()


@every_metric
@pytest.mark.filterwarnings("ignore:.*tie at the cut")
def test_probabilities_of_0_and_1_give_numbers(case):
    values, target = draw(case, many_labels=case.takes == "many")
    values = values if case.takes == "sets" else values.round()
    found = case.function(values, target)
    equal(found, case.expected(values, target))
    missing = np.isnan(as_numbers(found))
    if case.name.startswith("classwise"):  # an absent class is calibrated or not
        assert not missing.any()
        return
    by_class = case.keywords.get("average") == "none" and len(missing) == CLASSES
    assert missing.tolist() == ([label == 4 for label in range(CLASSES)] if by_class else [False] * len(missing))


@pytest.mark.parametrize("case", [case for case in CASES if case.takes != "sets"], ids=str)
@pytest.mark.filterwarnings("ignore:.*tie at the cut")
def test_probabilities_that_rounding_left_outside_count_as_0_and_1(case):
    values, target = draw(case, many_labels=case.takes == "many")
    if case.streaming().kind != "probabilities":
        pytest.skip("takes any scores")
    values[[0, 5, 9], [0, 1, 2]], values[[1, 6, 9], [0, 1, 3]] = 1, 0
    outside = np.where(values == 1, 1.0009, np.where(values == 0, -0.0009, values))
    equal(case.function(outside, target), case.function(values, target))
    equal(streamed(case, [(outside, target)]).compute(), case.function(values, target))


@every_metric
@both_targets
def test_inputs_are_left_as_they_were(case, many_labels):
    values, target = draw(case, many_labels=many_labels)
    before = values.copy(), target.copy()
    case.function(values, target)
    streamed(case, [(values, target)]).compute()
    np.testing.assert_array_equal(values, before[0])
    np.testing.assert_array_equal(target, before[1])


WITH_TARGET = [case for case in CASES if case.name not in ("set_size", "empty_rate", "mean_max_confidence")]


@pytest.mark.parametrize("case", WITH_TARGET, ids=str)
@pytest.mark.parametrize(
    "target",
    [torch.zeros(7, dtype=torch.long), torch.zeros(40, CLASSES, dtype=torch.long), torch.zeros(40), torch.ones(40, 3) > 0],
)
def test_a_target_of_another_form_is_refused(case, target):
    values, _ = tensors(*draw(case))
    with pytest.raises(InputError, match="target"):
        case.function(values, target)
    with pytest.raises(InputError, match="target"):
        streamed(case, [(values, target)]).compute()


@every_metric
def test_values_of_another_form_are_refused(case):
    _, target = tensors(*draw(case))
    wrong = torch.rand(40, CLASSES) if case.takes == "sets" else torch.ones(40, CLASSES, dtype=torch.bool)
    with pytest.raises(InputError, match=r"expected (bool|floating)"):
        case.function(wrong, target)


@every_metric
@both_targets
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_buffer_that_is_filled_again_does_not_change_what_was_added(case, many_labels, kind):
    values, target = tensors(*draw(case, many_labels=many_labels, seed=3))
    buffers = [values.clone(), target.clone()]
    if kind == "numpy":
        buffers = [buffer.numpy() for buffer in buffers]
    metric = case.streaming()
    metric.update(*buffers)
    for buffer in buffers:
        buffer[:] = buffer[::-1].copy() if kind == "numpy" else buffer.flip(0)
        buffer[0] = buffer[1]
    equal(metric.compute(), streamed(case, [(values, target)]).compute())
