"""``shortlist train`` and ``shortlist recipes``: their options. What they do is in ``training.py``, imported when they run."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from shortlist.cli import options
from shortlist.cli.commands import ALONE
from shortlist.errors import InputError

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="A folder with one subfolder per class, a table, or NAME:PATH, such as cifar100:data. With --recipe: the path of "
        "its data, if it needs one.",
    ),
]
RecipeName = Annotated[
    str | None, typer.Option("--recipe", metavar="NAME", help="Train a recipe; `shortlist recipes` lists them.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Change a setting of the recipe or of its method, such as lr=0.05; repeatable.",
    ),
]
DeviceName = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto (a GPU if there is one), cpu or cuda.")]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method", "-m", metavar="NAME", help="Training method, such as cross-entropy; that of the recipe by default."
    ),
]
Size = Annotated[
    float | None,
    typer.Option("-k", metavar="K", help="Number of labels per set, exactly or on average, depending on the method."),
]
RuleText = Annotated[
    str | None,
    typer.Option("--rule", "-r", metavar="RULE", help="Set rule, such as lac:0.1; that of the method by default."),
]
Epochs = Annotated[int | None, typer.Option("--epochs", "-e", metavar="N", help="Number of epochs.")]
BackboneName = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        "-b",
        metavar="NAME",
        help="Backbone, such as resnet-18, densenet-40-40 or timm:NAME; that of the recipe by default.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of all random numbers.")]
Duplicates = Annotated[
    str | None,
    typer.Option(
        "--duplicates",
        metavar="HOW",
        help="Near-duplicate pictures: keep (the default), together (on one side of every split that is drawn), or drop (leave "
        "copies out).",
    ),
]

Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="[auto]",
        help="Continue the run in --out. With auto: begin if there is none, continue one that was interrupted, leave a "
        "finished one as it is; so the same command can be started again.",
    ),
]


def train(
    data: Source = None,
    recipe: RecipeName = None,
    method: MethodName = None,
    k: Size = None,
    rule: RuleText = None,
    epochs: Epochs = None,
    backbone: BackboneName = None,
    network: options.NetworkPath = None,
    seed: Seed = None,
    duplicates: Duplicates = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the run; runs/NAME by default.")
    ] = None,
    resume: Resume = None,
    device: DeviceName = "auto",
    compiled: Annotated[bool | None, typer.Option("--compile/--no-compile", help="Compile the network.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard/--no-tensorboard", help="Also write curves for TensorBoard, if it is installed.")
    ] = True,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Train a classifier that answers with sets of labels, calibrate and test it, and write a report."""
    if network is not None and backbone is not None:
        raise InputError("expected --network or --backbone, got both: --network replaces the backbone")
    if resume not in (None, ALONE, "auto"):
        raise InputError(f"--resume: expected nothing after it, or auto, got {resume!r}")
    from shortlist.cli.engines import Engine
    from shortlist.cli.training import changes, requested_job, run_training

    where = Engine(engine, address, workers)
    given = {
        "method": method,
        "k": k,
        "rule": rule,
        "epochs": epochs,
        "backbone": backbone,
        "seed": seed,
        "compile": compiled,
        "duplicates": duplicates,
    }
    how: bool | Literal["auto"] = "auto" if resume == "auto" else resume is not None
    job = requested_job(data, recipe, changes(given, settings), out, resume=how)
    run_training(job, resume=how, device=device, tensorboard=tensorboard, network=network, engine=where)


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show all settings of this recipe.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the recipes, or show one of them: its settings, the published numbers, and the grid of `shortlist tune`."""
    from shortlist.cli.training import show_recipes

    show_recipes(name, as_json=as_json)
