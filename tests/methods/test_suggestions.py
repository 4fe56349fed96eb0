"""Parameters suggested from class counts, each with its reason."""

import numpy as np
import pytest

from shortlist.errors import InputError
from shortlist.methods import all_methods, find_method, suggest_parameters

BALANCED = [500] * 100
TAIL = np.maximum(1, 20_000 / np.arange(1, 1082) ** 1.5).astype(int)


@pytest.mark.parametrize("counts", [BALANCED, TAIL], ids=["balanced", "long tail"])
@pytest.mark.parametrize("name", [method.name for method in all_methods()])
def test_suggestions_make_a_loss_and_each_has_a_reason(name, counts):
    suggestion = suggest_parameters(name, counts)
    assert set(suggestion.parameters) == set(find_method(name).parameters)
    assert set(suggestion.reasons) <= set(suggestion.parameters)
    assert all(len(reason) > 20 for reason in suggestion.reasons.values())
    suggestion.method.loss(counts)
    assert str(suggestion).startswith(name)


def test_balanced_classes_get_the_values_of_cifar_100_and_a_long_tail_those_of_plantnet():
    assert suggest_parameters("average-k", BALANCED).parameters["alpha"] == 0.3
    assert suggest_parameters("average-k", TAIL).parameters["alpha"] == 5
    assert suggest_parameters("noised-topk", BALANCED).parameters["epsilon"] == 0.2
    assert suggest_parameters("noised-topk", TAIL).parameters["epsilon"] == 1.0
    assert suggest_parameters("expected-positive", BALANCED).parameters["beta"] == 0.01
    assert suggest_parameters("expected-positive", TAIL).parameters["beta"] == pytest.approx(0.001, rel=0.15)
    assert suggest_parameters("role", TAIL).parameters["weight"] == pytest.approx(1 / 1081)


def test_the_scale_grows_with_the_number_of_classes_once_the_papers_is_too_small():
    assert suggest_parameters("ldam", BALANCED).parameters["scale"] == 40
    assert suggest_parameters("ldam", [10] * 2_000_000).parameters["scale"] > 40


def test_what_is_given_is_kept_and_not_explained():
    suggestion = suggest_parameters("average-k", TAIL, alpha=1.5, k=3)
    assert suggestion.parameters == {"k": 3, "alpha": 1.5}
    assert suggestion.reasons == {}


def test_a_method_may_be_given_in_place_of_its_name():
    method = find_method("noised-topk", k=2)
    assert suggest_parameters(method, BALANCED).parameters["k"] == 2


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3, 0, 2], "counts: expected at least 1 example of each class, got 0 of class 1"),
        ([3], "counts: expected at least two classes"),
        ([[3, 2]], "counts: expected one number for each class"),
        ([3, float("nan")], "counts: expected at least 1 example"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(InputError, match=message):
        suggest_parameters("average-k", counts)


def test_unknown_methods_and_parameters_are_refused():
    with pytest.raises(InputError, match="did you mean 'ldam'"):
        suggest_parameters("ldan", BALANCED)
    with pytest.raises(InputError, match="method average-k"):
        suggest_parameters("average-k", BALANCED, gamma=2)
