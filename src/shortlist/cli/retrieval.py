"""``shortlist index`` and ``shortlist search``: build and search an index of scored rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli import options
from shortlist.cli.console import Bar, Outcome, emit, emit_json, noticed, say, show, warn
from shortlist.errors import InputError
from shortlist.words import counted, printable, sized

if TYPE_CHECKING:
    from shortlist.cli.prepare import Reading
    from shortlist.predictions import Predictions
    from shortlist.retrieval import Index, Reason, Results
    from shortlist.retrieval.columns import Thumbnails

SHOWN_LABELS = 6
SHOWN_COLUMNS = 4
SHOWN_PROBLEMS = 5

app = typer.Typer(help="Build, change and inspect a searchable index of scored rows.", no_args_is_help=True)

IndexPath = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")]
PICTURES = "Folder with the images of the rows, whose ids are paths in it; the page of results shows them."
THUMBNAILS = "Keep thumbnails of at most this width and height in the index, so that results can be shown without the folder."
COLUMNS = "Table (.csv or .parquet) with a column id; its other columns are kept in the index and returned with results."
PicturesFolder = Annotated[Path | None, typer.Option("--pictures", metavar="FOLDER", help=PICTURES)]
ThumbnailSide = Annotated[int | None, typer.Option("--thumbnails", metavar="PIXELS", min=8, max=1024, help=THUMBNAILS)]
ColumnsFile = Annotated[Path | None, typer.Option("--columns", metavar="FILE", help=COLUMNS)]


@app.command("build")
def build(
    scores: options.Scores,
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="New folder for the index.")],
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    ids_key: options.IdsKey = None,
    classes: options.Classes = None,
    pictures: PicturesFolder = None,
    thumbnails: ThumbnailSide = None,
    columns: ColumnsFile = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Build an index from a file of scores."""
    from shortlist.cli.engines import Engine
    from shortlist.retrieval import Index

    who = Engine(engine, address, workers)
    _check_outputs([index], [])
    reading, path = _reading(scores, scores_key, ids_key, link, classes)
    predictions = reading.load(path)
    given, made_from = _columns(predictions, columns, pictures, thumbnails, known={})
    found: list[str] = []
    with who.pool() as pool, Bar("indexing", len(predictions)) as bar, noticed(found):
        if pool is None:
            made = Index.build(predictions, index, columns=given, thumbnails=made_from, progress=bar.at)
        else:
            from shortlist.cluster import build_index

            there = reading.rows(path)
            made = build_index(pool, there, index, columns=given, thumbnails=made_from, progress=bar.at)
    _warn_of_unreadable(made_from)
    for sentence in found:
        warn(sentence)
    if made.exclusive:
        say("each row has exactly one label, by its link: in queries labels exclude each other")
    say(f"{counted(len(made), 'row')}, {counted(len(made.classes), 'label')} → {index}")


@app.command("add")
def add(
    scores: options.Scores,
    index: IndexPath,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    ids_key: options.IdsKey = None,
    classes: options.Classes = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace rows that have the same ids.")] = False,
    pictures: PicturesFolder = None,
    thumbnails: ThumbnailSide = None,
    columns: ColumnsFile = None,
) -> None:
    """Add the rows of a file of scores with the same classes and the same link."""
    opened = _open(index)
    reading, path = _reading(scores, scores_key, ids_key, link, classes)
    predictions = reading.load(path)
    given, made_from = _columns(predictions, columns, pictures, thumbnails, known=opened.columns)
    with Bar("indexing", len(predictions)) as bar:
        replaced = opened.add(predictions, columns=given, thumbnails=made_from, replace=replace, progress=bar.at)
    _warn_of_unreadable(made_from)
    lacking = set(opened.columns) - set(given) - ({"thumbnail"} if made_from is not None else set())
    if lacking:
        warn(f"the new rows lack columns that the index has: {', '.join(sorted(lacking))}")
    note = f", {replaced:,} of them replacing old ones" if replaced else ""
    say(f"{counted(len(predictions), 'row')} added{note}, {len(opened):,} in {index}")


@app.command("delete")
def delete(
    index: IndexPath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="IDS…", help="Ids of rows.")] = None,
    ids_from: Annotated[Path | None, typer.Option("--ids-from", metavar="FILE", help="Text file with one id per line.")] = None,
) -> None:
    """Delete rows by id; their space is freed when the index is compacted."""
    named = list(ids or [])
    if ids_from is not None:
        try:
            named += [line for line in ids_from.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--ids-from: cannot read {ids_from} ({error})") from error
    if not named:
        raise InputError("expected ids of rows, or --ids-from FILE, got neither")
    opened = _open(index)
    count = opened.delete(named)
    say(f"{counted(count, 'row')} deleted, {len(opened):,} in {index}")


@app.command("compact")
def compact(index: IndexPath) -> None:
    """Rewrite the index as one segment, without deleted rows."""
    opened = _open(index)
    with Bar("compacting", len(opened)) as bar:
        opened.compact(progress=bar.at)
    say(f"{counted(len(opened), 'row')} in one segment in {index}")


@app.command("info")
def info(
    index: IndexPath,
    check: Annotated[bool, typer.Option("--check", help="Read everything, and report damage.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="List the labels.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show what an index contains."""
    from shortlist.report.table import Table
    from shortlist.retrieval.manifest import link_text

    opened = _open(index)
    found = opened.info()
    damaged = opened.check() if check else []
    if as_json:
        more = {"damaged": damaged} if check else {}
        emit_json({**found, "classes": list(opened.classes), **more})
    else:
        shown = {**found, "columns": ", ".join(found["columns"]) or "none", "link": link_text(found["link"])}
        shown["size"] = sized(shown.pop("bytes"))
        show(Table(["", ""], [[name, f"{value:,}" if isinstance(value, int) else value] for name, value in shown.items()]))
        if labels:
            emit("".join(f"{printable(name)}\n" for name in opened.classes))
    for sentence in damaged:
        warn(sentence)
    if check and not damaged and not as_json:
        say("no damage found")
    if damaged:
        raise typer.Exit(Outcome.BAD_INPUT)


def search(
    context: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="In quotes: 'fork and apple and not knife'; see docs/queries.md.")
    ],
    index: IndexPath,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of results.")] = 20,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page of results, .html; - prints it.")
    ] = None,
    as_json: options.Json = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the query as SQL instead of running it.")] = False,
    engine: Annotated[str, typer.Option("--engine", help="arrow, or duckdb if it is installed.")] = "arrow",
    skip_damaged: Annotated[bool, typer.Option("--skip-damaged", help="Search only what can be read.")] = False,
) -> None:
    """Find the rows for which a query is most probably true."""
    if context.args:
        raise InputError(f"expected 'QUERY' INDEX with the query in quotes, got {2 + len(context.args)} arguments")
    if html is not None and str(html) == "-" and as_json:
        raise InputError("--html - and --json cannot both be printed: name a file for the page")
    if html is not None and str(html) != "-":
        from shortlist.retrieval.results import check_page

        _check_outputs([html], [index])
        check_page(html, "--html")
    opened = _open(index)
    if sql:
        if html is not None or as_json:
            raise InputError("--sql cannot be combined with --html or --json")
        emit(_sql(opened, query, n))
        return
    wanted = None if html is not None else [name for name, kind in opened.columns.items() if kind != "bytes"]
    found = opened.search(query, n, engine=engine, columns=wanted, skip_damaged=skip_damaged)
    if html is not None:
        _write_page(found, html, len(opened))
    if as_json:
        emit_json(*(result.to_json() for result in found))
    elif html is None:
        _show(found)
    for sentence in found.damaged:
        warn(f"{sentence}; skipped")
    if found.note is not None:
        say(f"no results: {found.note}")
    elif not found:
        say("no results: no row can satisfy the query")


def _check_outputs(outputs: list[Path], inputs: list[Path]) -> None:
    from shortlist.cli.outputs import check_outputs  # here because it loads torch, which most searches do not need

    check_outputs(outputs, inputs)


def _write_page(found: "Results", path: Path, rows: int) -> None:
    from shortlist.retrieval import render, write_page

    if str(path) == "-":
        emit(render(found, rows=rows))
    else:
        write_page(found, path, rows=rows)
        say(f"{counted(len(found), 'row')} → {path}")


def _show(found: "Results") -> None:
    from shortlist.report.cards import percent
    from shortlist.report.table import Table
    from shortlist.retrieval.columns import PATH

    if not found:
        return
    reasons = [{reason.label: reason for reason in result.why} for result in found]
    shared = [label for label in reasons[0] if all(label in row for row in reasons)]  # with a count, each row has other labels
    probable = sorted(shared, key=lambda label: -sum(row[label].probability for row in reasons))[:SHOWN_LABELS]
    names = [label for label in shared if label in probable]
    kept = [name for name in found[0].columns if name != PATH]  # mostly the id again
    further = kept[:SHOWN_COLUMNS]
    rows = [
        [
            result.id,
            percent(result.probability),
            *(percent(_as_wanted(row[label])) for label in names),
            *(result.columns[name] for name in further),
        ]
        for result, row in zip(found, reasons, strict=True)
    ]
    titles = [f"not {label}" if reasons[0][label].wanted is False else label for label in names]
    show(Table(["row", "probability", *titles, *further], rows))
    if len(names) < len(shared):
        say(f"{counted(len(shared) - len(names), 'more label')}: use --json to see all probabilities")
    if len(further) < len(kept):
        say(f"{counted(len(kept) - len(further), 'more column')}: use --json to see all columns")


def _as_wanted(reason: "Reason") -> float:
    """The probability that a label is as the query wants it: for an excluded label, that it is absent."""
    return 1 - reason.probability if reason.wanted is False else reason.probability


def _sql(index: "Index", query: str, n: int) -> str:
    from shortlist.retrieval import explained_sql

    return explained_sql(index, query, n)


def _open(path: Path) -> "Index":
    from shortlist.retrieval import Index

    return Index.open(path)


def _reading(
    path: Path, scores_key: str | None, ids_key: str | None, link: str | None, classes: Path | None
) -> "tuple[Reading, Path]":
    """How scores are read, and where they are."""
    from shortlist.cli.prepare import Reading
    from shortlist.cli.runs import run_at

    run = run_at(path)
    return Reading(scores_key, None, link, ids_key, classes=classes), path if run is None else run.predictions_path()


def _columns(
    predictions: "Predictions", table: Path | None, pictures: Path | None, side: int | None, known: Mapping[str, str]
) -> tuple[dict[str, Any], "Thumbnails | None"]:
    """The columns of the rows, from a table and a folder of images, and what thumbnails are made from."""
    from shortlist.cli.index_columns import table_columns  # imports Arrow

    given = {} if table is None else table_columns(predictions, table, known)
    paths = _picture_paths(predictions, pictures, warn_of_missing=side is None)
    if paths is None:
        if side is not None:
            raise InputError("--thumbnails: expected --pictures FOLDER, to make them from, got none")
        return given, None
    from shortlist.data.pictures import PictureFiles
    from shortlist.retrieval import Thumbnails

    return {**given, "path": paths}, None if side is None else Thumbnails(PictureFiles("", paths), side)


def _picture_paths(predictions: "Predictions", folder: Path | None, warn_of_missing: bool) -> list[str] | None:
    """The path of the image of each row, if a folder is given."""
    if folder is None:
        return None
    if predictions.ids is None:
        raise InputError("--pictures: expected scores whose rows have ids that are paths in the folder, got none")
    if not folder.is_dir():
        raise InputError(f"--pictures: expected a folder, and there is no folder {folder}")
    located = [_located(name, folder) for name in predictions.ids]
    missing = [name for name, path in zip(predictions.ids, located, strict=True) if not _is_file(path)]
    if len(missing) == len(predictions):
        raise InputError(f"--pictures: expected rows whose ids are images in {folder}, and there is no {missing[0]}")
    if missing and warn_of_missing:
        warn(f"{counted(len(missing), 'row')} without an image in {folder}, such as {missing[0]}")
    return [str(path) for path in located]


def _located(name: str, folder: Path) -> Path:
    """The path of an image: in the folder, or relative to the working directory if that is in the folder."""
    inside, here = folder / name, Path(name)
    is_here = not _is_file(inside) and _is_file(here) and folder.resolve() in here.resolve().parents
    return (here if is_here else inside).absolute()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # not a valid file name
        return False


def _warn_of_unreadable(thumbnails: "Thumbnails | None") -> None:
    from shortlist.data.problems import problem_lines

    for line in problem_lines(thumbnails.problems, SHOWN_PROBLEMS) if thumbnails is not None else []:
        warn(f"{line}; no thumbnail")
