"""The page of the papers' tables and figures: complete, up to date, and its commands exist."""

import importlib.util
import re
import shlex

import pytest
import torch
from docs.papers_table import DATA, ITEMS, PAGE, TITLES, placed

import shortlist
from shortlist.cli.commands import load_command
from shortlist.data import Dataset, PictureArray, Split
from shortlist.data.protocols import protocol_options
from shortlist.data.sources import SOURCES, path_and_options, reader_options
from shortlist.evaluation.selections import validation_names
from shortlist.models.backbones import backbone_inputs
from shortlist.recipes import find_recipe, parse_grid, published_numbers
from shortlist.recipes.grids import trial_recipes
from shortlist.recipes.published import CLASSES, PAPERS
from shortlist.retrieval import Query
from shortlist.runs.job import apply_settings
from shortlist.sets import parse_rule

COMMANDS = sorted({command for item in ITEMS for command in (*item.commands, *item.varied)})
# How many tables and figures each paper has: counted in the papers; supplements as far as they are at hand.
FIGURES = {
    "garcin-2022": [str(n) for n in range(1, 7)],
    "garcin-2023": [str(n) for n in range(1, 5)],
    "garcin-thesis": [
        *(f"1.{n}" for n in range(1, 7)),
        *(f"2.{n}" for n in range(1, 3)),
        *(f"3.{n}" for n in range(1, 10)),
        *(f"4.{n}" for n in range(1, 7)),
        *(f"5.{n}" for n in range(1, 7)),
    ],
    "liao": ["1", "2", "3", "4"],
    "cheng": ["1", "2", "3", "4"],
}
TABLES = {
    "garcin-2022": [str(n) for n in range(1, 10)],
    "garcin-2023": ["1", "2"],
    "garcin-thesis": ["2.1", "3.1", "3.2", "3.3", *(f"4.{n}" for n in range(1, 10)), "5.1", "5.2", "5.3", "5.4"],
    "liao": ["I", "I (supplement)", "II", "III"],
    "cheng": ["1", "2", "3", "4"],
}


def numbers(paper, kind):
    """The tables or figures of a paper that the page lists."""
    listed = [item.number for item in ITEMS if item.paper == paper and item.number.startswith(kind)]
    return [number for text in listed for number in re.sub(f"^{kind}s? ", "", text).split(", ")]


def test_the_page_is_the_one_written_from_the_table():
    text = PAGE.read_text(encoding="utf-8")
    assert placed(text) == text


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_is_listed_once(paper):
    assert sorted(numbers(paper, "Table")) == sorted(TABLES[paper])
    assert sorted(numbers(paper, "Figure")) == sorted(FIGURES[paper])


def test_every_published_table_has_a_row():
    known = {(item.paper, item.number.removeprefix("Table ")) for item in ITEMS}
    for number in published_numbers():
        assert (number.paper, number.table) in known or number.table.startswith("section"), number.table
    assert set(TITLES) == set(PAPERS)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.paper} {item.number}")
def test_commands_come_with_their_data(item):
    assert set(item.data) <= set(DATA)
    assert bool(item.commands) == bool(item.data)
    assert item.commands or not item.missing


@pytest.mark.parametrize(
    "item", [item for item in ITEMS if item.paper != "garcin-thesis"], ids=lambda i: f"{i.paper} {i.number}"
)
def test_the_recipes_of_a_table_are_those_of_its_numbers(item):
    table = item.number.removeprefix("Table ")
    wanted = {name for number in published_numbers(paper=item.paper) if number.table == table for name in number.recipes}
    named = {name for command in item.commands for name in re.findall(r"--recipe (\S+)", command)}
    assert named <= wanted or not wanted


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_parsed(command):
    program, *arguments = shlex.split(command)
    if program == "python":
        option, what, *rest = arguments
        {"-m": _benchmark, "-c": lambda code: compile(code, "command", "exec")}[option](what, *rest)
        return
    assert program == "shortlist"
    name, *rest = arguments
    parsed = load_command(name)
    context = parsed.make_context(name, rest)
    if name in ("data", "index"):
        name = f"{name} {rest[0]}"
        context = parsed.commands[rest[0]].make_context(rest[0], rest[1:])
    CHECKS[name](context.params)


def _settings(given):
    return dict(text.split("=", 1) for text in given or ())


def _chosen(parameters):
    """The recipe with the settings of the command."""
    method = {"method": parameters["method"]} if parameters["method"] else {}
    recipe = apply_settings(find_recipe(parameters["recipe"]), {**_settings(parameters.get("settings")), **method})
    assert recipe.with_path("PATH").data
    assert backbone_inputs(recipe.backbone) == "pictures"
    if recipe.monitor is not None:
        assert recipe.monitor in validation_names(
            recipe.k_for(1000), 1000, single_label=recipe.labels != "any", probabilities=True
        )
    return recipe


def _tuned(parameters):
    recipe = _chosen(parameters)
    grid = parse_grid(parameters["grid"], recipe) if parameters["grid"] else recipe.grid
    assert trial_recipes(recipe, grid)


def _measured(parameters):
    assert parameters.get("scores") or parameters.get("runs")
    for rule in parameters.get("rule") or ():
        parse_rule(rule)


def _predicted(parameters):
    for source in parameters["pictures"]:
        if ":" in source:
            _dataset({"source": source})


def _dataset(parameters):
    name, _, rest = parameters["source"].partition(":")
    assert set(path_and_options(rest)[1]) <= {*reader_options(SOURCES[name]), *protocol_options()}


CHECKS = {
    "train": _chosen,
    "tune": _tuned,
    "recipes": lambda parameters: find_recipe(parameters["name"]),
    "evaluate": _measured,
    "report": _measured,
    "retrieval-eval": _measured,
    "predict": _predicted,
    "search": lambda parameters: Query.parse(parameters["query"], ["fork", "apple", "knife"]),
    "index build": lambda parameters: None,
    "data info": _dataset,
    "data sheet": _dataset,
}


def _benchmark(module, *names):
    assert importlib.util.find_spec(module) is not None
    for name in names if module == "benchmarks" else ():
        assert importlib.util.find_spec(f"benchmarks.{name}") is not None


def pictures(dataset, *, several):
    """Noise in the shape of a published dataset, at most two pictures of a class for training."""
    classes = CLASSES[dataset]
    generator = torch.Generator().manual_seed(0)
    splits = {}
    for name in ("train", "val", "test"):
        images = torch.randint(0, 256, (max(classes, 200), 3, 8, 8), generator=generator, dtype=torch.uint8)
        target = torch.arange(len(images)) % classes
        if several:
            target = torch.nn.functional.one_hot(target, classes).bool()
            target[::4] |= target[::4].roll(1, dims=1)
            if dataset == "cifar60-40":
                target[1::3] = False
        splits[name] = Split(PictureArray(images), target, [f"{name}-{row}" for row in range(len(images))])
    return Dataset(dataset, [f"class {n}" for n in range(classes)], splits, [f"group {n // 5}" for n in range(classes)])


TRAININGS: dict[str, list] = {}  # the items of each command, which the remarks may ask for by another method or recipe
for item in ITEMS:
    for command in (*item.commands, *item.varied):
        if command.startswith("shortlist train"):
            TRAININGS.setdefault(command, []).append(item)
SMALL = {"backbone": "plain-8", "pretrained": False, "size": 8, "epochs": 2, "batch_size": 200}


def small(recipe):
    """The recipe with a small network, small pictures and two epochs; the learning rate falls after the first."""
    return recipe.with_settings(**SMALL, **({"milestones": (1,)} if recipe.schedule == "step" else {}))


@pytest.fixture
def one_thread():
    """Tiny networks: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("command", TRAININGS)
def test_every_training_runs_on_a_fixture_and_is_compared_with_its_table(command, tmp_path, one_thread):
    recipe = _chosen(load_command("train").make_context("train", shlex.split(command)[2:]).params)
    (dataset,) = {number.dataset for number in published_numbers(recipe=recipe.name)}
    several = recipe.chosen_method.labels == "any" and recipe.labels == "as-given"
    data = pictures(dataset, several=several)
    run = shortlist.train(data, recipe=small(recipe), folder=tmp_path, device="cpu")
    if not published_numbers(recipe=recipe.name, method=recipe.method):
        assert run.comparison() is None
        assert all(command in item.varied for item in TRAININGS[command])  # Liao's Table I has BCE on CIFAR alone
        return
    found = {row.source for row in run.comparison().rows}
    for item in TRAININGS[command]:
        if item.number.startswith("Table") and "backbone=" not in command:  # another network is not the one of its row
            assert f"{PAPERS[item.paper]}, {item.number}" in found
    assert "Beside the published numbers" in run.report_path.read_text()
