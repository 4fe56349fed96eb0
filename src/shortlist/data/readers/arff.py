"""Multi-label tables in ARFF: with a label list of Mulan, or with the labels named in the file as MEKA does."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from shortlist.data.dataset import ALL, TRAIN, Dataset, Split, classes_without_rows
from shortlist.data.names import check_names
from shortlist.data.problems import Problem
from shortlist.data.readers.arff_file import ArffFile, Attribute, as_float, check_cells, read_arff_file
from shortlist.data.readers.feature_rows import usable_rows
from shortlist.data.readers.mulan_labels import read_label_names
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable, quoted

REFERENCE = "Tsoumakas et al., JMLR 12:2411–2414, 2011 (Mulan), and the paper named with the data"
# MEKA: -C 3 in the name of the relation says that the first 3 attributes are labels, -C -3 the last 3.
MEKA_LABELS = re.compile(r"-[Cc]\s+(-?\d{1,9})(?!\d)")
PRESENT, ABSENT = ("1", "true", "yes"), ("0", "false", "no")


def read_arff(
    train: str | Path,
    test: str | Path | None = None,
    labels: str | Path | Sequence[str] | None = None,
    *,
    name: str | None = None,
    tolerance: float = 0.01,
) -> Dataset:
    """Features ``float32 (N, D)`` and a target ``bool (N, C)`` from ARFF files, dense or sparse.

    Labels come in the order of the attributes of the ARFF file, whatever the order of the label list, and are attributes with
    the values 0 and 1. All other attributes are features: numbers as they are; a nominal attribute whose values are all numbers
    by its number, any other as one feature of 0 and 1 for each of its values; text and dates are left out and noted. A row with
    a missing feature or label is left out and noted; weights of rows are ignored and noted.

    Args:
        train: the file; the only one if there is no ``test``, and then the split is called all.
        test: a file with the same attributes.
        labels: an XML file of Mulan, or the names of the labels; None: what MEKA's ``-C`` in the relation says.
        name: what to call the dataset; the name of the file by default.
        tolerance: the share of rows with missing features above which this fails.
    """
    files = {ALL if test is None else TRAIN: Path(train)} | ({} if test is None else {"test": Path(test)})
    read = {split: read_arff_file(path) for split, path in files.items()}
    first = next(iter(read.values()))
    for split, other in read.items():
        _check_same(first, other, printable(files[split].name))
    chosen = _label_places(first, labels, printable(Path(train).name))
    classes = [first.attributes[place].name for place in chosen]
    problems = [*_notes(first.attributes, chosen), *check_names(classes)]
    splits = {}
    for split, content in read.items():
        width = sum(_width(attribute) for number, attribute in enumerate(content.attributes) if number not in chosen)
        check_cells(len(content.values), width, printable(files[split].name))
        splits[split], more = _split(content, chosen, split, tolerance)
        problems += more
    problems += classes_without_rows(splits, classes)
    return Dataset(name or Path(train).stem, classes, splits, problems=problems)


def read_mulan(folder: str | Path, name: str | None = None, *, tolerance: float = 0.01) -> Dataset:
    """A dataset of Mulan: NAME-train.arff, NAME-test.arff (or NAME.arff alone) and NAME.xml in one folder.

    Names are taken in any case, and with ``-sparse`` at the end or without.

    Args:
        folder: where the files lie.
        name: which dataset, if the folder holds several.
        tolerance: the share of rows with missing features above which this fails.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{printable(str(folder))}: expected a folder with NAME-train.arff, NAME-test.arff and NAME.xml")
    listed_files = sorted(path for path in folder.iterdir() if path.is_file())
    lists = {path.stem.lower(): path for path in listed_files if path.suffix.lower() == ".xml"}
    tables = {_bare_stem(path): path for path in reversed(listed_files) if path.suffix.lower() == ".arff"}
    names = [stem for stem in lists if stem in tables or f"{stem}-train" in tables]
    wanted = [stem for stem in names if name is None or stem == name.lower()]
    if len(wanted) != 1:
        asked = "one dataset (NAME-train.arff and NAME.xml)" if name is None else f"{name}-train.arff and {name}.xml"
        more = ": name one of them" if name is None and names else ""
        raise InputError(f"{printable(str(folder))}: expected {asked}, got {', '.join(names) or 'none'}{more}")
    stem = wanted[0]
    train, test = tables.get(f"{stem}-train", tables.get(stem)), tables.get(f"{stem}-test")
    assert train is not None  # by the choice of names
    dataset = read_arff(train, test, lists[stem], name=lists[stem].stem, tolerance=tolerance)
    return replace(dataset, reference=REFERENCE)


def _bare_stem(path: Path) -> str:
    return path.stem.lower().removesuffix("-sparse")


def _check_same(first: ArffFile, other: ArffFile, file: str) -> None:
    """The same attributes in the same order: nominal values are numbered by their declaration."""
    if len(first.attributes) != len(other.attributes):
        raise InputError(
            f"{file}: expected {len(first.attributes)} attributes as in the first file, got {len(other.attributes)}"
        )
    for one, two in zip(first.attributes, other.attributes, strict=True):
        if one != two:
            raise InputError(
                f"{file}: expected the attribute {one.name!r} as in the first file, got another declaration of {two.name!r}"
            )


def _label_places(content: ArffFile, labels: str | Path | Sequence[str] | None, file: str) -> list[int]:
    """Which attributes are labels, in their order in the file."""
    total = len(content.attributes)
    if labels is None:
        found = MEKA_LABELS.search(content.relation)
        count = int(found[1]) if found else 0
        if not 0 < abs(count) < total:
            raise InputError(
                f"{file}: expected labels as an XML file or as names, or -C in the relation, got {content.relation[:60]!r}"
            )
        return list(range(count)) if count > 0 else list(range(total + count, total))
    names = read_label_names(labels) if isinstance(labels, str | Path) else list(labels)
    place = {attribute.name: number for number, attribute in enumerate(content.attributes)}
    unknown = [name for name in names if name not in place]
    if unknown or not names:
        raise InputError(f"{file}: expected an attribute for every label, got none for {quoted(unknown)}")
    if len(set(names)) == total:
        raise InputError(f"{file}: expected attributes beside the {total} labels, got none")
    return sorted({place[name] for name in names})


def _notes(attributes: Sequence[Attribute], chosen: Sequence[int]) -> Iterator[Problem]:
    for number, attribute in enumerate(attributes):
        if number not in chosen and attribute.kind == "text":
            yield Problem("attribute left out", attribute.name, "is text or a date, which is no feature: left out")


def _split(content: ArffFile, chosen: Sequence[int], name: str, tolerance: float) -> tuple[Split, list[Problem]]:
    ids = [f"{name}/{row}" for row in range(len(content.values))]
    places = set(chosen)
    columns, names, attributes = [], [], []
    for number, attribute in enumerate(content.attributes):
        if number not in places:
            own = _features(attribute, content.values[:, number])
            columns += own
            names += _feature_names(attribute)
            attributes += [attribute.name] * len(own)
    features = np.stack(columns, axis=1) if columns else np.zeros((len(ids), 0), np.float32)
    marks = [_marks(content.attributes[number], content.values[:, number]) for number in chosen]
    target = np.stack(marks, axis=1)
    usable, problems = usable_rows(features, ids, attributes, tolerance)
    known = ~np.logical_or.reduce(np.isnan(target), axis=1)
    for row in np.flatnonzero(usable & ~known).tolist():
        problems.append(Problem("row without a label", ids[row], "has a label that is missing: left out"))
    if content.weighted:
        problems.append(Problem("weights", name, f"{content.weighted:,} rows have a weight, which is ignored"))
    rows = torch.from_numpy(np.flatnonzero(usable & known))
    whole = Split(torch.from_numpy(features), torch.from_numpy(target == 1), ids, feature_names=names)
    return whole.rows(rows), problems


def _features(attribute: Attribute, values: Array) -> list[Array]:
    """The columns that one attribute becomes."""
    if attribute.kind == "text":
        return []
    if attribute.kind == "numeric":
        return [values]
    numbers = _numbers(attribute)
    if numbers is not None:
        return [_looked_up(numbers, values)]
    missing = np.isnan(values)
    return [np.where(missing, np.nan, values == place).astype(np.float32) for place in range(len(attribute.values))]


def _feature_names(attribute: Attribute) -> list[str]:
    """The names of these columns: that of the attribute, with the value where there is one column for each value."""
    if attribute.kind == "nominal" and _numbers(attribute) is None:
        return [f"{attribute.name}={value}" for value in attribute.values]
    return [] if attribute.kind == "text" else [attribute.name]


def _width(attribute: Attribute) -> int:
    """How many columns that is."""
    return len(_feature_names(attribute))


def _numbers(attribute: Attribute) -> list[float] | None:
    """The values of a nominal attribute as numbers, if they all are."""
    try:
        return [as_float(value) for value in attribute.values]
    except ValueError:
        return None


def _marks(attribute: Attribute, values: Array) -> Array:
    """1 where the label is present, 0 where it is absent, NaN where that is missing."""
    if attribute.kind == "nominal":
        written = [value.lower() for value in attribute.values]
        if all(value in (*PRESENT, *ABSENT) for value in written):
            return _looked_up([float(value in PRESENT) for value in written], values)
    elif attribute.kind == "numeric" and bool((np.isin(values, (0, 1)) | np.isnan(values)).all()):
        return values
    raise InputError(
        f"label {attribute.name!r}: expected the values 0 and 1, got {', '.join(attribute.values[:8]) or attribute.kind}"
    )


def _looked_up(numbers: Sequence[float], places: Array) -> Array:
    """The number of each place; the last entry is where a missing one leads."""
    table = np.array([*numbers, np.nan], np.float32)
    found: Array = table[np.where(np.isnan(places), len(numbers), places).astype(np.int64)]
    return found
