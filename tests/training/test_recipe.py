"""Recipes: settings as text and as values, their domains, records, and differences."""

import json
import math
import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from shortlist.errors import InputError
from shortlist.methods import all_methods
from shortlist.training.recipe import CHECKS, Recipe


def recipe(**settings):
    return Recipe("mine", "flora", **settings)


# Every setting that a person may type, with the text and the value that it stands for.
TYPED = {
    "name": ("yours", "yours"),
    "data": ("cifar100:{path}", "cifar100:{path}"),
    "method": ("bce", "bce"),
    "summary": (" a line ", "a line"),
    "reference": ("Garcin 2023", "Garcin 2023"),
    "labels": ("any", "any"),
    "label_noise": ("0.5", 0.5),
    "backbone": ("densenet-40-40", "densenet-40-40"),
    "pretrained": ("yes", True),
    "size": ("48", 48),
    "augmentation": ("crop-flip", "crop-flip"),
    "test_fit": ("center", "center"),
    "epochs": ("200", 200),
    "epoch_rows": ("1e5", 100_000),
    "batch_size": ("1e3", 1000),
    "accumulate": ("2", 2),
    "optimizer": ("adamw", "adamw"),
    "lr": ("3e-4", 3e-4),
    "momentum": ("0", 0.0),
    "weight_decay": ("1", 1.0),
    "schedule": ("one-cycle", "one-cycle"),
    "milestones": ("150, 225", (150, 225)),
    "decay": ("0.2", 0.2),
    "warmup": ("2.5", 2.5),
    "ema": ("0.999", 0.999),
    "clip": ("1", 1.0),
    "monitor": ("top-1", "top-1"),
    "patience": ("10", 10),
    "validate_every": ("5", 5),
    "precision": ("float32", "float32"),
    "compile": ("on", True),
    "fused_head": ("off", False),
    "skip_nonfinite": ("3", 3),
    "duplicates": ("together", "together"),
    "erase": ("0.25", 0.25),
    "mirror": ("yes", True),
    "weights": ("mine.safetensors", "mine.safetensors"),
    "tolerance": ("0.05", 0.05),
    "link": ("sigmoid", "sigmoid"),
    "calibration": ("isotonic", "isotonic"),
    "rule": ("lac:0.1,cap:10", "lac:0.1,cap:10"),
    "calibration_share": ("0", 0.0),
    "seed": ("7", 7),
}


def test_the_table_of_texts_leaves_no_setting_out():
    assert set(TYPED) == {part.name for part in fields(Recipe)} - {"parameters", "grid"}


@pytest.mark.parametrize("name", TYPED)
def test_every_setting_is_taken_as_text_and_as_a_value(name):
    text, value = TYPED[name]
    for given in (text, value):
        found = getattr(recipe().with_settings(**{name: given}), name)
        assert found == value
        assert type(found) is type(value)


OPTIONAL = ["size", "epoch_rows", "warmup", "ema", "clip", "monitor", "patience", "rule"]


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_may_be_left_out_is_left_out_by_the_word_none(name):
    text, _ = TYPED[name]
    assert getattr(recipe().with_settings(**{name: text}).with_settings(**{name: "None"}), name) is None


@pytest.mark.parametrize(("text", "value"), [("true", 1), ("YES", 1), ("1", 1), ("off", 0), ("No", 0), ("0", 0), ("false", 0)])
def test_words_for_yes_and_no(text, value):
    assert recipe().with_settings(compile=text).compile is bool(value)


def test_no_milestones_are_an_empty_text():
    assert recipe(milestones=(3, 4)).with_settings(milestones="").milestones == ()


def test_numbers_of_the_method_go_to_the_method():
    changed = recipe().with_settings(k="3", alpha="5", lr="0.5")
    assert (dict(changed.parameters), changed.lr) == ({"k": 3, "alpha": 5.0}, 0.5)
    assert type(changed.parameters["k"]) is int
    assert repr(changed.chosen_method.loss()) == "AverageKLoss(k=3, alpha=5.0)"


def test_words_of_the_method_go_to_the_method():
    changed = recipe(method="noised-topk").with_settings(smoothing="soft", k="1e1")
    assert (changed.parameters["smoothing"], changed.parameters["k"]) == ("soft", 10)


def test_the_average_number_of_labels_need_not_be_whole():
    assert recipe(parameters={"k": 2.5}).k_for(100) == 2.5


def test_the_average_number_of_labels_need_not_be_typed_whole():
    assert recipe().with_settings(k="2.5").k_for(100) == 2.5


def test_a_method_is_set_together_with_its_numbers_in_any_order():
    for changes in ({"method": "focal", "gamma": "1.5"}, {"gamma": "1.5", "method": "focal"}):
        changed = recipe().with_settings(**changes)
        assert (changed.method, dict(changed.parameters)) == ("focal", {"gamma": 1.5})


def test_a_new_method_starts_from_its_defaults_with_the_old_k():
    old = recipe(parameters={"k": 3, "alpha": 7.0}, grid={"alpha": [1.0, 2.0], "lr": [0.1, 0.2]})
    new = old.with_settings(method="expected-positive")
    assert dict(new.parameters) == {"k": 3, "beta": 0.01}
    assert dict(new.grid) == {"lr": (0.1, 0.2)}
    assert dict(old.with_settings(method="bce").parameters) == {}
    assert dict(old.with_settings(method="average-k").parameters) == {"k": 3, "alpha": 7.0}


@pytest.mark.parametrize(
    ("method", "link", "other", "kept"),
    [
        ("spa", "spa:1:1:0:5:3:1", "bce", None),
        ("ldam", "ldam:40", "cross-entropy", None),
        ("two-way", "none", "bce", None),
        ("asy", "sigmoid", "bce", "sigmoid"),
        ("average-k", "softmax", "role", "softmax"),  # which the paper thresholds, for every method
        ("spa", "spa:1:1:0:5:3:1", "spa", "spa:1:1:0:5:3:1"),
    ],
)
def test_a_new_method_does_not_keep_a_link_of_the_old_ones_scores(method, link, other, kept):
    old = recipe(method=method, link=link)
    assert old.with_settings(method=other).link == kept
    assert old.with_settings(method=other, link="assume-negative").link == "assume-negative"


@pytest.mark.parametrize(
    ("start", "changes", "rule", "monitor"),
    [
        ({"rule": "average-k:5:prior,cap:8", "monitor": "average-5"}, {"k": 2.5}, "average-k:2.5:prior,cap:8", "average-2.5"),
        ({"rule": "top-k:5", "monitor": "macro-top-5"}, {"k": "3"}, "top-k:3", "macro-top-3"),
        ({"rule": "top-k:5", "monitor": "top-5"}, {"parameters": {"k": 3}}, "top-k:3", "top-3"),
        ({"rule": "average-k:4", "monitor": "average-4"}, {"k": 3}, "average-k:4", "average-4"),  # not the k of the method
        ({"rule": "average-k:5", "monitor": "nll"}, {"k": 3, "rule": "top-k:5"}, "top-k:5", "nll"),
        ({"rule": "lac:0.1", "monitor": "top-1"}, {"k": 3}, "lac:0.1", "top-1"),
        ({"rule": "average-k:5", "monitor": "top-5"}, {"method": "cross-entropy"}, "average-k:5", "top-5"),
        ({"parameters": {"k": 1}, "rule": "top-k:1", "monitor": "top-1"}, {"k": 3}, "top-k:3", "top-1"),
    ],
)
def test_rule_and_monitor_follow_the_k_of_the_method(start, changes, rule, monitor):
    changed = recipe(**{"parameters": {"k": 5}, **start}).with_settings(**changes)
    assert (changed.rule, changed.monitor) == (rule, monitor)


def test_no_parameter_of_a_method_has_the_name_of_a_setting():
    own = {part.name for part in fields(Recipe)}
    assert [(m.name, name) for m in all_methods() for name in m.parameters if name in own] == []


def test_settings_hold_the_parameters_of_the_method_and_all_settings():
    settings = recipe(lr=0.3).settings()
    assert (settings["lr"], settings["k"], settings["alpha"]) == (0.3, 5, 0.3)
    assert set(settings) == set(TYPED) | {"k", "alpha"}


# Settings, the one that is refused, and the value that the message shows.
WRONG = [
    ({"epochs": 0}, "epochs", "0"),
    ({"epochs": True}, "epochs", "True"),
    ({"epochs": 2.5}, "epochs", "2.5"),
    ({"epochs": "3"}, "epochs", "'3'"),
    ({"epochs": None}, "epochs", "None"),
    ({"epochs": 10**6 + 1}, "epochs", "1000001"),
    ({"lr": -1}, "lr", "-1"),
    ({"lr": 0.0}, "lr", "0.0"),
    ({"lr": math.nan}, "lr", "nan"),
    ({"lr": math.inf}, "lr", "inf"),
    ({"lr": "0.1"}, "lr", "'0.1'"),
    ({"lr": True}, "lr", "True"),
    ({"decay": math.nan}, "decay", "nan"),
    ({"decay": 1.5}, "decay", "1.5"),
    ({"clip": 0}, "clip", "0"),
    ({"clip": math.inf}, "clip", "inf"),
    ({"ema": 1.0}, "ema", "1.0"),
    ({"ema": 0}, "ema", "0"),
    ({"ema": math.nan}, "ema", "nan"),
    ({"weight_decay": -0.1}, "weight_decay", "-0.1"),
    ({"weight_decay": 11}, "weight_decay", "11"),
    ({"momentum": 1.1}, "momentum", "1.1"),
    ({"label_noise": 2}, "label_noise", "2"),
    ({"calibration_share": 1.0}, "calibration_share", "1.0"),
    ({"size": 0}, "size", "0"),
    ({"size": 4097}, "size", "4097"),
    ({"size": 32.5}, "size", "32.5"),
    ({"batch_size": 0}, "batch_size", "0"),
    ({"epoch_rows": 0}, "epoch_rows", "0"),
    ({"accumulate": 0}, "accumulate", "0"),
    ({"batch_size": 8, "accumulate": 9}, "accumulate", "9"),
    ({"patience": 0}, "patience", "0"),
    ({"validate_every": 0}, "validate_every", "0"),
    ({"tolerance": 1.5}, "tolerance", "1.5"),
    ({"skip_nonfinite": -1}, "skip_nonfinite", "-1"),
    ({"warmup": -1}, "warmup", "-1"),
    ({"seed": -1}, "seed", "-1"),
    ({"seed": 2**63}, "seed", str(2**63)),
    ({"schedule": "cosin"}, "schedule: did you mean 'cosine'?", "'cosin'"),
    ({"precision": "float23"}, "precision: did you mean 'float32'?", "'float23'"),
    ({"optimizer": "adam"}, "optimizer: did you mean 'adamw'?", "'adam'"),
    ({"augmentation": "shift"}, "augmentation", "'shift'"),
    ({"test_fit": "pad"}, "test_fit", "'pad'"),
    ({"labels": None}, "labels", "None"),
    ({"calibration": "sigmoid"}, "calibration", "'sigmoid'"),
    ({"compile": 1}, "compile", "1"),
    ({"fused_head": "maybe"}, "fused_head", "'maybe'"),
    ({"fused_head": 1}, "fused_head", "1"),
    ({"pretrained": "yes"}, "pretrained", "'yes'"),
    ({"schedule": "step"}, "milestones", "none"),
    ({"milestones": (2, 1)}, "milestones", "(2, 1)"),
    ({"milestones": (2, 2)}, "milestones", "(2, 2)"),
    ({"milestones": (0,)}, "milestones", "0"),
    ({"milestones": (True,)}, "milestones", "True"),
    ({"milestones": 3}, "milestones", "3"),
    ({"method": "averagek"}, "method: did you mean 'average-k'?", "'averagek'"),
    ({"method": 3}, "method", "3"),
    ({"parameters": {"alhpa": 1.0}}, "method average-k: did you mean 'alpha'?", "'alhpa'"),
    ({"parameters": 3}, "parameters", "3"),
    ({"grid": {"lrr": [1.0]}}, "grid", "'lrr'"),
    ({"grid": [("lr", 1.0)]}, "grid", "[('lr', 1.0)]"),
    ({"rule": 5}, "rule", "5"),
    ({"link": 5}, "link", "5"),
    ({"monitor": 5}, "monitor", "5"),
]


@pytest.mark.parametrize(("settings", "name", "came"), WRONG, ids=str)
def test_values_outside_the_domain_of_a_setting_raise(settings, name, came):
    with pytest.raises(InputError) as error:
        recipe(**settings)
    message = str(error.value)
    assert message.startswith(name if ":" in name else f"{name}: ")
    assert message.endswith(f"got {came}")
    assert "\n" not in message


def test_every_setting_has_a_check():
    assert set(CHECKS) == {part.name for part in fields(Recipe)}


@pytest.mark.parametrize(("name", "value"), [("epochs", 2.0), ("size", np.int64(32)), ("seed", 7.0)])
def test_whole_numbers_are_kept_as_integers_however_they_are_written(name, value):
    found = getattr(recipe(**{name: value}), name)
    assert (found, type(found)) == (int(value), int)


@pytest.mark.parametrize(("name", "text", "wanted"), [
    ("epochs", "many", "a whole number"),
    ("epochs", "1.5", "a whole number"),
    ("epochs", "inf", "a whole number"),
    ("epochs", "1" * 5000, "a whole number"),
    ("epochs", "", "a whole number"),
    ("lr", "fast", "a number"),
    ("lr", "nan", "a number"),
    ("patience", "1.5", "a whole number or none"),
    ("compile", "maybe", "true or false"),
    ("milestones", "1,x", "a whole number"),
    ("size", "none none", "a whole number or none"),
    ("k", "many", "a number"),
    ("k", "inf", "a number"),
    ("k", "-1", "a number from 1"),
    ("alpha", "nan", "a number"),
    ("alpha", "none", "a number"),
])  # fmt: skip
def test_texts_that_are_no_such_value_are_refused(name, text, wanted):
    with pytest.raises(InputError, match=f"^{name}: expected {wanted}"):
        recipe().with_settings(**{name: text})


@pytest.mark.parametrize(
    ("name", "near"), [("lrr", "lr"), ("epoch", "epochs"), ("alhpa", "alpha"), ("batchsize", "batch_size")]
)
def test_unknown_settings_get_the_nearest_name(name, near):
    with pytest.raises(InputError, match=f"^setting '{name}': did you mean '{near}'.$"):
        recipe().with_settings(**{name: "1"})


def test_parameters_of_other_methods_are_unknown():
    with pytest.raises(InputError, match=r"^setting 'k': expected one of"):
        recipe(method="bce").with_settings(k=3)


BAD_NUMBERS = ["3", "many", True, math.nan, math.inf, -1, None, [3]]


@pytest.mark.parametrize("name", ["k", "alpha"])
@pytest.mark.parametrize("value", BAD_NUMBERS, ids=str)
def test_numbers_of_the_method_are_checked_like_settings(name, value):
    with pytest.raises(InputError, match=rf"^{name}: expected a number( from 0| from 1)?, got "):
        recipe(parameters={name: value})


@pytest.mark.parametrize(("method", "parameters", "message"), [
    ("noised-topk", {"k": 2.5}, "k: expected a whole number from 1, got 2.5"),
    ("noised-topk", {"samples": 0}, "samples: expected a whole number from 1, got 0"),
    ("noised-topk", {"smoothing": "loud"}, "smoothing: expected one of 'noised', "),
    ("noised-topk", {"smoothing": 1}, "smoothing: expected text, got 1"),
    ("noised-topk-imbalanced", {"max_margin": -1.0}, "max_margin: expected a number"),
    ("ldam", {"scale": 0.0}, "scale: expected a number above 0, got 0.0"),
    ("spa-label-pair", {"pair_weight": -1.0}, "pair_weight: expected a number from 0, got -1.0"),
    ("softmax-uniform", {"outlier_weight": -1.0}, "outlier_weight: expected a number from 0, got -1.0"),
    ("focal", {"gamma": -1}, "gamma: expected a number from 0, got -1.0"),
    ("average-k", {"name": 1}, "method average-k: expected k, alpha; got 'name'"),
])  # fmt: skip
def test_numbers_of_the_method_are_in_their_domains(method, parameters, message):
    with pytest.raises(InputError) as error:
        recipe(method=method, parameters=parameters)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_every_methods_own_numbers_are_taken_as_they_are(method):
    found = recipe(method=method.name).parameters
    assert {name: (value, type(value)) for name, value in found.items()} == {
        name: (value, type(value)) for name, value in method.parameters.items()
    }


def test_numbers_of_numpy_become_plain_ones():
    mine = recipe(lr=np.float32(0.5), parameters={"k": np.int64(3), "alpha": np.float32(0.5)})
    assert [type(value) for value in (mine.lr, *mine.parameters.values())] == [float, int, float]
    json.dumps(mine.record())


def test_a_new_method_may_come_with_a_k_that_the_old_one_could_not_have():
    old = recipe(parameters={"k": 2.5})
    assert old.with_settings(method="noised-topk", k="3").parameters["k"] == 3
    with pytest.raises(InputError, match=r"^k: .*got 2.5"):
        old.with_settings(method="noised-topk")


def test_whole_numbers_that_no_float_holds_are_refused():
    with pytest.raises(InputError, match=r"^lr: .*got 1000"):
        recipe(lr=10**400)
    with pytest.raises(InputError, match=r"^seed: .*got a number of thousands of digits"):
        recipe(seed=10**5000)


@pytest.mark.parametrize("values", [0.1, "0.1", None, [], {0.1}], ids=str)
def test_a_grid_holds_lists_of_values(values):
    with pytest.raises(InputError, match=r"^grid\['lr'\]: .*got "):
        recipe(grid={"lr": values})


@pytest.mark.parametrize("name", ["parameters", "grid"])
def test_tables_given_as_text_are_refused_in_plain_words(name):
    with pytest.raises(InputError) as error:
        recipe().with_settings(**{name: "k=3"})
    assert "typing" not in str(error.value)
    assert "Mapping" not in str(error.value)


def test_no_link_is_the_same_typed_or_given():
    assert recipe().with_settings(link="none") == recipe(link="none")
    assert recipe(link="None ").link == "none"
    assert recipe().link is None


@pytest.mark.parametrize("text", ["own", " Own"])
def test_the_methods_own_link_has_a_word_too(text):
    assert recipe(link="none").with_settings(link=text) == recipe(link=text) == recipe()


LINKS = [
    ("sofmax", "link: did you mean 'softmax'?"),
    ("", "link: expected one of"),
    ("spa:a", "link spa: expected numbers between the colons"),
    ("temperature", "use calibration=temperature"),
    ("Platt", "use calibration=platt"),
    ("isotonic", "use calibration=isotonic"),
    ("dirichlet", "use calibration=dirichlet"),
    ("reweighted", "link: expected a link without a base"),
    ("quasibinary", "link: quasibinary is learnt during training: use method=quasibinary with link=own"),
    ("quasibinary:0.5", "link: quasibinary:0.5 is learnt during training"),
    ("identity", "link: expected a link from scores to probabilities, such as softmax or sigmoid, got 'identity'"),
]


@pytest.mark.parametrize(("text", "message"), LINKS)
@pytest.mark.parametrize("method", ["average-k", "quasibinary"])
def test_links_that_cannot_read_scores_are_refused(method, text, message):
    with pytest.raises(InputError) as error:
        recipe(method=method, link=text)
    assert message in str(error.value)


def test_texts_of_rules_and_links_are_kept_in_one_form():
    assert (
        recipe(rule=" PAS:0.1,Cap:3 ", link=" SoftMax").settings().items()
        >= {"rule": "pas:0.1,cap:3", "link": "softmax"}.items()
    )
    assert recipe(rule="none").rule is recipe(rule=" ").rule is None


def test_a_recipe_cannot_be_changed():
    mine = recipe(grid={"lr": [0.1]})
    with pytest.raises(FrozenInstanceError):
        mine.lr = 1.0
    for table in (mine.parameters, mine.grid):
        with pytest.raises(TypeError):
            table["k"] = 1
    assert mine.with_settings(lr=0.5) is not mine
    assert mine.lr == 0.1


def test_what_was_given_may_change_afterwards():
    parameters, milestones = {"k": 3}, [1, 2]
    mine = recipe(parameters=parameters, milestones=milestones)
    parameters["k"] = 4
    milestones.append(3)
    assert (mine.parameters["k"], mine.milestones) == (3, (1, 2))


FULL = {name: value for name, (_, value) in TYPED.items()} | {
    "method": "noised-topk",
    "parameters": {"k": 3, "epsilon": 0.1},
    "grid": {"lr": [0.1, 0.01], "k": [1, 3]},
}


@pytest.mark.parametrize("settings", [{"name": "mine", "data": "flora"}, FULL], ids=["short", "full"])
def test_the_record_goes_through_json_and_gives_an_equal_recipe(settings):
    mine = Recipe(**settings)
    again = Recipe.from_record(json.loads(json.dumps(mine.record())))
    assert again == mine
    assert hash(again) == hash(mine)
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert again.differences(mine) == {}


def test_a_grid_of_milestones_comes_back_from_json():
    mine = recipe(schedule="step", milestones=(1,), grid={"milestones": [(1, 2), (3,)]})
    assert Recipe.from_record(json.loads(json.dumps(mine.record()))) == mine


def test_recipes_that_differ_have_other_hashes_and_are_not_equal():
    mine = recipe()
    for name, (_, value) in TYPED.items():
        other = mine.with_settings(**{name: value})
        assert (other != mine, hash(other) != hash(mine)) == (True, True), name


def test_equal_recipes_have_one_hash():
    for one, other in (
        ({"parameters": {"k": 5, "alpha": 1}}, {"parameters": {"alpha": 1.0, "k": 5.0}}),
        ({"grid": {"lr": [1, 0.5], "k": [3]}}, {"grid": {"k": (3.0,), "lr": (1.0, 0.5)}}),
        ({"rule": "TOP-K:3"}, {"rule": "top-k:3 "}),
    ):
        assert recipe(**one) == recipe(**other)
        assert hash(recipe(**one)) == hash(recipe(**other))
    assert recipe(parameters={"k": 5.0}).record() == recipe(parameters={"k": 5}).record()


@pytest.mark.parametrize(
    "record", [{}, {"name": "a"}, {"data": "a"}, {"name": "a", "data": "b", "learning_rate": 1}, [], None, 3, "a"]
)
def test_other_records_are_refused(record):
    with pytest.raises(InputError, match=r"^recipe: expected a record with name and data"):
        Recipe.from_record(record)


def test_the_message_names_the_settings_that_no_recipe_has():
    with pytest.raises(InputError, match=r"got .*'learning_rate'"):
        Recipe.from_record({"name": "a", "data": "b", "learning_rate": 1})


def test_the_message_names_what_a_record_lacks():
    for record, came in (({"name": "a"}, "one without data"), ({}, "one without name and data"), ([], r"\[\]"), (None, "None")):
        with pytest.raises(InputError, match=f"^recipe: expected a record with name and data, got {came}$"):
            Recipe.from_record(record)


def test_differences_name_both_values_and_leave_descriptions_aside():
    one = recipe(lr=0.1, summary="one")
    other = Recipe("yours", "flora", lr=0.2, summary="other", parameters={"k": 3})
    assert one.differences(other) == {"lr": (0.1, 0.2), "k": (5, 3)}
    assert other.differences(one) == {"lr": (0.2, 0.1), "k": (3, 5)}


def test_differences_of_methods_name_what_only_one_has():
    found = recipe().differences(recipe(method="focal"))
    assert found == {"method": ("average-k", "focal"), "k": (5, None), "alpha": (0.3, None), "gamma": (None, 2.0)}


def test_data_that_a_person_gives_are_put_in_place():
    waiting = Recipe("mine", "cifar100:{path}")
    assert waiting.with_path("/data/{path}").data == "cifar100:/data/{path}"
    with pytest.raises(InputError, match="recipe mine: .*got 'x'"):
        recipe().with_path("x")


@pytest.mark.parametrize(("settings", "k"), [
    ({}, 5.0),
    ({"parameters": {"k": 3}, "rule": "top-k:2"}, 3.0),
    ({"method": "bce"}, 5.0),
    ({"method": "cross-entropy", "rule": "top-k:2"}, 2.0),
    ({"method": "cross-entropy", "rule": "average-k:2.5:prior,cap:3"}, 2.5),
    ({"method": "cross-entropy", "rule": "lac:0.1"}, 5.0),
    ({"method": "cross-entropy", "rule": "top-k:x"}, 5.0),
    ({"method": "cross-entropy", "rule": "top-k"}, 5.0),
    ({"method": "cross-entropy", "rule": "average-k:5/2"}, 2.5),
    ({"method": "cross-entropy", "rule": "average-k:inf"}, 5.0),
])  # fmt: skip
def test_k_is_the_methods_or_the_rules_or_five(settings, k):
    assert recipe(**settings).k_for(100) == k


@pytest.mark.parametrize(("classes", "k"), [(2, 1), (3, 1), (4, 2), (5, 2), (9, 4), (10, 5), (11, 5)])
def test_without_a_given_k_it_is_at_most_half_of_the_classes(classes, k):
    assert recipe(method="cross-entropy").k_for(classes) == k


@pytest.mark.parametrize("rule", ["Top-K:3", " top-k:3"])
def test_k_reads_a_rule_as_it_is_read_elsewhere(rule):
    assert recipe(method="cross-entropy", rule=rule).k_for(100) == 3.0
