"""Sets given by people, measured on the same rows as classifiers, to be drawn among them.

Garcin, thesis, figure 3.7: an expert who names 4.1 species on average, beside networks of the same average size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_distinct
from shortlist.class_names import is_missing
from shortlist.data.readers.table_file import TableFile
from shortlist.errors import InputError
from shortlist.metrics import coverage, set_size
from shortlist.predictions import Predictions
from shortlist.sets.lists import SEPARATOR
from shortlist.words import did_you_mean, listed, quoted, shown

ID, LABELS, PERSON = "id", "labels", "person"


@dataclass(frozen=True)
class PersonResult:
    """The sets of one person: how many, their mean size, and their coverage (with several labels a row, the recall)."""

    name: str
    rows: int
    size: float
    coverage: float


@dataclass(frozen=True)
class HumanSets:
    """Sets of labels that people gave: for each person, the labels of each row that they answered.

    Args:
        by_person: name of the person → id of the row → names of the labels.
    """

    by_person: dict[str, dict[str, frozenset[str]]]

    @property
    def ids(self) -> set[str]:
        """The rows that anybody answered."""
        return {row for answers in self.by_person.values() for row in answers}

    def answered(self, predictions: Predictions) -> Predictions:
        """Only the rows that anybody answered; a row that the predictions lack is refused."""
        places = self._places(predictions)
        return predictions.rows(torch.tensor(sorted(places[row] for row in self.ids), dtype=torch.int64))

    def measure(self, predictions: Predictions) -> list[PersonResult]:
        """The result of each person on the rows that they answered.

        Args:
            predictions: with labels and the ids of the rows; the scores are not used.
        """
        if predictions.target is None:
            raise InputError("predictions: expected labels, to compare the sets of people with, got none")
        places, columns = self._places(predictions), _numbers(predictions.class_names)
        found = []
        for person, answers in self.by_person.items():
            rows = torch.tensor([places[row] for row in answers], dtype=torch.int64)
            sets = torch.zeros(len(rows), predictions.num_classes, dtype=torch.bool)
            rows_of = list(answers)
            for place, labels in enumerate(answers.values()):
                sets[place, [_number(label, columns, rows_of[place]) for label in labels]] = True
            target: Tensor = predictions.target[rows]
            found.append(PersonResult(person, len(rows), float(set_size(sets)), float(coverage(sets, target))))
        return found

    def _places(self, predictions: Predictions) -> dict[str, int]:
        places = _numbers(predictions.ids or [str(row) for row in range(len(predictions))])
        unknown = sorted(self.ids - places.keys())
        if unknown:
            raise InputError(
                f"{ID}: expected ids of rows of the scores, such as {quoted(list(places)[:1])}, got {quoted(unknown)}"
            )
        return places


def read_human_sets(path: str | Path, *, separator: str = SEPARATOR) -> HumanSets:
    """Sets from a .csv, .tsv or .parquet table with the columns ``id``, ``labels`` and, if several people answered, ``person``.

    Args:
        path: of the table. ``labels`` is a list (Parquet) or text; an empty cell is an empty set.
        separator: the text between two labels.
    """
    file = TableFile(path)
    missing = [name for name in (ID, LABELS) if name not in file.names]
    if missing:
        raise InputError(f"{file.name}: expected the columns {ID} and {LABELS}, got {listed(file.names)}")
    wanted = [name for name in (ID, LABELS, PERSON) if name in file.names]
    table = file.read_text(wanted)
    columns = {name: [_text(value) for value in table.column(name).to_pylist()] for name in wanted}
    people = columns.get(PERSON) or [Path(path).stem] * len(columns[ID])
    found: dict[str, dict[str, frozenset[str]]] = {}
    for person, row, labels in zip(people, columns[ID], columns[LABELS], strict=True):
        if not isinstance(row, str) or not row or not isinstance(person, str) or not person:
            raise InputError(f"{file.name}: expected an {ID} and a {PERSON} in every row, got an empty cell")
        answers = found.setdefault(person, {})
        if row in answers:
            raise InputError(
                f"{file.name}: expected one set for each row and person, got two of {shown(person)} for {shown(row)}"
            )
        answers[row] = _labels(labels, separator)
    if not found:
        raise InputError(f"{file.name}: expected sets, got none")
    return HumanSets(found)


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str | list) else str(value)


def _labels(value: Any, separator: str) -> frozenset[str]:
    if value is None:
        return frozenset()
    parts = value if isinstance(value, list) else value.split(separator)
    return frozenset(str(part).strip() for part in parts if not is_missing(part) and str(part).strip())


def _numbers(names: Sequence[str]) -> dict[str, int]:
    check_distinct(names)
    return {name: place for place, name in enumerate(names)}


def _number(label: str, columns: dict[str, int], row: str) -> int:
    if label not in columns:
        raise InputError(
            f"{LABELS} of row {shown(row)}: {did_you_mean(label, columns)}expected names of classes, got {shown(label)}"
        )
    return columns[label]
