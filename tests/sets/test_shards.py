"""A rule that is fitted on rows in several places is the rule that is fitted on all of them together."""

import itertools
import json
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.numpy import load as load_arrays, save as save_arrays

from shortlist.errors import InputError, ShortlistWarning
from shortlist.predictions import Predictions
from shortlist.sets import (
    FitState,
    FittedThreshold,
    Probability,
    SetRule,
    aps,
    average_k,
    classwise,
    constraints,
    fit_shards,
    gate,
    interpolated,
    lac,
    merged,
    parse_rule,
    per_label,
    raps,
    risk_control,
    top_k,
)
from tests.sets.cases import CASES, FITTED, draw
from tests.sets.test_hints import confident

DTYPES = [torch.float16, torch.float32, torch.float64]
RANDOM = {
    "aps": lambda: aps(0.2, randomized=True),
    "aps, calibration": lambda: aps(0.2),
    "raps": lambda: raps(0.2, 0.01, 2, generator=7),
    "classwise": lambda: classwise(aps(0.2, randomized=True)),
}
pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def rows_of(case, dtype=torch.float64, tied=False, rows=150):
    data = draw(case.many_labels, rows=rows)
    probs = torch.from_numpy(data.calibration)
    if tied:
        probs = (probs * 8).round() / 8 if case.many_labels else ((probs * 8).round() + 1).div(13)
        probs = probs if case.many_labels else probs / probs.sum(1, keepdim=True)
    return probs.to(dtype), torch.from_numpy(data.target), data.prior


def parts(probs, target, cuts):
    edges = [0, *sorted(cuts), len(probs)]
    return [(probs[a:b], target[a:b]) for a, b in itertools.pairwise(edges)]


def sent(state):
    """The same after it was sent."""
    return FitState.from_bytes(state.to_bytes())


def fitted_by_messages(rule, shards, order=lambda answers: answers):
    """Every question and every answer is sent; answers are merged in any order."""
    state = sent(rule.first_round())
    while not state.done:
        answers, start = [], 0
        for probs, target in shards:
            answers.append(sent(rule.summary(sent(state), probs, target, first_row=start)))
            start += answers[-1].rows
        state = sent(rule.next_round(merged(order(answers))))
    return rule.fit_from(state)


def fitted_or_refused(fit):
    """The rule, or why there is none."""
    try:
        return fit()
    except InputError as error:
        return str(error)


def assert_same(found, whole):
    assert torch.equal(found.threshold, whole.threshold)
    assert found.record() == whole.record()
    assert found.state_dict().keys() == whole.state_dict().keys()
    for name, tensor in whole.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_shards_give_the_rule_of_all_rows_to_the_last_bit(case, dtype, tied):
    probs, target, prior = rows_of(case, dtype, tied)
    shards = parts(probs, target, [0, 1, 2, 60, 60, 149, 150])  # some of one row, some of none
    whole = fitted_or_refused(lambda: case.make(prior).fit(probs, target))
    if isinstance(whole, str):
        assert tied
        assert fitted_or_refused(lambda: fit_shards(case.make(prior), shards)) == whole
        return
    assert_same(fit_shards(case.make(prior), shards), whole)
    assert_same(fitted_by_messages(case.make(prior), shards, lambda answers: answers[::-1]), whole)


@pytest.mark.parametrize("name", RANDOM)
def test_randomised_rules_draw_by_the_number_of_the_row(name):
    data = draw(rows=200)
    probs, target = torch.from_numpy(data.calibration), torch.from_numpy(data.target)
    probs[50:60], target[50:60] = probs[0], target[0]  # equal rows are drawn apart
    whole = RANDOM[name]().fit(probs, target)
    for cuts in ([1, 100], [0, 7, 7, 60, 199]):
        found = RANDOM[name]()
        state = found.first_round(sizes=False)
        while not state.done:
            shards, starts = parts(probs, target, cuts), [0, *cuts]
            answers = [found.summary(state, *shard, first_row=start) for shard, start in zip(shards, starts, strict=True)]
            state = found.next_round(merged(answers[::-1]))
        found.fit_from(state)
        assert torch.equal(found.threshold, whole.threshold)
        assert found.ordering.seed == whole.ordering.seed
    misplaced = RANDOM[name]()
    state = misplaced.first_round(sizes=False)
    while not state.done:
        state = misplaced.next_round(merged(misplaced.summary(state, *shard) for shard in parts(probs, target, [100])))
    assert not torch.equal(misplaced.fit_from(state).threshold, whole.threshold)


@pytest.mark.parametrize("gated", [False, True])
def test_draws_from_a_generator_are_those_of_all_rows(gated):
    data = draw(many_labels=True)
    target = torch.from_numpy(data.target) & (torch.arange(150) % 3 > 0)[:, None]

    def make():
        rule = classwise(aps(0.2, torch.Generator().manual_seed(3)))
        return gate(rule, 0.4) if gated else rule

    whole = make().fit(torch.from_numpy(data.calibration), target)
    found = fitted_by_messages(make(), parts(torch.from_numpy(data.calibration), target, [40, 41]))
    assert torch.equal(found.threshold, whole.threshold)


@pytest.mark.parametrize(
    "make", [*(case.make for case in FITTED), *(lambda prior, make=make: make() for make in RANDOM.values())]
)
def test_values_that_are_too_many_to_keep_are_read_again(monkeypatch, make):
    many = any(make is case.make and case.many_labels for case in FITTED)
    data = draw(many)
    probs, target = torch.from_numpy(data.calibration).float(), torch.from_numpy(data.target)
    whole = make(data.prior).fit(probs, target)
    reads = []

    def batches():
        reads.append(1)
        yield from zip(probs.split(40), target.split(40), strict=True)

    monkeypatch.setattr("shortlist.rounds.KEPT_CANDIDATES", 4)
    assert_same(make(data.prior).fit(batches), whole)
    assert len(reads) > 2
    once = zip(probs.split(40), target.split(40), strict=True)
    if whole.gate is None and whole.groups is None and whole.needs_labels:  # all are kept if they can be read only once
        assert torch.equal(make(data.prior).fit(once).threshold, whole.threshold)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_split_of_any_rows_gives_the_same(data):
    case = data.draw(st.sampled_from(FITTED))
    rows = data.draw(st.integers(1, 40))
    numbers = st.sampled_from([0.0, 0.125, 0.25, 0.3, 0.5, 0.7, 1.0])
    probs = torch.tensor(data.draw(st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=rows, max_size=rows)))
    probs = probs.to(data.draw(st.sampled_from(DTYPES)))
    if not case.many_labels:
        probs = (probs + 0.01) / (probs + 0.01).sum(1, keepdim=True)
    seed = torch.Generator().manual_seed(rows)
    target = torch.rand(rows, 5, generator=seed) < 0.4 if case.many_labels else torch.randint(5, (rows,), generator=seed)
    cuts = data.draw(st.lists(st.integers(0, rows), max_size=6))
    prior = np.full(5, 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = fitted_or_refused(lambda: case.make(prior).fit(probs, target))
        if isinstance(whole, str):
            assert fitted_or_refused(lambda: fit_shards(case.make(prior), parts(probs, target, cuts))) == whole
            return
        order = data.draw(st.permutations(range(len(cuts) + 1)))
        found = fitted_by_messages(
            case.make(prior), parts(probs, target, cuts), lambda answers: [answers[place] for place in order]
        )
    assert_same(found, whole)


def site(rows):
    """A column of groups, one of which is rare."""
    return np.array(["north", "south", "south", "", "east"])[np.arange(rows) % 5]


LAWS = {
    "average-k:1.5": False,
    "average-k:1.5, prior": False,
    "lac:0.1": False,
    "lac:0.1,pac:0.2": False,
    "lac:0.1,classwise": False,
    "lac:0.1,interpolated:0.5": False,
    "lac:0.1,by:site:20": False,
    "lac:0.1,by:predicted": False,
    "average-k:1.5,by:site": False,
    "pas:0.1": False,
    "pas:0.1,classwise": False,
    "aps:0.1:random": False,
    "aps:0.1:deterministic": False,
    "raps:0.1:0.01:2": False,
    "raps:0.1:0.01:2:deterministic": False,
    "risk-control:recall:0.1": True,
    "risk-control:recall:0.2,pac:0.2": True,
    "per-label:f1": True,
    "per-label:f1,by:site:20": True,
    "average-k:1.5,gate:0.5": True,
}


def answers_of(text, many, rows=90):
    """The answers of three shards to every round."""
    data = draw(many, rows=rows)
    probs, target = torch.from_numpy(data.calibration).float(), torch.from_numpy(data.target)
    prior = {"prior": data.prior} if text.startswith("pas") or "prior" in text else {}
    rule = parse_rule(text.removesuffix(", prior"), **prior)
    state = rule.first_round()
    while not state.done:
        answers = []
        for start, stop in itertools.pairwise((0, 20, 50, rows)):
            groups = {"groups": site(rows)[start:stop]} if rule.column == "site" else {}
            answers.append(rule.summary(state, probs[start:stop], target[start:stop], first_row=start, **groups))
        yield answers
        state = rule.next_round(merged(answers))


@pytest.mark.parametrize("text", LAWS)
def test_merging_is_associative_and_commutative_and_nothing_changes_nothing(text):
    rounds = 0
    for a, b, c in answers_of(text, LAWS[text]):
        wanted = (a + b + c).to_bytes()
        assert (a + (b + c)).to_bytes() == wanted
        assert (c + a + b).to_bytes() == wanted
        assert (b + a).to_bytes() == (a + b).to_bytes() != a.to_bytes()
        assert (a.empty() + a).to_bytes() == (a + a.empty()).to_bytes() == a.to_bytes()
        assert sent(a).to_bytes() == a.to_bytes()
        rounds += 1
    assert rounds > 1


@pytest.mark.parametrize(("dtype", "rounds"), [(torch.float16, 1), (torch.float32, 2), (torch.float64, 4)], ids=str)
@pytest.mark.parametrize("text", ["average-k:2.5", "lac:0.1", "risk-control:recall:0.1"])
def test_rounds_are_one_two_and_four_and_messages_small(text, dtype, rounds):
    probs = torch.rand(2000, 100, generator=torch.Generator().manual_seed(0)).mul(4).softmax(1).to(dtype)
    target = torch.randint(100, (2000,), generator=torch.Generator().manual_seed(1))
    rule, asked, largest = parse_rule(text), 0, 0
    state = rule.first_round(probs[:200], sizes=False)
    while not state.done:
        answers = [rule.summary(state, *shard) for shard in parts(probs, target, [500, 1000])]
        largest = max(largest, *(len(answer.to_bytes()) for answer in answers))
        state, asked = rule.next_round(merged(answers)), asked + 1
    assert asked == rounds
    assert largest < 20_000
    assert torch.equal(rule.fit_from(state).threshold, parse_rule(text).fit(probs, target).threshold)


def test_the_size_of_a_message_does_not_grow_with_the_rows():
    rule, sizes = average_k(5), []
    for rows in (500, 5000, 50_000):
        probs = torch.randn(rows, 20, generator=torch.Generator().manual_seed(0)).softmax(1)
        sizes.append(len(rule.summary(rule.first_round(probs[:400]), probs).to_bytes()))
    assert sizes[2] < 1.5 * sizes[1] < 3 * sizes[0]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("make", [lambda: classwise(lac(0.1)), per_label])
def test_many_groups_are_counted_in_narrow_digits_while_there_is_much_to_count(monkeypatch, make, many):
    data = draw(many_labels=True, rows=300)
    probs, target = torch.from_numpy(data.calibration), torch.from_numpy(data.target)
    whole = make().fit(probs, target)
    if many:
        monkeypatch.setattr("shortlist.leading_bits.MOST_GROUPED_BINS", 2)
    rule, widths = make(), set()
    state = rule.first_round(sizes=False)
    while not state.done:
        widths.add(state.counts.widths[-1])
        state = rule.next_round(merged(rule.summary(state, *shard) for shard in parts(probs, target, [100])))
    assert widths == ({8, 4} if many else {8, 16})
    assert torch.equal(rule.fit_from(state).threshold, whole.threshold)


@pytest.mark.parametrize("text", ["per-label:f1", "per-label:precision:0.8", "per-label:recall:0.8"])
def test_messages_about_eighty_labels_are_at_most_100_kb(text):
    generator = torch.Generator().manual_seed(0)
    probs = torch.sigmoid(2.2 * torch.randn(60_000, 80, generator=generator) - 5)
    target = torch.rand(60_000, 80, generator=generator) < probs
    rule, asked = parse_rule(text), 0
    state = rule.first_round(sizes=False)
    while not state.done:
        answers = [rule.summary(state, *shard).to_bytes() for shard in parts(probs, target, [30_000])]
        assert max(len(state.to_bytes()), *map(len, answers)) <= 100_000
        state, asked = rule.next_round(merged(map(FitState.from_bytes, answers))), asked + 1
    assert asked <= 5
    assert torch.equal(rule.fit_from(state).threshold, parse_rule(text).fit(probs, target).threshold)


def named(classes=1081, rows=60, link="softmax"):
    """Rows with named classes."""
    scores = torch.randn(rows, classes, generator=torch.Generator().manual_seed(0))
    names = [f"Genus species {number}" for number in range(classes)]
    return Predictions(scores, torch.arange(rows) % classes, classes=names, link=link)


def asked_of(rule, shards):
    """The state at the end, every question and answer as bytes, and the size of the largest."""
    state, largest = rule.first_round(shards[0].probs()), 0
    while not state.done:
        question = state.to_bytes()
        answers = [rule.summary(FitState.from_bytes(question), shard).to_bytes() for shard in shards]
        largest = max(largest, len(question), *map(len, answers))
        state = rule.next_round(merged(map(FitState.from_bytes, answers)))
    return FitState.from_bytes(state.to_bytes()), largest


def test_the_names_of_classes_are_not_sent_and_come_back_in_the_end():
    rows, bare = named(), named()
    bare = Predictions(bare.scores, bare.target, link="softmax")
    rule, shards = average_k(3), [rows.rows(slice(0, 40)), rows.rows(slice(40, 60))]
    state, largest = asked_of(rule, shards)
    _, without = asked_of(average_k(3), [bare.rows(slice(0, 40)), bare.rows(slice(40, 60))])
    assert largest < without + 300  # one digest, and two names
    whole = average_k(3).fit(rows)
    assert_same(rule.fit_from(state, shards[1]), whole)
    assert rule.origin["names"] == list(rows.class_names)
    with pytest.raises(InputError, match="rows: expected the classes .* 1081 classes from .* and 3 classes from"):
        rule.fit_from(state, named(3))
    with pytest.raises(InputError, match="with another link"):
        rule.fit_from(state, named(link="sigmoid"))


def test_without_its_names_a_rule_still_refuses_others(tmp_path):
    rows = named(5)
    rule = lac(0.2)
    rule.fit_from(asked_of(rule, [rows])[0]).save(tmp_path / "rule")
    for fitted in (rule, SetRule.load(tmp_path / "rule")):
        assert torch.equal(fitted(rows), lac(0.2).fit(rows)(rows))
        assert len(fitted(Predictions(rows.scores, link="softmax"))) == 60
        swapped = [*rows.class_names[:2], rows.class_names[3], rows.class_names[2], rows.class_names[4]]
        with pytest.raises(InputError, match="other names, or in another order"):
            fitted(Predictions(rows.scores, classes=swapped, link="softmax"))
    state = asked_of(rule := lac(0.2), [Predictions(rows.scores, rows.target, classes=list("01234"), link="softmax")])[0]
    assert len(rule.fit_from(state)(rows)) == 60  # numbers in their order are no names
    with pytest.raises(InputError, match="column 0 was '0' and is '1' here"):
        rule(Predictions(rows.scores, classes=list("10234"), link="softmax"))


def test_shards_with_other_names_or_another_link_are_refused():
    rule, rows = lac(0.2), named(4)
    first = rule.first_round()
    others = {
        "from 'a' to 'd'": Predictions(rows.scores, rows.target, classes=list("abcd"), link="softmax"),
        "of other names": Predictions(
            rows.scores, rows.target, classes=[rows.class_names[place] for place in (0, 2, 1, 3)], link="softmax"
        ),
        "another link": named(4, link="sigmoid"),
    }
    for match, other in others.items():
        one, two = rule.summary(first, rows), rule.summary(first, other)
        for a, b in itertools.product((one, sent(one)), (two, sent(two))):
            with pytest.raises(InputError, match=f"states: expected rows with the same classes and link.*{match}"):
                a + b
    both = sent(rule.summary(first, rows)) + rule.summary(first, rows)
    assert both.origin["names"] == list(rows.class_names)


def test_states_of_the_first_format_are_read():
    rows = named(4)
    state = lac(0.2).summary(lac(0.2).first_round(), rows)
    arrays = load_arrays(state.to_bytes())
    header = json.loads(arrays.pop("header").tobytes()) | {"format": "shortlist-fit/1", "origin": state.origin}
    old = FitState.from_bytes(save_arrays({"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays}))
    assert old.origin == state.origin
    assert (old + sent(state)).to_bytes() == (state + state).to_bytes()
    rule = lac(0.2)
    while not old.done:
        old = rule.next_round(old)
        old = old if old.done else rule.summary(old, rows)
    assert_same(rule.fit_from(old), lac(0.2).fit(rows))


def test_a_guess_that_was_too_high_costs_a_round():
    probs = torch.rand(400, 5, generator=torch.Generator().manual_seed(0))
    rule, asked = average_k(1), 0
    state = rule.first_round(torch.full((400, 5), 0.999), sizes=False)
    while not state.done:
        state, asked = rule.next_round(rule.summary(state, probs)), asked + 1
    assert asked == 3
    assert rule.fit_from(state).threshold == average_k(1).fit(probs).threshold


@pytest.mark.parametrize("text", ["average-k:1.5", "lac:0.2", "aps:0.2"])
def test_predictions_batches_and_functions_are_shards_too(text):
    generator = torch.Generator().manual_seed(0)
    rows = Predictions(torch.randn(60, 4, generator=generator), torch.arange(60) % 4, classes=list("abcd"), link="softmax")
    whole = parse_rule(text).fit(rows)
    assert_same(fit_shards(parse_rule(text), [rows.rows(slice(0, 25)), rows.rows(slice(25, 60))]), whole)
    probs, target = rows.probs(), rows.target
    shards = [lambda: [(probs[:10], target[:10]), (probs[10:30], target[10:30])], [(probs[30:], target[30:])]]
    assert torch.equal(fit_shards(parse_rule(text), shards).threshold, whole.threshold)


def test_a_quality_goes_with_its_shard():
    data = draw(many_labels=True)
    quality = torch.rand(150, generator=torch.Generator().manual_seed(0)).double()
    probs, target = torch.from_numpy(data.calibration), torch.from_numpy(data.target)
    make = lambda: gate(risk_control("recall", 0.2), 0.5, "quality")  # noqa: E731
    shards = [(probs[:70], target[:70], quality[:70]), (probs[70:], target[70:], quality[70:])]
    assert_same(fit_shards(make(), shards), make().fit(probs, target, quality=quality))


CONFIDENT = "the most probable label alone is right"


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (lambda: aps(0.1, randomized=False), CONFIDENT),
        (lambda: average_k(1.5), "tie at the cut"),
        (lambda: classwise(lac(0.001)), "classes have fewer"),
    ],
)
def test_the_notes_of_a_fit_are_those_of_all_rows(make, note):
    probs, target = confident(0.97)
    probs = probs if note is CONFIDENT else probs.round(decimals=1)
    with pytest.warns(ShortlistWarning, match=note) as whole:
        rule = make().fit(probs, target)
    with pytest.warns(ShortlistWarning) as found:
        assert fit_shards(make(), parts(probs, target, [33, 99])).notes == rule.notes
    assert [str(one.message) for one in found] == [str(one.message) for one in whole]


@pytest.mark.parametrize("text", ["average-k:1", "lac:0.1", "per-label:f1", "risk-control:recall:0.1"])
def test_no_rows_anywhere_are_refused_as_by_a_fit(text):
    with pytest.raises(InputError, match="probs: expected .*calibration rows, got none"):
        fit_shards(parse_rule(text), [(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))])


def test_states_of_different_rounds_classes_or_dtypes_are_refused():
    rule = lac(0.2)
    start = rule.first_round()
    a = rule.summary(start, [[0.5, 0.5]], [0])
    with pytest.raises(InputError, match="same classes.*2 classes and 3 classes"):
        a + rule.summary(start, [[0.5, 0.25, 0.25]], [0])
    with pytest.raises(InputError, match="float64 and float32"):
        a + rule.summary(start, torch.tensor([[0.5, 0.5]]), [0])
    with pytest.raises(InputError, match="round"):
        a + rule.next_round(a + rule.summary(start, [[0.5, 0.5]] * 9, [0] * 9)).empty()
    with pytest.raises(InputError, match="'threshold' and one for 'gate'"):
        a + gate(risk_control("recall", 0.1), 0.5).first_round()
    with pytest.raises(InputError, match="state: expected one that is done, got a round for 'threshold'"):
        rule.fit_from(a)
    with pytest.raises(InputError, match="states: expected at least one, got none"):
        merged([])


@pytest.mark.parametrize("damage", [lambda b: b[:40], lambda b: b"", lambda b: b.replace(b"rows", b"raws"), lambda b: b[:-9]])
def test_damaged_bytes_are_refused(damage):
    content = lac(0.2).summary(lac(0.2).first_round(), [[0.5, 0.5]] * 9, [0] * 9).to_bytes()
    with pytest.raises(InputError, match="state: expected"):
        FitState.from_bytes(damage(content))


def test_a_failed_fit_leaves_the_rule_as_it_was():
    rule = lac(0.2).fit([[0.9, 0.1]] * 20, [0] * 20)
    before = rule.record()
    with pytest.raises(InputError, match="target"):
        fit_shards(rule, [([[0.9, 0.1]], None)])
    assert rule.record() == before


def test_a_constraint_with_a_fit_of_its_own_needs_all_rows_in_one_place():
    class Half(constraints.Constraint):
        kind = "half-of-test-shards"
        guarantee = "None."

        def fit(self, ordering, batches):
            for _ in batches:
                pass
            return FittedThreshold(torch.tensor(0.5).double())

    rule = SetRule("half", Probability(), Half())
    assert rule.fit([[0.6, 0.4]]).threshold == 0.5
    with pytest.raises(InputError, match="half: expected a constraint that is fitted in rounds.* Half.*use fit"):
        fit_shards(rule, [[[0.6, 0.4]]])


def test_a_rule_without_a_fit_is_measured():
    assert fit_shards(top_k(2), [[[0.5, 0.3, 0.2]] * 4, [[0.5, 0.3, 0.2]] * 3]).calibrated.rows == 7


def test_interpolated_refuses_what_it_cannot_mix():
    rule = interpolated(lac(0.1), 0.5)
    rule.ordering = Probability(np.full(3, 1 / 3))
    with pytest.raises(InputError, match="interpolated: expected lac"):
        rule.first_round()
