"""Who trains, who chooses, who calibrates, who measures: every row once, or a sentence that says why not."""

import pytest
import torch

from shortlist.data.dataset import Dataset, Split
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.training.recipe import Recipe
from shortlist.training.splits import split_for_training


def recipe(method="average-k", **settings):
    return Recipe("mine", "flora", **{"method": method, "parameters": {"k": 2} if method == "average-k" else {}, **settings})


def split(target, start=0, groups=None, posterior=None):
    """Rows whose only feature is their number, which is their id too."""
    numbers = torch.arange(start, start + len(target))
    return Split(numbers[:, None].float(), target, [str(number) for number in numbers.tolist()], groups, posterior)


def cycled(rows, classes=4):
    return torch.arange(rows) % classes


def dataset(splits, classes=4, **more):
    return Dataset("garden", [f"class {number}" for number in range(classes)], splits, **more)


def whole(rows=200, classes=4, **more):
    return dataset({"all": split(cycled(rows, classes), **more)}, classes)


def three(train=100, val=40, test=60, classes=4, **more):
    parts = {"train": train, "val": val, "test": test}
    starts = {"train": 0, "val": 1000, "test": 2000}
    return dataset({name: split(cycled(rows, classes), starts[name]) for name, rows in parts.items()}, classes, **more)


def many(rows=200, classes=4):
    marks = torch.rand(rows, classes, generator=torch.Generator().manual_seed(0)) < 0.4
    return dataset({"all": split(marks)}, classes)


def ids(chosen):
    return {name: list(part.ids) for name, part in chosen.splits.items()}


@pytest.mark.parametrize("make", [whole, many], ids=["one", "many"])
def test_rows_without_a_split_are_divided_whole_and_without_overlap(make):
    chosen = split_for_training(make(), recipe("bce" if make is many else "average-k"))
    found = ids(chosen)
    assert list(found) == ["train", "val", "calibration", "test"]
    assert sorted(int(row) for rows in found.values() for row in rows) == list(range(200))
    sizes = {name: len(rows) for name, rows in found.items()}
    assert sizes == pytest.approx({"train": 160, "val": 10, "calibration": 10, "test": 20}, abs=2)


def test_shares_hold_in_every_class():
    chosen = split_for_training(whole(400), recipe())
    counts = {name: part.counts(4).tolist() for name, part in chosen.splits.items()}
    assert counts == {"train": [80] * 4, "val": [5] * 4, "calibration": [5] * 4, "test": [10] * 4}
    assert torch.equal(chosen.train_counts, torch.tensor([80] * 4))


def test_every_row_keeps_its_input_target_and_posterior():
    target = torch.randint(4, (300,), generator=torch.Generator().manual_seed(1))
    posterior = torch.rand(300, 4, generator=torch.Generator().manual_seed(2))
    for part in split_for_training(dataset({"all": split(target, posterior=posterior)}), recipe()).splits.values():
        rows = torch.tensor([int(row) for row in part.ids])
        assert torch.equal(part.inputs[:, 0].long(), rows)
        assert torch.equal(part.target, target[rows])
        assert torch.equal(part.posterior, posterior[rows])


def test_splits_that_the_data_have_stay_what_they_are():
    found = ids(split_for_training(three(), recipe()))
    assert found["train"] == [str(number) for number in range(100)]
    assert found["test"] == [str(number) for number in range(2000, 2060)]
    assert sorted(found["val"] + found["calibration"]) == [str(number) for number in range(1000, 1040)]
    assert len(found["val"]) == 20


@pytest.mark.parametrize("missing", ["val", "test"])
def test_a_split_that_is_missing_comes_from_the_training_rows(missing):
    given = three()
    given = given.with_splits({name: part for name, part in given.splits.items() if name != missing})
    chosen = split_for_training(given, recipe(calibration_share=0.0))
    found = ids(chosen)
    assert sorted(map(int, found["train"] + found[missing])) == list(range(100))
    assert len(found[missing]) == pytest.approx(10, abs=2)
    assert f"set aside from the training rows: {len(found[missing])} for {missing} (stratified, seed 0)" in chosen.remarks


def test_splits_of_other_names_are_left_out():
    given = three()
    given = given.with_splits({**given.splits, "extra": split(cycled(30), 5000)})
    chosen = split_for_training(given, recipe())
    assert set(ids(chosen)) == {"train", "val", "calibration", "test"}
    (warning,) = chosen.warnings
    assert warning in chosen.remarks
    assert "split not used 1 (extra: 30 rows" in warning


def test_splits_that_cannot_be_used_are_no_problem():
    given = three()
    more = {"unlabelled": split(cycled(30), 5000).with_target(None), "empty": split(cycled(0), 6000)}
    assert split_for_training(given.with_splits({**given.splits, **more}), recipe()).warnings == []


@pytest.mark.parametrize(("share", "kept"), [(0.0, None), (0.25, 30), (0.5, 20), (0.9, 4)])
def test_the_rule_has_rows_of_its_own_unless_it_has_none(share, kept):
    found = ids(split_for_training(three(), recipe(calibration_share=share)))
    if kept is None:
        assert list(found) == ["train", "val", "test"]
        assert len(found["val"]) == 40
    else:
        assert len(found["val"]) == kept
        assert len(found["calibration"]) == 40 - kept


def test_two_validation_rows_are_one_each():
    found = ids(split_for_training(three(val=2), recipe()))
    assert (len(found["val"]), len(found["calibration"])) == (1, 1)


def test_shares_hold_for_classes_of_one_row_too():
    given = three(train=80, val=20, test=20, classes=20)
    found = ids(split_for_training(given, recipe(calibration_share=0.3)))
    assert (len(found["val"]), len(found["calibration"])) == (14, 6)
    assert sorted(found["val"] + found["calibration"]) == list(given.splits["val"].ids)
    assert ids(split_for_training(given, recipe(calibration_share=0.3))) == found
    assert ids(split_for_training(given, recipe(calibration_share=0.3, seed=1)))["calibration"] != found["calibration"]


def test_groups_of_classes_of_one_row_stay_whole():
    given = three(train=80, test=20, classes=20)
    val = split(torch.arange(20), 1000, groups=[f"plant {number // 2}" for number in range(20)])
    chosen = split_for_training(given.with_splits({**given.splits, "val": val}), recipe(calibration_share=0.3))
    parts = [set(chosen.splits[name].groups) for name in ("val", "calibration")]
    assert (len(parts[0]), len(parts[1]), len(parts[0] & parts[1])) == (7, 3, 0)


def test_the_division_is_the_same_every_time_and_another_for_another_seed():
    first = ids(split_for_training(whole(), recipe()))
    assert ids(split_for_training(whole(), recipe(lr=0.5))) == first
    other = ids(split_for_training(whole(), recipe(seed=1)))
    assert all(other[name] != first[name] for name in first)
    fixed = [ids(split_for_training(three(), recipe(seed=seed)))["calibration"] for seed in (0, 0, 1)]
    assert fixed[0] == fixed[1] != fixed[2]


def test_the_largest_seed_of_a_recipe_divides():
    split_for_training(whole(), recipe(seed=2**63 - 1))


def test_groups_stay_on_one_side():
    groups = [f"plant {number // 5}" for number in range(300)]
    chosen = split_for_training(whole(300, groups=groups), recipe())
    places = {}
    for name, part in chosen.splits.items():
        for group in part.groups:
            places.setdefault(group, set()).add(name)
    assert len(places) == 60
    assert all(len(found) == 1 for found in places.values())


def test_one_label_read_as_many_becomes_a_mark_a_row():
    chosen = split_for_training(three(), recipe("bce", labels="any"))
    assert not chosen.single_label
    for name, part in chosen.splits.items():
        assert part.target.dtype == torch.bool
        numbers = torch.tensor([int(row) for row in part.ids])
        assert torch.equal(part.target, torch.eye(4, dtype=torch.bool)[numbers % 1000 % 4]), name
    assert chosen.train_counts.tolist() == [25] * 4


def test_one_label_stays_one_label():
    assert split_for_training(three(), recipe()).single_label
    assert not split_for_training(many(), recipe("bce")).single_label


def test_label_noise_changes_training_labels_within_their_superclass():
    given = three(train=2000, superclasses=["a", "a", "b", "b"])
    chosen = split_for_training(given, recipe(label_noise=0.5))
    noisy, clean = chosen.splits["train"].target, given.splits["train"].target
    changed = noisy != clean
    assert 0.2 < changed.double().mean() < 0.3  # a quarter: half are drawn again, half of those change; ± 5 deviations
    assert torch.equal(noisy // 2, clean // 2)
    for name in ("val", "calibration", "test"):
        numbers = torch.tensor([int(row) for row in chosen.splits[name].ids])
        assert torch.equal(chosen.splits[name].target, numbers % 1000 % 4)
    assert torch.equal(split_for_training(given, recipe(label_noise=0.5)).splits["train"].target, noisy)
    assert not torch.equal(split_for_training(given, recipe(label_noise=0.5, seed=1)).splits["train"].target, noisy)
    assert torch.equal(given.splits["train"].target, cycled(2000))


def lacking(label, name):
    """All splits, one of them without a class."""
    given = three()
    part = given.splits[name]
    return given.with_splits({**given.splits, name: part.rows(part.target != label)})


def test_classes_without_training_rows_are_named():
    (remark,) = split_for_training(lacking(3, "train"), recipe()).remarks
    assert remark == "1 class (class 3) has no training row, so the classifier cannot learn it"


def test_classes_without_test_rows_are_named():
    (remark,) = split_for_training(lacking(2, "test"), recipe()).remarks
    assert remark.startswith("1 class (class 2) has no row in some of val, calibration and test")


def test_many_absent_classes_are_counted():
    given = three(train=200, classes=20)
    part = given.splits["test"]
    given = given.with_splits({**given.splits, "test": part.rows(part.target < 13)})
    (remark,) = split_for_training(given, recipe()).remarks
    assert remark.startswith("7 classes (class 13, class 14, class 15, class 16, class 17 and 2 more) have no row in some")


def test_there_is_nothing_to_remark_on_whole_data():
    assert split_for_training(three(), recipe()).remarks == []


def test_small_classes_that_miss_a_split_are_remarked_on_and_warn_nobody():
    target = torch.cat([cycled(100, 3), torch.tensor([3])])
    remarks = split_for_training(dataset({"all": split(target)}), recipe()).remarks
    assert any("class 3" in remark and "have no row in some split" in remark for remark in remarks)


NOTHING = torch.zeros(0, dtype=torch.int64)
REFUSED = {
    "one class": (whole(classes=1), {}, "garden: expected at least two classes, got 1 (class 0)"),
    "no splits": (dataset({}), {}, "garden: expected rows to train on, got none"),
    "no rows": (
        dataset({"train": split(NOTHING), "val": split(NOTHING)}),
        {},
        "expected rows to train on, got none",
    ),
    "no training rows": (three(train=0), {}, "garden: expected rows in the split train, got none"),
    "no test rows": (three(test=0), {}, "garden: expected rows in the split test, got none"),
    "no train": (
        dataset({"val": split(cycled(9)), "test": split(cycled(9))}),
        {},
        "expected a split called train, got val, test",
    ),
    "val of one row": (three(val=1), {}, "garden: expected at least two validation rows, one of them to calibrate on, got 1"),
    "val of no row": (three(val=0), {"calibration_share": 0.0}, "garden: expected rows in the split val, got none"),
    "two rows": (whole(2), {}, "garden: expected at least two validation rows"),
    "one group": (
        whole(60, groups=["a"] * 60),
        {},
        "got none for val and test: rows of one group or one picture file stay together, and there are 60 rows in 1 group:",
    ),
    "two groups": (
        whole(60, groups=["a"] * 40 + ["b"] * 20),
        {"calibration_share": 0.0},
        "got none for val and test: rows of one group or one picture file stay together, and there are 60 rows in 2 groups:",
    ),
    "val of one group": (
        dataset({**three().splits, "val": split(cycled(40), 1000, groups=["a"] * 40)}),
        {},
        "got none for calibration: rows of one group or one picture file stay together, and there are 40 rows in 1 group:",
    ),
    "k of all classes": (
        three(),
        {"parameters": {"k": 5}},
        "k: expected a number from 1 to 3 for the 4 classes of garden, got 5 (the default of average-k)",
    ),
    "average-k of all": (
        three(),
        {"parameters": {"k": 4}},
        "k: expected a number from 1 to 3 for the 4 classes of garden, got 4",
    ),
    "top-k of all": (
        three(),
        {"method": "noised-topk", "parameters": {"k": 4}},
        "k: expected a number from 1 to 3 for the 4 classes of garden, got 4",
    ),
    "one for many": (
        many(),
        {},
        "method average-k is for exactly one label per row, but rows of garden may have any number: use spa",
    ),
    "one read as many": (three(), {"labels": "any"}, "method average-k is for exactly one label per row"),
    "many for one": (
        three(),
        {"method": "bce", "parameters": {}},
        "method bce is for any number of labels per row, but every row of garden has exactly one: use average-k",
    ),
    "margins": (
        lacking(3, "train"),
        {"method": "ldam", "parameters": {}},
        "method ldam derives its margins from class counts, but 1 class (class 3) has no training row",
    ),
    "noise": (three(), {"label_noise": 0.1}, "label_noise: expected data with superclasses, but garden has none"),
    "one trained class": (
        dataset({"train": split(torch.zeros(9).long()), "val": split(cycled(9)), "test": split(cycled(9))}),
        {},
        "garden: expected training rows of at least two classes, got 1",
    ),
    "rule of too many": (
        three(),
        {"method": "cross-entropy", "parameters": {}, "rule": "top-k:5"},
        "rule top-k:5: expected at most the number of classes, 4, got 5",
    ),
    "floor of too many": (three(), {"rule": "lac:0.1,floor:5"}, "floor: expected at most the number of classes, 4, got 5"),
    "no rule": (three(), {"rule": "tpo-k:3"}, "did you mean 'top-k'?"),
    "noise of many": (
        many(),
        {"method": "bce", "parameters": {}, "label_noise": 0.1},
        "label_noise: expected data with superclasses",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused_before_anything_is_spent(case):
    given, settings, message = REFUSED[case]
    with pytest.raises(InputError) as error:
        split_for_training(given, recipe(**settings))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("method", "k"), [("average-k", 3), ("average-k", 3.5), ("noised-topk", 3), ("cross-entropy", None)])
def test_the_largest_k_is_taken(method, k):
    split_for_training(three(), recipe(method, parameters={} if k is None else {"k": k}))


def test_margins_need_no_calibration_rows_of_a_class():
    split_for_training(lacking(3, "test"), recipe("ldam"))


@pytest.mark.parametrize("rule", ["top-k:50", "average-k:50"])
def test_a_rule_of_more_labels_than_classes_is_refused_beside_any_method(rule):
    with pytest.raises(InputError, match=rf"^rule {rule}: expected at most the number of classes, 4, got 50$"):
        split_for_training(three(), recipe("average-k", rule=rule))


def test_a_rule_in_capitals_of_more_labels_than_classes_is_refused():
    with pytest.raises(InputError, match=r"^rule top-k:50: expected at most the number of classes, 4, got 50$"):
        split_for_training(three(), recipe("cross-entropy", rule="TOP-K:50"))


def test_a_rule_on_probabilities_is_refused_where_there_will_be_none():
    with pytest.raises(InputError, match=r"^rule threshold:0.5 needs probabilities, .* or a rule .* such as top-k:2$"):
        split_for_training(three(), recipe("topk-hinge", parameters={"k": 2}, calibration="none", rule="threshold:0.5"))
    with pytest.raises(InputError, match=r"^rule aps:0.1 needs probabilities"):
        split_for_training(three(), recipe("cross-entropy", link="none", calibration="none", rule="aps:0.1"))
    with pytest.raises(InputError, match=r"^rule threshold:0.5 needs probabilities"):  # the usual one
        split_for_training(many(), recipe("two-way", calibration="none"))


@pytest.mark.parametrize("calibration", ["vector-scaling", "dirichlet"])
def test_calibrations_for_one_label_a_row_are_refused_where_rows_have_several(calibration):
    with pytest.raises(InputError, match=rf"^calibration: .*got {calibration}, .*calibration=platt"):
        split_for_training(many(), recipe("bce", calibration=calibration))
    split_for_training(three(), recipe("cross-entropy", calibration=calibration))
    split_for_training(many(), recipe("bce", calibration="cross-validated"))


@pytest.mark.parametrize(("method", "settings"), [
    ("topk-hinge", {"parameters": {"k": 2}, "calibration": "none"}),
    ("topk-hinge", {"parameters": {"k": 2}, "rule": "lac:0.1"}),
    ("cross-entropy", {"link": "none", "rule": "aps:0.1"}),
    ("cross-entropy", {"link": "none", "rule": "lac:0.1", "calibration": "none"}),
    ("cross-entropy", {"link": "none", "calibration": "none"}),
    ("average-k", {"calibration": "none", "rule": "lac:0.1"}),
    ("focal", {"calibration": "none", "rule": "aps:0.1:random"}),
    ("ldam", {"calibration": "none", "rule": "lac:0.1,interpolated:0.5"}),
    ("cross-entropy", {"rule": "average-k:0.01"}),
    ("cross-entropy", {"rule": "average-k:4:prior"}),
    ("cross-entropy", {"rule": "Per-Label:f1"}),
])  # fmt: skip
def test_rules_that_will_do_are_taken(method, settings):
    split_for_training(three(), recipe(method, **settings))


@pytest.mark.parametrize("rule", ["risk-control:recall:0.1", "lac:0.1,classwise", "per-label:precision:0.9", "top-k:4,floor:2"])
def test_rules_for_many_labels_are_taken(rule):
    split_for_training(many(), recipe("bce", rule=rule))


def test_a_rule_for_other_labels_is_refused_before_training():
    with pytest.raises(InputError, match=r"^rule lac:0.1: .*one label a row, got many labels: use risk-control"):
        split_for_training(many(), recipe("bce", rule="lac:0.1"))
    with pytest.raises(InputError, match=r"^rule .*interpolated: expected lac"):
        split_for_training(three(), recipe(rule="aps:0.1,interpolated:0.5"))


def test_a_prior_needs_training_rows_of_every_class():
    split_for_training(three(), recipe(rule="pas:0.1"))
    with pytest.raises(InputError, match=r"^rule pas:0.1: prior: expected numbers above 0 .* got 0 for class 3"):
        split_for_training(lacking(3, "train"), recipe(rule="pas:0.1"))


@pytest.mark.parametrize(("milestones", "epochs"), [((5,), 5), ((150, 225), 2)])
def test_a_step_schedule_has_a_step_within_the_epochs(milestones, epochs):
    with pytest.raises(InputError, match=f"^milestones: .* {epochs} epochs, got {milestones[0]}"):
        split_for_training(three(), recipe(schedule="step", milestones=milestones, epochs=epochs))
    split_for_training(three(), recipe(schedule="step", milestones=milestones, epochs=milestones[0] + 1))
    split_for_training(three(), recipe(schedule="cosine", milestones=milestones, epochs=epochs))


def test_noise_on_many_labels_is_refused_by_its_name():
    given = many()
    given = dataset(given.splits, superclasses=["a", "a", "b", "b"])
    with pytest.raises(InputError, match=r"^label_noise: .*one label per row, but rows of garden may have any"):
        split_for_training(given, recipe("bce", label_noise=0.1))


def test_noise_on_one_label_read_as_many_moves_the_label():
    given = three(train=2000, superclasses=["a", "a", "b", "b"])
    noisy = split_for_training(given, recipe("bce", labels="any", label_noise=0.5)).splits["train"].target
    assert torch.equal(noisy, torch.eye(4).bool()[split_for_training(given, recipe(label_noise=0.5)).splits["train"].target])


def test_several_classes_without_training_rows_are_told_as_several():
    labels = cycled(40)
    given = dataset({"train": split(labels % 2), "val": split(labels, 100), "test": split(labels, 200)})
    assert split_for_training(given, recipe()).remarks == [
        "2 classes (class 2, class 3) have no training row, so the classifier cannot learn them"
    ]


def test_one_class_without_rows_to_measure_on_is_told_as_one():
    given = dataset({"train": split(cycled(40)), "val": split(cycled(40), 100), "test": split(cycled(30, 3), 200)})
    (remark,) = split_for_training(given, recipe()).remarks
    assert remark.startswith("1 class (")
    assert remark.endswith("has no row in some of val, calibration and test, so its metrics are unknown there")


def test_a_k_that_nobody_gave_is_called_what_it_is():
    with pytest.raises(InputError, match=r"^k: .*from 1 to 3 .* got 5 \(the default of average-k\): .* such as 2$"):
        split_for_training(three(), recipe(parameters={}))
    with pytest.raises(InputError, match=r"from 1 to 3 .* got 7"):
        split_for_training(three(), recipe(parameters={"k": 7}))


def test_rows_without_labels_are_refused_where_they_would_be_used():
    parts = dict(three().splits)
    for name in parts:
        with pytest.raises(InputError, match=f"garden: .*rows without labels in {name}"):
            split_for_training(dataset(parts | {name: parts[name].with_target(None)}), recipe())
    split_for_training(dataset(parts | {"new": parts["test"].with_target(None)}), recipe())  # not used in training


def test_problems_of_the_data_are_counted_and_the_first_are_named():
    problems = [Problem("row without a label", str(row), "has no label: left out") for row in range(60)]
    problems += [
        Problem("names alike", "A", "differs from 'a' by case or spaces only"),
        Problem("empty class", "b", "has no row"),
    ]
    chosen = split_for_training(three(problems=problems), recipe())
    (warning,) = chosen.warnings
    assert warning in chosen.remarks
    assert "garden: 61 problems: row without a label 60, names alike 1" in warning
    assert all(part in warning for part in ("0: has no label", "2: has no label", "57 more", "A: differs from 'a'"))
    assert "3: has no label" not in warning
    assert "empty class" not in warning  # classes without rows have a remark of their own


def test_data_without_problems_have_no_warning():
    assert split_for_training(three(), recipe()).warnings == []
