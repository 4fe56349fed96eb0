"""What ``shortlist data`` does: describe a dataset, draw a sheet of its pictures, build a benchmark."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from shortlist.cli.console import Bar, Outcome, emit_json, noticed, say, show, warn
from shortlist.cli.outputs import check_outputs, check_outside_runs, named_paths
from shortlist.cli.parts_info import describe_parts
from shortlist.data.building import build_benchmark
from shortlist.data.dataset import Dataset
from shortlist.data.deduplication import find_copies
from shortlist.data.downloads import DOWNLOADS, download_archives
from shortlist.data.duplicates import POLICIES
from shortlist.data.inspection import inspect_pictures, warn_duplicates
from shortlist.data.manifest import PLACINGS, check_writable, pictures_folder, repeated_pictures, write_benchmark
from shortlist.data.pictures import PictureBoxes, PictureFiles
from shortlist.data.problems import Problem, problem_lines, summarise_problems
from shortlist.data.readers.picture_table import ABSENT
from shortlist.data.shared_files import in_two_splits, with_two_labels
from shortlist.data.sources import benchmark_of, open_dataset
from shortlist.data.statistics import LongTail
from shortlist.data.verification import read_manifest, verify_benchmark
from shortlist.errors import InputError
from shortlist.files import folder_written_whole, without_links, written_whole
from shortlist.predictions.parts import is_parts_folder
from shortlist.report.data_card import columns_table, limits_table, splits_table, summary_line, tail_table, write_card
from shortlist.report.sheet import contact_sheet
from shortlist.words import printable

LONGEST_SIDE = {".webp": 16_383, ".jpg": 65_500, ".jpeg": 65_500}


def info(
    source: str,
    superclass: str | None,
    check: bool,
    as_json: bool,
    strict: bool,
) -> None:
    """Describe a dataset: splits, classes, long tail, and problems with its files; or a folder of parts."""
    if is_parts_folder(source):
        return describe_parts(Path(source), check, as_json)
    differing = _verify(source) if check else []
    dataset, warned = _opened(source, superclass, **({"tolerance": 1.0} if differing else {}))
    problems = [*differing, *(problem for problem in dataset.problems if not (differing and problem.kind == ABSENT))]
    problems += [*in_two_splits(dataset.splits), *with_two_labels(dataset.splits)]
    if check:
        more, duplicates = _check(dataset)
        problems += more
        warned += duplicates
    if as_json:
        emit_json(_record(dataset, problems), indent=2)
    else:
        say(summary_line(dataset))
        for note in dataset.notes:
            say(note)
        show(splits_table(dataset))
        if dataset.train_counts.sum():
            show(tail_table(dataset))
        for table in (columns_table(dataset), limits_table(dataset)):
            if table is not None:
                show(table)
    _tell(problems, warned)
    if differing:
        raise typer.Exit(Outcome.BAD_INPUT)
    return _finish(strict, problems, warned)


def sheet(
    source: str,
    out: Path,
    split: str | None,
    classes: int,
    per_class: int,
    size: int,
    seed: int,
    only: list[str] | None,
    superclass: str | None,
) -> None:
    """Put pictures of some classes side by side, those of one superclass together."""
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise InputError(f"--out: expected a name that ends in .png, .jpg or .webp, got {out}")
    check_outputs([out], named_paths([source]))
    dataset, _ = _opened(source, superclass)
    _check_no_picture(dataset, out)
    image = contact_sheet(dataset, split=split, classes=classes, per_class=per_class, size=size, seed=seed, only=only or ())
    longest = LONGEST_SIDE.get(out.suffix.lower(), 2**31)
    if max(image.size) > longest:
        raise InputError(f"--out: {out.suffix} holds {longest:,} pixels a side, the sheet has {max(image.size):,}: take .png")
    with written_whole(out) as temporary:
        image.save(temporary)
    say(f"{summary_line(dataset)} → {out}")


def build(
    source: str,
    out: Path,
    superclass: str | None,
    superclasses: float,
    fewest: int,
    share: float,
    by_group: bool,
    duplicates: str,
    pictures: str,
    name: str | None,
    tolerance: float,
    seed: int,
    strict: bool,
) -> None:
    """Build a benchmark from an archive: draw superclasses, drop small classes, split, write a manifest and a data card."""
    check_outside_runs(out)
    if duplicates not in POLICIES:
        raise InputError(f"--duplicates: expected {', '.join(POLICIES)}, got {duplicates}")
    if pictures not in PLACINGS:
        raise InputError(f"--pictures: expected {', '.join(PLACINGS)}, got {pictures}")
    archive, warned = _opened(source, superclass)
    check_writable(archive)
    if any(path.is_dir() and without_links(path) in without_links(out).parents for path in named_paths([source])):
        raise InputError(f"{out}: expected a folder outside {source}, which would hold it for one of its classes")
    total = sum(len(split) for split in archive.splits.values())
    with folder_written_whole(out) as folder, Bar("pictures", 2 * total) as bar:
        built = build_benchmark(
            archive,
            superclasses=superclasses,
            fewest=fewest,
            share=share,
            by_group=by_group,
            duplicates=duplicates,
            tolerance=tolerance,
            seed=seed,
            progress=bar.at,
        )
        dataset = replace(built.dataset, name=name or printable(without_links(out).name))
        entries = write_benchmark(dataset, folder, placing=PLACINGS[pictures], progress=lambda done: bar.at(total + done))
        dataset = replace(dataset, problems=[*dataset.problems, *repeated_pictures(entries)])
        elsewhere = pictures_folder(dataset) if pictures == "none" else None
        write_card(replace(built, dataset=dataset), folder, pictures_root=elsewhere)
    say(f"{summary_line(dataset)} → {out}")
    if elsewhere is not None:
        say(f"its pictures stay where they are: open it as {out},pictures_root={elsewhere}")
    show(splits_table(dataset))
    _tell(dataset.problems, [*warned, *built.notes])
    _finish(strict, dataset.problems, [*warned, *built.notes])


def download(
    name: str,
    folder: Path,
) -> None:
    """Download a public dataset, check its SHA-256 and unpack it."""
    if name.lower() not in DOWNLOADS:
        raise InputError(f"{name}: expected {', '.join(DOWNLOADS)}; others come from the pages named in docs/datasets.md")
    with Bar(name, sum(archive.size for archive in DOWNLOADS[name.lower()])) as bar:
        found = download_archives(DOWNLOADS[name.lower()], folder, progress=bar.at)
    say(f"{name} → {found}: shortlist data info {name.lower()}:{found}")


def _verify(source: str) -> list[Problem]:
    """The files in which a benchmark differs from its manifest; none for other datasets."""
    place = benchmark_of(source)
    if place is None:
        return []
    folder, pictures_root = place
    with Bar("checksums", len(read_manifest(folder))) as bar:
        return verify_benchmark(folder, pictures_root=pictures_root, progress=bar.at)


def _opened(source: str, superclass: str | None, **options: Any) -> tuple[Dataset, list[str]]:
    """The dataset, and the warnings of the library."""
    found: list[str] = []
    with noticed(found):
        options = options if superclass is None else {**options, "superclass": superclass}
        dataset = open_dataset(source, **options)
    return dataset, found


def _check_no_picture(dataset: Dataset, out: Path) -> None:
    """Raise an error if the output would replace a picture of the dataset."""
    if not out.exists():
        return
    files = [split.inputs for split in dataset.splits.values() if isinstance(split.inputs, PictureFiles | PictureBoxes)]
    if any(_is_file(pictures.path(row), out) for pictures in files for row in range(len(pictures))):
        raise InputError(f"--out: {out} is a picture of the dataset: choose another name")


def _is_file(path: Path, other: Path) -> bool:
    """Whether both paths lead to one file, by whatever links."""
    try:
        return path.samefile(other)
    except OSError:  # it is not there
        return False


def _check(dataset: Dataset) -> tuple[Sequence[Problem], list[str]]:
    """Open every picture and compare it with those of other splits: problems, and warnings about duplicates."""
    found: list[str] = []
    with Bar("pictures", sum(len(split) for split in dataset.splits.values())) as bar, noticed(found):
        inspection = inspect_pictures(dataset, progress=bar.at)
        warn_duplicates(dataset, inspection.prints)
    found += find_copies(dataset, inspection.prints).sentences()
    return inspection.problems, found


def _record(dataset: Dataset, problems: Sequence[Problem]) -> dict[str, object]:
    counts = dataset.train_counts
    return {
        "name": dataset.name,
        "classes": len(dataset.classes),
        "superclasses": len(dataset.superclass_names) if dataset.superclasses else None,
        "multi_label": dataset.multi_label,
        "features": list(dataset.feature_names) or None,
        "splits": splits_table(dataset).records(),
        "columns": [] if (columns := columns_table(dataset)) is None else columns.records(),
        "long_tail": LongTail(counts).summary() if counts.sum() else None,
        "counts": dict(zip(dataset.classes, counts.tolist(), strict=True)),
        "notes": list(dataset.notes),
        "problems": [{"kind": problem.kind, "where": printable(problem.where), "what": problem.what} for problem in problems],
    }


def _tell(problems: Sequence[Problem], warned: Sequence[str]) -> None:
    """Print the problems, their number, and the warnings of the library."""
    for line in problem_lines(problems):
        say(line)
    for sentence in [*warned, *([summarise_problems(problems)] if problems else [])]:
        warn(sentence)


def _finish(strict: bool, problems: Sequence[Problem], warned: Sequence[str]) -> None:
    if strict and (problems or warned):
        raise typer.Exit(Outcome.WARNED)
