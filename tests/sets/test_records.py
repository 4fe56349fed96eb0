"""Rules as records: what is saved comes back, what is damaged is refused, and rules of one's own are rules like ours."""

import json
import random
import sys
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from shortlist.errors import InputError
from shortlist.sets import (
    AverageError,
    Constraint,
    FittedThreshold,
    Ordering,
    Probability,
    SetRule,
    average_k,
    lac,
    parse_rule,
    register_modifier,
    register_rule,
    rule_from_record,
    top_k,
)
from shortlist.sets.registry import MODIFIERS, RULES
from tests import warm
from tests.sets.cases import EVERY, draw


@pytest.fixture
def registries():
    """What a test registers is forgotten after it."""
    tables = (RULES, MODIFIERS, Ordering.kinds, Constraint.kinds)
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


@pytest.mark.filterwarnings("ignore:.*they have the common threshold")
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_record_is_json_and_brings_the_rule_back(case):
    data = draw(case.many_labels)
    rule = case.make(data.prior).fit(data.calibration, data.target, **case.given(data))
    record = json.loads(json.dumps(rule.record(), allow_nan=False))
    again = rule_from_record(record, rule.state_dict())
    assert again.record() == rule.record()
    assert again.needs_prior == rule.needs_prior
    assert again.needs_probabilities == rule.needs_probabilities
    assert (again.alpha, again.k, again.guarantee) == (rule.alpha, rule.k, rule.guarantee)
    np.testing.assert_array_equal(again(data.new, **case.asked(data)), rule(data.new, **case.asked(data)))


@pytest.mark.filterwarnings("ignore:.*they have the common threshold")
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_the_record_of_a_rule_before_its_fit_gives_one_that_can_be_fitted(case):
    data = draw(case.many_labels)
    fresh = case.make(data.prior)
    again = rule_from_record(fresh.record(), fresh.state_dict()).fit(data.calibration, data.target, **case.given(data))
    fresh.fit(data.calibration, data.target, **case.given(data))
    assert torch.equal(again.threshold, fresh.threshold)


@pytest.mark.parametrize("k", ["1/3", 2.3, np.float32(2.3), 2])
def test_numbers_stay_the_decimals_that_were_typed(k):
    rule = average_k(k)
    again = rule_from_record(json.loads(json.dumps(rule.record())), {})
    assert again.constraint.size == rule.constraint.size
    assert again.text == rule.text == f"average-k:{k!s}"


def fitted():
    return lac(0.2).fit([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9], [0.6, 0.4]], [0, 1, 0, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": ""}, "rule: expected its text, got ''"),
        ({"text": 5}, "rule: expected its text, got 5"),
        ({"ordering": {"kind": "probabilty"}}, "ordering: did you mean 'probability'.*--import"),
        ({"ordering": {"kind": None}}, "ordering: .*got None"),
        ({"ordering": "improbability"}, "ordering: .*got 'improbability'"),
        ({"ordering": {"kind": "rank", "depth": 3}}, "ordering rank: .*none, got depth"),
        ({"ordering": {"kind": "cumulative-mass", "penalty": -1, "k_reg": 0, "randomized": False}}, "penalty: .*got -1"),
        ({"ordering": {"kind": "cumulative-mass", "penalty": 0, "k_reg": 0.5, "randomized": False}}, "k_reg: .*got 0.5"),
        ({"ordering": {"kind": "cumulative-mass", "penalty": 0, "k_reg": 0, "randomized": "yes"}}, "randomized: .*got 'yes'"),
        ({"constraint": {"kind": "my-constraint"}}, "constraint: .*got 'my-constraint'.*import my_rules"),
        ({"constraint": {"kind": "average-error", "alpha": 2}}, "alpha: .*got 2"),
        ({"constraint": {"kind": "average-error"}}, "constraint average-error: expected the parameters alpha, got none"),
        ({"least": -1}, "least: .*got -1"),
        ({"most": 1.5}, "most: .*got 1.5"),
        ({"least": 3, "most": 2}, "floor 3 and cap 2"),
        ({"notes": "none"}, "notes: .*got 'none'"),
        ({"origin": {"link": None}}, "origin: "),
        ({"origin": {"classes": 0}}, "classes: .*got 0"),
        ({"calibrated": {"rows": 5, "mean": float("nan"), "variance": 0}}, "mean: .*got nan"),
        ({"calibrated": {"rows": 5}}, "calibrated: "),
        ({"tensors": []}, "expected the tensors none, got threshold"),
        ({"tensors": 3}, "tensors: .*got 3"),
    ],
)
def test_a_damaged_record_is_refused_in_a_sentence(change, message):
    rule = fitted()
    with pytest.raises(InputError, match=message):
        rule_from_record(rule.record() | change, rule.state_dict())


@pytest.mark.parametrize(
    "field", ["text", "ordering", "constraint", "least", "most", "tensors", "notes", "origin", "calibrated"]
)
def test_a_record_without_a_field_is_refused(field):
    record = fitted().record()
    del record[field]
    with pytest.raises(InputError, match=f"'{field}' is missing"):
        rule_from_record(record, fitted().state_dict())


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (torch.tensor(float("nan"), dtype=torch.float64), "threshold: .*got nan"),
        (torch.tensor(0.3), r"threshold: expected float64, got float32 \(\)"),
        (torch.tensor(1), r"threshold: expected float64, got int64 \(\)"),
        (torch.zeros(2, dtype=torch.float64), r"threshold: expected float64 \(\) for 2 classes, got float64 \(2,\)"),
        (torch.zeros(2, 2, dtype=torch.float64), r"threshold: .*got float64 \(2, 2\)"),
    ],
)
def test_a_damaged_threshold_is_refused(threshold, message, tmp_path):
    rule = fitted()
    with pytest.raises(InputError, match=message):
        rule_from_record(rule.record(), {"threshold": threshold})
    header = {"format": "shortlist-rule/2", "rule": json.dumps(rule.record())}
    save_file({"threshold": threshold}, tmp_path / "rule.safetensors", metadata=header)
    with pytest.raises(InputError, match=f"cannot read a rule from .*rule.safetensors: .*{message}"):
        SetRule.load(tmp_path / "rule.safetensors")


def test_thresholds_must_fit_the_classes_and_what_the_rule_states():
    rule = parse_rule("lac:0.2,classwise").fit(*draw_small())
    for wrong in (torch.tensor(0.5), torch.zeros(3)):
        with pytest.raises(InputError, match=r"threshold: expected float64 \(C,\) for 2 classes"):
            rule_from_record(rule.record(), {"threshold": wrong.double()})
    with pytest.raises(InputError, match="threshold: expected 2, which the rule states, got 3"):
        rule_from_record(top_k(2).record(), {"threshold": torch.tensor(3.0, dtype=torch.float64)})


def draw_small():
    return [[0.7, 0.3], [0.4, 0.6]] * 5, [0, 1] * 5


def test_a_damaged_prior_is_refused():
    rule = average_k(1, [0.5, 0.5]).fit([[0.7, 0.3], [0.4, 0.6]])
    for prior, message in (([0.5, -1.0], "prior: .*got -1 for class 1"), ([float("nan"), 1.0], "prior: .*got nan")):
        tensors = rule.state_dict() | {"ordering.prior": torch.tensor(prior, dtype=torch.float64)}
        with pytest.raises(InputError, match=message):
            rule_from_record(rule.record(), tensors)
    with pytest.raises(InputError, match="expected the tensors ordering.prior, threshold, got threshold"):
        rule_from_record(rule.record(), {"threshold": rule.threshold})


@pytest.mark.parametrize("header", [{"format": "other/1"}, {}, None])
def test_files_that_are_no_rules_are_refused(header, tmp_path):
    save_file({"threshold": torch.zeros(1)}, tmp_path / "file", metadata=header)
    with pytest.raises(InputError, match="not written by SetRule.save"):
        SetRule.load(tmp_path / "file")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format": "shortlist-rule/1"}, "expected the format shortlist-rule/2, got shortlist-rule/1: fit it again"),
        ({"format": "shortlist-rule/2"}, "damaged"),
        ({"format": "shortlist-rule/2", "rule": "{"}, "damaged"),
        ({"format": "shortlist-rule/2", "rule": "[]"}, r"rule: expected a record, got \[\]"),
    ],
)
def test_files_of_another_version_and_damaged_ones_are_refused(header, message, tmp_path):
    save_file({"threshold": torch.zeros(1)}, tmp_path / "file", metadata=header)
    with pytest.raises(InputError, match=message):
        SetRule.load(tmp_path / "file")


MODULE = '''
from dataclasses import dataclass

import torch

from shortlist.sets import AverageError, Constraint, FittedThreshold, Ordering, SetRule, register_rule


class LogProbability(Ordering):
    """log p, to the power of one over the temperature."""

    kind = "log-probability"
    descending = True

    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, probs):
        return probs.log() / self.temperature


@dataclass
class Median(Constraint):
    """Half of all labels."""

    kind = "median"
    factor: float = 1.0
    guarantee: str = "Half of all labels are returned."

    def fit(self, ordering, batches):
        values = torch.cat([ordering(probs).flatten() for probs, _ in batches])
        return FittedThreshold(values.median() * self.factor, ("a note",))


@register_rule("half", "temperature?")
def half(temperature=1.0):
    return SetRule(f"half:{temperature}", LogProbability(temperature), Median())
'''


@pytest.mark.filterwarnings("ignore:half.*a note:shortlist.errors.ShortlistWarning")
def test_a_rule_of_ones_own_saves_loads_and_has_a_text(tmp_path, monkeypatch, registries):
    (tmp_path / "rules_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import rules_of_mine

    data = draw()
    rule = parse_rule("half:2,cap:3").fit(data.calibration.astype(np.float32))
    assert (rule.text, rule.threshold.dtype, rule.notes) == ("half:2,cap:3", torch.float64, ("a note",))
    assert rule.record()["ordering"] == {"kind": "log-probability", "temperature": 2}
    rule.save(tmp_path / "rule.safetensors")
    loaded = SetRule.load(tmp_path / "rule.safetensors")
    assert isinstance(loaded.ordering, rules_of_mine.LogProbability)
    np.testing.assert_array_equal(loaded(data.new), rule(data.new))
    code = f"from shortlist.sets import SetRule; SetRule.load({str(tmp_path / 'rule.safetensors')!r})"
    alone = warm.run(code)
    assert alone.returncode == 1
    assert "got 'log-probability'; if a module of your own defines it, import that module first" in alone.stderr
    monkeypatch.delitem(sys.modules, "rules_of_mine")


@pytest.mark.filterwarnings("ignore:half.*a note:shortlist.errors.ShortlistWarning")
def test_a_rule_of_ones_own_goes_into_a_classifier(tmp_path, monkeypatch, registries):
    from shortlist.models import Classifier
    from tests.models.classifiers import of_features, rows

    (tmp_path / "rules_in_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import rules_in_models  # noqa: F401

    classifier = of_features()
    given = classifier.predictions(rows(50))
    classifier.fit_rule("half", given).save(tmp_path / "classifier")
    loaded = Classifier.load(tmp_path / "classifier")
    assert loaded.rule.text == "half:1.0"
    assert loaded.predict(rows(5)).sets.shape == (5, 4)
    monkeypatch.delitem(sys.modules, "rules_in_models")


def test_two_classes_of_one_kind_are_refused(registries):
    with pytest.raises(InputError, match="kind: 'rank' is already the ordering shortlist.sets.prefixes.Rank"):
        type("Mine", (Ordering,), {"kind": "rank", "__module__": "mine"})
    with pytest.raises(InputError, match="name: 'lac' is already shortlist.sets.rules.lac"):
        register_rule("lac", "alpha")(lambda alpha: lac(alpha))


def test_a_class_without_a_kind_of_its_own_works_but_is_not_saved(tmp_path):
    class Mine(Probability):
        pass

    rule = SetRule("mine", Mine(), AverageError(0.2)).fit(*draw_small())
    with pytest.raises(InputError, match='Mine: expected a kind of its own.*kind = "my-ordering"'):
        rule.save(tmp_path / "rule.safetensors")
    assert not (tmp_path / "rule.safetensors").exists()


def test_parameters_that_json_cannot_hold_are_named(registries):
    @dataclass
    class Odd(Constraint):
        kind = "odd"
        table: object = None
        guarantee: str = "Nothing."

        def fit(self, ordering, batches):
            return FittedThreshold(torch.tensor(0.5))

    with pytest.raises(InputError, match="constraint odd: .*parameter table .*got tensor"):
        SetRule("odd", Probability(), Odd(torch.zeros(2))).record()


def test_a_constraint_that_returns_no_threshold_is_refused(registries):
    class Broken(Constraint):
        guarantee = "Nothing."

        def fit(self, ordering, batches):
            return FittedThreshold(torch.tensor(float("nan")))

    with pytest.raises(InputError, match="threshold: .*got nan"):
        SetRule("broken", Probability(), Broken()).fit(*draw_small())


@pytest.mark.parametrize(("part", "name"), [((lac, AverageError(0.1)), "ordering"), ((Probability(), 0.1), "constraint")])
def test_parts_of_the_wrong_type_are_refused(part, name):
    with pytest.raises(InputError, match=f"{name}: expected a"):
        SetRule("wrong", *part)


@pytest.mark.parametrize("name", ["Mine", "my rule", "my:rule", ""])
def test_names_that_no_text_can_have_are_refused(name):
    with pytest.raises(InputError, match="name: "):
        register_modifier(name)


def test_arguments_that_may_be_left_out_come_last():
    with pytest.raises(InputError, match=r"arguments: .*got a\?, b"):
        register_rule("mine", "a?", "b")


@pytest.mark.parametrize("text", ["lac:0.2,classwise", "average-k:1.5"])
def test_a_bit_of_a_file_that_changes_anywhere_is_noticed_or_harmless(text, tmp_path):
    """Without its digest a rule loads whose threshold, or whose text, has changed."""

    def held(rule):
        return repr((rule.record(), {name: tensor.tolist() for name, tensor in rule.state_dict().items()}))

    path, chance = tmp_path / "rule.safetensors", random.Random(text)
    data = draw()
    parse_rule(text).fit(data.calibration, data.target).save(path)
    before, content = held(SetRule.load(path)), path.read_bytes()
    for _ in range(150):
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        with suppress(InputError):
            assert held(SetRule.load(path)) == before
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(InputError, match=r"cannot read a rule from .*: it is damaged or was edited .*or fit the rule again"):
        SetRule.load(path)


def test_a_file_of_an_earlier_version_has_no_digest_and_loads(tmp_path):
    data, path = draw(), tmp_path / "rule.safetensors"
    rule = lac(0.2).fit(data.calibration, data.target)
    rule.save(path)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    assert header.pop("digest")
    save_file(dict(rule.state_dict()), path, metadata=header)
    assert torch.equal(SetRule.load(path).threshold, rule.threshold)
