"""A table of pictures and labels, CSV or Parquet: one row a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.checks import check_distinct
from shortlist.column_names import is_credit
from shortlist.data.dataset import Dataset
from shortlist.data.parquet_pictures import ParquetPictures
from shortlist.data.picture_bytes import PictureBytes
from shortlist.data.pictures import PictureFiles, Pictures
from shortlist.data.presence import absent_paths
from shortlist.data.problems import Problem, check_tolerance
from shortlist.data.readers.columns import find_column
from shortlist.data.readers.label_columns import Labels
from shortlist.data.readers.table_dataset import Asked, DescribedTable, TableInputs, dataset_of_table, find_roles
from shortlist.data.readers.table_file import TableFile
from shortlist.data.readers.table_rows import row_ids
from shortlist.errors import InputError
from shortlist.tensors import Array

ABSENT = "absent picture"  # the kind of a problem with a row whose picture is not there


def read_picture_table(
    path: str | Path,
    *,
    root: str | Path | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    superclass_column: str | None = None,
    superclass: str | None = None,
    separator: str | None = None,
    valid_column: str | None = None,
    keep_invalid: bool = False,
    tolerance: float = 0.01,
    split: str | None = None,
    require_labels: bool = True,
) -> Dataset:
    """Pictures by their paths, or by their bytes in Parquet, with one label a row or any number.

    Columns go by their usual names (path, file, image, …; label, class, species, …; split; group, observer, plant, …;
    superclass, genus) unless they are named here. Classes are in alphabetical order, or in that of numbers where all are whole
    numbers; with one column a class, in the order of the columns. Labels are

    - one a row: a column of names or whole numbers. Rows without one are left out and noted.
    - any number a row: a column of lists (Parquet), or of text with a ``separator``. An empty list or text is a row without
      labels, and kept; a missing value (null) is a row whose labels are not known, and left out. An empty cell of a CSV file
      could be either and is read as no label, which is noted.
    - any number a row, one column of 0 and 1 for each class: ``label_column="label.*"``; the class is called what the star
      stands for. A row with an empty cell is left out.

    Args:
        path: the table.
        root: the folder that relative paths start from; by default that of the table. Backslashes in paths are read as slashes.
        path_column: the column of paths, or of pictures: bytes, or ``{bytes, path}``.
        label_column: the column of labels, or a pattern with ``*`` for one column a class.
        split_column: the split of each row; without such a column there is one split, called all.
        group_column: which rows belong together; a row without a group is a group of its own.
        id_column: the name of each row, which no other row has. By default rows go by their paths, and rows of bytes by a
            column called ``id``, unless a value occurs twice in it, else by ``path`` beside the bytes, else by their numbers.
        superclass_column: the superclass of the class of each row.
        superclass: how class names give their superclass: ``"first-word"``, ``"last-word"`` or None.
        separator: the text between two labels of a row, such as ``"|"``.
        valid_column: says which labels are valid (1 or 0, true or false); by default a column of booleans called ``valid``,
            which aggregated votes have. Rows whose label is not valid are left out and noted.
        keep_invalid: keep them.
        tolerance: the share of absent pictures above which this fails.
        split: read only the rows of this split.
        require_labels: if False, rows without a label are kept, the label column may be missing, and labels are used only if
            every row has one; without ``split`` all rows are in one split.
    """
    asked = Asked(
        label_column,
        split_column,
        group_column,
        superclass_column,
        superclass,
        separator,
        split,
        require_labels,
        valid_column,
        keep_invalid,
    )
    return pictures_of_table(path, root, path_column, asked, tolerance, id_column)


def pictures_of_table(
    path: str | Path,
    root: str | Path | None,
    path_column: str | None,
    asked: Asked,
    tolerance: float,
    id_column: str | None = None,
) -> Dataset:
    """As :func:`read_picture_table`, with the options about columns and labels as one."""
    file = TableFile(path)
    pictures = find_column(file.names, "path", path_column, file.name, required=True)
    names = find_column([name for name in file.names if name != pictures], "id", id_column, file.name)
    roles = find_roles(file, asked, taken=(pictures, names), features=False)
    credits = [name for name in file.names if is_credit(name) and name not in roles.labels]
    named = [] if names is None else [names]
    table = file.read_text(list(dict.fromkeys([str(pictures), *named, *roles.columns, *credits])))
    described = DescribedTable(file, table, roles, asked, credits)
    labels = described.labels()
    home = file.path.parent if root is None else Path(root)
    found = pictures_of_column(table.column(pictures), str(pictures), home)
    check_tolerance(found.failures, table.num_rows, tolerance)
    problems = [*found.notes, *found.failures]
    if labels[0] is not None and found.by_path:
        problems += _listed_twice(found.ids, np.flatnonzero(labels[0].known & ~found.absent), labels[0])
    if id_column is not None or not found.by_path:  # by their paths, pictures are found again: for pages and thumbnails too
        found, unused = found.named(described.column(names), str(names), required=id_column is not None)
        problems += unused
    return dataset_of_table(described, labels, TableInputs(found.pictures, found.ids, ~found.absent, problems))


@dataclass(frozen=True, eq=False)
class TablePictures:
    """The pictures of a table, row by row, and which of them are absent.

    Args:
        pictures: by row.
        ids: the name of each row.
        absent: which rows have no picture, bool (N,).
        failures: one problem for each of these.
        notes: problems that cost no row.
    """

    pictures: Pictures
    ids: Sequence[str]
    absent: Array
    failures: list[Problem]
    notes: list[Problem] = field(default_factory=list)

    @property
    def by_path(self) -> bool:
        """Whether an id is the path of a file, so that two rows with one id are one picture."""
        return isinstance(self.pictures, PictureFiles)

    @property
    def own_names(self) -> str:
        """What rows are named by where nothing else names them."""
        return "numbers" if all(name.isdecimal() for name in self.ids) else "paths"

    def named(self, column: Any | None, name: str, *, required: bool = False) -> "tuple[TablePictures, list[Problem]]":
        """The same with the names in a column, where it has some; if two rows had one name they keep their own, with a problem.

        Pictures that are held as bytes, and whose own names are not distinct, go by their numbers.

        Args:
            column: an Arrow column; None without one.
            name: the name of the column, for messages.
            required: whether names that occur twice are an error.

        >>> pictures = pictures_of_column(pa.chunked_array([[b"one", b"two"]]), "image", Path())
        >>> pictures.named(pa.chunked_array([["ash", None]]), "id")[0].ids
        ['ash', '1']
        """
        own, problems = self._distinct()
        if column is None:
            return own, problems
        ids = row_ids(column, own.ids)
        try:
            check_distinct(ids, "rows")
        except InputError as error:
            if required:
                raise InputError(f"id_column {name!r}: {error}") from None
            return own, [*problems, Problem("column not used", name, f"{error}: rows go by their {own.own_names}")]
        return own._called(ids), []

    def _distinct(self) -> "tuple[TablePictures, list[Problem]]":
        """The same, by numbers if pictures that are held as bytes had one name."""
        if self.by_path:
            return self, []
        try:
            check_distinct(self.ids, "rows")
        except InputError as error:
            numbers = [str(row) for row in range(len(self.ids))]
            return self._called(numbers), [Problem("column not used", "path", f"{error}: rows go by their numbers")]
        return self, []

    def _called(self, ids: Sequence[str]) -> "TablePictures":
        """The same with other names. Files keep their paths, by which they are found."""
        pictures = self.pictures.named(ids) if isinstance(self.pictures, PictureBytes | ParquetPictures) else self.pictures
        return replace(self, ids=ids, pictures=pictures)


def pictures_of_column(column: Any, name: str, root: Path) -> TablePictures:
    """The pictures that an Arrow column holds or names: paths, bytes, or ``{bytes, path}``.

    Args:
        column: one entry a row.
        name: the name of the column, for messages.
        root: the folder that relative paths start from.

    >>> pictures_of_column(pa.chunked_array([[b"picture", None]]), "image", Path()).absent
    array([False,  True])
    """
    if pa.types.is_struct(column.type):
        fields = {column.type.field(place).name for place in range(column.type.num_fields)}
        if not {"bytes", "path"} <= fields:
            raise InputError(f"{name}: expected paths, bytes or {{bytes, path}}, got {column.type}")
        content, paths = pc.struct_field(column, "bytes"), pc.struct_field(column, "path")
        return _find_bytes(content, paths) if content.null_count < len(content) else _find_files(paths, root)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return _find_bytes(column, None)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InputError(f"{name}: expected paths, bytes or {{bytes, path}}, got {column.type}")
    return _find_files(column, root)


def _find_files(column: Any, root: Path) -> TablePictures:
    if not root.is_dir():
        raise InputError(f"root: expected a folder that paths start from, got {str(root)!r}")
    backslashes = int(pc.sum(pc.match_substring(column, "\\")).as_py() or 0)
    paths = pc.fill_null(pc.replace_substring(column, "\\", "/"), "").to_pylist()
    notes = [Problem("backslashes in paths", str(root), f"{backslashes:,} paths are read with / for \\")] if backslashes else []
    absent = absent_paths(root, paths)
    failures = [
        Problem(ABSENT, paths[row], "there is no such file: left out")
        if paths[row]
        else Problem(ABSENT, f"row {row}", "has no path: left out")
        for row in np.flatnonzero(absent).tolist()
    ]
    return TablePictures(PictureFiles(root, paths), paths, absent, failures, notes)


def _find_bytes(content: Any, paths: Any | None) -> TablePictures:
    named = [None] * len(content) if paths is None else paths.to_pylist()
    ids = [path or str(row) for row, path in enumerate(named)]
    absent: Array = content.is_null().to_numpy()
    failures = [Problem(ABSENT, ids[row], "has no bytes: left out") for row in np.flatnonzero(absent).tolist()]
    return TablePictures(PictureBytes(content, ids), ids, absent, failures)


def _listed_twice(paths: Sequence[str], kept: Array, labels: Labels) -> list[Problem]:
    """Paths in more than one row: such a picture is counted twice, or is on both sides of a split."""
    if len(set(paths)) == len(paths):
        return []
    rows_of: dict[str, list[int]] = {}
    for row in kept.tolist():
        rows_of.setdefault(paths[row], []).append(row)
    problems = []
    for path, rows in rows_of.items():
        if len(rows) > 1:
            texts = list(dict.fromkeys(_in_words(labels, row) for row in rows))
            how = f"with different labels, {', '.join(texts)}" if len(texts) > 1 else "with the same label"
            what = f"is in {len(rows)} rows ({', '.join(map(str, rows[:5]))}{', …' if len(rows) > 5 else ''}) {how}: all kept"
            problems.append(Problem("picture in several rows", path, what))
    return problems


def _in_words(labels: Labels, row: int) -> str:
    own = labels.target[row]
    return repr("|".join(labels.classes[label] for label in (np.flatnonzero(own) if own.ndim else [own])))
