"""One line of text → a dataset: ``flora:species=50``, ``cifar100:PATH``, or the path of a folder or table."""

import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from shortlist.data.dataset import Dataset, InputKind
from shortlist.data.flora.garden import Flora
from shortlist.data.problems import BLANKS, LABELS_NOT_USED, Problem
from shortlist.data.protocols import apply_protocol, protocol_options
from shortlist.data.readers.file_kinds import ARFF_SUFFIX, ARRAY_SUFFIX, TABLE_SUFFIXES
from shortlist.data.readers.flora import flora_dataset
from shortlist.errors import InputError
from shortlist.files import similar_paths
from shortlist.words import did_you_mean, listed, printable, quoted, similar

PathText: TypeAlias = str | os.PathLike[str]
# Parameters of readers that open_dataset passes on.
SPLIT, REQUIRE_LABELS, FEATURE_NAMES = "split", "require_labels", "feature_names"
NAME = re.compile(r"[a-z][a-z0-9-]+")  # one letter may be a drive of Windows
Reader = TypeVar("Reader", bound=Callable[..., Dataset])
OPTION = re.compile(r"[a-z][a-z_0-9]*=.*", re.DOTALL)
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Source:
    """A kind of dataset that has a name.

    Args:
        read: the reader, or ``MODULE:FUNCTION`` below :mod:`shortlist.data`, which is imported when it is first used.
        what: a short description of the dataset.
        takes_path: whether a path follows the name.
        of_test: options that choose among the official test rows, and so mean nothing if val is the test split.
    """

    read: Callable[..., Dataset] | str
    what: str
    takes_path: bool = True
    of_test: tuple[str, ...] = ()

    def reader(self) -> Callable[..., Dataset]:
        """The function that reads it."""
        if not isinstance(self.read, str):
            return self.read
        module, _, function = self.read.partition(":")
        loaded: Callable[..., Dataset] = getattr(importlib.import_module(f"shortlist.data.{module}"), function)
        return loaded

    def form(self, name: str) -> str:
        """How to write it on the command line."""
        return f"{name}:PATH" if self.takes_path else name


SOURCES: dict[str, Source] = {
    "flora": Source("sources:_flora", "the procedural garden, drawn when it is opened", takes_path=False),
    "folders": Source("readers.class_folders:read_class_folders", "a folder of class folders, in splits or not"),
    "benchmark": Source("readers.benchmark:read_benchmark", "a folder that `shortlist data build` wrote"),
    "table": Source("readers.picture_table:read_picture_table", "a table of pictures and labels, CSV or Parquet"),
    "features": Source("readers.feature_table:read_feature_table", "a table of features and labels, CSV, Parquet or npz"),
    "arff": Source("readers.arff:read_arff", "an ARFF file, with labels=FILE.xml or MEKA's -C"),
    "mulan": Source("readers.arff:read_mulan", "a folder with NAME-train.arff, NAME-test.arff and NAME.xml"),
    "cifar10": Source("readers.cifar:read_cifar10", "CIFAR-10, binary version"),
    "cifar100": Source("readers.cifar:read_cifar100", "CIFAR-100, binary version"),
    "tiny-imagenet": Source("readers.tiny_imagenet:read_tiny_imagenet", "Tiny ImageNet"),
    "imagenet": Source("readers.imagenet:read_imagenet", "ImageNet (ILSVRC 2012)"),
    "imagenet-lt": Source("readers.imagenet:read_imagenet_lt", "ImageNet-LT, by the lists of its authors"),
    "plantnet-300k": Source("readers.plantnet:read_plantnet", "Pl@ntNet-300K", of_test=("mini_test", "mini_genera")),
    "inaturalist": Source("readers.inaturalist:read_inaturalist", "iNaturalist 2017, 2018, 2019 or 2021"),
    "coco": Source("readers.coco:read_coco", "MS-COCO 2014 or 2017, labels from instances"),
    "voc": Source("readers.voc:read_voc", "PASCAL VOC 2007 or 2012, labels from ImageSets/Main"),
    "wider-attribute": Source("readers.wider_attribute:read_wider_attribute", "WIDER Attribute, 14 attributes of persons"),
    "vispr": Source("readers.vispr:read_vispr", "VISPR, 68 privacy attributes of pictures"),
    "omniglot": Source("readers.omniglot:read_omniglot", "Omniglot"),
}


def register_source(name: str, what: str = "", *, takes_path: bool = True) -> Callable[[Reader], Reader]:
    """Decorator: give a function that reads a dataset a name, so that ``NAME:PATH`` opens it wherever data are named.

    The function takes the path first, unless ``takes_path`` is False, and returns a :class:`~shortlist.data.Dataset`. Its other
    parameters are options, written after commas (``NAME:PATH,size=64``) and converted to their annotated types.

    Args:
        name: lower case, at least two characters.
        what: a short description of the dataset.
        takes_path: whether a path follows the name.

    >>> from shortlist.data import as_dataset
    >>> @register_source("evens", "even and odd numbers", takes_path=False)
    ... def evens(rows: int = 10) -> Dataset:
    ...     return as_dataset(([[float(n)] for n in range(rows)], [("even", "odd")[n % 2] for n in range(rows)]), name="evens")
    >>> open_dataset("evens:rows=4")
    Dataset('evens', 2 classes; all 4)
    """
    if not NAME.fullmatch(name):
        raise InputError(f"name: expected small letters, digits and hyphens, at least two, got {name!r}")

    def decorate(reader: Reader) -> Reader:
        known = SOURCES.get(name)
        # A notebook cell or a reloaded module may define the same function again.
        if known is not None and _origin(known.reader()) != _origin(reader):
            raise InputError(f"name: {name!r} is already {'.'.join(_origin(known.reader()))}")
        SOURCES[name] = Source(reader, what, takes_path)
        return reader

    return decorate


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def open_dataset(
    source: PathText | Sequence[PathText],
    *,
    require_labels: bool = True,
    split: str | None = None,
    input_kind: InputKind | None = None,
    feature_names: Sequence[str] = (),
    **options: Any,
) -> Dataset:
    """Open the dataset at a path, or the one that a text describes.

    The source is a path: a folder of class folders, a folder with ARFF files, a ``.csv``, ``.tsv`` or ``.parquet`` table (of
    pictures if it has a column of paths, else of features), an ``.arff`` or an ``.npz`` file; or a name of :data:`SOURCES` with
    a colon and a path. Options follow after commas: those of the reader (``leaves.csv,label_column=species``,
    ``flora:species=50,genera=10``), and those that every dataset has (``coco:PATH,test=val``), see
    :func:`~shortlist.data.protocols.apply_protocol`. Where both have an option of one name, it is the reader's.

    With ``require_labels=False`` the source is opened to be classified, and the dataset has one split, whose target may be
    None. Then a folder is all pictures below it, without labels; a file may be a picture; several files and folders may be
    given; a table is read whole, with labels only if every row has one; of a dataset with splits the test split is taken.

    Args:
        source: the path or the text; with ``require_labels=False`` also a list of files and folders of pictures.
        require_labels: whether rows without a label are left out. The default, True, is for training and evaluation.
        split: open only this split.
        input_kind: the inputs that are wanted of a table, ``"pictures"`` or ``"features"``; by default whichever it holds.
        feature_names: columns of a table that are features whatever their names usually mean: those that a classifier reads.
        options: options of the reader or of every dataset; they override those in the text.

    >>> open_dataset("flora:species=6,genera=2", train=4, val=1, test=1, size=8).train_counts.sum()
    tensor(4)
    >>> open_dataset("cifar1000:pictures")
    Traceback (most recent call last):
    shortlist.errors.InputError: cifar1000:pictures: there is no such folder or file, nor is it NAME:PATH; similar names: ...
    """
    if found := _address(source, require_labels, split):
        return found
    if not require_labels and (paths := _picture_paths(source)):
        return _pictures(paths, split)
    text = _one_text(source)
    chosen, path, written = _understood(text, options, input_kind)
    reader = chosen.reader()
    own = reader_options(chosen)
    allowed = {**own, **{name: hint for name, hint in protocol_options().items() if name not in own}}
    given = {**{key: _value(key, value, allowed.get(key)) for key, value in written.items()}, **options}
    unknown = next((key for key in given if key not in allowed), None)
    if unknown is not None:
        raise InputError(
            f"{text}: {did_you_mean(unknown, allowed)}expected options among {listed(list(allowed))}, got {unknown!r}"
        )
    protocol = {key: given.pop(key) for key in list(given) if key not in own}
    if protocol.get("test") is not None and (pointless := [key for key in chosen.of_test if given.get(key) is not None]):
        raise InputError(
            f"{text}: {pointless[0]} chooses among the official test rows, which test={protocol['test']} leaves out: expected "
            "one of the two, got both"
        )
    parameters = inspect.signature(reader).parameters
    if SPLIT in parameters and split is not None:
        given[SPLIT] = split
    if FEATURE_NAMES in parameters:
        given[FEATURE_NAMES] = feature_names
    if REQUIRE_LABELS in parameters and not require_labels:
        given = {"tolerance": 1.0, **given, REQUIRE_LABELS: False}  # whatever can be read is classified
    dataset = reader(path, **given) if chosen.takes_path else reader(**given)
    dataset = apply_protocol(dataset, **protocol)
    if not require_labels:  # problems with labels and classes do not matter
        dataset = replace(dataset, problems=[problem for problem in dataset.problems if _matters(problem)])
    return dataset if require_labels and split is None else dataset.only_split(split, source=printable(text))


def benchmark_of(source: str) -> tuple[Path, str | None] | None:
    """The folder of the benchmark that a text describes, and that of its pictures if it is another; None for other datasets."""
    chosen, path, written = _understood(source, {}, None)
    if chosen is not SOURCES["benchmark"]:
        return None
    from shortlist.data.readers.benchmark import benchmark_folder

    return benchmark_folder(path), written.get("pictures_root")


def _matters(problem: Problem) -> bool:
    return problem.left_out or problem.kind in (LABELS_NOT_USED, BLANKS)


def _one_text(source: PathText | Sequence[PathText]) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if len(source) != 1:
        raise InputError(
            f"source: expected one path or text, got {len(source):,}: several files can only be read with require_labels=False"
        )
    return os.fspath(source[0])


def _address(source: PathText | Sequence[PathText], require_labels: bool, split: str | None) -> Dataset | None:
    """The pictures at an address, if that is what was given."""
    texts = [os.fspath(text) for text in ([source] if isinstance(source, str | os.PathLike) else source)]
    if not any("://" in text for text in texts):
        return None
    from shortlist.data.readers.addresses import check_alone, is_address, read_address

    if not any(map(is_address, texts)):
        return None
    text = check_alone(texts)
    if require_labels or split is not None:
        raise InputError(
            f"{printable(text)}: expected a folder or a file of this machine, or of a file system that is mounted, got an "
            "address, from which pictures are read without labels and splits"
        )
    return read_address(text)


def _picture_paths(source: PathText | Sequence[PathText]) -> list[str]:
    """The paths, if they are picture files and folders of pictures; nothing if they are a table or a dataset."""
    texts = [os.fspath(text) for text in ([source] if isinstance(source, str | os.PathLike) else source)]
    if not texts or not all(texts):
        raise InputError("expected pictures, a table or a dataset, got nothing")
    if len(texts) > 1 or Path(texts[0]).is_dir():
        return texts
    path = Path(path_and_options(texts[0])[0])
    other = path.suffix.lower() in (*TABLE_SUFFIXES, ARRAY_SUFFIX, ARFF_SUFFIX)
    return texts if path.is_file() and not other else []


def _pictures(paths: Sequence[str], split: str | None) -> Dataset:
    from shortlist.data.readers.picture_files import read_picture_files

    if split is not None:
        raise InputError(
            "split: expected a dataset or a table with a split column, got files or folders of pictures, which have none; "
            f"folders:{printable(paths[0])} reads a folder with its splits and labels"
        )
    return read_picture_files(paths)


def _understood(source: str, options: Mapping[str, Any], input_kind: InputKind | None) -> tuple[Source, str, dict[str, str]]:
    """What to read, where, and the options that the text gives."""
    if not source.strip():
        raise InputError(f"expected a folder, a table or NAME:PATH, got nothing; names: {listed(list(SOURCES))}")
    name, _, rest = source.partition(":")
    name = name.strip().lower().replace("_", "-")
    chosen = SOURCES.get(name)
    if chosen is None:
        path, written = path_and_options(source)
        return SOURCES[_reader_of_path(source, Path(path), {**written, **options}, input_kind)], path, written
    path, written = path_and_options(rest if chosen.takes_path or not rest else f",{rest}")
    if chosen.takes_path and not path:
        raise InputError(f"{source}: expected {chosen.form(name)}, or ./{name} for a folder of that name")
    if path and not chosen.takes_path:
        raise InputError(f"{source}: expected NAME=VALUE after {name}:, got {path.strip(',')!r}")
    return chosen, path, written


def path_and_options(text: str) -> tuple[str, dict[str, str]]:
    """The path and the options after it; an existing path is never split at commas.

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


def _reader_of_path(source: str, path: Path, options: Mapping[str, Any], input_kind: InputKind | None) -> str:
    """The name of the reader for a path without one."""
    from shortlist.data.readers.benchmark import is_benchmark  # imports Arrow

    suffix = path.suffix.lower()
    if is_benchmark(path):
        return "benchmark"
    if path.is_dir():
        return "mulan" if any(entry.suffix.lower() == ARFF_SUFFIX for entry in path.iterdir()) else "folders"
    if path.is_file():
        if suffix in TABLE_SUFFIXES:
            return _reader_of_table(path, options, input_kind)
        if suffix == ARRAY_SUFFIX and input_kind == "pictures":
            raise InputError(f"{printable(path.name)}: expected pictures, got an npz file, which holds features")
        if suffix in (ARFF_SUFFIX, ARRAY_SUFFIX):
            return "arff" if suffix == ARFF_SUFFIX else "features"
        raise InputError(f"{printable(source)}: expected a folder or a .csv, .tsv, .parquet, .arff or .npz file")
    beside = similar_paths(path)
    if beside:
        raise InputError(f"{printable(source)}: there is no such folder or file{beside}")
    like = similar(source.partition(":")[0], SOURCES)
    named = f"similar names: {', '.join(like)}" if like else f"names: {listed(list(SOURCES))} (docs/datasets.md lists them)"
    raise InputError(f"{printable(source)}: there is no such folder or file, nor is it NAME:PATH; {named}")


def _reader_of_table(path: Path, options: Mapping[str, Any], input_kind: InputKind | None) -> str:
    """``"table"`` for a table with a column of paths, ``"features"`` for any other."""
    from shortlist.data.readers.columns import find_column
    from shortlist.data.readers.feature_table import is_number_type
    from shortlist.data.readers.table_file import TableFile

    file = TableFile(path)
    names = [name for name in file.names if name != options.get("id_column")]
    paths = find_column(names, "path", options.get("path_column"), file.name)
    if input_kind == "pictures" and paths is None:
        raise InputError(
            f"{file.name}: expected a table of pictures, with a column of paths (path, file, image, …), got "
            f"{quoted(file.names)}: name it after a comma, path_column=NAME"
        )
    if input_kind == "features" and paths is not None:
        if not is_number_type(file.schema.field(paths).type):
            raise InputError(
                f"{file.name}: expected a table of features, got one of pictures, in the column {paths!r}: add "
                f"id_column={paths} after a comma if it only names the rows"
            )
        return "features"
    return "features" if paths is None else "table"


def reader_options(source: Source) -> dict[str, Any]:
    """The options that a text may give to the reader of a source, with their types.

    >>> list(reader_options(SOURCES["mulan"]))
    ['name', 'tolerance']
    """
    reader = source.reader()
    if reader is _flora:
        hints = {**get_type_hints(Flora.__init__), **get_type_hints(flora_dataset)}
        return {name: hint for name, hint in hints.items() if name not in ("flora", "return")}
    hints = get_type_hints(reader)
    parameters = list(inspect.signature(reader).parameters)[1 if source.takes_path else 0 :]
    return {name: hints.get(name) for name in parameters if name not in (SPLIT, REQUIRE_LABELS, FEATURE_NAMES)}


def _value(key: str, text: str, hint: Any) -> Any:
    """The text converted to the type that the reader expects."""
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
    """The garden as a dataset; options of both are accepted."""
    own = inspect.signature(Flora).parameters
    garden = Flora(**{name: value for name, value in options.items() if name in own})
    return flora_dataset(garden, **{name: value for name, value in options.items() if name not in own})
