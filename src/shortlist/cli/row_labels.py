"""The labels of rows to classify, as far as the classifier knows them."""

from collections.abc import Sequence

from torch import Tensor

from shortlist.data.class_lists import KnownLabels, known_labels
from shortlist.data.dataset import Dataset, Split
from shortlist.data.problems import BLANKS, LABELS_NOT_USED
from shortlist.errors import InputError
from shortlist.tensors import Target


def labels_for(dataset: Dataset, classes: Sequence[str]) -> tuple[Target | None, Tensor | None, str | None]:
    """The labels of the rows, numbered as the classes of the classifier; which rows have one; and what is not used."""
    (rows,) = dataset.splits.values()
    if rows.target is None:
        unused = next((problem.what for problem in dataset.problems if problem.kind == LABELS_NOT_USED), None)
        return None, None, None if unused is None else f"labels are ignored: {unused}"
    if any(problem.kind == BLANKS for problem in dataset.problems) and len({name.strip() for name in classes}) < len(classes):
        return None, None, "labels are ignored: the classifier has classes that differ by the blanks around their names only"
    try:
        return rows.with_classes(classes).target, None, None
    except InputError as error:
        found = _labels_known(rows, classes)
        if found is None:
            return None, None, f"labels are ignored: {error}"
        return found.target, None if found.known.all() else found.known, f"labels are ignored: {found.sentence(classes)}"


def _labels_known(rows: Split, classes: Sequence[str]) -> KnownLabels | None:
    """The labels that the classifier knows; None if it knows none of them, or if it is unknown which rows have its labels."""
    try:
        found = known_labels(rows.labels, rows.classes or (), classes, need_all=not rows.open_classes)
    except InputError:
        return None
    return found if found.unknown and found.any_left else None
