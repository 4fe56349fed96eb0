"""Every rule that takes weights and votes: literal formulas, and the laws that all of them obey."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import SetRule, average_k, by, fit_shards, nested, parse_rule, pas, sure_node
from tests.references import sets as ref, weighted_sets as weighted

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
WEIGHTS = [0.0, 0.1, 0.25, 1, 3.7]


@dataclass
class Rows:
    """Probabilities, labels of each kind, weights with zeros among them, and groups."""

    probs: np.ndarray
    target: np.ndarray
    many: np.ndarray
    votes: np.ndarray
    weights: np.ndarray
    site: np.ndarray
    new: np.ndarray

    def labels(self, kind):
        return {"one": self.target, "many": self.many, "votes": self.votes}[kind]


def rows(seed=0, n=50, classes=4):
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.ones(classes), n)
    target = np.array([random.choice(classes, p=row) for row in probs])
    many = random.uniform(size=probs.shape) < probs
    votes = random.integers(0, 3, probs.shape) + np.eye(classes)[target]
    site = np.array(["north", "south", "south", "west"])[random.integers(0, 4, n)]
    site[:3] = "islet"
    return Rows(probs, target, many, votes, random.choice(WEIGHTS, n), site, random.dirichlet(np.ones(classes), 30))


def fitted(text, data, kind, **given):
    given |= {"groups": data.site} if "by:site" in text else {}
    return parse_rule(text).fit(data.probs, data.labels(kind), **given)


def of_groups(data, kind, alpha, least):
    """The quantile of each group that is worth enough rows, else the common one."""
    target, found = data.labels(kind), {}
    common = weighted.quantile(-data.probs, target, data.weights, max(data.weights), alpha)
    for name in sorted(set(data.site)):
        own = data.site == name
        cut = weighted.quantile(-data.probs[own], target[own], data.weights[own], max(data.weights), alpha)
        enough = bool(data.weights[own].any()) and weighted.worth(data.weights[own]) >= least and np.isfinite(cut)
        found[name] = -(cut if enough else common)
    return found


def thresholds(rule):
    if rule.groups is None:
        return rule.threshold.numpy()
    return dict(zip(rule.groups.names, rule.groups.thresholds.tolist(), strict=True))


# The text of a rule, the kind of labels, and its thresholds by the literal formula.
CASES = [
    ("lac:0.2", "one", lambda d: -weighted.quantile(-d.probs, d.target, d.weights, 3.7, 0.2)),
    ("lac:0.2", "votes", lambda d: -weighted.quantile(-d.probs, d.votes, d.weights, 3.7, 0.2)),
    ("aps:0.2:deterministic", "one", lambda d: weighted.quantile(ref.aps_scores(d.probs), d.target, d.weights, 3.7, 0.2)),
    ("lac:0.3,classwise", "one", lambda d: -weighted.class_quantiles(-d.probs, d.target, d.weights, 3.7, 0.3)),
    ("lac:0.3,classwise", "many", lambda d: -_classwise_of_many(d)),
    ("lac:0.3,classwise", "votes", lambda d: -weighted.class_quantiles(-d.probs, d.votes, d.weights, 3.7, 0.3)),
    ("lac:0.3,interpolated:0.25", "one", lambda d: weighted.interpolated_cuts(d.probs, d.target, d.weights, 3.7, 0.3, 0.25)),
    ("lac:0.3,interpolated:0.25", "votes", lambda d: weighted.interpolated_cuts(d.probs, d.votes, d.weights, 3.7, 0.3, 0.25)),
    ("risk-control:recall:0.2", "one", lambda d: weighted.risk_cut(d.probs, d.target, d.weights, 3.7, 0.2)),
    ("risk-control:recall:0.2", "many", lambda d: weighted.risk_cut(d.probs, d.many, d.weights, 3.7, 0.2)),
    ("risk-control:recall:0.2", "votes", lambda d: weighted.risk_cut(d.probs, d.votes, d.weights, 3.7, 0.2)),
    ("per-label:f1", "one", lambda d: weighted.label_cuts(d.probs, d.target, d.weights, "f1")),
    ("per-label:f1", "many", lambda d: weighted.label_cuts(d.probs, d.many, d.weights, "f1")),
    ("per-label:f1", "votes", lambda d: weighted.label_cuts(d.probs, d.votes, d.weights, "f1")),
    ("per-label:precision:0.6", "many", lambda d: weighted.label_cuts(d.probs, d.many, d.weights, "precision", 0.6)),
    ("per-label:precision:0.6", "votes", lambda d: weighted.label_cuts(d.probs, d.votes, d.weights, "precision", 0.6)),
    ("per-label:recall:0.7", "many", lambda d: weighted.label_cuts(d.probs, d.many, d.weights, "recall", 0.7)),
    ("per-label:recall:0.7", "votes", lambda d: weighted.label_cuts(d.probs, d.votes, d.weights, "recall", 0.7)),
    ("lac:0.2,by:site", "one", lambda d: of_groups(d, "one", 0.2, 4)),
    ("lac:0.2,by:site", "votes", lambda d: of_groups(d, "votes", 0.2, 4)),
    ("lac:0.2,by:site:12", "one", lambda d: of_groups(d, "one", 0.2, 12)),
]
every_case = pytest.mark.parametrize(("text", "kind", "reference"), CASES, ids=[f"{text}-{kind}" for text, kind, _ in CASES])


def _classwise_of_many(data):
    """Each of its labels counts as much as the row."""
    found = []
    for label in range(4):
        own = data.many[:, label]
        found.append(ref.weighted_quantile(-data.probs[own, label], data.weights[own], 3.7, 0.3))
    return np.array(found)


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_thresholds_are_those_of_the_literal_formula(text, kind, reference, seed):
    data = rows(seed)
    found, expected = thresholds(fitted(text, data, kind, weights=data.weights)), reference(data)
    if isinstance(expected, dict):
        assert found == pytest.approx(expected, abs=1e-15)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


@every_case
def test_votes_without_weights_are_weights_of_one(text, kind, reference):
    data = rows()
    data.weights = np.ones(50)
    if kind != "votes":
        pytest.skip("no votes")
    rule = fitted(text, data, kind)
    expected = {
        "lac:0.2": lambda: -weighted.quantile(-data.probs, data.votes, data.weights, 1, 0.2),
        "lac:0.3,classwise": lambda: -weighted.class_quantiles(-data.probs, data.votes, data.weights, 1, 0.3),
        "lac:0.3,interpolated:0.25": lambda: weighted.interpolated_cuts(data.probs, data.votes, data.weights, 1, 0.3, 0.25),
        "risk-control:recall:0.2": lambda: weighted.risk_cut(data.probs, data.votes, data.weights, 1, 0.2),
        "per-label:f1": lambda: weighted.label_cuts(data.probs, data.votes, data.weights, "f1"),
        "per-label:precision:0.6": lambda: weighted.label_cuts(data.probs, data.votes, data.weights, "precision", 0.6),
        "per-label:recall:0.7": lambda: weighted.label_cuts(data.probs, data.votes, data.weights, "recall", 0.7),
        "lac:0.2,by:site": lambda: of_groups(data, "votes", 0.2, 4),
    }[text]()
    assert thresholds(rule) == pytest.approx(expected, abs=1e-15)
    assert "drawn from its votes" in rule.guarantee


@every_case
@pytest.mark.parametrize("weight", [1, 0.1, 1e-300, 3e17])
def test_equal_weights_change_nothing(text, kind, reference, weight):
    data = rows()
    plain, found = fitted(text, data, kind), fitted(text, data, kind, weights=np.full(50, weight))
    assert found.record() == plain.record()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name


@every_case
@pytest.mark.parametrize("factor", [2.0**-900, 1 / 3, 7, 1e200])
def test_only_the_ratios_of_weights_matter(text, kind, reference, factor):
    data = rows(1)
    first = thresholds(fitted(text, data, kind, weights=data.weights))
    second = thresholds(fitted(text, data, kind, weights=data.weights * factor))
    assert second == first if isinstance(first, dict) else np.array_equal(second, first)


@every_case
def test_a_row_of_weight_two_is_two_rows(text, kind, reference):
    """With a new row that counts as much as the heaviest: here as one, by a heaviest weight of 1."""
    data, twice = rows(2), rows(2)
    times = np.random.default_rng(5).integers(1, 3, 50)
    again = np.repeat(np.arange(50), times)
    for name in ("probs", "target", "many", "votes", "site"):
        setattr(twice, name, getattr(data, name)[again])
    data.probs, twice.probs = np.round(data.probs, 3), np.round(twice.probs, 3)
    heavy = fitted(text, data, kind, weights=times)
    if heavy.groups is not None or heavy.threshold.ndim:
        pytest.skip("only a rule with one threshold takes the weight of a new row")
    np.testing.assert_array_equal(heavy.predict(data.new, weights=np.ones(30)), fitted(text, twice, kind).predict(data.new))


@every_case
def test_a_saved_rule_answers_alike(text, kind, reference, tmp_path):
    data = rows()
    rule = fitted(text, data, kind, weights=data.weights)
    rule.save(tmp_path / "rule.safetensors")
    loaded = SetRule.load(tmp_path / "rule.safetensors")
    given = {"groups": data.site[:30]} if rule.groups is not None else {}
    np.testing.assert_array_equal(loaded.predict(data.new, **given), rule.predict(data.new, **given))
    assert loaded.guarantee == rule.guarantee
    assert "by their weights" in loaded.guarantee
    assert torch.equal(
        fitted(text, data, kind).threshold, parse_rule(text).fit(data.probs, data.labels(kind), **_site(text, data)).threshold
    )


def _site(text, data):
    return {"groups": data.site} if "by:site" in text else {}


@pytest.mark.parametrize("kind", ["one", "many", "votes"])
def test_each_new_row_may_bring_its_own_weight(kind):
    data, own = rows(3), np.array([0, 0.1, 1, 3.7, 9, 1e9])
    rule = fitted("risk-control:recall:0.25", data, kind, weights=data.weights)
    cuts = [weighted.risk_cut(data.probs, data.labels(kind), data.weights, one, 0.25) for one in own]
    np.testing.assert_array_equal(rule.predict(data.new[:6], weights=own), data.new[:6] >= np.array(cuts)[:, None])
    assert rule.predict(data.new[:6], weights=own)[5].all()


def test_one_vote_a_row_is_a_label():
    data = rows()
    one_hot = np.eye(4)[data.target] * 3
    for text in ("lac:0.2", "lac:0.3,classwise", "lac:0.3,interpolated:0.25", "risk-control:recall:0.2", "lac:0.2,by:site",
                 "per-label:f1", "per-label:precision:0.6", "per-label:recall:0.7"):  # fmt: skip
        for given in ({}, {"weights": data.weights}):
            data.votes = one_hot
            assert thresholds(fitted(text, data, "votes", **given)) == pytest.approx(
                thresholds(fitted(text, data, "one", **given)), abs=0
            )


def test_classes_count_within_groups_and_between_class_wise_and_common():
    data, by_class = rows(4), np.array([0.5, 2, 1, 0.25])
    counted = by_class[data.target]
    rule = fitted("lac:0.3,by:site:1", data, "one", class_weights=by_class)
    for name, found in thresholds(rule).items():
        own = data.site == name
        cuts = [ref.weighted_quantile(-data.probs[own, data.target[own]], counted[own], one, 0.3) for one in by_class]
        np.testing.assert_array_equal(found, -np.array(cuts))
    rule = fitted("lac:0.3,interpolated:0.25", data, "one", class_weights=by_class)
    at_labels = -data.probs[np.arange(50), data.target]
    expected = []
    for label, weight in enumerate(by_class):
        own = data.target == label
        each = -ref.weighted_quantile(at_labels[own], counted[own], weight, 0.3)
        common = -ref.weighted_quantile(at_labels, counted, weight, 0.3)
        expected.append(0.25 * max(each, 0) + 0.75 * max(common, 0))
    np.testing.assert_allclose(rule.threshold, expected, rtol=0, atol=1e-15)


def with_refused(seed=0, n=160):
    """Rows, a third of which have no label and look less sure."""
    data = rows(seed, n)
    bare = np.random.default_rng(seed + 1).uniform(size=n) < 0.35
    data.probs[bare] = data.probs[bare] ** 0.3
    data.probs /= data.probs.sum(1, keepdims=True)
    data.many = np.eye(4, dtype=bool)[data.target] & ~bare[:, None]
    data.votes = data.votes * ~bare[:, None]
    return data, bare


@pytest.mark.parametrize("text", ["lac:0.2", "risk-control:recall:0.2", "average-k:1.5", "top-k:2", "lac:0.2,by:site"])
@pytest.mark.parametrize("kind", ["many", "votes"])
def test_a_gate_counts_by_weights_and_so_does_the_rule_behind_it(text, kind):
    data, bare = with_refused()
    rule = fitted(f"{text},gate:0.6", data, kind, weights=data.weights)
    level = weighted.gate_level(data.probs, bare, data.weights, 0.6)
    assert float(rule.gate.threshold) == level
    passed = ~bare & (data.probs.max(1) > level)
    assert passed.any()
    behind = Rows(data.probs[passed], data.target[passed], data.many[passed], data.votes[passed], data.weights[passed],
                  data.site[passed], data.new)  # fmt: skip
    if text == "top-k:2":
        expected = parse_rule(text)
    elif text == "average-k:1.5":
        expected = parse_rule(text).fit(behind.probs, weights=behind.weights)
    else:
        expected = fitted(text, behind, "one" if kind == "many" else kind, weights=behind.weights)
        assert max(behind.weights) == max(data.weights)
    given = {"groups": data.site[:30]} if "by:site" in text else {}
    sets = expected.predict(data.new, **given) & (data.new.max(1) > level)[:, None]
    np.testing.assert_array_equal(rule.predict(data.new, **given), sets)
    plain = fitted(f"{text},gate:0.6", data, "many")
    equal = fitted(f"{text},gate:0.6", data, "many", weights=np.full(160, 0.3))
    assert float(equal.gate.threshold) == float(plain.gate.threshold)
    assert equal.record() == plain.record()
    assert "by their weights" in rule.guarantee


def test_class_weights_leave_the_gate_as_it_is():
    data, _ = with_refused()
    rule = fitted("lac:0.2,gate:0.6", data, "many", class_weights=[1, 2, 3, 4])
    assert float(rule.gate.threshold) == float(fitted("lac:0.2,gate:0.6", data, "many").gate.threshold)
    assert rule.threshold.shape == (4,)


def test_a_gate_needs_enough_weight_without_labels():
    data, bare = with_refused()
    with pytest.raises(InputError, match=r"gate:0.9: expected calibration rows without a label worth at least 9 as heavy"):
        fitted("lac:0.2,gate:0.9", data, "many", weights=np.where(bare, 0.01, 1))


P_VALUES = [("lac:0.2", {}), ("aps:0.2:deterministic", {}), ("lac:0.2", {"class_weights": [1, 2, 0.5, 3]}),
            ("lac:0.3,classwise", {}), ("lac:0.3,classwise", {"class_weights": [1, 2, 0.5, 3]}), ("aps:0.2", {}),
            ("raps:0.2:auto", {})]  # fmt: skip


@pytest.mark.parametrize(("text", "given"), P_VALUES)
@pytest.mark.parametrize("kind", ["one", "votes"])
def test_a_label_is_in_the_set_if_and_only_if_its_weighted_p_value_exceeds_alpha(text, given, kind):
    if kind == "votes" and given:
        pytest.skip("class_weights come alone")
    data = rows(5, 150)
    data.probs, data.new = (
        np.round(part * 16 + 1) / np.round(part * 16 + 1).sum(1, keepdims=True) for part in (data.probs, data.new)
    )
    given = given or {"weights": data.weights}
    kept = fitted(text, data, kind, keep=True, **given)
    found = kept.p_values(data.new)
    for alpha in (0.1, 0.2, 0.25, 0.4, 0.9):
        if text == "raps:0.2:auto" and alpha != 0.2:  # which is tuned for its alpha
            continue
        try:
            expected = fitted(text.replace(text.split(":")[1].split(",")[0], str(alpha), 1), data, kind, **given)
        except InputError:
            continue
        np.testing.assert_array_equal(found > alpha, expected.predict(data.new))
        [other] = nested(kept, [alpha])
        assert torch.equal(other.threshold, expected.threshold)


@pytest.mark.parametrize("text", ["lac:0.2,classwise", "aps:0.2:deterministic,classwise"])
@pytest.mark.parametrize("given", ["weights", "class_weights", "votes"])
def test_a_class_without_calibration_rows_has_the_p_value_1(text, given):
    """The new row is all the weight of its class, and is in every set; other classes are as without it."""
    data = rows(6, 60)
    data.target[data.target == 3] = 0
    data.votes[:, 3], data.votes[:, 0] = 0, data.votes[:, 0] + 1
    weights = {"weights": {"weights": data.weights}, "class_weights": {"class_weights": [1, 2, 3, 4]}, "votes": {}}[given]
    rule = fitted(text, data, "votes" if given == "votes" else "one", keep=True, **weights)
    found = rule.p_values(data.new)
    assert (found[:, 3] == 1).all()
    assert (found[:, :3] < 1).any(0).all()
    np.testing.assert_array_equal(found > 0.2, rule.predict(data.new))
    [other] = nested(rule, [0.2])
    assert torch.equal(other.threshold, rule.threshold)


def test_weighted_p_values_are_those_of_the_definition(tmp_path):
    data = rows(6, 60)
    own = np.linspace(0, 5, 30)
    for kind in ("one", "votes"):
        rule = fitted("lac:0.2", data, kind, weights=data.weights, keep=True)
        rule.save(tmp_path / "rule.safetensors")
        for one in (rule, SetRule.load(tmp_path / "rule.safetensors")):
            for new in (np.full(30, 3.7), own):
                expected = weighted.p_values(-data.probs, data.labels(kind), data.weights, new, -data.new)
                given = {} if new is not own else {"weights": own}
                np.testing.assert_allclose(one.p_values(data.new, **given), expected, rtol=1e-11)
        sets = rule.predict(data.new, weights=own)
        np.testing.assert_array_equal(rule.p_values(data.new, weights=own) > 0.2, sets)


@pytest.mark.parametrize("kind", ["one", "votes"])
def test_new_rows_are_answered_by_themselves_as_in_a_batch_however_little_or_much_they_weigh(kind):
    data = rows(7, 60)
    rule = fitted("lac:0.2", data, kind, weights=data.weights, keep=True)
    own = np.array([0.0, 5e-324, 1e-300, 1, 1e20, 1e300, 1.7e308])
    new = data.new[:7]
    sets, found = rule.predict(new, weights=own), rule.p_values(new, weights=own)
    np.testing.assert_allclose(found, weighted.p_values(-data.probs, data.labels(kind), data.weights, own, -new), rtol=1e-11)
    np.testing.assert_array_equal(found > 0.2, sets)
    for row in range(7):
        np.testing.assert_array_equal(rule.predict(new[[row]], weights=own[[row]]), sets[[row]])
        np.testing.assert_array_equal(rule.p_values(new[[row]], weights=own[[row]]), found[[row]])


def test_the_penalty_of_raps_is_chosen_by_weight():
    """Rows whose label is far down weigh all that matters, and ask for another k_reg than the others."""
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(8), 1500)
    order = np.argsort(-probs, 1)
    deep = random.uniform(size=1500) < 0.5
    target = order[np.arange(1500), np.where(deep, random.integers(4, 7, 1500), random.integers(0, 2, 1500))]
    found = {}
    for name, weights in (("deep", np.where(deep, 1, 0.001)), ("shallow", np.where(deep, 0.001, 1)), ("plain", None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortlistWarning)
            found[name] = parse_rule("raps:0.1:auto").fit(probs, target, weights=weights).ordering.k_reg
    assert found["shallow"] == 2
    assert found["deep"] == found["plain"] == 7
    votes = np.eye(8)[target]
    assert parse_rule("raps:0.1:auto").fit(probs, votes, weights=np.where(deep, 0.001, 1)).ordering.k_reg == 2


def test_rows_in_several_places_have_labels_and_count_alike():
    data = rows()
    rule = fitted("lac:0.2", data, "one", weights=data.weights, keep=True)
    assert "by their weights" not in by(rule, "site").guarantee
    fit_shards(rule, [(data.probs[:20], data.target[:20]), (data.probs[20:], data.target[20:])])
    assert rule.guarantee == parse_rule("lac:0.2").guarantee
    assert set(rule.state_dict()) == {"threshold"}
    with pytest.raises(InputError, match="target: expected int64 .*, or bool"):
        fit_shards(rule, [(data.probs, data.votes)])


# Every rule that takes weights, with the kinds of labels it is fitted on.
TAKES_WEIGHTS = {
    "average-k:1": ["none"],
    "average-k:1.5,by:site": ["none"],
    "average-k:1.5,by:site:2:5": ["none"],
    "average-k:1.5,gate:0.6": ["bare"],
    "lac:0.2": ["one", "votes"],
    "lac:0.2,by:site": ["one", "votes"],
    "lac:0.2,gate:0.6": ["bare"],
    "lac:0.3,classwise": ["one", "many", "votes"],
    "lac:0.3,classwise,by:site:2:5": ["one", "votes"],
    "lac:0.3,interpolated:0.25": ["one", "votes"],
    "aps:0.2:deterministic": ["one", "votes"],
    "aps:0.2": ["one", "votes"],
    "raps:0.2:0.01:2": ["one", "votes"],
    "raps:0.2:auto": ["one", "votes"],
    "risk-control:recall:0.2": ["one", "many", "votes"],
    "per-label:f1": ["many", "votes"],
    "per-label:precision:0.6": ["many", "votes"],
    "per-label:recall:0.7": ["many", "votes"],
    "pas": ["one", "votes"],
    "sure-node": ["one", "votes"],
    "average-k over the prior": ["none"],
}


WITH_P_VALUES = [text for text in TAKES_WEIGHTS if text.startswith(("lac:0.2", "aps", "raps")) or text == "lac:0.3,classwise"]
DRAWN_BY_NUMBER = ("aps:0.2", "raps:0.2:0.01:2", "raps:0.2:auto")


def rule_of(text):
    shares = [0.4, 0.3, 0.2, 0.1]
    named = {
        "pas": lambda: pas(0.2, prior=shares),
        "sure-node": lambda: sure_node(0.2, superclasses=[0, 0, 1, 1]),
        "average-k over the prior": lambda: average_k(1.5, prior=shares),
    }
    return named[text]() if text in named else parse_rule(text)


def with_rows_of_weight_0(data, order):
    """The same rows, and as many others that weigh nothing, in this order; with votes of other denominators."""
    more = with_refused(99, len(data.probs))[0]
    more.votes, more.weights = 7 * more.votes + 1, np.zeros(len(data.probs))
    names = ("probs", "target", "many", "votes", "weights", "site")
    return Rows(**{name: np.concatenate([getattr(data, name), getattr(more, name)])[order] for name in names}, new=data.new)


@pytest.mark.parametrize(
    ("equal", "tied"), [(False, False), (True, False), (True, True)], ids=["weights", "equal", "equal, tied"]
)
@pytest.mark.parametrize("places", ["behind", "among"])
@pytest.mark.parametrize(("text", "kind"), [(text, kind) for text, kinds in TAKES_WEIGHTS.items() for kind in kinds])
def test_a_row_of_weight_0_is_as_if_it_were_not_there(text, kind, places, equal, tied):
    if places == "among" and text in DRAWN_BY_NUMBER:
        pytest.skip("this draws by the numbers of rows")
    for seed in range(5):
        data, n = with_refused(seed)[0] if kind == "bare" else rows(seed, 160), 160
        data.weights = np.ones(n) if equal else np.maximum(data.weights, 0.1)
        if tied:
            data.probs = np.random.default_rng(seed).multinomial(8, data.probs / data.probs.sum(1, keepdims=True)) / 8
        order = np.arange(2 * n) if places == "behind" else np.random.default_rng(seed).permutation(2 * n)
        whole = with_rows_of_weight_0(data, order)
        found = []
        for part in (data, whole):
            target = None if kind == "none" else part.labels("many" if kind == "bare" else kind)
            groups = {"groups": part.site} if "by:site" in text else {}
            keep = {"keep": True} if text in WITH_P_VALUES else {}
            rule = rule_of(text).fit(part.probs, target, weights=part.weights, **groups, **keep)
            asked = {"groups": np.resize(data.site, len(data.new))} if groups else {}
            found.append((rule, rule.predict(data.new, **asked), rule.p_values(data.new, **asked) if keep else 0))
        (rule, sets, p), (other, other_sets, other_p) = found
        np.testing.assert_equal(thresholds(other), thresholds(rule))
        np.testing.assert_array_equal(other_sets, sets)
        np.testing.assert_allclose(other_p, p, rtol=1e-12)
        if rule.gate is not None:
            assert float(other.gate.threshold) == float(rule.gate.threshold)


def test_a_weight_that_vanishes_beside_the_largest_is_0():
    probs, new = [[0.9, 0.1], [0.8, 0.2]], [[0.6, 0.4]]
    for least in (0, 1e-30):
        rule = average_k(1).fit([*probs, [0.79, 0.21]], weights=[1, 2, least])
        assert float(rule.threshold) == 0.5
        assert rule.predict(new).tolist() == [[True, False]]


def test_rows_behind_a_gate_that_weigh_nothing_are_none():
    probs, many = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.55, 0.45]], np.array([[1, 0], [1, 0], [0, 0], [0, 0]], bool)
    with pytest.raises(InputError, match="weigh something"):
        parse_rule("average-k:1,gate:0.1").fit(probs, many, weights=[0, 0, 1, 2])


def test_a_class_of_weight_0_is_as_one_without_rows():
    data = rows(6, 60)
    rule = fitted("lac:0.2,classwise", data, "one", keep=True, class_weights=[1, 2, 3, 0])
    assert rule.threshold[3] == -np.inf
    assert rule.predict(data.new)[:, 3].all()
    assert (rule.p_values(data.new)[:, 3] == 1).all()
