"""A threshold for each group of rows: what it guarantees, and how groups travel."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import FitState, SetRule, by, cap, classwise, fit_shards, gate, lac, merged, parse_rule
from tests.references import sets as ref

SITES = ["north", "south", "east"]


def garden(rows=240, seed=0, classes=4):
    """Rows of three sites; the classifier is worse in the south, and the east has few rows."""
    random = np.random.default_rng(seed)
    site = random.choice(SITES, rows, p=[0.6, 0.37, 0.03])
    sharp = np.where(site == "south", 0.3, 3.0)[:, None]
    truth = random.dirichlet(np.ones(classes), rows)
    target = np.array([random.choice(classes, p=row) for row in truth])
    scores = sharp * np.log(truth) + random.normal(size=truth.shape) * np.where(site == "south", 2, 0.1)[:, None]
    probs = np.exp(scores - scores.max(1, keepdims=True))
    return probs / probs.sum(1, keepdims=True), target, site


def quiet(rule, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortlistWarning)
        return rule.fit(*args, **kwargs)


@pytest.mark.parametrize(("least", "needed"), [(None, 9), (1, 1), (60, 60)])
def test_each_group_has_the_answers_of_a_fit_on_its_own_rows(least, needed):
    probs, target, site = garden()
    new, _, new_site = garden(60, seed=1)
    rule = quiet(by(lac(0.1), "site", least), probs, target, groups=site)
    expected = ref.by_group(
        lambda own: ref.conformal(ref.lac_scores, probs[own], target[own], new, 0.1), site, new_site, needed
    )
    np.testing.assert_array_equal(rule.predict(new, groups=new_site), expected)
    assert rule.groups.names == tuple(sorted(SITES))
    assert rule.groups.rows.tolist() == [(site == name).sum() for name in sorted(SITES)]


@pytest.mark.parametrize("modifier", ["pac:0.2", "classwise", "interpolated:0.5", "cap:2", "floor:1"])
def test_groups_stay_whatever_comes_after_them(modifier):
    probs, target, site = garden()
    new, _, new_site = garden(60, seed=1)
    after = quiet(parse_rule(f"lac:0.2,by:site,{modifier}"), probs, target, groups=site)
    before = quiet(parse_rule(f"lac:0.2,{modifier},by:site"), probs, target, groups=site)
    np.testing.assert_array_equal(after.predict(new, groups=new_site), before.predict(new, groups=new_site))
    assert torch.equal(after.groups.thresholds, before.groups.thresholds)


@pytest.mark.parametrize("text", ["lac:0.2", "lac:0.2,by:predicted"])
def test_groups_that_would_be_ignored_are_refused(text):
    probs, target, site = garden()
    with pytest.raises(InputError, match="groups: expected None"):
        parse_rule(text).fit(probs, target, groups=site)
    with pytest.raises(InputError, match="groups: expected None"):
        quiet(parse_rule(text), probs, target).predict(probs, groups=site)


@pytest.mark.parametrize(
    "text", ["average-k:1.5", "aps:0.2:deterministic", "aps:0.2:random", "lac:0.2,cap:2,floor:1", "risk-control:recall:0.2"]
)
def test_every_fitted_rule_has_groups(text):
    probs, target, site = garden()
    rule = quiet(parse_rule(f"{text},by:site"), probs, target, groups=site)
    if "random" not in text:
        common = quiet(parse_rule(text), probs, target)(probs)
        expected = ref.by_group(
            lambda own: quiet(parse_rule(text), probs[own], target[own])(probs),
            site,
            site,
            rule.groups.least_rows(rule.constraint),
        )
        np.testing.assert_array_equal(rule.predict(probs, groups=site), expected)
        assert (expected != common).any()
    assert rule.groups.thresholds.tolist() != [float(rule.threshold)] * 3


def test_a_rule_by_class_and_group_takes_the_common_threshold_of_a_class_that_is_rare_in_the_group():
    probs, target, site = garden(600)
    rule = quiet(by(classwise(lac(0.1)), "site"), probs, target, groups=site)
    common = quiet(classwise(lac(0.1)), probs, target).threshold
    own = rule.groups.own
    counts = np.array([[((site == name) & (target == label)).sum() for label in range(4)] for name in rule.groups.names])
    np.testing.assert_array_equal(own.numpy(), counts >= 9)
    np.testing.assert_array_equal(rule.groups.thresholds[~own], common.expand(3, 4)[~own])
    assert quiet(classwise(by(lac(0.1), "site")), probs, target, groups=site).groups.thresholds.shape == (3, 4)


def test_groups_that_were_not_calibrated_have_the_common_threshold_and_that_is_said():
    probs, target, site = garden()
    rule = quiet(by(lac(0.2), "site"), probs, target, groups=site)
    with pytest.warns(ShortlistWarning, match="3 of 5 rows are of no site that was.* calibration rows: 'moon', 'west'"):
        found = rule.predict(probs[:5], groups=["west", "north", None, "moon", "south"])
    expected = quiet(lac(0.2), probs, target)(probs[:5])
    np.testing.assert_array_equal(found[[0, 2, 3]], expected[[0, 2, 3]])


def test_a_small_group_is_told():
    probs, target, site = garden(100)
    with pytest.warns(
        ShortlistWarning, match="1 of 3 groups have fewer than 9 calibration rows: they have the common threshold"
    ):
        by(lac(0.1), "site").fit(probs, target, groups=site)
    strict = quiet(by(lac(0.1), "site", 1), probs, target, groups=site)
    assert strict.predict(probs[:1], groups=["east"]).all(), "with its own threshold it returns every label"


@pytest.mark.parametrize(
    "given", [[3, 1], [3.0, 1.0], np.array([3, 1]), torch.tensor([3, 1]), ["3", "1"], pd.Series([3, None])]
)
def test_numbers_and_texts_are_the_same_groups(given):
    rule = quiet(by(lac(0.5), "year"), [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 3, [0, 1, 1] * 3, groups=[1, 3, 3] * 3)
    assert rule.groups.names == ("1", "3")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rule.predict([[0.5, 0.5]] * 2, groups=given)
    assert len(told) == (isinstance(given, pd.Series))


def test_every_source_gives_the_same_fit(tmp_path):
    probs, target, site = garden()
    expected = quiet(by(lac(0.2), "site"), probs, target, groups=site)
    predictions = Predictions(probs, target, link="identity", columns={"site": site})
    predictions.save(tmp_path / "rows.parquet")
    cuts = [slice(0, 50), slice(50, 50), slice(50, 240)]
    batches = [(probs[cut], target[cut], None, site[cut]) for cut in cuts]
    parts = [predictions.rows(cut) for cut in cuts]
    for source in (predictions, Predictions.load(tmp_path / "rows.parquet"), batches, lambda: iter(batches)):
        rule = quiet(by(lac(0.2), "site"), source)
        assert torch.equal(rule.groups.thresholds, expected.groups.thresholds)
        assert torch.equal(rule(predictions), expected(predictions))
    assert torch.equal(torch.cat([expected(part) for part in parts]), expected(predictions))


@pytest.mark.parametrize("rows", ["20", "1:20"])
@pytest.mark.parametrize("text", ["lac:0.2", "aps:0.2", "average-k:1.5", "lac:0.2,classwise", "per-label:f1"])
def test_rows_in_several_places_give_the_same_rule(text, rows):
    probs, target, site = garden()
    text = f"{text},by:site:{rows}"
    whole = quiet(parse_rule(text), probs, target, groups=site)
    shards = [(probs[cut], target[cut], None, site[cut]) for cut in (slice(0, 30), slice(30, 31), slice(31, 240))]
    rule = parse_rule(text)
    state = rule.first_round()
    while not state.done:
        answers, start = [], 0
        for values, labels, _, groups in shards:
            part = rule.summary(state, values, labels, groups=groups, first_row=start)
            start += part.rows
            answers.append(FitState.from_bytes(part.to_bytes()))
        state = FitState.from_bytes(rule.next_round(merged(answers[::-1])).to_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortlistWarning)
        rule.fit_from(state)
        again = fit_shards(parse_rule(text), shards)
    for found in (rule, again):
        assert found.record() == whole.record()
        for name, tensor in whole.state_dict().items():
            assert torch.equal(found.state_dict()[name], tensor), name


def test_a_saved_rule_knows_its_groups(tmp_path):
    probs, target, site = garden()
    rule = quiet(by(cap(lac(0.2), 3), "site"), probs, target, groups=np.char.add(site, " 鳥"))
    rule.save(tmp_path / "rule.safetensors")
    loaded = SetRule.load(tmp_path / "rule.safetensors")
    assert loaded.groups.names == rule.groups.names
    assert loaded.text == "lac:0.2,cap:3,by:site"
    np.testing.assert_array_equal(*(one.predict(probs, groups=np.char.add(site, " 鳥")) for one in (rule, loaded)))
    record, tensors = rule.record(), rule.state_dict()
    from shortlist.sets import rule_from_record

    for name, wrong in (("thresholds", torch.zeros(2, dtype=torch.float64)), ("texts", torch.zeros(3, 1, dtype=torch.uint8))):
        with pytest.raises(InputError, match="by: expected"):
            rule_from_record(record, tensors | {f"groups.{name}": wrong})


def test_behind_a_gate_the_rows_that_are_answered_are_grouped():
    probs, target, site = garden()
    marks = np.eye(4, dtype=bool)[target]
    marks[::5] = False
    rule = quiet(gate(by(lac(0.2), "site"), 0.5), probs, marks, groups=site)
    kept = marks.any(1) & rule.gate.accepts(torch.from_numpy(probs)).numpy()
    alone = quiet(by(lac(0.2), "site"), probs[kept], target[kept], groups=site[kept])
    assert torch.equal(rule.groups.thresholds, alone.groups.thresholds)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda rule, probs, target: rule.fit(probs, target), "by:site: expected the site of each row, got none: pass groups="),
        (lambda rule, probs, target: rule.fit(probs, target, groups=["n"]), r"groups: .*\(240,\), got the shape \(1,\)"),
        (lambda rule, probs, target: rule.fit(Predictions(probs, target, link="identity")), "expected the site of each row"),
        (lambda rule, probs, target: rule.fit(iter([(probs, target, None, target)])), "can be read more than once.*iterator"),
        (lambda rule, probs, target: rule.fit([(probs, target)], groups=target), "groups: expected None"),
        (lambda rule, probs, target: by(rule, "year"), "by: expected a rule without groups"),
        (lambda rule, probs, target: by(lac(0.1), "a:b"), "by: expected the name of a column"),
        (lambda rule, probs, target: parse_rule("top-k:3,by:site"), "by: expected a rule that is fitted"),
        (lambda rule, probs, target: by(lac(0.1), "site", 0), "rows: .*0"),
        (lambda rule, probs, target: by(lac(0.1), "site", shrink=0), "shrink: .*0"),
    ],
)
def test_what_is_missing_or_wrong_is_told(act, message):
    probs, target, _ = garden()
    with pytest.raises(InputError, match=message):
        act(by(lac(0.2), "site"), probs, target)


def test_the_name_of_a_column_keeps_its_capitals():
    assert parse_rule("LAC:0.1,BY:Site:20").text == "lac:0.1,by:Site:20"
    assert "each value of Site with at least 20 calibration rows" in parse_rule("lac:0.1,by:Site:20").guarantee


def test_within_a_group_the_coverage_is_what_was_asked_for_where_the_plain_rule_falls_short():
    """Coverage of the south over 60 calibrations of 240 rows, each on 2,000 new rows.

    With about 89 rows the expected coverage is between 0.8 and 0.8 + 1/90; its standard error over 60 calibrations is about
    0.042/√60 = 0.0055. The bound of 4 standard errors fails by chance less than once in 10,000 seeds.
    """
    covered = {"plain": [], "by": []}
    for seed in range(60):
        probs, target, site = garden(240, seed=seed)
        new, labels, where = garden(2000, seed=1000 + seed)
        south = where == "south"
        for name, rule in (("plain", lac(0.2)), ("by", by(lac(0.2), "site"))):
            groups = {"groups": site} if name == "by" else {}
            quiet(rule, probs, target, **groups)
            sets = rule.predict(new[south], **({"groups": where[south]} if groups else {}))
            covered[name].append(sets[np.arange(len(sets)), labels[south]].mean())
    means = {name: np.mean(values) for name, values in covered.items()}
    assert 0.8 - 0.022 < means["by"] < 0.8 + 1 / 80 + 0.022
    assert means["plain"] < 0.75


def test_a_number_that_several_groups_spell_is_refused():
    """1.1 of a column of numbers may have been written 1.10: answering by either group would be a guess."""
    probs, groups = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]], ["1.1", "1.1", "1.10", "north"]
    rule = by(lac(0.4), "site", 1).fit(probs, [0, 0, 1, 1], groups=groups)
    expected = r"expected the site of each row as a text, since '1.1', '1.10' are groups of their own, got the number 1.1"
    with pytest.raises(InputError, match=expected):
        rule.predict(probs[:2], groups=[1.1, 2.5])
    with pytest.warns(ShortlistWarning, match="2 of 2 rows are of no site"):
        rule.predict(probs[:2], groups=[1.3, 2.5])
    rule.predict(probs[:2], groups=["1.1", "1.10"])


def test_texts_match_groups_that_are_numbers_where_programs_write_them_so():
    probs = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]
    rule = by(lac(0.4), "site", 1).fit(probs, [0, 0, 1, 1], groups=[3.0, 3.0, 1.1, 1.1])
    with pytest.warns(
        ShortlistWarning, match="3 of 6 rows are of no site that was among the calibration rows: '03', '1.10', 'x'"
    ):
        rule.predict([[0.7, 0.3]] * 6, groups=["3", "3.0", "1.1", "1.10", "03", "x"])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([3.0, "3", 3, "3.0"], ("3",)),
        (pd.concat([pd.Series([3.0, 3.0]), pd.Series(["3", "north"])], ignore_index=True), ("3", "north")),
        (np.array([1.1, 1.1, 2.5, 3], np.float32), ("1.1", "2.5", "3")),
        (torch.tensor([1.1, 1.1, 2.5, 3], dtype=torch.float16), ("1.1", "2.5", "3")),
        (np.array([np.float64(3), np.int64(3), "3", 3.0], object), ("3",)),
    ],
    ids=["mixed", "joined frames", "float32", "float16", "numbers of numpy"],
)
def test_numbers_have_one_name_among_texts_and_in_every_precision(given, names):
    probs = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]
    rule = by(lac(0.4), "site", 1).fit(probs, [0, 0, 1, 1], groups=given)
    assert rule.groups.names == names
    for asked in (list(names), [float(name) if name != "north" else name for name in names]):
        assert rule.groups.unknown(asked, len(asked)) is None


def test_texts_match_groups_that_are_texts_as_those_that_are_numbers():
    """3.0 was of no group if another group was called north."""
    probs, groups = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]], ["3", "1.10", "1.10", "True"]
    rule = by(lac(0.4), "site", 1).fit(probs, [0, 0, 1, 1], groups=groups)
    with pytest.warns(
        ShortlistWarning, match="3 of 7 rows are of no site that was among the calibration rows: '1.1', '3.00', 'x'"
    ):
        rule.predict([[0.7, 0.3]] * 7, groups=["3", "3.0", "1.10", "1.1", "3.00", "TRUE", "x"])


@pytest.mark.parametrize("asked", [[1, 2], [1.0, 2.0], ["1", "2"], ["1", "2.0"], np.array([1, 2], np.int32)], ids=str)
def test_whole_numbers_find_the_groups_that_were_written_as_fractions(asked):
    """As pandas writes whole numbers beside missing ones, 1.0 and 2.0."""
    probs, groups = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]], ["1.0", "2.0", "north", "1.5.0"]
    rule = by(lac(0.4), "site", 1).fit(probs, [0, 0, 1, 1], groups=groups)
    assert rule.groups.unknown(asked, 2) is None
    assert rule.groups.unknown(["1.5"], 1) is not None
