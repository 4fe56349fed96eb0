"""Laws of every rule."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, NotFittedError
from shortlist.sets import SetRule, parse_rule, sure_node
from tests.sets.cases import EVERY, EVERY_FITTED, LABELLED, SUPERCLASSES, draw

pytestmark = pytest.mark.filterwarnings("ignore:.*they have the common threshold")
every_rule = pytest.mark.parametrize("case", EVERY, ids=str)
every_fitted_rule = pytest.mark.parametrize("case", EVERY_FITTED, ids=str)


def fitted(case, data):
    probs, target = torch.from_numpy(data.calibration), torch.from_numpy(data.target)
    return case.make(data.prior).fit(probs, target, **case.given(data))


def thresholds(rule):
    """Those of the groups, if it has any, and the common one, flat."""
    return torch.cat([part.flatten() for part in (rule.groups and rule.groups.thresholds, rule.threshold) if part is not None])


@every_rule
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sets_equal_the_literal_formula(case, seed):
    data = draw(case.many_labels, seed=seed)
    answer = fitted(case, data)(data.new, **case.asked(data))
    np.testing.assert_array_equal(answer, case.reference(data))
    assert 0 < answer.mean() < 1


@every_rule
def test_arrays_answer_with_arrays_and_tensors_with_tensors(case):
    data = draw(case.many_labels)
    rule = case.make(data.prior).fit(data.calibration, data.target, **case.given(data))
    array, tensor = rule(data.new, **case.asked(data)), rule(torch.from_numpy(data.new), **case.asked(data))
    assert isinstance(array, np.ndarray)
    assert array.dtype == bool
    assert tensor.dtype == torch.bool
    np.testing.assert_array_equal(array, tensor.numpy())


@every_rule
def test_inputs_are_left_as_they_were(case):
    data = draw(case.many_labels)
    before = data.calibration.copy(), data.target.copy(), data.new.copy()
    case.make(data.prior).fit(data.calibration, data.target, **case.given(data))(data.new, **case.asked(data))
    for old, now in zip(before, (data.calibration, data.target, data.new), strict=True):
        np.testing.assert_array_equal(old, now)


@every_rule
def test_no_rows_give_no_sets(case):
    data = draw(case.many_labels)
    assert fitted(case, data)(torch.empty(0, 5), **case.asked(data, [])).shape == (0, 5)


@every_rule
def test_a_saved_rule_comes_back_whole(case, tmp_path):
    data = draw(case.many_labels)
    rule = fitted(case, data)
    rule.save(tmp_path / "rule.safetensors")
    loaded = SetRule.load(tmp_path / "rule.safetensors")
    assert loaded.text == rule.text
    assert repr(loaded) == repr(rule)
    np.testing.assert_array_equal(loaded(data.new, **case.asked(data)), rule(data.new, **case.asked(data)))


@every_rule
def test_a_state_dict_makes_a_fresh_rule_the_fitted_one(case):
    data = draw(case.many_labels)
    rule, fresh = fitted(case, data), case.make(data.prior)
    fresh.load_state_dict(rule.state_dict())
    np.testing.assert_array_equal(fresh(data.new, **case.asked(data)), rule(data.new, **case.asked(data)))


@every_rule
def test_text_round_trips(case):
    data = draw(case.many_labels)
    rule = case.make(data.prior)
    again = parse_rule(rule.text, prior=data.prior, superclasses=SUPERCLASSES)
    assert again.text == rule.text
    again.fit(data.calibration, data.target, **case.given(data))
    asked = case.asked(data)
    np.testing.assert_array_equal(again(data.new, **asked), fitted(case, data)(data.new, **asked))


@every_rule
def test_the_guarantee_is_one_sentence(case):
    text = case.make(np.full(5, 0.2)).guarantee
    assert text[0].isupper()
    assert re.findall(r"[.!?](?=\W*\s|\W*$)", text) == ["."], text


@every_fitted_rule
def test_every_source_gives_the_same_fit(case):
    data = draw(case.many_labels)
    probs, target = torch.from_numpy(data.calibration), torch.from_numpy(data.target)
    columns = [probs, target, *((torch.zeros(150), torch.from_numpy(data.site)) if case.by_site else ())]
    parts = list(zip(*(column.split(37) for column in columns), strict=True))
    expected = thresholds(fitted(case, data))
    sources = {
        "predictions": Predictions(probs, target, link="identity", columns={"site": data.site}),
        "list": parts,
        "lists": [list(part) for part in parts],
        "callable": lambda: iter(parts),
        "loader": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*columns), batch_size=41),
    }
    if not case.drawn:
        sources["shuffled"] = parts[::-1]
    for name, source in sources.items():
        assert torch.equal(thresholds(case.make(data.prior).fit(source)), expected), name


@every_fitted_rule
@pytest.mark.parametrize("place", [0, 2])
def test_a_batch_without_rows_changes_nothing(case, place):
    data = draw(case.many_labels)
    probs, target = torch.from_numpy(data.calibration), torch.from_numpy(data.target)
    columns = [probs, target, *((torch.zeros(150), torch.from_numpy(data.site)) if case.by_site else ())]
    parts = list(zip(*(column.split(50) for column in columns), strict=True))
    parts.insert(place, tuple(column[:0] for column in columns))
    assert torch.equal(thresholds(case.make(data.prior).fit(parts)), thresholds(fitted(case, data)))


@every_fitted_rule
def test_use_before_fit_raises(case):
    data = draw(case.many_labels)
    with pytest.raises(NotFittedError, match="fit"):
        case.make(data.prior)(data.new, **case.asked(data))


@every_fitted_rule
@pytest.mark.parametrize("form", ["matrix", "list", "empty batches"])
def test_no_calibration_rows_raise(case, form):
    data = draw(case.many_labels)
    probs, target = torch.empty(0, 5, dtype=torch.float64), torch.from_numpy(data.target)[:0]
    source = {"matrix": (probs, target), "list": ([],), "empty batches": ([(probs, target)] * 2,)}[form]
    with pytest.raises(InputError, match=r"expected .*calibration rows, got none"):
        case.make(data.prior).fit(*source, **(case.given(data, []) if form == "matrix" else {}))


@pytest.mark.parametrize("case", LABELLED, ids=str)
def test_labelled_rules_ask_for_labels(case):
    data = draw(case.many_labels)
    with pytest.raises(InputError, match="target"):
        case.make(data.prior).fit(data.calibration, **case.given(data))


@every_rule
@pytest.mark.filterwarnings("ignore:.*tie at the cut")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_values_that_a_dtype_holds_exactly_give_the_sets_of_float64(case, dtype):
    data = draw(case.many_labels)
    grid, target = torch.from_numpy((data.calibration * 256).round() / 256), torch.from_numpy(data.target)
    new, prior = torch.from_numpy((data.new * 256).round() / 256), np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
    given, asked = case.given(data), case.asked(data)
    expected = case.make(prior).fit(grid, target, **given)(new, **asked)
    assert torch.equal(case.make(prior).fit(grid.to(dtype), target, **given)(new.to(dtype), **asked), expected)


@every_rule
@pytest.mark.filterwarnings("ignore:.*tie at the cut")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_rule_answers_in_the_precision_of_what_it_is_asked(case, dtype):
    data = draw(case.many_labels)
    low = torch.from_numpy(data.calibration).to(dtype)
    if case.drawn:  # by what was rounded
        data = replace(data, calibration=low.double().numpy())
    rule = case.make(data.prior).fit(low, torch.from_numpy(data.target), **case.given(data))
    sets = rule(torch.from_numpy(data.new).to(dtype), **case.asked(data))
    assert (sets.numpy() != case.reference(data)).mean() < 0.02


@pytest.mark.parametrize("case", [case for case in EVERY if not case.drawn], ids=str)
def test_permuting_classes_permutes_sets(case):
    data = draw(case.many_labels)
    order = np.array([3, 0, 4, 1, 2])
    place = np.argsort(order)
    target = data.target[:, order] if case.many_labels else place[data.target]
    rule = case.make(data.prior[order])
    if case.name == "sure_node":
        rule = sure_node(0.2, [SUPERCLASSES[label] for label in order])
    permuted, asked = rule.fit(data.calibration[:, order], target, **case.given(data)), case.asked(data)
    np.testing.assert_array_equal(permuted(data.new[:, order], **asked), fitted(case, data)(data.new, **asked)[:, order])


@every_rule
def test_rows_answer_for_themselves(case):
    data = draw(case.many_labels)
    rule = fitted(case, data)
    alone = np.concatenate([rule(data.new[i : i + 1], **case.asked(data, slice(i, i + 1))) for i in range(20)])
    np.testing.assert_array_equal(alone, rule(data.new, **case.asked(data))[:20])


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("top-k:1", "top-k:3"),
        ("average-k:1.2", "average-k:1.9"),
        ("average-k:1.2:prior", "average-k:1.9:prior"),
        ("threshold:0.4", "threshold:0.3"),
        ("mass:0.3", "mass:0.1"),
        ("lac:0.3", "lac:0.1"),
        ("aps:0.3", "aps:0.1"),
        ("raps:0.3", "raps:0.1"),
        ("pas:0.3", "pas:0.1"),
        ("lac:0.3,classwise", "lac:0.1,classwise"),
        ("lac:0.3,interpolated:0.5", "lac:0.1,interpolated:0.5"),
        ("risk-control:recall:0.3", "risk-control:recall:0.1"),
        ("per-label:recall:0.7", "per-label:recall:0.9"),
        ("average-k:2.5,cap:1", "average-k:2.5,cap:3"),
        ("average-k:1.2,floor:1", "average-k:1.2,floor:3"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_sets_are_nested_in_size_and_error(smaller, larger, seed):
    data = draw(seed=seed)
    small, large = (parse_rule(text, data.prior).fit(data.calibration, data.target)(data.new) for text in (smaller, larger))
    assert not (small & ~large).any()
    assert (large & ~small).any()


def test_a_rule_fitted_for_other_classes_says_so():
    rule = parse_rule("lac:0.2,classwise").fit(draw().calibration, draw().target)
    with pytest.raises(InputError, match="fitted on 5 classes, got 4"):
        rule(torch.rand(3, 4))


def test_a_file_that_holds_no_rule_says_so(tmp_path):
    (tmp_path / "rule").write_bytes(b"nothing")
    for path in (tmp_path / "rule", tmp_path / "missing"):
        with pytest.raises(InputError, match="cannot read a rule"):
            SetRule.load(path)
