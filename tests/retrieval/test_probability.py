"""Probabilities of queries against the sum over all assignments of their labels, in exact fractions."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.retrieval import expansion
from shortlist.retrieval.expansion import MOST_COUPLED, expanded, simplified
from shortlist.retrieval.plans import (
    All,
    Constant,
    If,
    Literal,
    Some,
    Tally,
    last_change,
    max_state,
    negated,
    parts_of,
    reversed_bits,
    tally,
)
from shortlist.retrieval.probability import MOST_ROWS, log_probability
from shortlist.retrieval.query import Query
from shortlist.retrieval.tokens import QueryError
from tests.references import retrieval as reference
from tests.retrieval.drawn import queries

NAMES = ["a", "b", "c", "d", "e"]
ETAS = [0, "1e-300", "1e-12", "0.001", "0.1", "0.37", "0.5", "0.9", 1 - Fraction("1e-12"), 1 - Fraction("1e-17"), 1]
ROWS = st.lists(st.lists(st.sampled_from([Fraction(eta) for eta in ETAS]), min_size=5, max_size=5), min_size=1, max_size=3)


def columns(rows):
    labels = range(len(rows[0]))
    log_yes = {j: np.array([reference.log(row[j]) for row in rows]) for j in labels}
    return log_yes, {j: np.array([reference.log(1 - row[j]) for row in rows]) for j in labels}


def check(query, rows):
    found = Query.parse(reference.text(query, NAMES), NAMES).log_probability(*columns(rows))
    assert found.dtype == np.float64
    for value, row in zip(found, rows, strict=True):
        expected = reference.log(reference.probability(query, row))
        if expected == -math.inf:
            assert value == -math.inf
        else:
            # 1e-12 of P; a logarithm of -5000 that came as float64 is no better known than that.
            assert abs(value - expected) <= 1e-12 * max(1, abs(expected) / 100)
            # and of 1 - P, where that is small: rows of which a query is nearly certain are ranked too.
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-300)


@settings(max_examples=400, deadline=None)
@given(query=queries(5, thresholds=["0.05", "0.3", "0.8"], most_leaves=14), rows=ROWS)
def test_any_query_equals_the_sum_over_all_assignments(query, rows):
    check(query, rows)


A, B, C, D, E = (("label", j) for j in range(5))


@pytest.mark.parametrize(
    "query",
    [
        ("and", A, B, ("not", C)),
        ("or", A, B, C, D, E),
        ("not", ("or", A, B)),
        ("or", ("and", A, B), ("and", ("not", A), C)),
        ("or", ("and", A, B), ("and", B, C), ("and", C, D), ("and", D, E), ("and", E, A)),
        ("at least", 2, A, B, C, D, E),
        ("at most", 1, A, B, C, D, E),
        ("exactly", 3, A, B, C, D, E),
        ("at least", 2, A, A, B),
        ("at least", 2, ("and", A, B), ("or", B, C), ("not", D), ("exactly", 1, D, E)),
        *[("count", sign, k) for sign in (">", ">=", "<", "<=", "=") for k in range(7)],
        ("and", ("count", ">=", 3), A),
        ("or", ("count", ">=", 3), A),
        ("and", ("count", ">=", 3), ("or", A, B), ("not", C)),
        ("and", ("count", ">", 1), ("count", "<", 4)),
        ("or", ("count", "<", 1), ("count", ">", 4)),
        ("and", ("count", ">=", 2), ("at most", 1, A, B, C)),
        ("and", ("condition", 0, ">", "0.3"), ("or", A, B)),
        ("or", ("condition", 0, ">", "0.3"), ("and", A, B)),
        ("at least", 2, ("condition", 0, ">", "0.3"), ("condition", 1, "<=", "0.8"), A, B),
    ],
    ids=str,
)
def test_each_kind_of_query_on_ordinary_and_extreme_rows(query):
    etas = [Fraction(eta) for eta in ETAS]
    random = np.random.default_rng(0)
    rows = [[eta] * 5 for eta in etas] + [[etas[i] for i in random.integers(len(etas), size=5)] for _ in range(20)]
    check(query, rows)


def test_products_that_vanish_in_float64_are_kept_as_logarithms():
    names = [f"l{j}" for j in range(60)]
    query = Query.parse("at least 30 of (" + ", ".join(names) + ")", names)
    tiny = np.full(1, -50.0)
    found = query.log_probability(dict.fromkeys(range(60), tiny), dict.fromkeys(range(60), np.log1p(-np.exp(tiny))))
    # C(60, 30) e^(-50 · 30), further terms and the 30 absent ones do not show in the digits.
    assert found[0] == pytest.approx(math.log(math.comb(60, 30)) - 1500, rel=1e-14)


def test_rows_of_which_a_query_is_nearly_certain_are_ranked():
    query = Query.parse("a or b", ["a", "b"])
    log_no = {0: np.array([-20.0, -30.0, -300.0]), 1: np.array([-25.0, -20.0, -300.0])}
    found = query.log_probability({j: np.log1p(-np.exp(values)) for j, values in log_no.items()}, log_no)
    assert found.tolist() == pytest.approx([-math.exp(-45), -math.exp(-50), -math.exp(-600)], rel=1e-12)


def test_conjunctions_are_the_plain_sum_of_logarithms():
    query = Query.parse("a and b and not c and a", ["a", "b", "c"])
    random = np.random.default_rng(0)
    log_yes, log_no = ({j: -random.exponential(10, 1000) for j in range(3)} for _ in range(2))
    assert (query.log_probability(log_yes, log_no) == log_yes[0] + log_yes[1] + log_no[2]).all()


def test_rows_come_in_blocks_and_none_is_lost():
    names = [f"l{j}" for j in range(7)]
    query = Query.parse("count >= 3 and (l0 or l1)", names)
    odds = np.random.default_rng(0).normal(size=(2 * MOST_ROWS + 77, 7))
    logs = [{j: -np.logaddexp(0, sign * odds[:, j]) for j in range(7)} for sign in (-1, 1)]
    whole = query.log_probability(*logs)
    some = np.r_[0, MOST_ROWS - 1, MOST_ROWS, 2 * MOST_ROWS + 76]
    alone = query.log_probability(*({j: column[some] for j, column in part.items()} for part in logs))
    assert (whole[some] == alone).all()
    assert query.log_probability(*({j: column[:0] for j, column in part.items()} for part in logs)).shape == (0,)


@pytest.mark.parametrize("text", ["count >= 10", "count >= 14", "not l3 and count >= 10"])
def test_a_row_by_itself_has_the_score_that_it_has_among_others(text):
    query = Query.parse(text, [f"l{label}" for label in range(24)])
    odds = np.random.default_rng(0).normal(0.3, 1, (400, 24))
    logs = [dict(enumerate(-np.logaddexp(0, sign * odds).T)) for sign in (-1, 1)]
    alone = [
        query.log_probability(*({label: column[[row]] for label, column in part.items()} for part in logs))[0]
        for row in range(len(odds))
    ]
    assert query.log_probability(*logs).tolist() == alone


def test_single_precision_comes_back_in_double():
    query = Query.parse("a or b", ["a", "b"])
    probs = np.array([0.3, 0.9, 1, 0], np.float32)
    with np.errstate(divide="ignore"):
        log_yes, log_no = np.log(probs), np.log1p(-probs)
    found = query.log_probability({0: log_yes, 1: log_yes}, {0: log_no, 1: log_no})
    assert found.dtype == np.float64
    assert np.exp(found) == pytest.approx([0.51, 0.99, 1, 0], rel=1e-6)
    assert (found <= 0).all()


def test_no_warning_whatever_the_settings_of_numpy():
    query = Query.parse("(a or b) and exactly 1 of (c, d, e)", NAMES)
    rows = [list(row) for row in itertools.product(map(Fraction, [0, "1e-300", 1]), repeat=5)]
    with warnings.catch_warnings(), np.errstate(divide="warn", under="ignore", over="raise", invalid="raise"):
        warnings.simplefilter("error")
        found = query.log_probability(*columns(rows))
    assert not np.isnan(found).any()


@pytest.mark.parametrize(
    ("log_yes", "log_no", "message"),
    [
        ({0: np.zeros(2)}, {0: np.zeros(3)}, "columns of one length"),
        ({}, {}, "columns of one length"),
        ({0: np.zeros((2, 2))}, {0: np.zeros((2, 2))}, "columns of one length"),
        ({0: np.zeros(2)}, {0: np.zeros(2)}, r"got none of \[1\]"),
    ],
)
def test_columns_that_do_not_fit_are_refused(log_yes, log_no, message):
    with pytest.raises(InputError, match=message):
        Query.parse("a or b", ["a", "b"]).log_probability(log_yes, log_no)


# Plans ----------------------------------------------------------------------------------------------------------------------


def plan_of(text, names=NAMES):
    query = Query.parse(text, names)
    return expanded(simplified(query.tree, len(names)))


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("a and a", "a"),
        ("a or a or a", "a"),
        ("a and (a or b)", "a"),
        ("a or (a and b)", "a"),
        ("not not a", "a"),
        ("not (not a or b)", "a and not b"),
        ("a and (not a or b)", "a and b"),
        ("a and (not a or (b and (not b or c)))", "a and b and c"),
        ("at least 1 of (a, b)", "a or b"),
        ("at least 2 of (a, b)", "a and b"),
        ("at most 0 of (a, b)", "not a and not b"),
        ("at most 1 of (a, b)", "not a or not b"),
        ("not at least 2 of (a, b, c)", "at most 1 of (a, b, c)"),
        ("a and at least 2 of (a, b, c)", "a and (b or c)"),
        ("count >= 5", "a and b and c and d and e"),
        ("count > 0", "a or b or c or d or e"),
        ("count >= 2 and count <= 2", "count = 2"),
        ("not (count < 2 or count > 3)", "count > 1 and count < 4"),
        ("a and count = 1", "a and not b and not c and not d and not e"),
        ("a > 0 or a <= 0 or b", "a or not a"),
        ("a > 0.5 and b > 0.2 and a > 0.5", "a > 0.5 and b > 0.2"),
        ("a > 0.5 and (a <= 0.3 or b)", "a > 0.5 and b"),
        ("a > 0.5 and (a > 0.3 and b)", "a > 0.5 and b"),
        ("a >= 0 and b", "b"),
        ("(a and b) or (a and not b)", "a"),
        ("(a or b) and (a or not b)", "a"),
    ],
)
def test_what_is_the_same_has_the_same_plan(text, simpler):
    assert plan_of(text) == plan_of(simpler)


def labels_below(plan):
    own = [plan.position] if isinstance(plan, Literal | If) else []
    return own + [label for part in parts_of(plan) for label in labels_below(part)]


@settings(max_examples=200, deadline=None)
@given(query=queries(6, thresholds=["0.3"], most_leaves=14))
def test_the_parts_of_a_plan_share_no_label(query):
    names = [*NAMES, "f"]
    waiting = [plan_of(reference.text(query, names), names)]
    while waiting:
        plan = waiting.pop()
        waiting += parts_of(plan)
        below = [set(labels_below(part)) for part in parts_of(plan)]
        if isinstance(plan, If):
            assert plan.position not in below[0] | below[1]
        else:
            assert sum(map(len, below)) == len(set().union(*below))
        assert not any(isinstance(part, Constant) for part in parts_of(plan) if not isinstance(plan, If))


def test_twelve_labels_may_couple_and_no_more():
    names = [f"l{j}" for j in range(20)]

    def ring(size):
        return "at least 3 of (" + ", ".join(f"l{j} and l{(j + 1) % size}" for j in range(size)) + ")"

    Query.parse(ring(MOST_COUPLED), names)
    with pytest.raises(QueryError, match=r"13 labels occur in several places .* expected 12 at most") as caught:
        Query.parse("l15 and " + ring(MOST_COUPLED + 1), names)
    assert caught.value.position == len("l15 and at least 3 of (")


def test_labels_that_repeat_apart_from_each_other_are_not_counted_together():
    names = [f"l{j}" for j in range(40)]
    text = " and ".join(f"(l{j} and l{j + 1} or not l{j} and l{j + 2})" for j in range(0, 39, 3))
    log_yes = {j: np.log([0.3 + j / 100]) for j in range(40)}
    log_no = {j: np.log1p(-np.exp(column)) for j, column in log_yes.items()}
    eta = [0.3 + j / 100 for j in range(40)]
    expected = math.prod(eta[j] * eta[j + 1] + (1 - eta[j]) * eta[j + 2] for j in range(0, 39, 3))
    assert np.exp(Query.parse(text, names).log_probability(log_yes, log_no))[0] == pytest.approx(expected, rel=1e-12)


def test_too_many_cases_are_refused_though_few_labels_repeat():
    names = [f"l{j}" for j in range(600)]
    parts = ", ".join(f"l{(7 * j + j // 12) % 12} and l{j + 20}" for j in range(490))
    with pytest.raises(QueryError, match=r"12 labels occur in several places .* too many cases"):
        Query.parse(f"at least 3 of ({parts})", names)


@pytest.mark.parametrize(("bits", "parts"), [(b, m) for m in (1, 2, 3, 4) for b in range(1, (2 << m) - 1)])
def test_every_set_of_counts(bits, parts):
    literals = tuple(Literal(j, True) for j in range(parts))
    eta = np.array([0.2, 0.3, 0.6, 0.9])[:parts]
    exact = [0.0] * (parts + 1)
    for labels in itertools.product((0, 1), repeat=parts):
        exact[sum(labels)] += math.prod(p if x else 1 - p for p, x in zip(eta, labels, strict=True))
    expected = sum(p for s, p in enumerate(exact) if bits >> s & 1)
    logs = {j: np.log(eta[j : j + 1]) for j in range(parts)}, {j: np.log1p(-eta[j : j + 1]) for j in range(parts)}
    for plan in (Tally(bits, literals), tally(bits, literals), negated(negated(tally(bits, literals)))):
        assert np.exp(log_probability(plan, *logs))[0] == pytest.approx(expected, rel=1e-13)
    assert np.exp(log_probability(negated(Tally(bits, literals)), *logs))[0] == pytest.approx(1 - expected, rel=1e-12)


def test_from_where_a_tally_no_longer_changes():
    assert [last_change(0b1110, 3), last_change(0b0001, 3), last_change(0b0100, 3), last_change(0b1000, 3)] == [1, 1, 3, 3]
    assert reversed_bits(0b0011, 3) == 0b1100
    literals = tuple(Literal(j, True) for j in range(80))
    assert max_state(Tally(1 << 80 | 1 << 79, literals)) == (2, False)
    assert max_state(Tally((2 << 80) - 1 - 0b111, literals)) == (3, True)


def test_negation_reaches_every_kind_of_plan():
    a, b = Literal(0, True), Literal(1, True)
    assert negated(Constant(True)) == Constant(False)
    assert negated(If(0, b, All((b, Literal(2, False))))) == If(
        0, Literal(1, False), Some((Literal(1, False), Literal(2, True)))
    )
    assert negated(Some((a, b))) == All((Literal(0, False), Literal(1, False)))


# Counts over many labels -----------------------------------------------------------------------------------------------------


def distribution(eta):
    """P(so many labels are present), by adding one label after the other in float64."""
    found = np.array([1.0])
    for p in eta:
        found = np.append(found * (1 - p), 0) + np.append(0, found * p)
    return found


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("count >= 1 and count <= 3", lambda s: 1 <= s <= 3),
        ("count = 0 or count = 2", lambda s: s in (0, 2)),
        ("count < 80 and count > 3", lambda s: 3 < s < 80),
        ("count >= 1 and count < 80", lambda s: 1 <= s < 80),
        ("count = 0 or count = 80", lambda s: s in (0, 80)),
        ("not (count = 0 or count > 3)", lambda s: 0 < s <= 3),
        ("count >= 1 and (count <= 9 and (count = 1 or count > 7))", lambda s: s in (1, 8, 9)),
        ("count > 0 and count < 80 or count = 80 and count > 2", lambda s: s > 0),
        ("count >= 2 and count >= 1", lambda s: s >= 2),
        ("at least 1 of (count = 0, count = 3, count >= 79)", lambda s: s in (0, 3, 79, 80)),
    ],
)
@pytest.mark.parametrize("shape", [(0.5, 8), (2, 40), (1, 1), (8, 0.5)])
def test_counts_of_the_same_labels_are_joined_before_their_ends_are_simplified(text, allowed, shape):
    names = [f"l{j}" for j in range(80)]
    eta = np.random.default_rng(0).beta(*shape, size=(5, 80)).clip(1e-6, 1 - 1e-6)
    found = Query.parse(text, names).log_probability(dict(enumerate(np.log(eta.T))), dict(enumerate(np.log1p(-eta.T))))
    expected = [sum(p for s, p in enumerate(distribution(row)) if allowed(s)) for row in eta]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-10)


def test_counts_of_what_is_left_are_joined_too():
    names = [f"l{j}" for j in range(80)]
    eta = np.random.default_rng(1).beta(0.5, 8, size=80).clip(1e-6, 1 - 1e-6)
    logs = dict(enumerate(np.log(eta)[:, None])), dict(enumerate(np.log1p(-eta)[:, None]))
    others = ", ".join(names[1:])
    query = Query.parse(f"l0 and count <= 3 and at least 1 of ({others}) and not l5", names)
    rest = distribution([p for j, p in enumerate(eta) if j not in (0, 5)])
    expected = eta[0] * (1 - eta[5]) * rest[1:3].sum()
    assert np.exp(query.log_probability(*logs))[0] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("text", ["(a or b) and (not a or not b)", "(a and b) or (not a and not b)"])
def test_all_and_some_of_the_same_labels_are_one_count(text):
    assert isinstance(plan_of(text), Tally)


def most_settled(monkeypatch, make):
    """How many labels and conditions are looked at while a query is made."""
    seen = []
    value = expansion._Facts.value
    monkeypatch.setattr(expansion._Facts, "value", lambda facts, unit: seen.append(unit) or value(facts, unit))
    make()
    return len(seen)


def test_hundreds_of_counts_over_ten_thousand_labels_take_no_time(monkeypatch):
    names = [f"l{j}" for j in range(10_000)]
    several = " and ".join(f"count > {k}" for k in range(300))
    assert most_settled(monkeypatch, lambda: Query.parse(several, names)) < 100_000
    assert Query.parse(several, names).plan == Query.parse("count > 299", names).plan
    never = Query.parse(f"count < 50 and {several}", names)
    assert most_settled(monkeypatch, lambda: never.contradiction) < 1_000_000
    assert "cannot both be true" in never.contradiction
    coupled = " or ".join(f"count > {k} and l{k}" for k in range(300))

    def refused():
        with pytest.raises(QueryError, match="300 places"):
            Query.parse(coupled, names)

    assert most_settled(monkeypatch, refused) < 100_000
