"""The docs are complete and say what was measured."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch
from benchmarks import cifar_table, flora_table, loss_table, open_set_table, page
from benchmarks.marked_tables import with_table
from docs import api_tables

import shortlist
from shortlist.losses import supports_linear
from shortlist.methods.menu import all_methods

ROOT = Path(__file__).parent.parent
API = sorted((ROOT / "docs/api").glob("*.md"))


def pages_of_names():
    """The packages whose names some page of the API shows."""
    return [name for path in API for name in api_tables.MARK.findall(path.read_text(encoding="utf-8"))]


def test_every_public_package_has_one_page():
    rooms = {f"shortlist.{name}" for name in shortlist.__all__ if inspect.ismodule(getattr(shortlist, name))}
    assert rooms <= set(api_tables.PACKAGES)
    assert sorted(pages_of_names()) == sorted(api_tables.PACKAGES)


@pytest.mark.parametrize("package", api_tables.PACKAGES)
def test_every_public_name_has_a_summary_and_one_entry(package):
    module = importlib.import_module(package)
    text = api_tables.names_of(package)
    entries = set(re.findall(r"^::: (\S+)$", text, re.M))
    for name in getattr(module, "__all__", api_tables.public_names(package)):
        if name.startswith("_") or inspect.ismodule(getattr(module, name)):
            continue
        (row,) = re.findall(rf"^\| \[`{name}`\]\[(\S+)\] \| (.+) \|$", text, re.M)
        assert len(row[1]) > 10, f"{package}.{name} has no summary"
        assert row[0] in entries or not row[0].startswith(f"{package}.")
        assert row[0].rpartition(".")[0] in api_tables.PACKAGES


def test_a_name_that_two_packages_export_is_documented_once():
    text = "\n".join(map(api_tables.names_of, api_tables.PACKAGES))
    entries = re.findall(r"^::: (\S+)$", text, re.M)
    assert len(entries) == len(set(entries))
    assert "shortlist.Classifier" in entries
    assert "shortlist.models.Classifier" not in entries
    assert {"shortlist.train", "shortlist.Run", "shortlist.evaluate", "shortlist.Predictions"} <= set(entries)


def test_the_overview_of_the_api_names_every_package():
    overview = (ROOT / "docs/api/index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[([\w.]+)\]", overview, re.M) == navigated_packages()


def navigated_packages():
    """The packages in the order of the navigation."""
    files = re.findall(r"api/(\w+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    texts = [(ROOT / "docs/api" / file).read_text(encoding="utf-8") for file in files]
    return [package for text in texts for package in api_tables.MARK.findall(text)]


def test_every_page_is_linked_from_the_landing_page_or_the_overview_of_the_api():
    docs = ROOT / "docs"
    reached = {docs / "index.md"}
    for start in (docs / "index.md", docs / "api/index.md"):
        reached |= {start.parent / link for link in re.findall(r"\]\(([\w/-]+\.md)", start.read_text(encoding="utf-8"))}
    assert set(docs.rglob("*.md")) <= reached


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_links_to_files_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf-8")):
        assert link.startswith("http") or (ROOT / name).parent.joinpath(link).exists(), link


def test_images_are_small():
    images = list((ROOT / "docs/images").glob("*.png"))
    assert {image.name for image in images} == {"answer.png", "report.png", "identify.png", "identify-phone.png"}
    assert all(image.stat().st_size < 150_000 for image in images)


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
    assert open_set_table.placed(text) == text


def test_intervals_over_seeds_are_those_of_student():
    # Three values have two degrees of freedom, whose 97.5 % quantile is 4.3027: 4.3027 * 1 / sqrt(3) = 2.484.
    assert cifar_table.mean_and_half_width([1.0, 2.0, 3.0]) == "2.00 ± 2.48"
    assert cifar_table.mean_and_half_width([-1.0, -1.0], sign=True) == "-1.00 ± 0.00"
    assert cifar_table.mean_and_half_width([93.456], sign=True) == "+93.46"


@pytest.mark.parametrize(
    ("before", "after", "is_listed"),
    [
        (r"Losses that couple the rows of a batch \(", r"\) then couple", lambda loss: loss.couples),
        (r"if head or loss do not allow it: for\s", ", and for `average-k` on", lambda loss: not supports_linear(loss)),
    ],
    ids=["accumulate", "fused head"],
)
def test_the_lists_of_methods_that_couple_a_batch_are_complete(before, after, is_listed):
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    (found,) = re.findall(f"{before}([^:()]*?){after}", text)
    expected = [method.name for method in all_methods() if is_listed(method.loss(torch.full((10,), 5)))]
    assert sorted(re.findall("`(.+?)`", found)) == sorted(expected)


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        assert str(path.relative_to(ROOT / "docs")) in navigation


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
