"""``shortlist train``, ``tune`` and ``recipes``: from pictures or a table to a classifier that answers with sets."""

import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli import options
from shortlist.cli.console import Bar, Outcome, emit, say, show, warn
from shortlist.cli.networks import networks_by_option
from shortlist.cli.runs import REPORT, Run
from shortlist.errors import InputError
from shortlist.evaluation import measure
from shortlist.report import Table, headline, write_report
from shortlist.report.optimum import Optimum
from shortlist.training.recipe import PATH, Recipe
from shortlist.training.settings import parse_value

if TYPE_CHECKING:
    from shortlist.data import Dataset

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA]",
        help="A folder of class folders, a table, or NAME:PATH (see shortlist data info); for a recipe, the path it needs.",
    ),
]
PICTURES_ONLY = ("flora", "cifar10", "cifar100")  # known without opening them, which for these takes a while
RecipeName = Annotated[str | None, typer.Option("--recipe", metavar="NAME", help="One of shortlist recipes.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Change a setting of the recipe or of its method; several times."),
]
DeviceName = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]


def train(
    data: Source = None,
    recipe: RecipeName = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="How to train; average-k unless the recipe says.")
    ] = None,
    k: Annotated[float | None, typer.Option("-k", help="Labels in a set: exactly or on average, as the method has it.")] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", "-r", help="The set rule, such as lac:0.1; else the method's own.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", "-e", help="How many.")] = None,
    backbone: Annotated[str | None, typer.Option("--backbone", "-b", help="resnet-18, densenet-40-40, timm:NAME, …")] = None,
    network: options.NetworkPath = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of everything random.")] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the run; runs/NAME unless given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: DeviceName = "auto",
    compiled: Annotated[bool | None, typer.Option("--compile/--no-compile", help="Compile the network.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard/--no-tensorboard", help="Write curves where installed.")] = True,
) -> None:
    """Train a classifier that answers with sets, calibrate it, measure it and write a report, all into one folder."""
    given = {"method": method, "k": k, "rule": rule, "epochs": epochs, "backbone": backbone, "seed": seed, "compile": compiled}
    chosen, dataset = resolve(
        data, recipe, {name: value for name, value in given.items() if value is not None}, settings or [], out, resume
    )
    folder = out or Path("runs") / chosen.name
    if network is not None and backbone is not None:
        raise InputError("expected --network or --backbone, got both: the network has a backbone of its own")
    run_training(chosen, folder, resume=resume, device=device, dataset=dataset, tensorboard=tensorboard, network=network)


def resolve(
    data: str | None,
    name: str | None,
    given: dict[str, Any],
    settings: Sequence[str],
    out: Path | None,
    resume: bool,
    *,
    what: str = "run",
) -> tuple[Recipe, "Dataset | None"]:
    """The recipe that the options describe, or that of the run or search to resume; and the data, if they had to be opened."""
    dataset = None
    if resume and data is None and name is None:
        if out is None:
            raise InputError(f"--resume: expected --out with the folder of the {what}, or the same data and settings as before")
        base = _begun(out, what)
    else:
        base, dataset = _base(data, name)
    recipe = with_size(base, given | _pairs(settings))
    if data is not None and name is None:
        recipe = recipe.with_settings(name=_own_name(data, recipe))
    return recipe, dataset


def _begun(folder: Path, what: str) -> Recipe:
    if what == "search":
        from shortlist.recipes.tuning import search_in

        return search_in(folder)[0]
    from shortlist.training.run import run_recipe

    return run_recipe(folder)


def with_size(base: Recipe, changes: dict[str, Any]) -> Recipe:
    """The recipe with these settings; k goes to the method, to the rule and to the metric that speak of a size."""
    size = changes.pop("k", None)
    recipe = base.with_settings(**changes)
    if size is None:
        return recipe
    number = parse_value("k", size, float)
    shown = f"{float(number):g}"
    sized: dict[str, Any] = {"k": _whole_if_it_is(float(number))} if "k" in recipe.parameters else {}
    kind = (recipe.rule or "").split(":")[0]
    if kind in ("average-k", "top-k") and "rule" not in changes:
        sized["rule"] = f"{kind}:{shown}"
    elif not sized and recipe.rule is None:
        sized["rule"] = f"average-k:{shown}"
    elif not sized and "rule" in changes:
        raise InputError(f"-k: expected a method or a rule with a size, got method {recipe.method} and rule {recipe.rule}")
    if recipe.monitor is not None and "monitor" not in changes and recipe.monitor.rpartition("-")[2].isdigit():
        sized["monitor"] = None
    return recipe.with_settings(**sized)


def _base(data: str | None, name: str | None) -> tuple[Recipe, "Dataset | None"]:
    from shortlist.data import open_dataset
    from shortlist.recipes import all_recipes, find_recipe

    if name is not None:
        recipe = find_recipe(name)
        if data is not None:
            return recipe.at(data), None
        if PATH in recipe.data:
            form = recipe.data.replace(PATH, "PATH")
            raise InputError(f"recipe {name} needs data: shortlist train PATH --recipe {name}, which reads {form}")
        return recipe, None
    if data is None:
        raise InputError("expected data to train on, or --recipe NAME; shortlist recipes lists them")
    if not Path(data).exists() and data in {recipe.name for recipe in all_recipes() if PATH not in recipe.data}:
        raise InputError(f"expected data to train on, got the name of a recipe: --recipe {data}")
    if re.split("[:,]", data)[0].strip().lower() in PICTURES_ONLY:
        return find_recipe("pictures").at(data), None
    dataset = open_dataset(data)
    return find_recipe("table" if dataset.input_kind == "features" else "pictures").at(data), dataset


def _whole_if_it_is(number: Any) -> Any:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _own_name(data: str, recipe: Recipe) -> str:
    source, _, rest = data.partition(":")
    place = rest.split(",")[0]
    stem = Path(place if place and "=" not in place else source.split(",")[0]).name or "data"
    return f"{stem}-{recipe.method}"


def _pairs(settings: Sequence[str]) -> dict[str, Any]:
    pairs = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set: expected NAME=VALUE, such as lr=0.05, got {text!r}")
        pairs[name.strip().replace("-", "_")] = value.strip()
    return pairs


def run_training(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool,
    device: str,
    dataset: "Dataset | None" = None,
    tensorboard: bool = True,
    network: str | None = None,
) -> None:
    """Train, then show and write what came of it; only the first process of several speaks."""
    try:
        with networks_by_option():
            _train_and_tell(recipe, folder, resume, device, dataset, tensorboard, network)
    except KeyboardInterrupt as how:
        if _speaks():
            say(Run(folder).stopped(how))
        raise typer.Exit(Outcome.STOPPED) from how


def _speaks() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _train_and_tell(
    recipe: Recipe,
    folder: Path,
    resume: bool,
    device: str,
    dataset: "Dataset | None",
    tensorboard: bool,
    network: str | None,
) -> None:
    from accelerate import PartialState

    from shortlist.cli.watching import TrainingBar
    from shortlist.training.run import train as run

    bars: dict[str, Bar] = {}

    def reading(name: str, done: int, total: int) -> None:
        if _speaks():
            bar.begin()
        bars.setdefault(name, Bar(f"reading {name}", total)).at(done)
        if done == total:
            bars[name].__exit__(None, None, None)

    with TrainingBar(recipe.epochs, f"{recipe.method} by {network or recipe.backbone} on {recipe.data} → {folder}") as bar:
        trained = run(
            recipe,
            folder,
            resume=resume,
            device=device,  # type: ignore[arg-type]
            watcher=bar,
            progress=reading,
            dataset=dataset,
            network=network,
            tensorboard=tensorboard,
        )
    if not PartialState().is_main_process:
        return
    classifier, test = trained.classifier, trained.predictions["test"]
    assert classifier.rule is not None
    optimum = None
    if trained.posterior is not None and test.target is not None and test.target.ndim == 1:
        optimum = Optimum.of(trained.posterior, test.target)
        Run(folder).keep_optimum(optimum)
    evaluation = measure(test, classifier.rule, name=recipe.name)
    write_report(
        evaluation,
        folder / REPORT,
        title=recipe.title,
        history=trained.history,
        optimum=optimum,
        warnings=trained.remarks,
    )
    show(headline(evaluation).transposed())
    if optimum is not None:
        say(distance_sentence(evaluation, optimum, recipe.k))
    for remark in dict.fromkeys(trained.remarks):
        if remark not in bar.heard:
            warn(remark)
    say(f"the classifier → {folder}/classifier\nthe report → {folder}/{REPORT}")


def distance_sentence(evaluation: Any, optimum: Optimum, k: float) -> str:
    """How far from the best possible, in one sentence."""
    from shortlist.report.optimum import DistanceToOptimum

    place = min(range(len(optimum.k)), key=lambda row: abs(float(optimum.k[row]) - k))
    reached = DistanceToOptimum(evaluation, optimum).reached(evaluation)["average_k"][place]
    best = float(optimum.average_k[place])
    return (
        f"with {optimum.k[place]:g} labels on average the best possible classifier is right on {best:.1%} of these rows, "
        f"this one on {reached:.1%}: {100 * (best - reached):.1f} points away"
    )


def recipes(
    name: Annotated[str | None, typer.Argument(help="Show all settings of this one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """List the recipes, or show one with all its settings, the published numbers and the grid to search."""
    from shortlist.recipes import all_recipes, find_recipe

    if name is None:
        if as_json:
            emit(json.dumps([recipe.record() for recipe in all_recipes()], indent=2, ensure_ascii=False) + "\n")
        else:
            show(Table(["recipe", "method", "what"], [[one.name, one.method, one.summary] for one in all_recipes()]))
        return
    recipe = find_recipe(name)
    if as_json:
        emit(json.dumps(recipe.record(), indent=2, ensure_ascii=False) + "\n")
        return
    settings = recipe.settings()
    show(Table(["setting", "value"], [[key, "–" if value is None else str(value)] for key, value in settings.items()]))
    for heading, numbers in (("published, in percent", recipe.expected), ("grid of shortlist tune", recipe.grid)):
        if numbers:
            say(f"{heading}: " + "; ".join(f"{key} {_shown(value)}" for key, value in numbers.items()))


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"


def tune(
    data: Source = None,
    recipe: RecipeName = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="How to train.")] = None,
    k: Annotated[float | None, typer.Option("-k", help="Labels in a set.")] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", metavar="NAME=V1,V2,…", help="Values to try; the recipe's own unless given."),
    ] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the trials; runs/tune-NAME unless given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search in --out.")] = False,
    device: DeviceName = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Search a recipe's grid on validation rows; every trial is a run of its own, and is recorded."""
    from shortlist.cli.watching import TrialLines
    from shortlist.recipes import parse_grid, tune as search
    from shortlist.recipes.tuning import search_in

    given = {name: value for name, value in (("method", method), ("k", k)) if value is not None}
    chosen, dataset = resolve(data, recipe, given, settings or [], out, resume, what="search")
    folder = out or Path("runs") / f"tune-{chosen.name}"
    wanted: Mapping[str, Sequence[Any]] | None = parse_grid(grid, chosen) if grid else None
    if resume and wanted is None:
        wanted = search_in(folder)[1]
    try:
        found = search(
            chosen,
            folder,
            grid=wanted,
            resume=resume,
            device=device,  # type: ignore[arg-type]
            watcher=TrialLines(),
            dataset=dataset,
        )
    except KeyboardInterrupt as how:
        say(_stopped_search(folder))
        raise typer.Exit(Outcome.STOPPED) from how
    if as_json:
        emit(json.dumps([trial.record() for trial in found.trials], indent=2, ensure_ascii=False) + "\n")
    else:
        show(found.table())
    values = ", ".join(f"{name} {value}" for name, value in found.best.values.items())
    say(f"best on validation: {values} → {folder / found.best.folder}")


def _stopped_search(folder: Path) -> str:
    """What a person who pressed Ctrl-C should know."""
    from shortlist.recipes.tuning import TUNING, search_in, trials_in

    if not (folder / TUNING).exists():
        return "stopped before the search began"
    number = math.prod(map(len, search_in(folder)[1].values()))
    again = f"shortlist tune --resume --out {shlex.quote(str(folder))}"
    return f"stopped, {len(trials_in(folder))} of {number} trials ended: go on with {again}"
