"""Pl@ntNet-300K: 306,146 pictures of 1,081 species, many of them hard to tell apart, few with many pictures."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.names import FIRST_WORD, superclasses_of
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import find_home, parsed_json
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, distinct_names
from shortlist.errors import InputError
from shortlist.words import printable

METADATA = "plantnet300K_metadata.json"
NAMES = ("plantnet300K_species_id_2_name.json", "plantnet300K_species_names.json")
LATER = "plantnet300K_metadata.csv"  # of version 2.0, which is another dataset
SOURCE = "Version 1.1 is offered at https://zenodo.org/records/5645731: give the folder that plantnet_300K.zip unpacks to"
REFERENCE = (
    "Garcin et al., Pl@ntNet-300K: a plant image dataset with high label ambiguity and a long-tailed distribution, "
    "NeurIPS Datasets and Benchmarks 2021"
)
SPLITS = (TRAIN, "val", "test")
FIELDS = {"observation": "obs_id", "author": "author"}


def read_plantnet(root: str | Path, *, group: Literal["observation", "author"] = "observation") -> Dataset:
    """Pl@ntNet-300K, versions 1.0 and 1.1, from the folder ``plantnet_300K``: splits train, val and test, and genera.

    Pictures lie in ``images/SPLIT/SPECIES/PICTURE.jpg`` or in ``images_SPLIT/…``. Species and split of each are taken from
    ``plantnet300K_metadata.json``. A class is a species id, in sorted order; ids that share a name stay apart.

    Args:
        root: that folder, or one that holds it.
        group: which pictures belong together: those of one observation (one plant, seen once), or of one author. Pictures for
            which it is not known are a group each; where it is known for none there are no groups.
    """
    if group not in FIELDS:
        raise InputError(f"group: expected {' or '.join(map(repr, FIELDS))}, got {group!r}")
    home = find_home(root, "Pl@ntNet-300K", holds=[METADATA, LATER], below=["plantnet_300K"], source=SOURCE)
    if not (home / METADATA).is_file():
        raise InputError(
            f"{printable(str(home))}: expected version 1.1 of Pl@ntNet-300K, got 2.0, which is another dataset. {SOURCE}"
        )
    metadata = parsed_json(home / METADATA, "the labels of Pl@ntNet-300K")
    if not isinstance(metadata, dict):
        got = type(metadata).__name__
        raise InputError(f"{printable(str(home / METADATA))}: expected an object with an entry for each picture, got {got}")
    problems: list[Problem] = []
    known = _known(metadata, problems)
    species = sorted({str(entry["species_id"]) for entry in known.values()})  # 5 and "5" are one id
    names = _names(home, problems)
    classes = _classes(species, names, problems)
    number = {one: label for label, one in enumerate(species)}
    named = {split: _rows(home, split, known, number, FIELDS[group]) for split in SPLITS}
    superclasses = superclasses_of(classes, FIRST_WORD if names else None)
    return dataset_of("Pl@ntNet-300K", home, classes, named, superclasses=superclasses, reference=REFERENCE, problems=problems)


def _known(metadata: dict[str, Any], problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """The entries that say of which species a picture is and in which split."""
    known = {}
    for picture, entry in metadata.items():
        species = entry.get("species_id") if isinstance(entry, dict) else None
        if isinstance(species, str | int) and not isinstance(species, bool) and entry.get("split") in SPLITS:
            known[picture] = entry
        else:
            problems.append(Problem("entry that cannot be read", picture, "names no species or no split: left out"))
    return known


def _rows(home: Path, split: str, known: dict[str, dict[str, Any]], number: dict[str, int], field: str) -> NamedPictures:
    folder = f"images_{split}" if (home / f"images_{split}").is_dir() else f"images/{split}"
    rows = [(picture, entry) for picture, entry in known.items() if entry["split"] == split]
    paths = [f"{folder}/{entry['species_id']}/{picture}.jpg" for picture, entry in rows]
    labels = np.array([number[str(entry["species_id"])] for _, entry in rows], np.int64)
    groups = [str(entry.get(field) or picture) for picture, entry in rows]
    return NamedPictures(paths, labels, groups if any(entry.get(field) for _, entry in rows) else None)


def _names(home: Path, problems: list[Problem]) -> dict[str, Any]:
    """The scientific name of each species id; none where no file gives them."""
    path = next((home / name for name in NAMES if (home / name).is_file()), None)
    if path is None:
        what = "is not there: species are called by their ids, and their genera are not known"
        problems.append(Problem("names are absent", NAMES[0], what))
        return {}
    names = parsed_json(path, "the names of the species")
    if not isinstance(names, dict):
        raise InputError(f"{printable(str(path))}: expected an object of species ids and names, got {type(names).__name__}")
    return names


def _classes(species: list[str], names: dict[str, Any], problems: list[Problem]) -> list[str]:
    """A name of its own for each species: the scientific one, with the id where two share it; else the id."""
    if names:
        nameless = [one for one in species if one not in names]
        problems += [Problem("class without a name", one, "has no scientific name: called by its id") for one in nameless]
    return distinct_names([str(names.get(one, one)) for one in species], species)
