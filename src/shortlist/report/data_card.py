"""What a dataset contains: tables, and the data card of a benchmark."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.data.building import Built
from shortlist.data.dataset import Dataset
from shortlist.data.flora.limits import best_accuracies
from shortlist.data.problems import count_problems, problem_lines
from shortlist.data.statistics import LongTail
from shortlist.files import write_text, written_whole
from shortlist.report.data_plots import ClassShares
from shortlist.report.sheet import contact_sheet
from shortlist.report.style import SETTINGS, figure_of
from shortlist.report.table import Table
from shortlist.tensors import is_single_label
from shortlist.words import counted, listed, printable

LORENZ, SHEET = "lorenz.svg", "sheet.jpg"
MOST_VALUES = 12  # of a column that are counted one by one


def splits_table(dataset: Dataset) -> Table:
    """One row a split: rows, classes present, labels a row, rows without a label, rarest and commonest class."""
    lines: list[list[Any]] = []
    for name, split in dataset.splits.items():
        if split.target is None:
            lines.append([name, len(split), 0, None, len(split), None, None, None])
            continue
        counts = split.counts(len(dataset.classes))
        there = counts[counts > 0]
        single = is_single_label(split.target)
        lines.append(
            [
                name,
                len(split),
                int((counts > 0).sum()),
                1.0 if single else float(split.target.float().sum(1).mean()) if len(split) else None,
                0 if single else int((~split.target.any(1)).sum()),
                int(there.min()) if len(there) else None,
                LongTail(there).median if len(there) else None,
                int(there.max()) if len(there) else None,
            ]
        )
    columns = ["split", "rows", "classes", "labels a row", "without label", "rarest class", "median class", "commonest class"]
    return Table(columns, lines, ["", ",", ",", ".3g", ",", ",", ",.0f", ","])


def columns_table(dataset: Dataset) -> Table | None:
    """How many rows of each split have each value of each column, the most frequent first; None without columns.

    Columns of more than a few values, such as names, are summed up from there on.
    """
    lines: list[list[Any]] = []
    for name in dict.fromkeys(name for split in dataset.splits.values() for name in split.columns):
        counts = {place: Counter(split.columns.get(name, ())) for place, split in dataset.splits.items()}
        total = sum(counts.values(), Counter())
        values = [value for value, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))]
        shown, others = values[:MOST_VALUES], values[MOST_VALUES:]
        lines += [[name, value or "unknown", *(counts[place][value] for place in counts)] for value in shown]
        if others:
            summed = [sum(counts[place][value] for value in others) for place in counts]
            lines.append([name, f"{len(others):,} others", *summed])
    return Table(["column", "value", *dataset.splits], lines, ["", "", *[","] * len(dataset.splits)]) if lines else None


def tail_table(dataset: Dataset) -> Table:
    """How unequal the training classes are."""
    tail = LongTail(dataset.train_counts)
    lines = [
        ["commonest over rarest class", f"{tail.imbalance:,.3g}" if tail.imbalance < 1000 else f"{tail.imbalance:,.0f}"],
        ["Gini coefficient", f"{tail.gini:.3f}"],
        ["share of the rarest 80 % of the classes", f"{tail.share_of_rarest(0.8):.1%}"],
    ]
    return Table(["long tail", "value"], lines, flush_right=[False, True])


def problems_table(dataset: Dataset) -> Table:
    """Number of problems of each kind."""
    return Table(["problem", "count"], [list(pair) for pair in count_problems(dataset.problems).items()], ["", ","])


def limits_table(dataset: Dataset, ks: Sequence[int] = (1, 3, 5)) -> Table | None:
    """The best expected accuracy on each split, if the posterior is known and there is one label a row."""
    classes = len(dataset.classes)
    fitting = [k for k in ks if k <= classes]
    even = torch.full((classes,), 1 / classes)  # only matters for means over classes, which are not shown
    lines: list[list[Any]] = []
    for name, split in dataset.splits.items():
        if split.posterior is None or split.target is None or not is_single_label(split.target) or not len(split):
            continue
        found = best_accuracies(split.posterior, even, fitting)
        lines.append([name, *found.top_k.tolist(), *found.average_k.tolist()])
    columns = ["best possible", *(f"top-{k}" for k in fitting), *(f"average-{k}" for k in fitting)]
    return Table(columns, lines, ["", *[".1%"] * (2 * len(fitting))]) if lines else None


def summary_line(dataset: Dataset) -> str:
    """The dataset in one line."""
    rows = sum(len(split) for split in dataset.splits.values())
    groups = counted(len(dataset.superclass_names), "superclass", "superclasses")
    above = f" in {groups}" if dataset.superclasses else ""
    kind = "any number of labels a row" if dataset.multi_label else "one label a row"
    if all(split.target is None for split in dataset.splits.values()):
        kind = "no labels"
    inputs = _features(dataset)
    return f"{dataset.name}: {rows:,} rows, {len(dataset.classes):,} classes{above}, {kind}{inputs}"


def _features(dataset: Dataset) -> str:
    """The number of features and the names of the first, for the summary of a table."""
    widths = [split.inputs.shape[1] for split in dataset.splits.values() if isinstance(split.inputs, Tensor)]
    if not widths:
        return ""
    names = f" ({listed(list(dataset.feature_names), 8)})" if dataset.feature_names else ""
    return f", {counted(widths[0], 'feature')}{names}"


def write_card(built: Built, folder: Path, *, pictures_root: Path | None = None) -> None:
    """Write the card and its figures beside the pictures: README.md, lorenz.svg and sheet.jpg."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS), written_whole(folder / LORENZ) as temporary:
        figure_of(ClassShares.of(built.dataset)).savefig(temporary, metadata={"Date": None, "Creator": None})
    pictured = all(not isinstance(split.inputs, Tensor) for split in built.dataset.splits.values())
    if pictured:
        with written_whole(folder / SHEET) as temporary:
            contact_sheet(built.dataset).save(temporary, quality=90)
    write_text(folder / "README.md", data_card(built, pictures_root=pictures_root, sheet=SHEET if pictured else None))


def data_card(built: Built, *, pictures_root: Path | None = None, sheet: str | None = None) -> str:
    """The data card of a benchmark, in Markdown: contents, how it was made, what was left out.

    Args:
        built: the benchmark.
        pictures_root: the folder of its pictures, if they are not beside the card.
        sheet: file name of its contact sheet, shown at the top.
    """
    dataset = built.dataset
    parts = [
        f"# {dataset.name}",
        summary_line(dataset).partition(": ")[2] + ".",
        *([f"![Pictures of some classes]({sheet})"] if sheet else []),
        "## Splits",
        splits_table(dataset).markdown(),
        *(["## Columns", columns.markdown()] if (columns := columns_table(dataset)) is not None else []),
        "## Long tail",
        tail_table(dataset).markdown(),
        f"![Lorenz curve]({LORENZ})",
        "## How it was made",
        "\n".join(f"- {sentence}" for sentence in [*built.made, *dataset.notes]),
        "## Files",
        "\n".join(
            [
                "- `manifest.csv`: each picture with its label, split, length, SHA-256 and where it came from.",
                "- `classes.csv`: each class with its superclass, its folder and its counts.",
                "- `train/`, `val/`, `test/`: the pictures, in a folder for each class."
                if pictures_root is None
                else f"- The pictures are not here, but in `{printable(str(pictures_root))}`, where the paths start.",
            ]
        ),
    ]
    if built.notes:
        parts += ["## Before you use it", "\n".join(f"- {note}" for note in built.notes)]
    if dataset.problems:
        lines = "\n".join(f"- {line}" for line in problem_lines(dataset.problems, most=50))
        parts += ["## Problems", problems_table(dataset).markdown(), lines]
    parts += ["## Licence and citation", dataset.reference or "To be filled in by the publisher."]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"
