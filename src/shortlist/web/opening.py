"""Opening a site: the classifier of a run, the references to compare with, the rows to review, the index to search."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from shortlist.data.dataset import ALL, TRAIN, Split
from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.training.run_folder import SPLITS, RunFolder
from shortlist.training.splits import split_for_training
from shortlist.web.reference_pictures import ReferencePictures
from shortlist.web.references import References
from shortlist.web.review import Suspect, row_name, suspects

REFERENCES, VOTES = "references", "votes.sqlite"  # in the folder of a run
Progress = Callable[[int], None]  # rows done


@dataclass(frozen=True)
class RunData:
    """The rows of the data of a run.

    Args:
        splits: as they were trained on and held out.
    """

    splits: Mapping[str, Split]

    @staticmethod
    def of(run: RunFolder) -> "RunData":
        """The data that a run was trained on, opened and divided again as its recipe says."""
        recipe = run.recipe
        try:
            dataset = open_dataset(recipe.data)
        except InputError as error:
            raise InputError(
                f"the data of the run cannot be opened again ({error}): name pictures with --references"
            ) from error
        return RunData(split_for_training(dataset, recipe).splits)


@dataclass
class Comparison:
    """What photographs are compared with.

    Args:
        references: the embedded pictures.
        pictures: to show them.
        notes: what the user should know, in sentences.
    """

    references: References
    pictures: ReferencePictures
    notes: list[str] = field(default_factory=list)


def reference_rows(data: str) -> Split:
    """Labelled pictures that the user names, as ``train`` takes them: all of them, or the training rows."""
    dataset = open_dataset(data)
    if dataset.input_kind != "pictures":
        raise InputError(f"--references: expected pictures, got features: {data}")
    return dataset.splits[TRAIN] if TRAIN in dataset.splits else dataset.splits[ALL]


def open_references(classifier: Classifier, rows: Split, folder: Path, progress: Progress | None = None) -> Comparison:
    """The references in a folder; built there first if they are missing, or of other rows or another network."""
    notes: list[str] = []
    found: References | None = None
    if (folder / "references.json").is_file():
        try:
            opened = References.open(folder)
            found = opened if opened.are_of(classifier, rows) else None
        except InputError as error:
            notes.append(str(error))
    if found is None:
        found, problems = References.build(classifier, rows, folder, progress)
        if problems:
            notes.append(f"{len(problems):,} reference pictures cannot be read, such as {problems[0]}")
    return Comparison(found, ReferencePictures(rows, found), notes)


def suspected_rows(run: RunFolder, classifier: Classifier, data: RunData) -> tuple[list[Suspect], dict[str, Split]]:
    """Rows that the run held out whose labels are probably wrong, and the splits they are of."""
    if classifier.rule is None or classifier.link is None or not classifier.single_label:
        return [], {}
    found: list[Suspect] = []
    splits: dict[str, Split] = {}
    for name in SPLITS:
        rows = data.splits.get(name)
        if rows is None or name not in run.splits:
            continue
        predictions = run.predictions(name).with_link(classifier.link)
        if predictions.ids is None:
            continue
        places = {str(one): place for place, one in enumerate(rows.ids)}  # unreadable rows have no predictions
        there = torch.tensor([place for place, one in enumerate(predictions.ids) if one in places], dtype=torch.int64)
        splits[name] = rows.rows(torch.tensor([places[predictions.ids[place]] for place in there.tolist()]))
        named = partial(row_name, splits[name], data=run.recipe.data)
        found += suspects(predictions.rows(there), classifier.rule, name, named)
    by_name = {one.id: one for one in sorted(found, key=lambda one: one.margin)}  # a row may be in two splits
    return list(by_name.values())[::-1], splits
