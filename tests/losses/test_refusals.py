"""What a loss refuses, and in which words: what was expected and what came."""

import inspect
import math

import numpy as np
import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from tests.losses.cases import CASES, CLASSES, COUPLED, FUNCTIONS, HINGES, IGNORING, OF_STATE, PER_CALL, ROWS, camel, draw

every_function = pytest.mark.parametrize("name", FUNCTIONS)
IN_WORDS = "expected .*(got|with)"
MANY = {case.name for case in CASES if case.takes == "many"}
SINGLE = sorted(set(FUNCTIONS) - MANY)
CASE = {case.name: case for case in reversed(CASES)}


def call(name, **changed):
    """The loss of a good batch, but for what is changed."""
    batch = draw(CASE[name])
    keywords = {**CASE[name].keywords, **batch.per_call, **batch.per_class}
    scores, target = changed.pop("scores", batch.scores), changed.pop("target", batch.target)
    return getattr(losses, name)(scores, target, **{**keywords, **changed})


def make(name, **changed):
    batch = draw(CASE[name])
    return getattr(losses, camel(name))(**{**CASE[name].keywords, **batch.per_class, **changed})


@every_function
@pytest.mark.parametrize(
    "target",
    [
        torch.zeros(ROWS + 1, dtype=torch.int64),
        torch.zeros(ROWS),
        torch.zeros(ROWS, 1, dtype=torch.int64),
        torch.full((ROWS, CLASSES), 2.0),  # shares are below 1
        torch.zeros(ROWS, CLASSES, dtype=torch.int64),
        torch.zeros(ROWS, CLASSES + 1, dtype=torch.bool),
        torch.zeros(ROWS, dtype=torch.bool),
        torch.zeros(ROWS, CLASSES, device="meta", dtype=torch.bool),
    ],
    ids=lambda t: f"{t.dtype} {tuple(t.shape)} {t.device}",
)
def test_a_target_of_another_form_is_refused(name, target):
    with pytest.raises(InputError, match=r"^target: expected .* got|^target is on meta and (scores|log_odds) on cpu"):
        call(name, target=target)


@pytest.mark.parametrize("name", SINGLE)
def test_a_loss_of_one_label_a_row_refuses_marks(name):
    with pytest.raises(InputError, match=rf"^target: expected int64 \({ROWS},\), .* got bool \({ROWS}, {CLASSES}\)"):
        call(name, target=torch.zeros(ROWS, CLASSES, dtype=torch.bool))


@every_function
@pytest.mark.parametrize("label", [-100, -1, CLASSES, CLASSES + 7])
def test_a_label_out_of_range_is_refused(name, label):
    if label == -100 and name in IGNORING:
        pytest.skip("ignored by default")
    target = torch.zeros(ROWS, dtype=torch.int64)
    target[2] = label
    with pytest.raises(InputError, match=rf"^target: expected labels from 0 to {CLASSES - 1}, got {label}"):
        call(name, target=target)


@every_function
@pytest.mark.parametrize(
    "scores",
    [torch.zeros(CLASSES), torch.zeros(1, ROWS, CLASSES), torch.zeros(ROWS, CLASSES, dtype=torch.int64)],
    ids=["one row", "three dimensions", "integers"],
)
def test_scores_of_another_form_are_refused(name, scores):
    with pytest.raises(InputError, match=r"^(scores|log_odds): expected floating point \(N, C\), got"):
        call(name, scores=scores)


@every_function
@pytest.mark.parametrize("reduction", ["average", "", None, "Mean"])
def test_an_unknown_reduction_is_refused(name, reduction):
    for refused in (call, make):
        with pytest.raises(InputError, match=r"^reduction: expected 'mean'.* got"):
            refused(name, reduction=reduction)


@pytest.mark.parametrize("name", sorted(COUPLED))
def test_a_loss_that_couples_rows_has_no_value_a_row(name):
    for refused in (call, make):
        with pytest.raises(InputError, match="couples the rows"):
            refused(name, reduction="none")


# What each parameter refuses. A parameter that is not here fails the test below.
NEVER = [math.nan, math.inf, "two", None]
COUNT = [0, -1, 1.5, True, *NEVER]
FROM_0 = [-0.5, *NEVER]
ABOVE_0 = [0.0, *FROM_0]
REFUSED = {
    **{name: {"k": COUNT, "margin": FROM_0} for name in sorted(HINGES)},
    "focal_loss": {"gamma": FROM_0},
    "ldam_loss": {"scale": ABOVE_0, "margins": [0.5, None]},
    "smooth_topk_hinge_loss": {"k": COUNT, "temperature": ABOVE_0},
    "noised_topk_hinge_loss": {
        "k": COUNT,
        "epsilon": FROM_0,
        "samples": COUNT,
        "margin": FROM_0,
        "scale": ABOVE_0,
        "smoothing": ["gumbel", None],
    },
    "expected_positive_loss": {"k": ABOVE_0, "beta": FROM_0},
    "role_loss": {"k": ABOVE_0, "weight": FROM_0},
    "average_k_loss": {"k": [0.5, *ABOVE_0], "alpha": FROM_0},
    "cardinality_aware_loss": {
        "sizes": [(), (0, 2), (2, 1), (2, 2), (1.5, 3), (1, math.nan), "12", 4, None],
        "size_weight": FROM_0,
        "size_cost": ["cubic", None],
    },
    "conformal_training_loss": {
        "alpha": [1.0, *ABOVE_0],
        "temperature": ABOVE_0,
        "size_weight": FROM_0,
        "target_size": FROM_0,
        "spread": FROM_0,
    },
    "asymmetric_focal_loss": {"gamma_pos": FROM_0, "gamma_neg": FROM_0, "shift": [1.0, *FROM_0], "detach_weight": []},
    "spa_loss": {"b_pos": NEVER, "b_neg": NEVER, "zeta_pos": ABOVE_0, "k_pos": ABOVE_0, "zeta_neg": ABOVE_0, "k_neg": ABOVE_0},
    "two_way_loss": {"positive_temperature": ABOVE_0, "negative_temperature": ABOVE_0},
}
for name in sorted(IGNORING):
    REFUSED[name] = {**REFUSED.get(name, {}), "ignore_index": [1.5, True, *NEVER]}
for name in sorted(IGNORING - COUPLED):
    REFUSED[name] = {**REFUSED[name], "weight": [0.5, "two"]}
BAD = [(name, key, value) for name, keys in REFUSED.items() for key, values in keys.items() for value in values]


@every_function
def test_every_parameter_has_values_that_it_refuses(name):
    own = set(inspect.signature(getattr(losses, camel(name))).parameters) - {"reduction", *OF_STATE}
    assert own == set(REFUSED.get(name, {}))


@pytest.mark.parametrize("name", sorted(IGNORING - COUPLED))
@pytest.mark.parametrize("weight", [torch.ones(CLASSES + 1), torch.ones(1, CLASSES), torch.ones(CLASSES).long()], ids=str)
def test_class_weights_of_another_form_are_refused(name, weight):
    target = torch.zeros(ROWS, dtype=torch.int64)
    with pytest.raises(InputError, match=rf"^weight: expected floating point \(({CLASSES}|C),\), .* got"):
        call(name, target=target, weight=weight)


@pytest.mark.parametrize("value", [-0.5, math.nan, math.inf])
def test_class_weights_below_0_or_not_finite_are_refused(value):
    weight = torch.ones(CLASSES)
    weight[2] = value
    with pytest.raises(InputError, match=f"^weight: .*got {value:g}"):
        make("focal_loss", weight=weight)


@pytest.mark.parametrize("name", ["cross_entropy_loss", "sparse_top_loss"])
def test_class_weights_need_one_label_per_row(name):
    with pytest.raises(InputError, match="^weight: .*got a target of bool"):
        call(name, target=torch.zeros(ROWS, CLASSES, dtype=torch.bool), weight=torch.ones(CLASSES))


@pytest.mark.parametrize(("name", "key", "value"), BAD, ids=lambda part: str(part).replace("\n", "")[:40])
def test_a_bad_parameter_is_refused_at_the_call(name, key, value):
    without = {"noise": None} if key == "smoothing" else {}
    with pytest.raises(InputError, match=f"^{key}: {IN_WORDS}"):
        call(name, **{key: value}, **without)


@pytest.mark.parametrize(("name", "key", "value"), BAD, ids=lambda part: str(part).replace("\n", "")[:40])
def test_a_bad_parameter_is_refused_when_the_module_is_made(name, key, value):
    with pytest.raises(InputError, match=f"^{key}: {IN_WORDS}"):
        make(name, **{key: value})


@pytest.mark.parametrize(("name", "key"), sorted({(name, key) for name, key, value in BAD if value is True}))
@pytest.mark.parametrize("number", [2.0, np.int64(2), np.float64(2.0), torch.tensor(2)], ids=lambda n: type(n).__name__)
def test_a_whole_number_of_another_type_is_as_good(name, key, number):
    keywords = {"noise": None, "epsilon": 0.0} if name == "noised_topk_hinge_loss" else {}
    assert call(name, **{key: number}, **keywords) == call(name, **{key: 2}, **keywords)


@pytest.mark.parametrize("name", sorted(HINGES))
def test_a_hinge_needs_one_more_class_than_k(name):
    with pytest.raises(InputError, match=rf"^k: expected at most {CLASSES - 1}, .* got {CLASSES}"):
        call(name, k=CLASSES)
    assert call(name, k=CLASSES - 1).isfinite()


@pytest.mark.parametrize("name", ["smooth_topk_hinge_loss", "average_k_loss"])
def test_no_set_is_larger_than_the_classes(name):
    with pytest.raises(InputError, match=f"^k: expected at most the {CLASSES} classes of scores, got {CLASSES + 1}"):
        call(name, k=CLASSES + 1)


def test_sizes_of_sets_are_at_most_the_classes():
    with pytest.raises(InputError, match=f"^sizes: expected at most the {CLASSES} classes of scores, got {CLASSES + 1}"):
        call("cardinality_aware_loss", sizes=(1, 2, CLASSES + 1))


PARTNERS = [case for case in CASES if case.per_call]


@pytest.mark.parametrize("case", PARTNERS, ids=str)
def test_tensors_of_a_call_of_another_form_are_refused(case):
    batch = draw(case)
    (name,) = case.per_call
    good = batch.per_call[name]
    wrong = [torch.zeros(ROWS + 1, CLASSES), torch.zeros(ROWS, CLASSES + 1), torch.zeros(CLASSES), good[..., None], good[None]]
    if name == "log_normalizer":
        wrong = [torch.zeros(2), torch.zeros(ROWS, CLASSES)]
    else:
        wrong.append(good.long())
    if name == "noise":
        wrong += [good[0], good[:0], good.transpose(1, 2)]
    for value in wrong:
        with pytest.raises(InputError, match=f"^{name}: {IN_WORDS}"):
            case.loss(batch.put(batch.scores, **{name: value}))


@pytest.mark.parametrize("smoothing", ["soft", "expected"])
def test_a_smoothing_that_draws_nothing_refuses_noise(smoothing):
    with pytest.raises(InputError, match=f"^noise: expected none with smoothing '{smoothing}'"):
        call("noised_topk_hinge_loss", smoothing=smoothing)


def test_pairs_need_an_even_number_of_samples():
    with pytest.raises(InputError, match=r"^samples: expected an even number .* got 3"):
        call("noised_topk_hinge_loss", smoothing="antithetic", samples=3)


@pytest.mark.parametrize(("name", "key"), [("ldam_loss", "margins"), ("noised_topk_hinge_loss", "margin")])
@pytest.mark.parametrize("size", [(CLASSES + 1,), (1,), (ROWS, CLASSES)], ids=str)
def test_margins_are_one_for_each_class(name, key, size):
    with pytest.raises(InputError, match=rf"^{key}: expected floating point \(({CLASSES}|C),\), one for each class, got"):
        call(name, **{key: torch.ones(size)})


@pytest.mark.parametrize(("name", "key"), [("ldam_loss", "margins"), ("noised_topk_hinge_loss", "margin")])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_margins_that_are_no_numbers_are_refused_when_the_module_is_made(name, key, value):
    margins = torch.full((CLASSES,), 0.5)
    margins[1] = value
    with pytest.raises(InputError, match=f"^{key}: {IN_WORDS}"):
        make(name, **{key: margins})


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3, 0, 2], "at least 1 example of each class, got 0 of class 1"),
        ([3, 1, -2], "at least 1 example of each class, got -2 of class 2"),
        ([3.0, math.nan], "at least 1 example of each class, got nan of class 1"),
        ([math.inf, 1.0], "at least 1 example of each class, got inf of class 0"),
        ([], r"one number for each class, \(C,\), got float64 \(0,\)"),
        ([[1, 2]], r"one number for each class, \(C,\), got float64 \(1, 2\)"),
    ],
)
def test_counts_that_give_no_margins_are_refused(counts, message):
    with pytest.raises(InputError, match=f"^counts: expected {message}"):
        losses.class_margins(counts)


@pytest.mark.parametrize("margin", FROM_0)
def test_a_largest_margin_is_a_number_from_0(margin):
    with pytest.raises(InputError, match=f"^max_margin: {IN_WORDS}"):
        losses.class_margins([1, 2], max_margin=margin)


@every_function
def test_keywords_of_a_call_are_no_keywords_of_a_module_and_the_other_way_round(name):
    for key in PER_CALL:
        with pytest.raises(TypeError):
            make(name, **{key: None})
    batch = draw(CASE[name])
    with pytest.raises(TypeError):
        make(name)(batch.scores, batch.target, **batch.per_call, reduction="sum")
