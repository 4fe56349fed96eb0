"""Rules as text: the grammar, and what is said about mistakes."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import average_k, lac, parse_rule, rule_from_record, top_k
from shortlist.sets.text import MODIFIERS, RULES, usage


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("top-k:5", "top-k:5"),
        ("top-k:5.0", "top-k:5"),
        ("average-k:5", "average-k:5"),
        ("average-k:2.5", "average-k:2.5"),
        ("average-k:5:prior", "average-k:5:prior"),
        ("threshold:0.5", "threshold:0.5"),
        ("mass:0.1", "mass:0.1"),
        ("lac:0.1", "lac:0.1"),
        ("lac:1e-3", "lac:0.001"),
        ("aps:0.05", "aps:0.05"),
        ("raps:0.1", "raps:0.1:0.01:5"),
        ("raps:0.1:0.5", "raps:0.1:0.5:5"),
        ("raps:0.1:0.00001:3", "raps:0.1:1e-05:3"),
        ("pas:0.1", "pas:0.1"),
        ("risk-control:recall:0.1", "risk-control:recall:0.1"),
        ("per-label", "per-label:f1"),
        ("per-label:precision:0.9", "per-label:precision:0.9"),
        ("lac:0.1,classwise", "lac:0.1,classwise"),
        ("lac:0.1,interpolated:0.5,cap:3", "lac:0.1,interpolated:0.5,cap:3"),
        ("average-k:5, cap:10 , floor", "average-k:5,cap:10,floor:1"),
    ],
)
def test_a_text_has_one_canonical_form_that_reads_back(text, canonical):
    rule = parse_rule(text, prior=[0.5, 0.5])
    assert rule.text == canonical
    assert parse_rule(canonical, prior=[0.5, 0.5]).text == canonical


def test_modifiers_act_in_their_order():
    rule = parse_rule("threshold:0.0,cap:3,floor:1")
    assert (rule.least, rule.most) == (1, 3)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("topk:5", "did you mean 'top-k'"),
        ("average_k:5", "did you mean 'average-k'"),
        ("lacc:0.1", "did you mean 'lac'"),
        ("risk_control:recall:0.1", "did you mean 'risk-control'"),
        ("treshold:0.1", "did you mean 'threshold'"),
        ("lac:0.1,claswise", "did you mean 'classwise'"),
        ("lac:0.1,flor:1", "did you mean 'floor'"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(text, hint):
    with pytest.raises(InputError, match=hint):
        parse_rule(text)


@pytest.mark.parametrize("text", ["", "zzz", "lac:0.1,aps:0.1", "lac:0.1,", "lac:0.1,,cap:3"])
def test_what_is_no_rule_is_answered_with_all_that_are(text):
    with pytest.raises(InputError, match=r"expected one of .*(top-k:K|classwise)"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("top-k", "expected top-k:K"),
        ("top-k:1:2", "expected top-k:K"),
        ("lac", "expected lac:ALPHA"),
        ("raps:0.1:0.01:5:6", r"expected raps:ALPHA\[:PENALTY\|auto\[:K_REG\[:random\|deterministic\]\]\]"),
        ("lac:0.1,cap", "expected cap:N"),
        ("lac:0.1,classwise:3", "expected classwise"),
        ("average-k:5:priors", r"expected average-k:K\[:prior\]"),
        ("top-k:two", "k: expected a number, got 'two'"),
        ("top-k:", "k: expected a number, got ''"),
        ("top-k:1.5", "k: expected a whole number from 1"),
        ("top-k:0", "k: expected a whole number from 1"),
        ("average-k:-1", "k: expected a number above 0"),
        ("average-k:nan", "k: expected a number"),
        ("threshold:2", "p: expected a probability"),
        ("lac:1", "alpha: expected a number between 0 and 1"),
        ("lac:0.1,interpolated:2", "weight"),
        ("lac:0.1,cap:1,floor:2", "floor 2 and cap 1"),
        ("top-k:3,classwise", "expected a conformal rule"),
        ("risk-control:precision:0.1", "expected 'recall'"),
        ("per-label:best", "objective: expected 'f1', 'precision' or 'recall'"),
        ("per-label:precision", r"level: expected the precision .*such as 0\.9, got none$"),
        ("per-label:recall", r"level: expected the recall .*such as 0\.9, got none$"),
        ("per-label:f1:0.5", r"level: expected none .*'f1', got 0\.5"),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_right(text, message):
    with pytest.raises(InputError, match=message):
        parse_rule(text)


@pytest.mark.parametrize("text", ["pas:0.1", "average-k:5:prior"])
def test_a_rule_on_a_prior_asks_for_it(text):
    with pytest.raises(InputError, match="needs a class prior"):
        parse_rule(text)


def test_a_prior_that_is_not_asked_for_is_not_used():
    assert parse_rule("average-k:5", prior=[0.5, 0.5]).ordering.prior is None


@pytest.mark.parametrize("name", [*RULES, *MODIFIERS])
def test_usage_starts_with_the_name(name):
    assert usage(name).split(":")[0].split("[")[0] == name


@pytest.mark.parametrize("k", [0, -1, 1.5, True, float("nan"), float("inf"), "two", None])
def test_a_k_that_is_no_number_of_labels_is_refused(k):
    with pytest.raises(InputError, match=r"^k: expected a whole number from 1"):
        top_k(k)


@pytest.mark.parametrize("text", ["average-k:2", "lac:0.1,classwise", "top-k:3"])
def test_repr_names_the_rule_and_its_state(text):
    rule = parse_rule(text)
    fixed = not rule.needs_fit
    assert repr(rule) == f"SetRule({text}, {'threshold 3' if fixed else 'not fitted'})"


def test_repr_of_a_fitted_rule_shows_its_threshold():
    assert repr(parse_rule("average-k:1").fit(torch.tensor([[0.75, 0.25]]))) == "SetRule(average-k:1, threshold 0.5)"


@pytest.mark.parametrize("number", [np.float32(2.3), np.float64(2.3), 2.3, "2.3"], ids=["float32", "float64", "float", "text"])
def test_the_text_holds_the_number_that_the_rule_uses(number):
    """A rule that is read back must be the rule that was written."""
    assert average_k(number).text == "average-k:2.3"
    assert parse_rule(average_k(number).text).constraint.size == average_k(number).constraint.size


def test_names_may_be_written_in_capitals():
    assert parse_rule("LAC:0.1,CAP:3").text == "lac:0.1,cap:3"


@pytest.mark.parametrize("text", ["aps:0.1:random", "raps:0.1:0.01:5:random"])
def test_a_randomised_rule_has_a_text(text):
    rule = parse_rule(text)
    assert rule.text == text
    assert rule.ordering.randomized


@pytest.mark.parametrize("text", ["aps:0.1", "raps:0.1:0.01:5", "aps:0.1:deterministic", "raps:0.1:0.01:5:deterministic"])
def test_other_rules_by_mass_answer_without_chance(text):
    rule = parse_rule(text, generator=3)
    assert rule.text == text
    assert not rule.ordering.randomized
    assert (rule.ordering.row_draws() is None) == text.endswith("deterministic")


def test_the_word_random_may_follow_any_number_of_numbers():
    assert parse_rule("raps:0.1:random").text == "raps:0.1:0.01:5:random"


BEYOND = ["lac:1e-9999999", "lac:1e-9999", "lac:1e9999999999", "average-k:1e-99999", "threshold:1e-9999999", "mass:1e-9999999"]


@pytest.mark.parametrize(
    "text",
    [*BEYOND, "raps:0.1:1e-9999999", "lac:0.1,interpolated:1e-9999999", "risk-control:recall:1e-9999999", "top-k:1e9999999",
     "per-label:recall:1e-9999999", "lac:0.1,cap:1e9999999", f"average-k:{'9' * 5000}", f"lac:1/{'9' * 5000}"],
)  # fmt: skip
def test_numbers_beyond_any_use_are_refused_at_once(text):
    """Exact fractions of such numbers would take minutes; the message is no longer than a line or two."""
    with pytest.raises(InputError, match="expected a number|expected at most") as error:
        parse_rule(text)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("text", ["aps:random", "raps:random", "average-k:prior"])
def test_a_word_does_not_stand_for_the_number_before_it(text):
    with pytest.raises(InputError, match=f"expected {text.split(':')[0]}:(ALPHA|K).*got '{text}'"):
        parse_rule(text, prior=[0.5, 0.5])


@pytest.mark.parametrize("alpha", ["1e-9999999", "1e-9999", "9" * 5000, None, [], {}, float("nan"), True, 0, 1])
def test_the_number_of_a_saved_rule_is_bounded_too(alpha):
    record = lac(0.1).record()
    record["constraint"] = {"kind": "average-error", "alpha": alpha}
    with pytest.raises(InputError, match=r"rule lac:0.1: alpha: expected a number"):
        rule_from_record(record, {})


def test_the_smallest_error_that_is_taken_needs_more_rows_than_there_are():
    with pytest.warns(match="too few"):
        assert parse_rule("lac:1e-400").fit([[0.5, 0.5]], [0])([[0.1, 0.9]]).all()
