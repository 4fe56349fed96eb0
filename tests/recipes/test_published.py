"""The published numbers are those of the papers, and name only experiments that can be run."""

import csv
from importlib import resources

import pytest

from shortlist.errors import InputError
from shortlist.methods import all_methods
from shortlist.recipes import Published, all_recipes, find_recipe, published_numbers
from shortlist.recipes.published import CLASSES, PAPERS, REPRINTS
from shortlist.recipes.published_tables import published_tables
from tests.recipes.published import PRINTED, cells

EVERY = published_numbers()
METHODS = {method.name for method in all_methods()}
RECIPES = {recipe.name for recipe in all_recipes()}
# Numbers that the papers give in their text or a figure, not in a table.
IN_TEXT = {
    ("garcin-2022", "Figure 3"): [65, 68, 81, 90, 60],
    ("garcin-thesis", "Figure 3.7"): [20.5, 0.33],
    ("cheng", "section 5.2"): [5.8, 3.0],
}


def fits(number, what):
    return all(getattr(number, name) == value for name, value in what.items())


@pytest.mark.parametrize(("paper", "table"), PRINTED, ids=" ".join)
def test_every_number_is_the_printed_one_and_there_is_no_other(paper, table):
    numbers = published_numbers(paper=paper, table=table)
    expected = list(cells(paper, table))
    for what, value, spread in expected:
        (found,) = [number for number in numbers if fits(number, what)]
        assert (found.value, found.spread) == (value, spread), what
    assert len(numbers) == len(expected)


def test_there_are_no_other_tables():
    assert {(number.paper, number.table) for number in EVERY} == set(PRINTED) | set(IN_TEXT)
    for (paper, table), values in IN_TEXT.items():
        assert [number.value for number in published_numbers(paper=paper, table=table)] == values


def test_headline_numbers():
    """Some of those that the paper on the methods quotes, looked up as a user would."""
    noise = published_numbers(recipe="cifar100-top5", method="noised-topk", metric="top-k")
    assert {n.noise: n.value for n in noise if n.table == "4"} == {0: 94.4, 0.1: 91.9, 0.2: 90.7, 0.3: 89.7, 0.4: 87.8}
    few = [n for n in published_numbers(paper="garcin-2023", method="average-k") if n.group == "few" and n.k == 10]
    assert [n.value for n in few] == [75.75]
    (area,) = [n for n in published_numbers(dataset="cifar60-40", method="quasibinary") if n.metric == "AUROC"]
    assert (area.value, area.unit, area.shown) == (0.913, "share", "0.913")


def test_units():
    for number in EVERY:
        most = {"percent": 100, "share": 1, "seconds": 1000, "count": 10**6}[number.unit]
        assert 0 <= number.value <= most, number
        assert number.spread is None or 0 <= number.spread <= 1


def test_numbers_are_shown_as_printed():
    text = resources.files("shortlist.recipes").joinpath("published.csv").read_text(encoding="utf-8")
    for number, row in zip(EVERY, csv.DictReader(text.splitlines()), strict=True):
        assert number.shown == (f"{row['value']} ± {row['spread']}" if row["spread"] else row["value"])


def test_recipes_and_settings_exist():
    for number in EVERY:
        for name in number.recipes:
            assert name in RECIPES
            assert number.method in METHODS
            changed = find_recipe(name).with_settings(method=number.method, label_noise=number.noise, **number.settings)
            assert changed.method == number.method


def test_every_recipe_that_refers_to_a_table_of_the_five_papers_has_numbers():
    titles = ("smoothing of the top-K", "two-head loss", "Quasibinary classifier", "calibrated multi-label")
    for recipe in all_recipes():
        refers = any(title in recipe.reference for title in titles) and "Table" in recipe.reference
        assert bool(published_numbers(recipe=recipe.name)) >= refers, recipe.name


@pytest.mark.parametrize("recipe", ["flora-minutes", "pictures", "mulan-yeast", "cifar100-resnet18"])
def test_other_recipes_have_none(recipe):
    assert published_numbers(recipe=recipe) == ()
    assert published_tables(recipe) == []


@pytest.mark.parametrize("table", REPRINTS)
def test_reprints_are_found_under_the_thesis(table):
    paper, original = REPRINTS[table]
    found = published_numbers(paper="garcin-thesis", table=table)
    assert [n.value for n in found] == [n.value for n in published_numbers(paper=paper, table=original)]
    assert {n.source for n in found} == {f"Garcin, thesis, Table {table}"}


def test_no_number_is_given_twice():
    whole = [tuple(sorted((k, str(v)) for k, v in number.record().items() if k != "value")) for number in EVERY]
    assert len(set(whole)) == len(EVERY)


def test_all_papers():
    assert {number.dataset for number in EVERY} == set(CLASSES)
    for number in published_numbers(metric="classes"):
        assert number.value == CLASSES[number.dataset]
    assert {number.paper for number in EVERY} == set(PAPERS)
    assert isinstance(EVERY[0], Published)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"paper": "garcin2022"}, r"paper: did you mean 'garcin-2022'\?.*got 'garcin2022'"),
        ({"dataset": "plantnet300k"}, r"dataset: did you mean 'plantnet-300k'\?.*got 'plantnet300k'"),
        ({"paper": "liao", "table": "4"}, r"table: expected one of .*got '4'"),
        ({"metric": "topk"}, r"metric: did you mean 'top-k'\?.*got 'topk'"),
    ],
)
def test_names_that_do_not_exist(filters, message):
    with pytest.raises(InputError, match=message):
        published_numbers(**filters)


def test_tables_of_a_recipe():
    tables = dict(published_tables("plantnet-top3"))
    assert list(tables) == [
        "published: Garcin 2022, Table 5, ResNet-50, in percent",
        "published: Garcin 2022, Table 8, ResNet-50, in percent",
    ]
    (prose,) = dict(published_tables("vispr-spa"))
    assert prose.startswith("published: Cheng, section 5.2, in percent (the network is not named;")
    first, second = tables.values()
    assert first.columns == [
        "method",
        "settings",
        "macro-top-3",
        *(f"macro-top-3, {g}-shot classes" for g in ("few", "medium", "many")),
    ]
    assert first.shown()[-1] == [
        "noised-topk-imbalanced",
        "epsilon=0.01 samples=5 max_margin=0.2",
        "64.9 ± 0.4",
        "44.8",
        "74.5",
        "92.1",
    ]
    assert second.shown()[0] == ["cross-entropy", "", "93.1 ± 0.0"]
