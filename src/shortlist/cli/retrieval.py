"""``shortlist index`` and ``shortlist search``: scored rows on disk that answer queries."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli import options
from shortlist.cli.console import Bar, Outcome, emit, say, show, warn
from shortlist.errors import InputError
from shortlist.words import counted

if TYPE_CHECKING:
    from shortlist.predictions import Predictions
    from shortlist.retrieval import Index, Reason, Results
    from shortlist.retrieval.building import PicturesOf

SHOWN_LABELS = 6
SHOWN_PROBLEMS = 5

app = typer.Typer(help="Make scored rows searchable, and change what can be found.", no_args_is_help=True)

IndexPath = Annotated[Path, typer.Argument(metavar="INDEX", help="The folder of the index.")]
PICTURES = "The folder that the rows' ids are paths in, to show what was found."
THUMBNAILS = "Keep small pictures of at most this side in the index, so that they can be shown without the folder."
Pictures = Annotated[Path | None, typer.Option("--pictures", metavar="FOLDER", help=PICTURES)]
Thumbnails = Annotated[int | None, typer.Option("--thumbnails", metavar="PIXELS", min=8, max=1024, help=THUMBNAILS)]


@app.command("build")
def build(
    scores: options.Scores,
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="A new folder.")],
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    ids_key: options.IdsKey = None,
    pictures: Pictures = None,
    thumbnails: Thumbnails = None,
) -> None:
    """Make an index of a file of scores."""
    from shortlist.retrieval import Index
    from shortlist.retrieval.building import of_one_label

    predictions = _load(scores, scores_key, ids_key, link)
    shown = _pictures(predictions, pictures, thumbnails)
    with Bar("indexing", len(predictions)) as bar:
        made = Index.build(predictions, index, pictures=shown, progress=bar.at)
    _warn_of_unreadable(shown)
    if of_one_label(predictions.link):
        warn(
            f"by the link {predictions.link} each row has exactly one label, while queries take labels as independent: the "
            "probability of a query of several labels is not what it says"
        )
    say(f"{counted(len(made), 'row')}, {counted(len(made.classes), 'label')} → {index}")


@app.command("add")
def add(
    scores: options.Scores,
    index: IndexPath,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    ids_key: options.IdsKey = None,
    replace: Annotated[bool, typer.Option("--replace", help="Rows of the same ids give way to the new ones.")] = False,
    pictures: Pictures = None,
    thumbnails: Thumbnails = None,
) -> None:
    """Add the rows of a file of scores, of the same classes and read by the same link."""
    opened = _open(index)
    predictions = _load(scores, scores_key, ids_key, link)
    shown = _pictures(predictions, pictures, thumbnails)
    with Bar("indexing", len(predictions)) as bar:
        replaced = opened.add(predictions, pictures=shown, replace=replace, progress=bar.at)
    _warn_of_unreadable(shown)
    lacking = set(opened.info()["pictures"]) - set(shown.extras if shown is not None else [])
    if lacking:
        warn(f"the index keeps the {' and '.join(sorted(lacking))} of pictures, and the new rows have none")
    told = f", {replaced:,} of them in the place of older ones" if replaced else ""
    say(f"{counted(len(predictions), 'row')} added{told}, {len(opened):,} in {index}")


@app.command("delete")
def delete(
    index: IndexPath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="IDS…", help="Ids of rows.")] = None,
    ids_from: Annotated[Path | None, typer.Option("--ids-from", metavar="FILE", help="A text file, an id a line.")] = None,
) -> None:
    """Delete rows by their ids; they take room until the index is compacted."""
    named = list(ids or [])
    if ids_from is not None:
        try:
            named += [line for line in ids_from.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--ids-from: cannot read {ids_from} ({error})") from error
    if not named:
        raise InputError("expected ids of rows, or --ids-from FILE, got none")
    opened = _open(index)
    count = opened.delete(named)
    say(f"{counted(count, 'row')} deleted, {len(opened):,} in {index}")


@app.command("compact")
def compact(index: IndexPath) -> None:
    """Write all rows into one segment, without the deleted ones."""
    opened = _open(index)
    with Bar("compacting", len(opened)) as bar:
        opened.compact(progress=bar.at)
    say(f"{counted(len(opened), 'row')} in one segment in {index}")


@app.command("info")
def info(
    index: IndexPath,
    check: Annotated[bool, typer.Option("--check", help="Read everything, and say what is damaged.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="The labels that can be asked for.")] = False,
    as_json: options.Json = False,
) -> None:
    """Say what an index holds."""
    from shortlist.report.table import Table
    from shortlist.retrieval.manifest import link_text

    opened = _open(index)
    found = opened.info()
    damaged = opened.check() if check else []
    if as_json:
        more = {"damaged": damaged} if check else {}
        emit(json.dumps({**found, "classes": list(opened.classes), **more}, ensure_ascii=False) + "\n")
    else:
        shown = {**found, "pictures": ", ".join(found["pictures"]) or "none", "link": link_text(found["link"])}
        shown["size"] = _size_text(shown.pop("bytes"))
        show(Table(["", ""], [[name, f"{value:,}" if isinstance(value, int) else value] for name, value in shown.items()]))
        if labels:
            emit("\n".join(opened.classes) + "\n")
    for sentence in damaged:
        warn(sentence)
    if check and not damaged and not as_json:
        say("everything can be read")
    if damaged:
        raise typer.Exit(Outcome.BAD_INPUT)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="In quotes: 'fork and apple and not knife'; see the docs.")],
    index: IndexPath,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="How many rows.")] = 20,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="A page with the pictures; - prints it.")] = None,
    as_json: options.Json = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the query as SQL over the same files, and do not run it.")] = False,
    engine: Annotated[str, typer.Option("--engine", help="arrow, or duckdb where it is installed.")] = "arrow",
    skip_damaged: Annotated[bool, typer.Option("--skip-damaged", help="Search what can be read, and name the rest.")] = False,
) -> None:
    """Find the rows of which a query is most probably true."""
    if context.args:
        raise InputError(f"expected 'QUERY' INDEX, the query in quotes, got {2 + len(context.args)} words")
    if html is not None and str(html) == "-" and as_json:
        raise InputError("expected one thing to print, got --html - and --json")
    opened = _open(index)
    if sql:
        if html is not None or as_json:
            raise InputError("expected --sql alone, got it with another output")
        emit(_sql(opened, query, n))
        return
    found = opened.search(query, n, engine=engine, skip_damaged=skip_damaged)
    if html is not None:
        _write_page(found, html, len(opened))
    if as_json:
        emit("".join(json.dumps(result.to_json(), ensure_ascii=False) + "\n" for result in found))
    elif html is None:
        _show(found)
    for sentence in found.damaged:
        warn(f"{sentence}; left out")
    if found.note is not None:
        say(f"nothing: {found.note}")
    elif not found:
        say("nothing: no row can satisfy the query")


def _write_page(found: "Results", path: Path, rows: int) -> None:
    from shortlist.retrieval.page import render, write_page

    if str(path) == "-":
        emit(render(found, rows=rows))
    else:
        write_page(found, path, rows=rows)
        say(f"{counted(len(found), 'row')} → {path}")


def _show(found: "Results") -> None:
    from shortlist.report.table import Table
    from shortlist.retrieval.page import percent

    if not found:
        return
    reasons = [{reason.label: reason for reason in result.why} for result in found]
    shared = [label for label in reasons[0] if all(label in row for row in reasons)]  # a count has others for each row
    telling = sorted(shared, key=lambda label: -sum(row[label].probability for row in reasons))[:SHOWN_LABELS]
    names = [label for label in shared if label in telling]
    rows = [
        [result.id, percent(result.probability), *(percent(_of_its_part(row[label])) for label in names)]
        for result, row in zip(found, reasons, strict=True)
    ]
    titles = [f"not {label}" if reasons[0][label].wanted is False else label for label in names]
    show(Table(["row", "probability", *titles], rows))
    if len(names) < len(shared):
        say(f"the probabilities of {counted(len(shared) - len(names), 'other label')} are in --json")


def _of_its_part(reason: "Reason") -> float:
    """The probability that the query's part about a label is true: of an excluded one, that it is absent."""
    return 1 - reason.probability if reason.wanted is False else reason.probability


def _sql(index: "Index", query: str, n: int) -> str:
    from shortlist.retrieval.sql_text import explained_sql

    return explained_sql(index, query, n)


def _open(path: Path) -> "Index":
    from shortlist.retrieval import Index

    return Index.open(path)


def _load(path: Path, scores_key: str | None, ids_key: str | None, link: str | None) -> "Predictions":
    from shortlist.cli.prepare import Reading
    from shortlist.cli.runs import Run

    run = Run.at(path)
    return Reading(scores_key, None, link, ids_key).load(path if run is None else run.test)


def _pictures(predictions: "Predictions", folder: Path | None, side: int | None) -> "PicturesOf | None":
    if folder is None and side is not None:
        raise InputError("--thumbnails: expected --pictures FOLDER beside it, to take them from")
    if folder is None:
        return None
    if predictions.ids is None:
        raise InputError("--pictures: expected scores whose rows have ids that are paths in the folder, got none")
    from shortlist.data.pictures import PictureFiles
    from shortlist.retrieval.building import PicturesOf

    if not folder.is_dir():
        raise InputError(f"--pictures: expected a folder, and there is no folder {folder}")
    located = [_located(name, folder) for name in predictions.ids]
    missing = [name for name, path in zip(predictions.ids, located, strict=True) if not _is_file(path)]
    if len(missing) == len(predictions):
        raise InputError(f"--pictures: expected rows whose ids are pictures in {folder}, and there is no {missing[0]}")
    if missing and side is None:
        warn(f"{counted(len(missing), 'row')} without a picture in {folder}, such as {missing[0]}")
    paths = [str(path) for path in located]
    return PicturesOf(PictureFiles("", paths), paths, side)


def _located(name: str, folder: Path) -> Path:
    """Where the picture of a row is: below the folder, or where it was seen from here when it was scored."""
    inside, here = folder / name, Path(name)
    seen = not _is_file(inside) and _is_file(here) and folder.resolve() in here.resolve().parents
    return (here if seen else inside).absolute()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _warn_of_unreadable(pictures: "PicturesOf | None") -> None:
    from shortlist.data.problems import problem_lines

    for line in problem_lines(pictures.problems, SHOWN_PROBLEMS) if pictures is not None else []:
        warn(f"{line}; there is no thumbnail of it")


def _size_text(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
