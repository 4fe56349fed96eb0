"""Which column of a table is which: by the name given by the user, or by usual names."""

import fnmatch
from collections.abc import Collection, Sequence

from shortlist.column_names import USUAL_NAMES, is_recoded, is_row_number, plain
from shortlist.errors import InputError
from shortlist.words import quoted


def find_column(names: Sequence[str], role: str, asked: str | None, file: str, *, required: bool = False) -> str | None:
    """The column for one purpose, or None if there is none and none is required.

    >>> find_column(["File Name", "Species"], "path", None, "leaves.csv")
    'File Name'
    """
    if asked is not None:
        if asked not in names:
            raise InputError(f"{file}: expected a column {asked!r} ({role}_column), got {quoted(names)}")
        return asked
    found = [name for name in names if plain(name) in USUAL_NAMES[role]]
    if len(found) > 1:
        raise InputError(f"{file}: expected one {role} column, got {quoted(found)}: name it with {role}_column")
    if not found and required:
        usual = ", ".join(USUAL_NAMES[role][:4])
        raise InputError(f"{file}: expected a {role} column ({usual}, …), got {quoted(names)}: name it with {role}_column")
    return found[0] if found else None


def find_label_columns(names: Sequence[str], asked: str | None, taken: Collection[str | None], file: str) -> list[str]:
    """One column of labels; where a ``*`` was asked for, all that it matches, less row numbers and columns with a purpose."""
    if asked is None or asked in names:
        one = find_column([name for name in names if name not in taken], "label", asked, file, required=True)
        return [] if one is None else [one]
    left = [name for name in names if name not in taken and not is_row_number(name)]
    found = [name for name in left if fnmatch.fnmatchcase(name, asked)]
    if not found:
        raise InputError(f"{file}: expected columns like {asked!r} (label_column), got {quoted(names)}")
    return found


def describes_rows(name: str, names: Collection[str], but: Collection[str] = ()) -> bool:
    """Whether a column has the name of one that is no feature: labels in any form, splits, groups, ids, row numbers.

    Args:
        name: the name of the column.
        names: those of all columns of the table.
        but: purposes whose usual names do not count.

    >>> [describes_rows(name, ["width", name]) for name in ("Species", "species_id", "width")]
    [True, True, False]
    """
    usual = (usual for role, usual in USUAL_NAMES.items() if role not in but)
    return is_row_number(name) or is_recoded(name, names) or any(plain(name) in each for each in usual)
