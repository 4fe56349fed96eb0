"""Names that columns of tables usually have, by which data and files of scores tell what a column holds."""

import re
from collections.abc import Collection

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
# Columns that say whose a picture is, and under what licence it may be shown.
CREDITS = ("author", "credit", "credits", "attribution", "photographer", "rights_holder", "copyright", "observer")
LICENCES = ("licence", "license", "rights")
# Names that pandas gives to row numbers: the empty header of its CSV files, what reading and writing these again makes of it
# ("Unnamed: 0", then "Unnamed: 0.1"), and the levels of an index in Parquet.
ROW_NUMBERS = re.compile(r"|unnamed: \d+(\.\d+)*|__index_level_\d+__")

# What a column of labels in another form is called: label_id, speciesKey, class_code, true_label; or a second one: label2.
TRUTHS = ("y_true", "ground_truth", "groundtruth", "gt", "truth")
RECODED = re.compile(
    r"({labels})(_?(ids?|codes?|names?|index|idx|keys?|uuid|numbers?|num|no|int|encoded|enc|str|text|\d+))?|.+_labels?".format(
        labels="|".join((*USUAL_NAMES["label"], *USUAL_NAMES["superclass"], "taxon", *TRUTHS))
    )
)
# What pandas calls columns of one name: a table that has it twice (label, label.1), or two that were merged (label_x, label_y).
COPY = re.compile(r"(?P<name>.+?)(\.\d+|_[xy])")
# Further names of ids and row numbers.
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
IDS = re.compile(r".*_(ids?|uuid|guid)|index|idx|uuid|guid|key|row(_?(no|num|number|index|idx))?")


def is_credit(name: str) -> bool:
    """Whether a column usually says whose a picture is, or its licence.

    >>> is_credit("Photographer"), is_credit("licence"), is_credit("label")
    (True, True, False)
    """
    return name.strip().casefold() in (*CREDITS, *LICENCES)


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


def original(name: str) -> str:
    """The name of a column before pandas made it different from another of the same name.

    >>> original("fruit.1"), original("fruit_x"), original("fruit")
    ('fruit', 'fruit', 'fruit')
    """
    found = COPY.fullmatch(name)
    return name if found is None else found["name"]


def is_recoded(name: str, names: Collection[str]) -> bool:
    """Whether a column has a name of labels in another form, or of ids, which say what the label of a row is.

    Args:
        name: the name of the column.
        names: those of all columns of the table: ``y`` is a coordinate beside ``x``, and the label otherwise.

    >>> [is_recoded(name, ["label", name]) for name in ("label_id", "speciesKey", "Observer ID", "label.1", "y", "width")]
    [True, True, True, True, True, False]
    >>> is_recoded("y", ["x", "y"])
    False
    """
    name = original(name)
    if plain(name) == "y":
        return "x" not in map(plain, names)
    word = plain(CAMEL.sub("_", name))
    return any(form.fullmatch(word) is not None for form in (RECODED, IDS))


def plain(name: str) -> str:
    """The name of a column in the form that usual names have.

    >>> plain(" File Name")
    'file_name'
    """
    return name.strip().casefold().replace(" ", "_").replace("-", "_")
