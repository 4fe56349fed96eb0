"""The docs are complete and say what was measured."""

import importlib
import re
from pathlib import Path

import pytest
from benchmarks import cifar_table, flora_table, loss_table, page
from benchmarks.marked_tables import with_table

ROOT = Path(__file__).parent.parent
PACKAGES = ["shortlist.links", "shortlist.sets", "shortlist.metrics", "shortlist.report", "shortlist.evaluation"]
PACKAGES += [
    "shortlist.data",
    "shortlist.data.votes",
    "shortlist.losses",
    "shortlist.methods",
    "shortlist.models",
    "shortlist.operators",
    "shortlist.recipes",
    "shortlist.retrieval",
    "shortlist.training",
]


def listed():
    return set(re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), re.M))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_the_api_page(package):
    module = importlib.import_module(package)
    ours = {name for name in module.__all__ if not getattr(module, name).__module__.startswith("shortlist.operators")}
    public = {f"{package}.{name}" for name in (module.__all__ if package == "shortlist.operators" else ours)}
    assert public <= listed()


def test_the_api_page_lists_nothing_that_does_not_exist():
    for name in listed():
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_rule_and_modifier_is_in_the_guide():
    from shortlist.sets.text import MODIFIERS, RULES

    guide = (ROOT / "docs/rules.md").read_text()
    for name in [*RULES, *MODIFIERS]:
        assert f"`{name}" in guide or f",{name}" in guide, name


def test_the_benchmark_page_is_the_one_made_from_the_results():
    assert (ROOT / "docs/benchmarks.md").read_text() == page.text()


@pytest.mark.parametrize("table", [loss_table, flora_table], ids=lambda table: table.PAGE)
def test_tables_inside_pages_are_the_ones_made_from_the_results(table):
    text = (ROOT / "docs" / table.PAGE).read_text(encoding="utf-8")
    assert with_table(text, table.text()) == text


def test_the_table_of_cifar_100_is_the_one_made_from_the_results():
    text = (ROOT / "docs" / cifar_table.PAGE).read_text(encoding="utf-8")
    assert cifar_table.placed(text) == text


def test_intervals_over_seeds_are_those_of_student():
    # Three values have two degrees of freedom, whose 97.5 % quantile is 4.3027: 4.3027 * 1 / sqrt(3) = 2.484.
    assert cifar_table.mean_and_half_width([1.0, 2.0, 3.0]) == "2.00 ± 2.48"
    assert cifar_table.mean_and_half_width([-1.0, -1.0], sign=True) == "-1.00 ± 0.00"
    assert cifar_table.mean_and_half_width([93.456], sign=True) == "+93.46"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name in navigation


@pytest.mark.parametrize(
    "name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff", "docs/architecture.md"]
)
def test_what_a_newcomer_looks_for_is_there(name):
    assert (ROOT / name).stat().st_size > 300


def test_the_architecture_page_names_every_room():
    text = (ROOT / "docs/architecture.md").read_text()
    for path in (ROOT / "src/shortlist").iterdir():
        if path.suffix == ".py" and not path.stem.startswith("__"):
            assert path.name in text
        elif path.is_dir() and not path.name.startswith("__"):
            assert f"{path.name}/" in text
