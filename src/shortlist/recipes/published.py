"""The numbers that the papers print, as one typed table: every table of results of the five papers, a row for each number.

The table is the file ``published.csv`` beside this one. Cells without a number (a dash, or a training that did not converge)
have no row. Misprints are corrected, with a note. Tables that the thesis reprints from the two papers before it are kept once,
under the paper.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from shortlist.errors import InputError
from shortlist.words import expected_one_of, shown

Split: TypeAlias = Literal["train", "val", "test"]
Unit: TypeAlias = Literal["percent", "share", "seconds", "count"]

PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "garcin-2022": "Garcin 2022",
        "garcin-2023": "Garcin 2023",
        "garcin-thesis": "Garcin, thesis",
        "liao": "Liao",
        "cheng": "Cheng",
    }
)
# Tables of the thesis that reprint one of the papers, number by number.
REPRINTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{f"4.{number}": ("garcin-2022", str(number)) for number in range(2, 10)},
        "5.1": ("garcin-2023", "1"),
        "5.2": ("garcin-2023", "2"),
    }
)
SHOT = ("few", "medium", "many")
# Classes of the datasets: numbers of other classes cannot be compared.
CLASSES: Mapping[str, int] = MappingProxyType(
    {
        "cifar10": 10,
        "cifar100": 100,
        "cifar60-40": 60,
        "tiny-imagenet": 200,
        "imagenet": 1000,
        "imagenet-lt": 1000,
        "plantnet-300k": 1081,
        "coco": 80,
        "voc": 20,
        "wider-attribute": 14,
        "vispr": 68,
        "nus-wide": 81,
    }
)


@dataclass(frozen=True)
class Published:
    """One number of a published table, and what it is the number of.

    Args:
        paper: ``"garcin-2022"``, ``"garcin-2023"``, ``"garcin-thesis"``, ``"liao"`` or ``"cheng"``.
        table: the number of the table as printed; ``"Figure 3"`` or ``"section 5.2"`` for numbers that the text gives.
        dataset: the name of the dataset.
        backbone: the network, as printed.
        printed: what the paper calls the method.
        method: the name of the method here, see :func:`~shortlist.methods.find_method`; empty for an expert.
        settings: settings of the recipe that this number was obtained with, where they differ between rows.
        recipes: the recipes that run this experiment; empty where there is none.
        metric: what was measured, such as ``"top-k"``, ``"macro-top-k"``, ``"average-k"``, ``"mAP@y"`` or ``"ACE"``.
        k: the size of the sets, or how many of the most probable labels of each row were measured; None where there is none.
        group: the classes it was measured on, by their number of training examples: ``"few"`` (fewer than 20), ``"medium"``
            (20 to 100), ``"many"`` (more than 100), or a range such as ``"11-50"``; empty for all classes.
        noise: the share of training labels that were replaced by others of their superclass.
        split: the rows it was measured on.
        value: the number as printed.
        spread: the number after ±, half the width of a 95 % interval over seeds; None where none is printed.
        unit: the unit of ``value`` and ``spread``.
        decimals: the number of decimals printed.
        note: what else has to be known.

    >>> found = published_numbers(recipe="plantnet-top5", method="ldam", metric="macro-top-k")
    >>> [(number.group, number.value, number.spread) for number in found]
    [('', 71.9, 0.3), ('few', 54.0, None), ('medium', 83.0, None), ('many', 94.0, None)]
    """

    paper: str
    table: str
    dataset: str
    backbone: str
    printed: str
    method: str
    settings: Mapping[str, str]
    recipes: tuple[str, ...]
    metric: str
    k: float | None
    group: str
    noise: float
    split: Split
    value: float
    spread: float | None
    unit: Unit
    decimals: int
    note: str

    @property
    def source(self) -> str:
        """Paper and table, for people.

        >>> published_numbers(paper="liao", table="II")[0].source
        'Liao, Table II'
        """
        inside = self.table if self.table.startswith(("Figure", "section")) else f"Table {self.table}"
        return f"{PAPERS[self.paper]}, {inside}"

    @property
    def quantity(self) -> str:
        """What was measured, with its k, its classes and its rows where they are not all classes and the test rows.

        >>> published_numbers(paper="garcin-2023", table="2")[1].quantity
        'average-2, few-shot classes'
        """
        name = self.metric
        if self.k is not None:
            sized = self.metric.replace("-k", f"-{self.k:g}")
            name = sized if sized != self.metric or self.metric == "top-1 error" else f"{self.metric} of the top {self.k:g}"
        if self.group:
            name += f", {self.group}-shot classes" if self.group in SHOT else f", classes with {self.group} training examples"
        return name if self.split == "test" else f"{name}, {self.split} rows"

    @property
    def shown(self) -> str:
        """The number as printed, with what follows ±.

        >>> published_numbers(recipe="cifar100-average5", method="role")[0].shown
        '96.12 ± 0.11'
        """
        number = f"{self.value:.{self.decimals}f}"
        return number if self.spread is None else f"{number} ± {self.spread:.{self.decimals}f}"

    def record(self) -> dict[str, Any]:
        """The number as plain values, for JSON."""
        found = {part.name: getattr(self, part.name) for part in fields(self)}
        return found | {"settings": dict(self.settings), "recipes": list(self.recipes)}


@cache
def _all() -> tuple[Published, ...]:
    """The whole table, read on first use."""
    text = resources.files("shortlist.recipes").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(_number(row) for row in csv.DictReader(text.splitlines()))


def _number(row: Mapping[str, str]) -> Published:
    settings = dict(setting.split("=", 1) for setting in row["settings"].split())
    split, unit = row["split"], row["unit"]
    assert split in get_args(Split), row
    assert unit in get_args(Unit), row
    return Published(
        **{
            name: row[name]
            for name in ("paper", "table", "dataset", "backbone", "printed", "method", "metric", "group", "note")
        },
        settings=MappingProxyType(settings),
        recipes=tuple(row["recipes"].split()),
        k=float(row["k"]) if row["k"] else None,
        noise=float(row["noise"] or 0),
        split=split,  # type: ignore[arg-type]  # checked above
        value=float(row["value"]),
        spread=float(row["spread"]) if row["spread"] else None,
        unit=unit,  # type: ignore[arg-type]  # checked above
        decimals=len(row["value"].partition(".")[2]),
    )


def published_numbers(
    *,
    paper: str | None = None,
    table: str | None = None,
    dataset: str | None = None,
    recipe: str | None = None,
    method: str | None = None,
    metric: str | None = None,
) -> tuple[Published, ...]:
    """The published numbers that fit everything given, in the order of the papers.

    Tables that the thesis reprints are found under the thesis too, if ``paper="garcin-thesis"`` asks for it.

    Args:
        paper: ``"garcin-2022"``, ``"garcin-2023"``, ``"garcin-thesis"``, ``"liao"`` or ``"cheng"``.
        table: the number of a table, as printed.
        dataset: the name of a dataset.
        recipe: the name of a recipe.
        method: the name of a method.
        metric: what was measured.

    >>> [number.value for number in published_numbers(paper="garcin-2022", table="2")]
    [19.38, 14.84, 11.4, 93.36, 94.46, 94.24, 93.78, 93.12]
    >>> published_numbers(paper="garcin-thesis", table="4.4") == ()
    False
    >>> published_numbers(recipe="flora-minutes")
    ()
    """
    found = _of_paper(paper)
    tests: dict[str, tuple[str | None, Callable[[Published], Any]]] = {
        "table": (table, lambda number: number.table),
        "dataset": (dataset, lambda number: number.dataset),
        "method": (method, lambda number: number.method),
        "metric": (metric, lambda number: number.metric),
    }
    for name, (wanted, value) in tests.items():
        if wanted is None:
            continue
        known = dict.fromkeys(value(number) for number in _of_paper(paper))
        if wanted not in known and name in ("table", "dataset", "metric"):
            raise InputError(f"{name}: {expected_one_of(wanted, list(known))}; got {shown(wanted)}")
        found = tuple(number for number in found if value(number) == wanted)
    return found if recipe is None else tuple(number for number in found if recipe in number.recipes)


def _of_paper(paper: str | None) -> tuple[Published, ...]:
    if paper is None:
        return _all()
    if paper not in PAPERS:
        raise InputError(f"paper: {expected_one_of(paper, list(PAPERS))}; got {shown(paper)}")
    own = tuple(number for number in _all() if number.paper == paper)
    if paper != "garcin-thesis":
        return own
    origin = {there: table for table, there in REPRINTS.items()}
    return own + tuple(
        replace(number, paper=paper, table=origin[number.paper, number.table])
        for number in _all()
        if (number.paper, number.table) in origin
    )
