"""Building a benchmark: superclasses drawn whole, small classes left out, splits by ceilings, every picture opened."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data import (
    Dataset,
    PictureFiles,
    Problem,
    Split,
    build_benchmark,
    choose_classes,
    divide,
    pooled,
)
from shortlist.data.manifest import check_writable
from shortlist.errors import InputError
from tests.references import building as ref


def table(counts, superclasses=None, groups=None, **more):
    """Features that are row numbers, the classes interleaved, so that a row that changed its label would be seen."""
    pairs = sorted((number, label) for label, count in enumerate(counts) for number in range(count))
    target = torch.tensor([label for _, label in pairs], dtype=torch.int64)
    ids = [f"class-{label}/{number}" for number, label in pairs]
    split = Split(torch.arange(len(pairs)).float()[:, None], target, ids, groups)
    return Dataset("table", [f"class-{label}" for label in range(len(counts))], {"all": split}, superclasses, **more)


def named(dataset):
    """The class of every row by the id of the row, in all splits."""
    return {
        identity: dataset.classes[label]
        for split in dataset.splits.values()
        for identity, label in zip(split.ids, split.target.tolist(), strict=True)
    }


def sides(dataset):
    """The rows of each split."""
    return {name: list(split.ids) for name, split in dataset.splits.items()}


# Pooling


def part(rows, groups=True):
    ids = [f"row-{row}" for row in rows]
    return Split(torch.tensor(rows).float()[:, None], torch.tensor(rows) % 2, ids, ids if groups else None)


def test_pooled_rows_stand_in_the_order_of_the_splits():
    data = Dataset("garden", ["oak", "elm"], {"train": part([3, 0]), "test": part([5]), "val": part([2, 4])}, ["a", "b"], "me")
    whole = pooled(data)
    assert list(whole.splits) == ["all"]
    rows = whole.splits["all"]
    assert rows.inputs[:, 0].tolist() == [3, 0, 5, 2, 4]
    assert rows.target.tolist() == [1, 0, 1, 0, 0]
    assert list(rows.ids) == list(rows.groups) == ["row-3", "row-0", "row-5", "row-2", "row-4"]
    assert (whole.name, whole.classes, whole.superclasses, whole.reference) == ("garden", ["oak", "elm"], ["a", "b"], "me")
    assert list(data.splits) == ["train", "test", "val"]


def test_pooled_groups_are_given_up_where_a_split_has_none():
    data = Dataset("garden", ["oak", "elm"], {"train": part([0, 1]), "test": part([2], groups=False)})
    assert pooled(data).splits["all"].groups is None


def test_pooled_columns_are_those_that_every_split_has():
    parts = {
        "train": replace(part([0, 1]), columns={"organ": ["leaf", "bark"], "licence": ["a", "b"]}),
        "test": replace(part([2]), columns={"organ": ["fruit"]}),
    }
    assert pooled(Dataset("garden", ["oak", "elm"], parts)).splits["all"].columns == {"organ": ["leaf", "bark", "fruit"]}


def test_one_split_is_pooled_as_it_is():
    garden = Dataset("garden", ["oak", "elm"], {"train": part([1, 0])})
    assert pooled(garden).splits == {"all": garden.splits["train"]}


def test_picture_files_are_pooled_under_one_folder_only(tmp_path):
    def files(root, *paths):
        return Split(PictureFiles(root, paths), torch.zeros(len(paths), dtype=torch.int64), paths)

    whole = pooled(Dataset("x", ["oak"], {"train": files(tmp_path, "a.png", "b.png"), "test": files(tmp_path, "c.png")}))
    inputs = whole.splits["all"].inputs
    assert [inputs.path(row) for row in range(3)] == [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png"]
    elsewhere = files(tmp_path / "elsewhere", "c.png")
    with pytest.raises(InputError, match="inputs: expected picture files under one folder"):
        pooled(Dataset("x", ["oak"], {"train": files(tmp_path, "a.png"), "test": elsewhere}))


def test_rows_without_labels_are_pooled_and_neither_chosen_nor_divided():
    rows = part([0, 1]).with_target(None)
    whole = pooled(Dataset("garden", [], {"train": rows, "test": rows}))
    assert (len(whole.splits["all"]), whole.splits["all"].target) == (4, None)
    for step in (choose_classes, divide, check_writable):
        with pytest.raises(InputError, match="garden: .*2 rows without labels in all"):
            step(Dataset("garden", ["oak", "elm"], {"all": rows}))
    with pytest.raises(InputError, match="garden: .*2 rows without labels in test"):
        pooled(Dataset("garden", ["oak", "elm"], {"train": part([0, 1]), "test": rows}))


def test_superclasses_and_names_of_features_survive_choosing_and_dividing():
    labels = torch.arange(3).repeat_interleave(10)
    rows = Split(torch.zeros(30, 2), labels, [str(row) for row in range(30)])
    archive = Dataset("garden", ["a", "b", "c"], {"all": rows}, ["x", "y", "x"], "a paper", feature_names=["width", "height"])
    divided = divide(choose_classes(archive, superclasses=0.5, seed=1))
    expected = [archive.superclasses[archive.classes.index(name)] for name in divided.classes]
    assert list(divided.superclasses) == expected
    assert len(set(expected)) == 1
    assert (divided.reference, list(divided.feature_names)) == ("a paper", ["width", "height"])


# Choosing classes


@pytest.mark.parametrize("share", [0.01, 0.1, 0.29, 1 / 3, 0.5, 2 / 3, 0.999])
def test_the_share_of_superclasses_is_rounded_up(share):
    for count in range(1, 31):
        chosen = choose_classes(table([1] * count, [str(n) for n in range(count)]), superclasses=share, fewest=1)
        assert len(chosen.superclass_names) == ref.ceiling(share, count)


@pytest.mark.parametrize(("share", "count", "kept"), [(0.07, 100, 7), (0.55, 100, 55), (0.14, 50, 7), (0.1, 30, 3)])
def test_the_share_is_the_decimal_that_was_typed(share, count, kept):
    """In floating point the first three products are a little above the whole number, and their ceiling one more."""
    chosen = choose_classes(table([1] * count, [str(n) for n in range(count)]), superclasses=share, fewest=1)
    assert len(chosen.classes) == kept


@pytest.mark.parametrize("seed", range(6))
def test_superclasses_are_kept_whole_and_in_the_order_of_the_labels(seed):
    above = ["oak", "elm", "oak", "ash", "elm", "oak", "ash", "fir"]
    data = table([2, 3, 4, 5, 6, 7, 8, 9], above)
    chosen = choose_classes(data, superclasses=0.5, fewest=1, seed=seed)
    drawn = set(chosen.superclasses)
    assert len(drawn) == 2
    assert chosen.classes == [name for name, superclass in zip(data.classes, above, strict=True) if superclass in drawn]
    assert chosen.superclasses == [superclass for superclass in above if superclass in drawn]


def test_every_superclass_is_drawn_by_some_seed():
    """5 superclasses, 60 seeds: one that is never drawn has a probability below 5 · 0.8^60 = 8e-6."""
    data = table([1] * 5, list("abcde"))
    draws = [choose_classes(data, superclasses=0.2, fewest=1, seed=seed).superclasses[0] for seed in range(60)]
    assert set(draws) == set("abcde")
    assert draws == [choose_classes(data, superclasses=0.2, fewest=1, seed=seed).superclasses[0] for seed in range(60)]


def test_the_draw_does_not_depend_on_the_order_of_the_classes():
    one = choose_classes(table([1] * 6, list("abcdef")), superclasses=0.5, fewest=1, seed=4)
    other = choose_classes(table([1] * 6, list("fedcba")), superclasses=0.5, fewest=1, seed=4)
    assert set(one.superclasses) == set(other.superclasses)


def test_classes_with_as_many_rows_as_asked_for_stay_and_those_with_one_less_go():
    chosen = choose_classes(table([4, 5, 6, 0]), fewest=5)
    assert chosen.classes == ["class-1", "class-2"]
    assert [(problem.kind, str(problem)) for problem in chosen.problems] == [
        ("class too small", "class-0: has 4 of at least 5 rows: left out"),
        ("class too small", "class-3: has 0 of at least 5 rows: left out"),
    ]


def test_small_classes_that_were_not_drawn_are_not_noted():
    data = table([1, 9, 1, 9], ["a", "a", "b", "b"])
    for seed in range(4):
        chosen = choose_classes(data, superclasses=0.5, fewest=5, seed=seed)
        (note,) = chosen.problems
        assert note.where == {"a": "class-0", "b": "class-2"}[chosen.superclasses[0]]


def test_rows_are_counted_over_all_splits():
    three, two = (table([count]).splits["all"] for count in (3, 2))
    chosen = choose_classes(Dataset("x", ["class-0"], {"train": three, "test": two}), fewest=5)
    assert len(chosen.splits["all"]) == 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 6))
def test_labels_are_numbered_anew_and_rows_keep_their_class(counts, fewest):
    data = table(counts)
    if max(counts) < fewest:
        with pytest.raises(InputError, match=f"no class that was drawn has {fewest} rows"):
            choose_classes(data, fewest=fewest)
        return
    chosen = choose_classes(data, fewest=fewest)
    rows = chosen.splits["all"]
    kept = [f"class-{label}" for label, count in enumerate(counts) if count >= fewest]
    assert chosen.classes == kept
    assert named(chosen) == {identity: name for identity, name in named(data).items() if name in kept}
    ids = data.splits["all"].ids
    assert [ids[int(row)] for row in rows.inputs[:, 0]] == list(rows.ids)


def test_what_was_known_before_stays_and_the_input_is_not_changed():
    before = Problem("empty class", "ash", "has no row")
    data = table([5, 1], ["a", "b"], [f"tree-{n}" for n in range(6)], reference="Me, 2020", problems=[before])
    rows = replace(data.splits["all"], posterior=torch.full((6, 2), 0.5))
    chosen = choose_classes(data.with_splits({"train": rows}))
    assert chosen.problems[0] is before
    assert len(chosen.problems) == 2
    assert (chosen.name, chosen.superclasses, chosen.reference) == ("table", ["a"], "Me, 2020")
    assert list(chosen.splits["all"].groups) == ["tree-0", "tree-2", "tree-3", "tree-4", "tree-5"]
    assert chosen.splits["all"].posterior is None  # of other classes than these
    assert data.problems == [before]
    assert rows.target.tolist() == [0, 1, 0, 0, 0, 0]


def test_without_superclasses_all_classes_can_be_kept_and_no_share_drawn():
    assert len(choose_classes(table([5, 5])).classes) == 2
    with pytest.raises(InputError, match=r"^table has no superclasses to draw 50% of: .*first-word"):
        choose_classes(table([5, 5]), superclasses=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"superclasses": -0.1}, "superclasses: expected a number from 0 to 1, got -0.1"),
        ({"superclasses": 1.1}, "superclasses: expected a number from 0 to 1, got 1.1"),
        ({"superclasses": float("nan")}, "superclasses: expected a number from 0 to 1, got nan"),
        ({"superclasses": "half"}, "superclasses: expected a number from 0 to 1, got .half"),
        ({"superclasses": True}, "superclasses: expected a number from 0 to 1, got True"),
        ({"superclasses": 0}, "no class that was drawn has 5 rows"),
        ({"fewest": 0}, "fewest: expected a whole number from 1, got 0"),
        ({"fewest": 2.5}, "fewest: expected a whole number from 1, got 2.5"),
        ({"superclasses": 0.5, "seed": -1}, "seed: expected a whole number"),
    ],
)
def test_options_of_the_choice_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        choose_classes(table([5, 5], ["a", "b"]), **options)


def test_data_with_many_labels_a_row_are_refused():
    many = Split(torch.zeros(4, 1), torch.ones(4, 2, dtype=torch.bool), list("abcd"))
    data = Dataset("garden", ["oak", "elm"], {"all": many})
    for build in (choose_classes, build_benchmark):
        with pytest.raises(InputError, match=r"^garden: .*got any number"):
            build(data)


# Dividing


@pytest.mark.parametrize("share", [0.01, 0.05, 0.07, 0.1, 0.25, 0.29, 1 / 3])
def test_every_class_is_divided_by_the_ceiling(share):
    counts = [n for n in range(1, 121) if ref.divided(n, share)[0] >= 1]
    data = table(counts)
    found = divide(data, share=share)
    assert list(found.splits) == ["train", "val", "test"]
    by_split = [split.counts(len(counts)).tolist() for split in found.splits.values()]
    assert [list(each) for each in zip(*by_split, strict=True)] == [ref.divided(n, share) for n in counts]
    assert named(found) == named(data)
    assert Counter(identity for rows in sides(found).values() for identity in rows) == Counter(data.splits["all"].ids)


def test_a_division_comes_from_its_seed():
    data = table([40, 20])
    assert sides(divide(data, seed=3)) == sides(divide(data, seed=3))
    assert len({tuple(sides(divide(data, seed=seed))["test"]) for seed in range(10)}) == 10


def test_a_class_too_small_for_three_splits_is_refused():
    assert [len(split) for split in divide(table([3])).splits.values()] == [1, 1, 1]
    with pytest.raises(InputError, match="expected classes that keep a row for training"):
        divide(table([9, 2]))


@pytest.mark.parametrize("share", [0, 0.5, 1, -0.1, 1.5, float("nan"), "some", None])
@pytest.mark.parametrize("by_group", [False, True])
def test_impossible_shares_are_refused(share, by_group):
    with pytest.raises(InputError, match=r"shares?: expected"):
        divide(table([9], groups=[str(row) for row in range(9)]), share=share, by_group=by_group)


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60), st.integers(0, 5))
def test_a_group_is_never_on_two_sides_and_no_row_is_lost(rows, seed):
    labels, groups = zip(*rows, strict=True)
    ids = [f"row-{row}" for row in range(len(rows))]
    split = Split(torch.zeros(len(rows), 1), torch.tensor(labels), ids, [f"tree-{group}" for group in groups])
    found = divide(Dataset("x", list("abcd"), {"all": split}), by_group=True, seed=seed)
    homes = [set(each.groups) for each in found.splits.values()]
    assert sum(map(len, homes)) == len(set(groups))
    assert sorted(identity for each in sides(found).values() for identity in each) == sorted(ids)
    for each in found.splits.values():
        for identity, label, group in zip(each.ids, each.target.tolist(), each.groups, strict=True):
            assert (label, group) == (labels[int(identity[4:])], f"tree-{groups[int(identity[4:])]}")


def test_groups_of_one_row_are_divided_by_the_shares():
    data = table([100, 50], groups=[f"tree-{row}" for row in range(150)])
    found = divide(data, share=0.1, by_group=True)
    assert [split.counts(2).tolist() for split in found.splits.values()] == [[80, 40], [10, 5], [10, 5]]


def test_a_division_by_groups_needs_groups():
    with pytest.raises(InputError, match=r"^table does not say which rows belong together: give a table with a column"):
        divide(table([9]), by_group=True)


def test_a_division_of_several_splits_is_refused():
    split = table([9]).splits["all"]
    with pytest.raises(InputError):
        divide(Dataset("x", ["oak"], {"train": split, "test": split}))


# Leaving rows out
