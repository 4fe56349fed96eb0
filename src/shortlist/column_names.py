"""Names that columns of tables usually have, by which data and files of scores tell what a column holds."""

import re

# The purposes of columns, and their usual names.
USUAL_NAMES = {
    "path": (
        "path",
        "file",
        "filename",
        "file_name",
        "filepath",
        "file_path",
        "image",
        "image_path",
        "img",
        "picture",
        "photo",
    ),
    "label": ("label", "labels", "class", "class_name", "category", "species", "target", "tags"),
    "split": ("split", "subset"),
    "group": ("group", "group_id", "observer", "author", "plant", "plant_id", "observation", "observation_id"),
    "superclass": ("superclass", "genus", "coarse_label"),
    "id": ("id",),
    "valid": ("valid",),
}
# Names that pandas gives to row numbers: the empty header of its CSV files, what reading and writing these again makes of it
# ("Unnamed: 0", then "Unnamed: 0.1"), and the levels of an index in Parquet.
ROW_NUMBERS = re.compile(r"|unnamed: \d+(\.\d+)*|__index_level_\d+__")


def is_row_number(name: str) -> bool:
    """Whether a column has a name under which pandas writes row numbers.

    >>> is_row_number("Unnamed: 0.1"), is_row_number("__index_level_1__"), is_row_number("width")
    (True, True, False)
    """
    return ROW_NUMBERS.fullmatch(name.strip().casefold()) is not None


def is_no_class(name: str) -> bool:
    """Whether a column beside one column for each class is none of them: labels, superclasses, splits, ids or row numbers.

    Names of pictures and groups, such as "photo" or "plant", may be those of classes, unless they end in "_id".

    >>> is_no_class("Target"), is_no_class("image_id"), is_no_class("plant")
    (True, True, False)
    """
    usual = (name for role in ("label", "superclass", "split", "id", "valid") for name in USUAL_NAMES[role])
    return is_row_number(name) or plain(name) in usual or plain(name).endswith("_id")


def plain(name: str) -> str:
    """The name of a column in the form that usual names have.

    >>> plain(" File Name")
    'file_name'
    """
    return name.strip().casefold().replace(" ", "_").replace("-", "_")
