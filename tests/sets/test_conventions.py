"""Rules take what people have, and understand the words of other libraries."""

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import aps, average_k, classwise, lac, mass, parse_rule, pas, raps, risk_control, threshold, top_k
from tests.sets.cases import draw

PROBS = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]
TOP_2 = [[False, True, True], [True, True, False]]


@pytest.mark.parametrize(
    "values", [PROBS, tuple(map(tuple, PROBS)), np.array(PROBS), [np.array(row) for row in PROBS]], ids=str
)
def test_predict_gives_a_bool_array_for_what_is_no_tensor(values):
    found = top_k(2).predict(values)
    assert isinstance(found, np.ndarray)
    assert found.dtype == bool
    assert found.tolist() == top_k(2)(values).tolist() == TOP_2


def test_predict_gives_a_tensor_for_a_tensor_and_for_predictions():
    for values in (torch.tensor(PROBS), Predictions(torch.tensor(PROBS), link="identity")):
        found = top_k(2).predict(values)
        assert isinstance(found, torch.Tensor)
        assert found.tolist() == TOP_2


def test_a_data_frame_gives_a_data_frame_with_the_same_names():
    frame = pd.DataFrame(PROBS, columns=["ash", "elm", "oak"], index=["a", "b"])
    found = top_k(2).predict(frame)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == ["ash", "elm", "oak"]
    assert list(found.index) == ["a", "b"]
    assert found.to_numpy().tolist() == TOP_2


def test_lists_are_compared_in_float64_as_arrays_are():
    rule = lac(0.5).fit([[0.7, 0.3], [0.1, 0.9], [0.4, 0.6]], [0, 1, 1])
    assert rule.threshold == lac(0.5).fit(np.array([[0.7, 0.3], [0.1, 0.9], [0.4, 0.6]]), [0, 1, 1]).threshold
    assert rule.predict([[0.7, 0.3]]).tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("rule", "alpha", "k"),
    [
        (lac(0.1), 0.1, None),
        (classwise(lac("1/3")), 1 / 3, None),
        (mass(0.25), 0.25, None),
        (risk_control("recall", 0.2), 0.2, None),
        (top_k(3), None, 3),
        (average_k(2.5), None, 2.5),
        (average_k("5/2"), None, 2.5),
        (threshold(0.5), None, None),
    ],
    ids=str,
)
def test_alpha_and_k_are_those_of_the_rule(rule, alpha, k):
    assert (rule.alpha, rule.k) == (alpha, k)


@pytest.mark.parametrize(
    ("rule", "needs"),
    [(average_k(2), False), (average_k(2, [0.5, 0.5]), True), (pas(0.1, [0.5, 0.5]), True), (lac(0.1), False)],
)
def test_a_rule_says_whether_it_needs_a_prior(rule, needs):
    assert rule.needs_prior is needs


def test_a_prior_may_be_a_function_that_is_called_only_if_it_is_needed():
    def prior():
        calls.append(1)
        return [0.5, 0.5]

    calls = []
    assert not parse_rule("average-k:5,cap:3", prior=prior).needs_prior
    assert calls == []
    assert parse_rule("PAS:0.1", prior=prior).ordering.prior.tolist() == [0.5, 0.5]
    assert calls == [1]
    with pytest.raises(InputError, match="needs a class prior"):
        parse_rule("pas:0.1", prior=lambda: None)


@pytest.mark.parametrize(
    "make", [lac, aps, raps, mass, lambda **k: risk_control("recall", **k), lambda **k: pas(prior=[1.0], **k)]
)
@pytest.mark.parametrize("word", ["confidence_level", "coverage"])
def test_a_level_of_confidence_is_one_minus_alpha_exactly(make, word):
    assert make(**{word: 0.9}).text == make(alpha=0.1).text
    assert make(**{word: 0.9}).record() == make(alpha=0.1).record()


def test_names_of_raps_in_other_libraries_are_understood():
    assert raps(0.1, lambda_reg=0.2, kreg=3).text == raps(0.1, penalty=0.2, k_reg=3).text == "raps:0.1:0.2:3"
    with pytest.raises(TypeError, match="k_reg"):
        raps(0.1, kreg=3, k_reg=2)


@pytest.mark.parametrize("make", [aps, raps])
def test_randomized_is_a_rule_with_a_generator(make):
    data = draw()
    rules = [make(0.2, randomized=True), make(0.2, generator=0)]
    assert len({rule.text for rule in rules}) == 1
    assert rules[0].text.endswith(":random")
    assert len({float(rule.fit(data.calibration, data.target).threshold) for rule in rules}) == 1
    assert make(0.2, randomized=False).text.endswith(":deterministic")
    assert make(0.2, randomized="calibration").text == make(0.2).text
    with pytest.raises(InputError, match="generator: .*randomized=False"):
        make(0.2, generator=3, randomized=False)
    with pytest.raises(InputError, match="randomized: .*got 'yes'"):
        make(0.2, randomized="yes")


def test_a_numpy_generator_works_and_its_seed_decides():
    data = draw()
    sets = [aps(0.2, np.random.default_rng(s)).fit(data.calibration, data.target)(data.new) for s in (1, 1, 2)]
    assert (sets[0] == sets[1]).all()
    assert (sets[0] != sets[2]).any()


@pytest.mark.parametrize("wrong", ["seed", np.random.RandomState(0), 0.5, -1])
def test_what_is_no_generator_is_refused_at_once(wrong):
    with pytest.raises(InputError, match="generator: "):
        aps(0.2, generator=wrong)


@pytest.mark.parametrize("word", ["classwise", "class-conditional", "class_conditional", "mondrian", "Mondrian"])
def test_words_for_one_threshold_a_class(word):
    assert parse_rule(f"lac:0.1,{word}").text == "lac:0.1,classwise"


@pytest.mark.parametrize(("theirs", "ours"), [("thr:0.1", "lac"), ("naive:0.1", "mass"), ("crc:0.1", "risk-control")])
def test_other_names_of_rules_are_answered_with_ours(theirs, ours):
    with pytest.raises(InputError, match=f"it is called '{ours}' here"):
        parse_rule(theirs)


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("aps:random", r"expected aps:ALPHA\[:random\|deterministic\], got 'aps:random'"),
        ("raps:random", r"expected raps:ALPHA\[.*, got 'raps:random'"),
        ("average-k:prior", r"expected average-k:K\[:prior\], got 'average-k:prior'"),
        ("lac:random", "alpha: .*got 'random'"),
    ],
)
def test_a_word_in_place_of_a_number_is_one_sentence(text, usage):
    with pytest.raises(InputError, match=usage):
        parse_rule(text, prior=[0.5, 0.5])


@pytest.mark.parametrize("make", [lac, mass, aps, raps, lambda alpha: risk_control("recall", alpha), lambda a: pas(a, [1.0])])
def test_an_error_that_looks_like_a_coverage_is_hinted_at(make):
    with pytest.warns(ShortlistWarning, match=r"alpha=0.9 is .*coverage of 10%: did you mean alpha=0.1\?"):
        make(0.9)


@pytest.mark.parametrize("alpha", [0.5, 0.1])
@pytest.mark.filterwarnings("error")
def test_other_errors_are_not(alpha):
    assert lac(alpha).alpha == alpha


@pytest.mark.parametrize("text", [None, 5, lac(0.1)])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(InputError, match="rule: expected a text"):
        parse_rule(text)


DRAWN = np.random.default_rng(0).dirichlet(np.ones(5), 60)
DRAWN_LABELS = np.arange(60) % 5


@pytest.mark.parametrize("shift", [1, -1])
def test_labels_out_of_range_are_refused_when_fitting(shift):
    with pytest.raises(InputError, match=f"target: .*got {5 if shift == 1 else -1} in row"):
        lac(0.1).fit(DRAWN, DRAWN_LABELS + shift)


def test_nan_at_a_label_is_refused_when_fitting():
    probs = DRAWN.copy()
    probs[3, DRAWN_LABELS[3]] = np.nan
    with pytest.raises(InputError, match="probs: .*got nan in row 3, column 3"):
        lac(0.1).fit(probs, DRAWN_LABELS)


@pytest.mark.parametrize("rule", [lac(0.1), average_k(2)], ids=lambda rule: rule.text)
def test_another_number_of_classes_is_refused(rule):
    with pytest.raises(InputError, match="fitted on 5 classes, got 4"):
        rule.fit(DRAWN, DRAWN_LABELS).predict(DRAWN[:, :4])


@pytest.mark.parametrize("labels", [["oak", "elm"] * 30, np.array(["oak", "elm"] * 30), np.array(["oak", None] * 30)])
def test_labels_that_are_texts_are_answered_with_what_to_do(labels):
    with pytest.raises(InputError, match="target: .*number the labels"):
        lac(0.1).fit(DRAWN, labels)


def test_modifiers_take_rules_and_come_after_them():
    with pytest.raises(InputError, match="classwise: .*'lac:0.1'"):
        classwise("lac:0.1")
    with pytest.raises(InputError, match="'cap' modifies a rule"):
        parse_rule("cap:3")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.3, 0.7])
def test_a_probability_reaches_the_threshold_that_is_the_same_number_in_any_dtype(dtype, p):
    rows = torch.tensor([[p, 0.01]], dtype=dtype)
    assert threshold(p).predict(rows).tolist() == [[True, False]]
    assert threshold(p).fit(rows).calibrated.mean == 1


@pytest.mark.parametrize("word", ["confidence_level", "coverage"])
@pytest.mark.parametrize("level", [90, -0.5, 1.5])
def test_a_level_that_is_no_share_is_refused_as_it_was_given(word, level):
    with pytest.raises(InputError, match=rf"^{word}: expected a number between 0 and 1.*got {level}"):
        lac(**{word: level})
