"""Every command of docs/papers.md runs on small data and gives what the page says; trainings are in test_papers.py."""

import hashlib
import json
import re
import shlex
import tarfile
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from benchmarks import epoch_time, gradient_sparsity, harness, loss_levels
from docs.papers_table import DATA, ITEMS, PAGE
from PIL import Image

from shortlist import Predictions, Run
from shortlist.data.downloads import DOWNLOADS, Archive
from shortlist.recipes import find_recipe
from tests.paper_workspace import FRUIT, PLANTS, Workspace, people, recipe_and_method

COMMANDS = list(
    dict.fromkeys(
        command for item in ITEMS for command in (*item.commands, *item.varied) if not command.startswith("shortlist train")
    )
)
QUICK = ("recipes", "data info", "data sheet", "python -c")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "RESULTS", folder / "results")
        patch.setattr(loss_levels, "FOLDER", folder / "gallery")
        patch.setattr(loss_levels, "RESOLUTION", 4)
        patch.setattr(loss_levels, "REPLICATIONS", 2)
        for name, value in {"BACKBONE": "plain-8", "BATCH": 2, "STEPS": 1, "ROUNDS": 2}.items():
            patch.setattr(epoch_time, name, value)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # tiny networks: more threads only wait for each other
        yield Workspace(folder, patch)
        torch.set_num_threads(threads)


def slow(command):
    """Commands that train a network first, or draw many plots."""
    return not any(f"shortlist {part}" in command or command.startswith(part) for part in QUICK)


MARKED = [pytest.param(command, id=command, marks=[pytest.mark.slow] if slow(command) else []) for command in COMMANDS]


@pytest.mark.parametrize("command", MARKED)
def test_every_command_gives_what_the_page_says(workspace, command):
    for needed in NEEDED.get(command, ()):
        assert workspace.outcome(needed).code == 0
    if "--human sets.csv" in command:
        (workspace.folder / "sets.csv").write_text(people(Predictions.load(workspace.folder / "mini.safetensors")))
    outcome = workspace.outcome(command)
    assert outcome.code == 0, outcome.err
    CHECKS[_kind(command)](workspace, shlex.split(command), outcome)


def _kind(command):
    """The start of the command that says how its outcome is checked."""
    return max((kind for kind in CHECKS if command.startswith(kind)), key=len)


def _of(command):
    return next(one for one in COMMANDS if one.startswith(command))


NEEDED = {
    _of("shortlist report mini.safetensors"): [_of("shortlist predict runs/plantnet-cross-entropy")],
    _of("shortlist search"): [_of("shortlist index build")],
    _of("shortlist report runs/tune-plantnet-cross-entropy"): ["shortlist tune PATH --recipe plantnet-cross-entropy"],
}


def test_runs_are_named_after_a_recipe_and_a_method():
    names = {name for command in COMMANDS for name in re.findall(r"(?<!--out )\bruns/([\w-]+)(?:\s|$)", command)}
    assert "coco-spa-asy" in names
    for name in names:
        assert recipe_and_method(name)


# What each command has to leave behind


def _tuned(workspace, arguments, outcome):
    options = dict(pairwise(arguments))
    recipe = options["--recipe"]
    folder = workspace.folder / options.get("--out", f"runs/tune-{recipe}")
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    if "--grid" in options:
        name, values = options["--grid"].split("=")
        expected = [float(value) for value in values.split(",")]
    else:
        name, expected = "backbone", list(find_recipe(recipe).grid["backbone"])
    assert [trial["values"][name] for trial in trials] == expected
    assert not any(trial["failed"] for trial in trials)
    assert all(0 <= trial["value"] <= 1 for trial in trials)
    assert re.search(rf"best on validation: {name} ", outcome.err)
    assert Run(folder / trials[0]["folder"]).recipe.method == options.get("--method", find_recipe(recipe).method)


def _four_rules(workspace, arguments, outcome):
    (sizes,) = re.findall(r"^mean size +([\d. ]+)$", outcome.out, re.M)
    top, average, mass, lac = map(float, sizes.split())
    assert top == 5
    assert all(0 < size <= len(PLANTS) for size in (average, mass, lac))


def _shots(workspace, arguments, outcome):
    groups = re.findall(r"^([\d+-]+) +(\d+) +\d+ +(\d+) ", outcome.out, re.M)
    assert groups == [
        ("0-10", "9", "63"),
        ("11-50", "1", "7"),
        ("51-500", "0", "0"),
        ("501-2000", "0", "0"),
        ("2001+", "0", "0"),
    ]
    assert "macro top-1" in outcome.out


SETTINGS = {  # thesis, Tables 3.3, 5.3 and 5.4
    "plantnet-cross-entropy": {
        "lr": "0.01",
        "epochs": "30",
        "batch_size": "32",
        "weight_decay": "0.0001",
        "milestones": "(20, 25)",
    },
    "plantnet-cross-entropy-small": {"lr": "0.001", "epochs": "30", "milestones": "(20, 25)"},
    "plantnet-cross-entropy-efficientnet": {"lr": "0.01", "epochs": "20", "milestones": "(10, 15)"},
    "plantnet-cross-entropy-transformer": {"lr": "0.0005", "epochs": "20", "milestones": "(15,)"},
    "cifar100-average5": {"alpha": "0.3"},
    "plantnet-average5": {"alpha": "5.0"},
}


def _settings(workspace, arguments, outcome):
    shown = dict(line.split(None, 1) for line in outcome.out.splitlines() if len(line.split(None, 1)) == 2)
    for name, value in SETTINGS[arguments[2]].items():
        assert shown[name].strip() == value


def _sheet(workspace, arguments, outcome):
    options = dict(pairwise(arguments))
    species = [name for name in PLANTS if name.split()[0] in arguments]
    with Image.open(workspace.folder / options.get("--out", "sheet.png")) as image:
        height, colours = image.height, image.convert("RGB").getcolors(2**24)
    assert 96 * len(species) <= height < 96 * len(PLANTS)
    assert len(colours) > 1000  # of noise, not only of paper


ROWS = {"coco": (36, 27), "voc": (3, 1), "wider-attribute": (3, 1), "vispr": (3, 1)}


def _sizes(workspace, arguments, outcome):
    counts = dict(re.findall(r"^(train|test) +(\d+) ", outcome.out, re.M))
    assert (int(counts["train"]), int(counts["test"])) == ROWS[arguments[3].partition(":")[0]]
    assert "labels a row" in outcome.out


def _page(*expected):
    def check(workspace, arguments, outcome):
        options = dict(pairwise(arguments))
        text = (workspace.folder / options["--out"]).read_text(encoding="utf-8")
        for part in expected:
            assert part in text
        for argument in arguments:
            if argument.startswith("runs/") and "*" not in argument:
                assert f">{argument.removeprefix('runs/')}<" in text
        assert text.count("<svg") >= 5

    return check


def _mini(workspace, arguments, outcome):
    found = Predictions.load(workspace.folder / "mini.safetensors")
    genera = {found.class_names[label].split()[0] for label in found.target.tolist()}
    assert (len(found), genera) == (20, {"Crotalaria", "Lupinus"})  # five of each of four species


def _four_labels(workspace, arguments, outcome):
    rows = re.findall(r"^pictures/\w\.jpg +(.*)$", outcome.out, re.M)
    assert len(rows) == 3
    for row in rows:
        labels = re.findall(r"(\w+) (0\.\d+)", row)
        assert len(labels) == 4
        assert {name for name, _ in labels} < set(FRUIT)
        assert sorted((float(value) for _, value in labels), reverse=True) == [float(value) for _, value in labels]


def _index(workspace, arguments, outcome):
    assert "27 rows, 6 labels" in outcome.err


def _found(workspace, arguments, outcome):
    head, *rows = outcome.out.splitlines()
    assert re.split(r"\s{2,}", head.strip()) == ["row", "probability", "fork", "apple", "not knife"]
    shares = [[float(value) / 100 for value in re.findall(r"([\d.]+)%", row)] for row in rows if row.strip()]
    assert len(shares) == 20
    assert shares == sorted(shares, key=lambda row: -row[0])
    for probability, fork, apple, no_knife in shares:
        assert probability == pytest.approx(fork * apple * no_knife, rel=0.05)


def _drawing(path):
    assert ElementTree.parse(path).getroot().tag.endswith("svg")


def _lengths(workspace, arguments, outcome):
    rows = re.findall(r"^(coco-spa\S*)((?: +\d+\.\d+%(?: ± [\d.]+%)?)+) *$", outcome.out, re.M)
    assert [name for name, _ in rows] == ["coco-spa-bce", "coco-spa-asy", "coco-spa"]
    assert "mAP, length 5" in outcome.out
    assert "not comparable" not in outcome.err
    _drawing(workspace.folder / "lengths.svg")


def _levels(workspace, arguments, outcome):
    for number in (1, 4, 5, 6):
        path = workspace.folder / "gallery" / f"levels-figure-{number}.png"
        assert path.name in outcome.out
        with Image.open(path) as image:
            assert image.width > 1000


def _results(workspace, name):
    return [json.loads(line) for line in (workspace.folder / "results" / f"{name}.jsonl").read_text().splitlines()]


def _sparsity(workspace, arguments, outcome):
    nonzero = {line["setting"]: line["nonzero"] for line in _results(workspace, "gradient-sparsity")}
    assert list(nonzero) == list(gradient_sparsity.losses())
    assert nonzero["cross-entropy"] == 10  # every class
    assert nonzero["noised top-5, ε = 0, B = 3"] <= 3


def _times(workspace, arguments, outcome):
    lines = _results(workspace, "epoch-time")
    assert [line["setting"] for line in lines] == [f"k = {k}" for k in (1, 2, 5, 10, 20)]
    for line in lines:
        assert list(line["contenders"]) == list(epoch_time.losses(1))
        assert all(numbers["median_ms"] > 0 for numbers in line["contenders"].values())


CHECKS = {
    "shortlist tune": _tuned,
    "shortlist evaluate runs/plantnet-average5 ": _four_rules,
    "shortlist evaluate runs/plantnet-cross-entropy ": _shots,
    "shortlist recipes": _settings,
    "shortlist data info": _sizes,
    "shortlist data sheet": _sheet,
    "shortlist report runs/plantnet-average5 runs": _page("<h3>Set sizes<"),  # by shot group only where rows are in several
    "shortlist report runs/plantnet-average5 --out": _page("<h3>Long tail<"),
    "shortlist report runs/tune": _page("<h3>Macro against micro average<", ">trial-000<", ">trial-016<", ">macro coverage<"),
    "shortlist report mini": _page("average-k:4.1", ">Ann<", ">4.10", "<h3>Coverage against set size<"),
    "shortlist report runs/coco-quasibinary": _page("<h3>Reliability of the top n<", "ECE top 4", "10 bins of equal width"),
    "shortlist report runs/coco-spa": _page("<h3>Reliability of all labels<"),
    "shortlist predict runs/plantnet-cross-entropy": _mini,
    "shortlist predict runs/coco-quasibinary pictures": _four_labels,
    "shortlist index build": _index,
    "shortlist search": _found,
    "shortlist retrieval-eval": _lengths,
    "python -m benchmarks loss_levels": _levels,
    "python -m benchmarks epoch_time": _times,
    "python -m benchmarks.gradient_sparsity": _sparsity,
    "python -c": lambda workspace, arguments, outcome: _drawing(workspace.folder / "spa.svg"),
}


# The code below the tables, and the download


@pytest.mark.slow
def test_the_code_that_sets_models_against_each_other_draws_its_figures(workspace):
    (code,) = re.findall(r"```python\n(from pathlib.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for command in COMMANDS:
        if command.startswith("shortlist tune PATH --recipe plantnet-cross-entropy"):
            assert workspace.outcome(command).code == 0
    outcome = workspace.execute(
        code.replace('"PATH"', repr(workspace.data("imagenet"))).replace("imagenet(fit", "imagenet(16, fit")
    )
    assert outcome.code == 0
    for name in ("3.6", "3.8a", "3.8b", "3.9"):
        _drawing(workspace.folder / f"figure-{name}.svg")


def test_data_are_downloaded_by_the_command_of_the_page(workspace, monkeypatch):
    _, *arguments = shlex.split(re.findall(r"`(shortlist data download [^`]+)`", DATA["CIFAR"][1])[0])
    source = workspace.folder / "cifar-100-binary.tar.gz"
    with tarfile.open(source, "w:gz") as file:
        file.add(workspace.data("cifar100"), arcname=".")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    monkeypatch.setitem(DOWNLOADS, "cifar100", (Archive(source.as_uri(), source.stat().st_size, digest, "cifar-100-binary"),))
    assert workspace.program(*arguments).code == 0
    assert "cifar10" in DOWNLOADS
    assert "10 classes in 2 superclasses" in workspace.program("data", "info", "cifar100:PATH").err
