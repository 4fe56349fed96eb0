"""One line of text → a dataset: ``flora:species=50``, ``cifar100:PATH``, or the path of a folder or table."""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from shortlist.data.dataset import Dataset
from shortlist.errors import InputError
from shortlist.words import printable, similar

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
OPTION = re.compile(r"[a-z][a-z_0-9]*=.*", re.DOTALL)
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Source:
    """A kind of dataset that has a name.

    Args:
        module: where its reader is, below :mod:`shortlist.data`; loaded when it is first used.
        function: the reader.
        what: the dataset in a few words.
        takes_path: whether a path follows the name.
    """

    module: str
    function: str
    what: str
    takes_path: bool = True

    def reader(self) -> Callable[..., Dataset]:
        """The function that reads it."""
        loaded: Callable[..., Dataset] = getattr(importlib.import_module(f"shortlist.data.{self.module}"), self.function)
        return loaded

    def form(self, name: str) -> str:
        """How a person writes it."""
        return f"{name}:PATH" if self.takes_path else name


SOURCES: Mapping[str, Source] = {
    "flora": Source("sources", "_flora", "the procedural garden, drawn when it is asked for", takes_path=False),
    "folders": Source("readers.class_folders", "read_class_folders", "a folder of class folders, in splits or not"),
    "benchmark": Source("readers.benchmark", "read_benchmark", "a folder that `shortlist data build` wrote"),
    "table": Source("readers.picture_table", "read_picture_table", "a table of pictures and labels, CSV or Parquet"),
    "features": Source("readers.feature_table", "read_feature_table", "a table of features and labels, CSV, Parquet or npz"),
    "arff": Source("readers.arff", "read_arff", "an ARFF file, with labels=FILE.xml or MEKA's -C"),
    "mulan": Source("readers.arff", "read_mulan", "a folder with NAME-train.arff, NAME-test.arff and NAME.xml"),
    "cifar10": Source("readers.cifar", "read_cifar10", "CIFAR-10, binary version"),
    "cifar100": Source("readers.cifar", "read_cifar100", "CIFAR-100, binary version"),
    "tiny-imagenet": Source("readers.tiny_imagenet", "read_tiny_imagenet", "Tiny ImageNet"),
    "imagenet": Source("readers.imagenet", "read_imagenet", "ImageNet (ILSVRC 2012)"),
    "imagenet-lt": Source("readers.imagenet", "read_imagenet_lt", "ImageNet-LT, by the lists of its authors"),
    "plantnet-300k": Source("readers.plantnet", "read_plantnet", "Pl@ntNet-300K"),
    "inaturalist": Source("readers.inaturalist", "read_inaturalist", "iNaturalist 2017, 2018, 2019 or 2021"),
    "coco": Source("readers.coco", "read_coco", "MS-COCO 2014 or 2017, labels from instances"),
    "voc": Source("readers.voc", "read_voc", "PASCAL VOC 2007 or 2012, labels from ImageSets/Main"),
    "omniglot": Source("readers.omniglot", "read_omniglot", "Omniglot"),
}


def open_dataset(source: str, **options: Any) -> Dataset:
    """The dataset that a line of text names.

    The text is a name of :data:`SOURCES` with a colon and a path, or a path alone: a folder of class folders, a folder with
    ARFF files, a ``.csv``, ``.tsv`` or ``.parquet`` table (of pictures if it has a column of paths, else of features), an
    ``.arff`` or an ``.npz`` file. Options of the reader follow after commas: ``leaves.csv,label_column=species``,
    ``flora:species=50,genera=10``.

    Args:
        source: the text.
        options: options of the reader; they go before those in the text.

    >>> open_dataset("flora:species=6,genera=2", train=4, val=1, test=1, size=8).train_counts.sum()
    tensor(4)
    >>> open_dataset("cifar1000:pictures")
    Traceback (most recent call last):
    shortlist.errors.InputError: cifar1000:pictures: there is no such folder or file, nor is it NAME:PATH; names like it: ...
    """
    chosen, path, written = _understood(source, options)
    reader = chosen.reader()
    allowed = reader_options(reader)
    given = {**{key: _value(key, text, allowed.get(key)) for key, text in written.items()}, **options}
    unknown = next((key for key in given if key not in allowed), None)
    if unknown is not None:
        raise InputError(f"{source}: expected options among {', '.join(allowed) or 'none'}, got {unknown!r}")
    return reader(path, **given) if chosen.takes_path else reader(**given)


def _understood(source: str, options: Mapping[str, Any]) -> tuple[Source, str, dict[str, str]]:
    """What to read, where, and the options that the text gives."""
    if not source.strip():
        raise InputError(f"expected a folder, a table or NAME:PATH, got nothing; names: {', '.join(SOURCES)}")
    name, _, rest = source.partition(":")
    name = name.strip().lower().replace("_", "-")
    chosen = SOURCES.get(name)
    if chosen is None:
        path, written = path_and_options(source)
        return SOURCES[_kind_of_path(source, Path(path), {**written, **options})], path, written
    path, written = path_and_options(rest if chosen.takes_path or not rest else f",{rest}")
    if chosen.takes_path and not path:
        raise InputError(f"{source}: expected {chosen.form(name)}, or ./{name} for a folder of that name")
    if path and not chosen.takes_path:
        raise InputError(f"{source}: expected options, such as {name}:species=50, got {path.strip(',')!r}")
    return chosen, path, written


def path_and_options(text: str) -> tuple[str, dict[str, str]]:
    """The path, and the options after it; a path that exists is all path.

    >>> path_and_options("a,b.csv,label_column=species")
    ('a,b.csv', {'label_column': 'species'})
    """
    if text and Path(text).exists():
        return text, {}
    parts = text.split(",")
    first = len(parts)
    while first > 1 and OPTION.fullmatch(parts[first - 1].strip()):
        first -= 1
    pairs = [part.strip().partition("=") for part in parts[first:]]
    return ",".join(parts[:first]), {key: value for key, _, value in pairs}


def _kind_of_path(source: str, path: Path, options: Mapping[str, Any]) -> str:
    """Which reader a bare path is for."""
    from shortlist.data.readers.benchmark import is_benchmark

    suffix = path.suffix.lower()
    if is_benchmark(path):
        return "benchmark"
    if path.is_dir():
        return "mulan" if any(entry.suffix.lower() == ".arff" for entry in path.iterdir()) else "folders"
    if path.is_file():
        if suffix in TABLE_SUFFIXES:
            return "table" if "path_column" in options or _has_paths(path) else "features"
        if suffix in (".arff", ".npz"):
            return "arff" if suffix == ".arff" else "features"
        raise InputError(f"{printable(source)}: expected a folder or a .csv, .tsv, .parquet, .arff or .npz file")
    like = similar(source.partition(":")[0], SOURCES)
    named = f"names like it: {', '.join(like)}" if like else f"names: {', '.join(SOURCES)}"
    raise InputError(f"{printable(source)}: there is no such folder or file, nor is it NAME:PATH; {named}")


def _has_paths(path: Path) -> bool:
    from shortlist.data.readers.columns import find_column
    from shortlist.data.readers.table_file import TableFile

    file = TableFile(path)
    return find_column(file.names, "path", None, file.name) is not None


def reader_options(reader: Callable[..., Dataset]) -> dict[str, Any]:
    """What a reader can be told beside the path, with the types.

    >>> list(reader_options(SOURCES["mulan"].reader()))
    ['name', 'tolerance']
    """
    if reader is _flora:
        from shortlist.data.flora.garden import Flora
        from shortlist.data.readers.flora import flora_dataset

        hints = {**get_type_hints(Flora.__init__), **get_type_hints(flora_dataset)}
        return {name: hint for name, hint in hints.items() if name not in ("flora", "return")}
    hints = get_type_hints(reader)
    return {name: hints.get(name) for name in list(inspect.signature(reader).parameters)[1:]}


def _value(key: str, text: str, hint: Any) -> Any:
    """The text as what the reader takes."""
    kinds = get_args(hint) or (hint,)
    if bool in kinds and text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in kinds or not {bool, int, float} & set(kinds):
        return text
    raise InputError(f"{key}: expected {'true or false' if bool in kinds else 'a number'}, got {text!r}")


def _flora(**options: Any) -> Dataset:
    """The garden, with options of the garden and of its dataset alike."""
    from shortlist.data.flora.garden import Flora
    from shortlist.data.readers.flora import flora_dataset

    own = inspect.signature(Flora).parameters
    garden = Flora(**{name: value for name, value in options.items() if name in own})
    return flora_dataset(garden, **{name: value for name, value in options.items() if name not in own})
