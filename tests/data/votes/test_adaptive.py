"""The adaptive majority against its definition: labels, weights, rounds, cycles, ties."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shortlist.data.votes import Votes, adaptive_majority, enough_alone, plain_majority, user_weight
from shortlist.errors import InputError, ShortlistWarning
from tests.data.votes.cases import rounds_of, tables, votes_of
from tests.references import votes as ref

B0 = st.sampled_from(["0", "0.1", "0.25", "0.4", "0.742", "1"])
THETA = st.sampled_from(["0", "0.3", "0.5", "1", "1.4", "2"])
# p is author of i and j. While i is A, p knows more and outvotes the two who say so; once i is B, p knows less again.
CYCLE = [("p", "i", "B", True), ("p", "j", "B", True), ("q", "i", "A", False), ("r", "i", "A", False)]


def check_equal(votes, found, expected):
    for place, item in enumerate(votes.items.tolist()):
        won, (label, valid) = expected["found"][item], expected["state"][item]
        assert bool(found.valid[place]) == valid
        if won is None:
            assert (found.label[place], found.support[place], found.confidence[place]) == (-1, 0, 0)
            continue
        assert votes.labels[found.label[place]] == label
        assert bool(found.tied[place]) == won[3]
        assert found.support[place] == pytest.approx(float(won[1]), abs=1e-12)
        assert found.confidence[place] == pytest.approx(float(won[1] / won[2]) if won[2] else 0, abs=1e-12)
    for user, weight in expected["weights"].items():
        assert found.weight[votes.users.tolist().index(user)] == pytest.approx(float(weight), abs=1e-12)
    history = [(r.labels_changed, r.validity_changed, r.weights_changed) for r in found.history]
    assert history == expected["history"]
    assert (found.rounds, found.converged, found.cycle) == (expected["rounds"], expected["converged"], expected["cycle"])


@settings(max_examples=300, deadline=None)
@given(tables(), B0, THETA, st.sampled_from([1, 2, 3, 100]))
def test_any_small_table_equals_the_definition(rows, b0, theta, most_rounds):
    votes = votes_of(rows, items=range(6), labels=range(4))
    found = rounds_of(adaptive_majority, votes, b0=b0, theta=theta, most_rounds=most_rounds)
    check_equal(votes, found, ref.adaptive_majority(rows, b0, theta, items=list(range(6)), most_rounds=most_rounds))


@settings(max_examples=100, deadline=None)
@given(st.data(), B0, THETA)
def test_few_labels_and_many_authors_equal_the_definition(data, b0, theta):
    """Where cycles are frequent."""
    rows = data.draw(tables(users=3, items=8, labels=3, most=40))
    votes = votes_of(rows)
    check_equal(votes, rounds_of(adaptive_majority, votes, b0=b0, theta=theta), ref.adaptive_majority(rows, b0, theta))


def test_a_table_that_cycles():
    votes = votes_of(CYCLE)
    with pytest.warns(ShortlistWarning, match="do not settle: from round 1 they come back every 2 rounds"):
        found = adaptive_majority(votes, b0=0.4, theta=0)
    assert (found.cycle, found.converged, found.rounds) == (2, False, 3)
    assert votes.items[found.unsettled].tolist() == ["i"]
    assert any("every 2 rounds" in note for note in found.notes)
    check_equal(votes, found, ref.adaptive_majority(CYCLE, 0.4, 0))


def test_the_cap_stops_before_a_cycle_can_be_seen():
    with pytest.warns(ShortlistWarning, match="have not settled after 2 rounds"):
        found = adaptive_majority(votes_of(CYCLE), b0=0.4, theta=0, most_rounds=2)
    assert (found.cycle, found.converged, found.rounds) == (0, False, 2)
    assert found.unsettled.tolist() == [0]


def test_a_settled_table_has_nothing_unsettled():
    assert adaptive_majority(votes_of(CYCLE), b0=1, theta=0).unsettled.tolist() == []


def test_what_is_observed_raises_the_weight_and_turns_a_label():
    rows = [("a", 1, "ash", True), ("a", 2, "elm", True), ("a", 3, "oak", True), ("b", 3, "yew", False), ("c", 3, "yew", False)]
    first = rounds_of(adaptive_majority, votes_of(rows), b0=0.5, theta=0.6, most_rounds=1)
    last = adaptive_majority(votes_of(rows), b0=0.5, theta=0.6)
    assert first.labels[first.label].tolist() == ["ash", "elm", "yew"]
    assert last.labels[last.label].tolist() == ["ash", "elm", "oak"]
    assert [round_.items.tolist() for round_ in last.history] == [[0, 1, 2], [2], []]
    assert [round_.users.tolist() for round_ in last.history] == [[], [0], []]
    assert last.history[1].weights_changed == 1


def test_sums_of_decimals_do_not_exceed_themselves():
    """0.1 + 0.1 + 0.1 > 0.3 in binary."""
    votes = votes_of([(user, 0, 0, False) for user in range(3)])
    assert not adaptive_majority(votes, b0=0.1, theta=0.3).valid[0]
    assert adaptive_majority(votes, b0=0.1, theta=0.299999999).valid[0]
    assert adaptive_majority(votes, b0=0.1, theta=Fraction(299999999999, 10**12)).valid[0]


@settings(max_examples=50, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    rows = [(*key, label, author) for key, (label, author) in {(u, i): (k, a) for u, i, k, a in rows}.items()]
    shuffled = random.sample(rows, len(rows))
    one, other = (rounds_of(adaptive_majority, votes_of(r), b0=0.3, theta=1) for r in (rows, shuffled))
    assert len(one.changed(other).items) == len(one.changed(other).users) == 0
    assert np.array_equal(one.support, other.support)


def test_users_who_never_voted_weigh_a_beginning():
    votes = Votes.from_arrays(user=[1], item=[0], label=[0], users=[0, 1])
    assert adaptive_majority(votes, b0=0.5, theta=0).weight.tolist() == [0.5, 0.5]


def test_without_authors_weights_come_from_proposals_and_settle_in_two_rounds():
    rows = [(user, item, (user + item) % 3, False) for user in range(4) for item in range(user + 1)]
    found = adaptive_majority(votes_of(rows), b0=0.2, theta=0.5)
    assert found.rounds == 2
    assert found.weight == pytest.approx([float(ref.weight(n, 0.2)) for n in (1, 2, 3, 3)])


def test_the_plain_majority_is_one_vote_each():
    rows = [(0, 0, 1, False), (1, 0, 0, False), (2, 0, 1, False), (0, 1, 2, False), (1, 1, 0, False)]
    found = plain_majority(votes_of(rows, items=range(3)), theta=1)
    assert found.label.tolist() == [1, 0, -1]
    assert found.valid.tolist() == [True, False, False]
    assert found.support.tolist() == [2, 1, 0]
    assert found.confidence == pytest.approx([2 / 3, 1 / 2, 0])
    assert found.tied.tolist() == [False, True, False]
    assert found.notes == (
        "no votes: 1 of 3 items, which stay without a label",
        "ties: 1 item has several labels with the largest support and takes the first",
    )


@settings(max_examples=50, deadline=None)
@given(tables())
def test_the_plain_majority_is_the_weighted_one_of_equal_weights(rows):
    votes, _ = ref.last_votes(rows)
    found = plain_majority(votes_of(rows))
    expected = ref.decide(votes, dict.fromkeys({user for user, _ in votes}, Fraction(1)), sorted({i for _, i in votes}))
    assert found.labels[found.label].tolist() == [won[0] for won in expected.values()]
    assert found.tied.tolist() == [won[3] for won in expected.values()]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 999, 10**6])
def test_weights_are_the_formula(n):
    assert user_weight(n, b0=0.7) == pytest.approx(float(ref.weight(n, "0.7")), rel=1e-12)


@pytest.mark.parametrize(("b0", "theta"), [(0.7, 2), (0, 0), (1, 0.5), (0.5, 0.5), (0, 100), (0.742, 1)])
def test_enough_alone_is_the_least_that_is(b0, theta):
    n = enough_alone(b0=b0, theta=theta)
    assert ref.weight(n, b0) > Fraction(str(theta))
    assert n == 1 or ref.weight(n - 1, b0) <= Fraction(str(theta))


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("b0", -0.1, "b0: expected a number from 0 to 1,000, got -0.1"),
        ("b0", "much", "b0: expected a number, got 'much'"),
        ("b0", float("nan"), "b0: expected a number"),
        ("theta", -1, "theta: expected a number from 0 to 1,000,000,000, got -1"),
        ("theta", None, "theta: expected a number"),
        ("most_rounds", 0, "most_rounds: expected a whole number from 1, got 0"),
    ],
)
def test_bad_numbers_are_refused(argument, value, message):
    with pytest.raises(InputError, match=message):
        adaptive_majority(votes_of(CYCLE), **{"b0": 0.5, "theta": 1, argument: value})
