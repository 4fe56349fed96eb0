"""A query bound to labels: what it needs, requires and excludes, whom it holds of, and why a row was found."""

import itertools
import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from shortlist.errors import InputError
from shortlist.retrieval.query import Query, Reason
from shortlist.retrieval.tree import side_of
from tests.references import retrieval as reference
from tests.retrieval.drawn import queries

NAMES = ["fork", "knife", "dining table", "dog", "cat"]
BARE = ["fork", "knife", "table", "dog", "cat"]
ASSIGNMENTS = list(itertools.product((False, True), repeat=5))


def ask(text):
    return Query.parse(text, NAMES)


@pytest.mark.parametrize(
    ("text", "labels", "conjunction", "required"),
    [
        ("dog", (3,), ((3,), ()), ((3,), ())),
        ("not dog", (3,), ((), (3,)), ((), (3,))),
        ("dog and fork and not cat and dog", (0, 3, 4), ((0, 3), (4,)), ((0, 3), (4,))),
        ("not (dog or cat) and fork", (0, 3, 4), ((0,), (3, 4)), ((0,), (3, 4))),
        ("dog or cat", (3, 4), None, ((), ())),
        ("fork and (dog or cat)", (0, 3, 4), None, ((0,), ())),
        ("fork and not knife and dog > 0.5", (0, 1, 3), None, ((0,), (1,))),
        ("at least 2 of (dog, cat)", (3, 4), ((3, 4), ()), ((3, 4), ())),
        ("at least 2 of (dog, cat, fork)", (0, 3, 4), None, ((), ())),
        ("count >= 3", (0, 1, 2, 3, 4), None, ((), ())),
        ("count >= 3 and not fork", (0, 1, 2, 3, 4), None, ((), (0,))),
        ("count >= 5", (0, 1, 2, 3, 4), ((0, 1, 2, 3, 4), ()), ((0, 1, 2, 3, 4), ())),
        ("fork and not fork", (0,), None, ((), ())),
        ("fork or not fork", (0,), None, ((), ())),
        ("dog > 0.5", (3,), None, ((), ())),
    ],
)
def test_what_a_query_needs_and_requires(text, labels, conjunction, required):
    query = ask(text)
    assert (query.labels, query.conjunction, query.required) == (labels, conjunction, required)
    assert (query.text, query.classes) == (text, tuple(NAMES))


@settings(max_examples=150, deadline=None)
@given(query=queries(5))
def test_no_row_is_more_probable_than_what_is_required(query):
    asked = Query.parse(reference.text(query, BARE), BARE)
    odds = np.random.default_rng(0).normal(size=(20, 5))
    log_yes, log_no = ({j: -np.logaddexp(0, sign * odds[:, j]) for j in range(5)} for sign in (-1, 1))
    present, absent = asked.required
    bound = sum((log_yes[j] for j in present), np.zeros(20)) + sum((log_no[j] for j in absent), np.zeros(20))
    assert (asked.log_probability(log_yes, log_no) <= bound + 1e-12).all()


@settings(max_examples=300, deadline=None)
@given(query=queries(5))
def test_contradictions_and_what_is_always_true_are_exactly_those(query):
    asked = Query.parse(reference.text(query, BARE), BARE)
    answers = [reference.true_of(query, labels, None) for labels in ASSIGNMENTS]
    assert asked.always == all(answers)
    assert (asked.contradiction is not None) == (not any(answers))
    assert asked.holds(np.array(ASSIGNMENTS)).tolist() == answers


@settings(max_examples=150, deadline=None)
@given(query=queries(3, thresholds=["0.3", "0.8"]))
def test_with_conditions_what_is_called_impossible_or_certain_is(query):
    asked = Query.parse(reference.text(query, BARE), BARE[:3])
    log_rows = list(itertools.product([Fraction(eta) for eta in ("0.1", "0.3", "0.5", "0.8", "0.9")], repeat=3))[::7]
    labels = list(itertools.product((False, True), repeat=3))
    answers = {reference.true_of(query, present, row) for row in log_rows for present in labels}
    if asked.always or asked.contradiction:
        assert answers == {asked.always}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fork and not fork", "fork and not fork: fork cannot be both present and absent"),
        ("not fork and (dog and fork)", "fork cannot be both present and absent"),
        ("fork > 0.8 and fork < 0.2", "the probability of fork cannot be both > 0.8 and < 0.2"),
        ("fork >= 0.5 and dog and fork < 0.5", "the probability of fork cannot be both >= 0.5 and < 0.5"),
        ("fork > 100%", "the probability of fork is never > 1.0"),
        ("count > 5", "there are 5 labels"),
        ("count < 2 and count > 3", "count < 2 and count > 3 cannot both be true"),
        ("fork and dog and cat and count < 3", "no combination of labels satisfies all of it"),
        ("fork and dog and (not fork or not dog)", "no combination of labels satisfies all of it"),
        ("fork and not (fork or dog)", "fork and not (fork or dog) cannot both be true"),
        ("at least 2 of (fork, not fork)", "at least|exactly"),
        ("(fork or dog) and (fork or not dog) and (not fork or dog) and (not fork or not dog)", "no combination of labels"),
        (" and ".join(["not fork"] * 100) + " and fork", "^not fork and .* …: fork cannot be both present and absent"),
    ],
)
def test_a_contradiction_says_why(text, why):
    found = ask(text).contradiction
    assert found is not None
    assert re.search(why.replace("(", r"\(").replace(")", r"\)"), found)


@pytest.mark.parametrize(
    "text", ["fork > 0.5 and fork < 0.6", "fork >= 0.5 and fork <= 0.5", "fork and fork < 0.2", "count = 5"]
)
def test_what_may_be_true_is_no_contradiction(text):
    assert ask(text).contradiction is None
    assert not ask(text).always


def test_nothing_and_everything_have_their_logarithms():
    logs = {0: np.log([0.5, 0.1])}, {0: np.log([0.5, 0.9])}
    assert ask("fork and not fork").log_probability(*logs).tolist() == [-np.inf, -np.inf]
    assert ask("fork or not fork").log_probability(*logs).tolist() == [0, 0]


def test_conditions_compare_in_the_precision_of_the_columns():
    for dtype in (np.float32, np.float64):
        log_yes = {0: np.log(np.array([0.25, 0.5, 0.75, 1], dtype))}
        log_no = {0: np.zeros(4, dtype)}
        for text, expected in [
            ("fork > 0.5", [False, False, True, True]),
            ("fork >= 0.5", [False, True, True, True]),
            ("fork < 50%", [True, False, False, False]),
            ("fork <= 0.5", [True, True, False, False]),
            ("fork >= 1", [False, False, False, True]),
            ("fork > 0", [True, True, True, True]),
        ]:
            query = ask(text)
            assert (query.log_probability(log_yes, log_no) == 0).tolist() == expected
            assert query.holds(np.zeros((4, 5), bool), log_yes).tolist() == expected


def test_a_probability_of_zero_meets_no_lower_bound():
    log_yes, log_no = {0: np.array([-np.inf, -700.0])}, {0: np.zeros(2)}
    assert ask("fork > 0").log_probability(log_yes, log_no).tolist() == [-np.inf, 0]
    assert ask("fork <= 0").log_probability(log_yes, log_no).tolist() == [0, -np.inf]


def test_what_single_precision_cannot_tell_is_named():
    query = ask("fork > 0.8 or dog and knife < 0.3 or cat > 0")
    assert query.conditions == ((0, 0.8), (1, 0.3), (4, 0.0))
    exact = {0: np.log([0.8 * (1 + 1e-9), 0.8001, 0.5]), 1: np.log([0.1, 0.3 * (1 - 1e-9), 0.2]), 4: np.full(3, -np.inf)}
    assert query.undecided(exact).tolist() == [False] * 3
    assert query.undecided({j: column.astype(np.float32) for j, column in exact.items()}).tolist() == [True, True, False]


@settings(max_examples=200, deadline=None)
@given(query=queries(5, thresholds=["0.3"]))
def test_rows_whose_rounding_could_change_an_answer_are_undecided(query):
    asked = Query.parse(reference.text(query, BARE), BARE)
    random = np.random.default_rng(0)
    log_yes = {j: np.log(0.3) * (1 + random.normal(size=40) * 10.0 ** random.integers(-12, -5, 40)) for j in range(5)}
    rounded = {j: column.astype(np.float32) for j, column in log_yes.items()}
    target = random.uniform(size=(40, 5)) < 0.5
    differ = asked.holds(target, log_yes) != asked.holds(target, rounded)
    assert (~differ | asked.undecided(rounded)).all()


def test_true_labels_are_checked():
    with pytest.raises(InputError, match=r"target: .*got bool \(2, 3\)"):
        ask("fork").holds(np.zeros((2, 3), bool))
    with pytest.raises(InputError, match=r"target: expected bool .* got int64"):
        ask("fork").holds(np.zeros((2, 5), np.int64))
    with pytest.raises(InputError, match="log_yes: expected log η of label 0"):
        ask("fork > 0.5").holds(np.zeros((2, 5), bool))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("fork and not knife", {"fork": True, "knife": False}),
        ("not (fork or not knife)", {"fork": False, "knife": True}),
        ("dog or fork", {"dog": True, "fork": True}),
        ("(fork and knife) or (not fork and dog)", {"fork": None, "knife": True, "dog": True}),
        ("at least 2 of (fork, knife, not dog)", {"fork": True, "knife": True, "dog": False}),
        ("at most 1 of (fork, knife, not dog)", {"fork": False, "knife": False, "dog": True}),
        ("exactly 1 of (fork, knife)", {"fork": None, "knife": None}),
        ("not at least 2 of (fork, knife, dog)", {"fork": False, "knife": False, "dog": False}),
        ("fork > 0.8 and knife < 0.2 and not dog > 0.5", {"fork": True, "knife": False, "dog": False}),
        ('"DINING TABLE"', {"dining table": True}),
    ],
)
def test_why_a_row_was_found(text, wanted):
    probs = [0.9, 0.2, 0.7, 0.6, 0.1]
    found = ask(text).explain(probs)
    assert found == [Reason(name, wish, probs[NAMES.index(name)]) for name, wish in wanted.items()]
    assert ask(text).explain(dict(enumerate(probs))) == found
    assert ask(text).explain(np.array(probs)) == found


def test_a_count_is_explained_by_the_labels_that_are_probably_there():
    found = ask("count >= 2 and not cat").explain([0.9, 0.2, 0.7, 0.95, 0.8])
    assert found == [("cat", False, 0.8), ("dog", None, 0.95), ("fork", None, 0.9), ("dining table", None, 0.7)]


@settings(max_examples=300, deadline=None)
@given(query=queries(5, thresholds=["0.05", "1e-07", "1"]))
def test_the_canonical_text_parses_back(query):
    asked = Query.parse(reference.text(query, ['"fork"', "knife", "'dining table'", "DOG", "cat"]), NAMES)
    again = Query.parse(asked.canonical(), NAMES)
    assert again.tree == asked.tree
    assert again.canonical() == asked.canonical()


def test_queries_are_values():
    assert ask("fork") == ask("fork") != ask("knife")
    assert len({ask("fork"), ask("fork")}) == 1


def test_labels_are_a_list_of_names():
    with pytest.raises(InputError, match="classes: expected a list of names, got 'abc'"):
        Query.parse("a and b", "abc")


@pytest.mark.parametrize(
    "probs", [np.arange(1, 1000) / 1000, 1 - 10.0 ** -np.arange(2.0, 15), 10.0 ** -np.arange(2.0, 300, 7)], ids=str
)
def test_a_row_is_on_neither_side_of_its_own_probability(probs):
    """Whatever the expression that gave its log odds."""
    for odds in (np.log(probs / (1 - probs)), torch.logit(torch.from_numpy(probs)).numpy(), np.log(probs) - np.log1p(-probs)):
        for place, threshold in enumerate(probs):
            expected = np.sign(np.round((probs - threshold) / threshold / (1 - threshold), 9))
            assert (side_of(threshold, odds) == expected).all()
            assert expected[place] == 0


@pytest.mark.parametrize("text", ["0.9994", "0.999994", "0.9999999", "0.99999999994", "0.9999999999997", "0.5", "1e-12"])
def test_log_odds_that_are_exact_near_1_have_the_threshold_that_is_written(text):
    """Of 0.999994 the double is rounded: its log odds are not those of the decimal, which the row has."""
    threshold = float(text)
    with localcontext() as context:
        context.prec = 60
        exact = [Decimal(text), Decimal(math.nextafter(threshold, 1)), Decimal(math.nextafter(threshold, 0))]
        odds = np.array([float((one / (1 - one)).ln()) for one in exact])
    assert 1 / (1 + math.exp(-odds[0])) == pytest.approx(threshold, rel=2.0**-52)
    assert side_of(threshold, odds)[0] == 0
    assert side_of(threshold, odds[:1].astype(np.float32).astype(np.float64))[0] == 0  # a score in float32
    if threshold > 0.999:  # where the next numbers have other log odds
        assert side_of(threshold, odds).tolist() == [0, 1, -1]


def test_float32_stands_for_the_number_that_was_meant():
    written = np.array([0.16, 0.1600001], np.float32).astype(np.float64)
    odds = np.log(written / (1 - written))
    assert side_of(0.16, odds, single=True).tolist() == [0, 1]
    assert side_of(0.16, odds).tolist() == [-1, 1]  # in float64 it is a smaller number
    assert side_of(0.16, np.log(0.16 / 0.84) * np.ones(1, np.float32)).tolist() == [0]  # a score in float32
    assert side_of(1 - 1e-9, np.array([np.inf, 40.0, 20.0]), single=True).tolist() == [1, 1, -1]  # float32 has 1 there
    assert side_of(1e-50, np.array([-np.inf]), single=True).tolist() == [-1]  # and 0 there
