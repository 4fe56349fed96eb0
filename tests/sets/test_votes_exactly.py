"""Shares of votes and of labels as exact fractions: a bound that is reached exactly is reached."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import SetRule, lac, nested, parse_rule
from shortlist.sets.ladder import Ladder, Scale, fractions_of
from tests.references import weighted_sets as weighted

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def rows(seed, n, people, classes=4):
    """Probabilities, and votes of so many people for each row."""
    random = np.random.default_rng(seed)
    shares = np.sort(random.dirichlet(np.ones(classes)))[::-1]
    votes = np.stack([random.multinomial(count, shares) for count in np.resize(people, n)]).astype(float)
    return random.dirichlet(np.ones(classes), n), votes


def found_or_none(text, probs, target, **given):
    """The threshold; None if the fit is refused."""
    try:
        return parse_rule(text).fit(probs, target, **given).threshold.numpy()
    except InputError:
        return None


@pytest.mark.parametrize("people", [[3], [5], [6], [7], [2, 3, 5, 11], [1, 4, 9]], ids=str)
@pytest.mark.parametrize(("alpha", "n"), [("0.1", 9), ("0.1", 19), ("0.2", 4), ("0.2", 49), ("0.5", 19), ("1/3", 20)])
def test_thresholds_are_those_of_shares_in_fractions(people, alpha, n):
    """Where n + 1 is a multiple of 1/α, shares often reach the bound exactly."""
    for seed in range(6):
        probs, votes = rows(seed, n, people)
        cut = -weighted.quantile(-probs, votes, np.ones(n), 1, alpha)
        found = found_or_none(f"lac:{alpha}", probs, votes)
        assert found == cut if np.isfinite(cut) else found is None
        loss = weighted.risk_cut(probs, votes, np.ones(n), 1, alpha)
        found = found_or_none(f"risk-control:recall:{alpha}", probs, votes)
        assert found == loss if np.isfinite(loss) else found is None


def test_all_of_just_enough_rows_have_a_threshold():
    """The tenth of ten is needed, which is the last value of all: whatever the votes, also if they are no whole numbers."""
    random = np.random.default_rng(0)
    for votes in (
        rows(0, 9, [7])[1],
        rows(0, 9, range(47, 64))[1],
        random.dirichlet(np.ones(4), 9),
        random.random((9, 4)) * 1e9,
    ):
        probs = random.dirichlet(np.ones(4), 9)
        assert float(lac(0.1).fit(probs, votes).threshold) == probs[votes > 0].min()


@pytest.mark.parametrize(
    "text",
    ["lac:0.2,classwise", "lac:0.2,interpolated:0.5", "lac:0.2,by:site:4", "lac:0.2,by:site:1:8", "per-label:recall:0.8",
     "per-label:precision:0.5", "per-label:f1", "lac:0.2,classwise,by:site:1"],
)  # fmt: skip
@pytest.mark.parametrize("people", [[3], [6], [2, 5, 7]], ids=str)
def test_votes_are_whole_rows_in_every_rule(text, people):
    """With shares times a common multiple of the numbers of votes as weights of rows with one label each."""
    for seed in range(4):
        probs, votes = rows(seed, 39, people)
        site = np.where(np.arange(39) < 19, "north", "south")
        given = {"groups": site} if "by:" in text else {}
        found = parse_rule(text).fit(probs, votes, **given)
        times = np.rint(votes / votes.sum(1, keepdims=True) * 210).astype(int)
        i, j = times.nonzero()
        cut = reference(text, probs[i], j, times[i, j], site[i], 210)
        np.testing.assert_allclose(thresholds(found), cut, rtol=0, atol=1e-15 if "interpolated" in text else 0)


def thresholds(rule):
    return rule.threshold.numpy() if rule.groups is None else rule.groups.thresholds.numpy()


def quantile(values, counted, new, worst=-np.inf):
    """The first value from above with a share 0.8 of all weight, whole numbers."""
    reached, needed = 0, Fraction(4, 5) * (int(counted.sum()) + new)
    for value in sorted(set(values.tolist()), reverse=True):
        reached += int(counted[values == value].sum())
        if reached >= needed:
            return value
    return worst


def reference(text, probs, labels, counted, site, new):
    """Thresholds of rows with one label and a whole weight each."""
    own = probs[np.arange(len(labels)), labels]

    def by_class(chosen):
        return np.array([quantile(own[chosen & (labels == j)], counted[chosen & (labels == j)], new) for j in range(4)])

    every, name = np.ones(len(own), bool), text.partition(":")[0]
    common = quantile(own, counted, new)
    if name == "per-label":
        _, objective, *level = text.split(":")
        target = np.eye(4, dtype=bool)[labels]
        return weighted.label_cuts(probs, target, counted, objective, *map(float, level))
    if "interpolated" in text:
        return 0.5 * np.maximum(by_class(every), 0) + 0.5 * max(common, 0)
    if text.endswith("classwise"):
        return by_class(every)
    found = []
    for place in ("north", "south"):
        here = site == place
        n = int(here.sum() and counted[here].sum() // new)
        if "classwise" in text:
            some = np.array([counted[here & (labels == j)].any() for j in range(4)])
            found.append(np.where(some, by_class(here), by_class(every)))
        elif text.endswith(":8"):
            mine = max(quantile(own[here], counted[here], new), 0.0)
            found.append((n * mine + 8 * common) / (n + 8))
        else:
            found.append(quantile(own[here], counted[here], new))
    return np.array(found)


@pytest.mark.parametrize("seed", range(30))
def test_risk_control_of_weighted_rows_with_several_labels_is_that_in_fractions(seed):
    random = np.random.default_rng(seed)
    n, classes = int(random.integers(5, 40)), 6
    probs = random.random((n, classes)).round(1 if seed % 2 else 8)
    target, weights = random.random((n, classes)) < probs, random.integers(0, 5, n).astype(float)
    weights[0] = 3
    cut = weighted.risk_cut(probs, target, weights, weights.max(), "0.3")
    found = found_or_none("risk-control:recall:0.3", probs, target, weights=weights)
    assert found == cut if np.isfinite(cut) else found is None


@pytest.mark.parametrize("text", ["lac:0.1", "aps:0.1:deterministic", "lac:0.2,classwise"])
@pytest.mark.parametrize("people", [[3], [7], [2, 3, 5, 6, 7, 9, 11], range(5, 60)], ids=str)
def test_labels_are_in_sets_if_and_only_if_their_p_value_exceeds_alpha(text, people, tmp_path):
    probs, votes = rows(1, 59, people)
    new = np.concatenate([probs, np.random.default_rng(2).dirichlet(np.ones(4), 50)])
    rule = parse_rule(text).fit(probs, votes, keep=True)
    rule.save(tmp_path / "rule.safetensors")
    loaded = SetRule.load(tmp_path / "rule.safetensors")
    np.testing.assert_array_equal(rule.p_values(new) > rule.alpha, rule.predict(new))
    np.testing.assert_array_equal(loaded.p_values(new), rule.p_values(new))
    for alpha in (0.05, 0.25, 0.5):
        [other] = nested(rule, [alpha])
        again = parse_rule(text.replace(text.split(":")[1].split(",")[0], str(alpha))).fit(probs, votes)
        assert torch.equal(other.threshold, again.threshold)
    if rule.threshold.ndim == 0:
        ones = np.ones(len(new))
        for one in (rule, loaded):
            np.testing.assert_array_equal(one.predict(new, weights=ones), rule.predict(new))
            np.testing.assert_array_equal(
                one.p_values(new, weights=0.3 * ones) > rule.alpha, one.predict(new, weights=0.3 * ones)
            )


def test_fractions_are_found_again():
    random = np.random.default_rng(0)
    denominators = np.append(random.integers(1, 2**16 + 1, 5000), 2**16)
    numerators = np.minimum(random.integers(0, 2**16 + 1, 5001), denominators)
    divided = np.gcd(numerators, denominators)
    found = fractions_of(numerators / denominators)
    np.testing.assert_array_equal(found[0], numerators // divided)
    np.testing.assert_array_equal(found[1], denominators // divided)
    votes = random.integers(0, 40, (500, 8)) / 10  # one decimal, and sums that are rounded
    shares = votes[votes.any(1)] / votes[votes.any(1)].sum(1, keepdims=True)
    assert all(sum(map(Fraction, *fractions_of(row))) == 1 for row in shares)
    assert (fractions_of(random.random(1000))[1] == 0).all()
    assert [part.tolist() for part in fractions_of(np.array([1e-12, 1.0, 0.0]))] == [[0, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize("weight", ["whole", "real", "one"])
@pytest.mark.parametrize("votes", ["whole", "real", "many", "both"])
def test_the_shares_of_a_row_make_up_its_weight_and_their_sums_have_room(weight, votes):
    random = np.random.default_rng(3)
    cast = {
        "whole": random.integers(0, 4, (300, 5)) + np.eye(5)[0],
        "real": random.dirichlet(np.ones(5), 300),
        "many": random.integers(0, 2000, (300, 5)) + 1.0,
        "both": np.concatenate([random.integers(0, 4, (200, 5)) + np.eye(5)[0], random.dirichlet(np.ones(5), 100)]),
    }[votes]
    shares = cast / cast.sum(1, keepdims=True)
    weights = {"whole": random.integers(0, 6, 300), "real": random.random(300), "one": np.ones(300)}[weight].astype(float)
    at, label = shares.nonzero()
    scale = Scale.of_shares(weights.max(), weights[at], shares[at, label])
    counted, of_rows = scale.shared(weights[at], shares[at, label], at), scale.whole(weights)
    assert (counted >= 0).all()
    np.testing.assert_array_equal(np.array([counted[at == row].sum() for row in range(300)]), of_rows)
    unit = of_rows.max() / weights.max()
    assert of_rows.max() >= 2**39
    np.testing.assert_allclose(counted, weights[at] * shares[at, label] * unit, rtol=1e-9, atol=6)
    assert Ladder.of(random.random(len(at)), counted, descending=True).total == of_rows.sum() < 2**62
    if votes == "whole" and weight != "real":
        total = cast.sum(1).astype(int)
        exact = [Fraction(int(cast[i, j]), int(total[i])) * int(of_rows[i]) for i, j in zip(at, label, strict=True)]
        assert counted.tolist() == exact


def test_damaged_parts_are_refused():
    probs, votes = rows(0, 19, [3])
    rule = lac(0.1).fit(probs, votes)
    assert int(rule.weighting.parts) == 3
    for parts in (torch.tensor(0), torch.tensor(3.0), torch.tensor([3])):
        rule.weighting.parts = parts
        with pytest.raises(InputError, match="weighting: expected the parts of rows"):
            rule.weighting.check_buffers()
