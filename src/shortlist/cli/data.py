"""``shortlist data``: the options. What it does is in ``datasets.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in
from shortlist.cli.votes import votes
from shortlist.data.downloads import DOWNLOADS

app = typer.Typer(help="Inspect datasets, build a benchmark from an archive, aggregate votes.", no_args_is_help=True)
Source: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A folder of class folders, a .csv or .parquet of paths and labels, a table of features, or NAME:PATH of a "
        "published dataset; `flora` for the garden. Options follow after commas: pictures.csv,label_column=species.",
    ),
]
Superclass: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--superclass",
        metavar="RULE",
        help="How class names give their superclass: first-word (Quercus robur) or last-word (herring gull).",
    ),
]
app.command("votes")(votes)


@app.command("info")
@written_in("datasets")
def info(
    source: Source,
    superclass: Superclass = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Open every picture and report those that cannot be read; of a benchmark and of a folder of parts also "
            "verify all checksums, with exit code 1 if a file is missing, changed or not in the manifest.",
        ),
    ] = False,
    as_json: options.Json = False,
    strict: options.Strict = False,
) -> None:
    """Describe a dataset: splits, classes, long tail, and problems with its files; or scores in a folder of parts."""


@app.command("sheet")
@written_in("datasets")
def sheet(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the sheet goes: .png, .jpg or .webp.")] = Path("sheet.png"),
    split: Annotated[str | None, typer.Option("--split", help="Which split; train, or else the first.")] = None,
    classes: Annotated[int, typer.Option("--classes", min=1, max=500, help="How many classes.")] = 12,
    per_class: Annotated[int, typer.Option("--per-class", min=1, max=100, help="How many pictures of each.")] = 8,
    size: Annotated[int, typer.Option("--size", min=16, max=512, help="Side of a picture in pixels.")] = 96,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Other classes and pictures.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="A class or superclass; may be repeated.")
    ] = None,
    superclass: Superclass = None,
) -> None:
    """Put pictures of some classes side by side, those of one superclass together."""


@app.command("build")
@written_in("datasets")
def build(
    source: Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the benchmark.")],
    superclass: Superclass = None,
    superclasses: Annotated[
        float,
        typer.Option("--superclasses", min=0, max=1, help="Share of the superclasses to draw, with all their classes."),
    ] = 1.0,
    fewest: Annotated[int, typer.Option("--fewest", min=3, help="Leave out classes with fewer pictures than this.")] = 5,
    share: Annotated[float, typer.Option("--share", help="Share of each class for val (rounded up) and for test.")] = 0.1,
    by_group: Annotated[bool, typer.Option("--by-group", help="Keep the pictures of a group in one split.")] = False,
    duplicates: Annotated[
        str,
        typer.Option("--duplicates", metavar="HOW", help="Near-duplicate pictures: keep, together (in one split), or drop."),
    ] = "keep",
    pictures: Annotated[str, typer.Option("--pictures", metavar="HOW", help="link, copy, or none (only list them).")] = "link",
    name: Annotated[str | None, typer.Option("--name", help="Name of the benchmark; by default that of the folder.")] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Fail if a larger share is unreadable.")] = 0.01,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw and of the split.")] = 0,
    strict: options.Strict = False,
) -> None:
    """Build a benchmark from an archive: draw superclasses, drop small classes, split, write a manifest and a data card."""


@app.command("download")
@written_in("datasets")
def download(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(DOWNLOADS)}.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to unpack it into.")],
) -> None:
    """Download a public dataset, check its SHA-256 and unpack it."""
