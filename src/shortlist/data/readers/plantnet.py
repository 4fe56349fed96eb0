"""Pl@ntNet-300K: 306,146 pictures of 1,081 species, many of them hard to tell apart, few with many pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shortlist.checks import whole
from shortlist.data.dataset import TEST, TRAIN, Dataset
from shortlist.data.names import FIRST_WORD, superclasses_of
from shortlist.data.problems import Problem
from shortlist.data.randomness import Purpose, check_seed, random_ranks
from shortlist.data.readers.layout import find_home, parsed_json
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, distinct_names
from shortlist.errors import InputError
from shortlist.words import expected_one_of, printable

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
COLUMNS = {"organ": "organ", "licence": "license"}  # what the columns and the fields of the metadata are called
BETWEEN = "+"  # two organs or genera of an option


def read_plantnet(
    root: str | Path,
    *,
    group: Literal["observation", "author"] = "observation",
    organ: str | None = None,
    mini_test: int | None = None,
    mini_genera: str | None = None,
    mini_seed: int = 0,
) -> Dataset:
    """Pl@ntNet-300K, versions 1.0 and 1.1, from the folder ``plantnet_300K``: splits train, val and test, and genera.

    Pictures lie in ``images/SPLIT/SPECIES/PICTURE.jpg`` or in ``images_SPLIT/…``. Species and split of each are taken from
    ``plantnet300K_metadata.json``. A class is a species id, in sorted order; ids that share a name stay apart. The organ that
    a picture shows and its licence are the columns ``organ`` and ``licence`` of each split, empty where they are unknown.

    Args:
        root: that folder, or one that holds it.
        group: which pictures belong together: those of one observation (one plant, seen once), or of one author. Pictures for
            which it is not known are a group each; where it is known for none there are no groups.
        organ: only pictures of this organ, or of several, ``"flower+leaf"``; by default of all.
        mini_test: test on at most so many pictures of each species, drawn at random; by default on all.
        mini_genera: test on species of these genera only, ``"Crotalaria+Lupinus"``; with ``mini_test=5`` these are the data
            that a botanist labelled in Garcin, thesis, section 3.3.3 (83 pictures; which of them were drawn is not published).
        mini_seed: seed of ``mini_test``.
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
    name, notes = "Pl@ntNet-300K", []
    if organ is not None:
        named = _of_organs(named, organ)
        name = f"{name}, organ {organ}"
        notes.append(f"only pictures of the organ {organ}")
    if mini_genera is not None:
        named[TEST] = _of_genera(named[TEST], mini_genera, superclasses)
        name = f"{name}, test of {mini_genera}"
        notes.append(f"the test split has only species of the genera {mini_genera}")
    if mini_test is not None:
        named[TEST] = _at_most(named[TEST], whole(1)("mini_test", mini_test), check_seed(mini_seed, "mini_seed"))
        name = f"{name}, mini test"
        notes.append(f"the test split has at most {mini_test} pictures of each species (seed {mini_seed})")
    dataset = dataset_of(
        name,
        home,
        classes,
        named,
        superclasses=superclasses,
        reference=REFERENCE,
        problems=problems,
        same_classes=mini_genera is None,
    )
    return replace(dataset, notes=notes)


def _of_organs(named: dict[str, NamedPictures], organ: str) -> dict[str, NamedPictures]:
    there = sorted({one for rows in named.values() for one in rows.columns.get("organ", ()) if one})
    wanted = _wanted(organ, "organ", there)
    return {split: rows.only(np.array([one in wanted for one in rows.columns["organ"]], bool)) for split, rows in named.items()}


def _of_genera(rows: NamedPictures, genera: str, superclasses: list[str] | None) -> NamedPictures:
    if superclasses is None:
        raise InputError(f"mini_genera: expected a file of species names, {NAMES[0]}, from which genera are taken, got none")
    wanted = _wanted(genera, "mini_genera", sorted(set(superclasses)))
    return rows.only(np.array([superclasses[label] in wanted for label in rows.target.tolist()], bool))


def _at_most(rows: NamedPictures, number: int, seed: int) -> NamedPictures:
    """So many rows of each species, drawn among all that the metadata list, whether or not their pictures are there."""
    return rows.only(random_ranks(rows.target, seed, Purpose.MINI_TEST) < number)


def _wanted(texts: str, name: str, there: Sequence[str]) -> set[str]:
    wanted = {text.strip() for text in texts.split(BETWEEN)}
    unknown = next((text for text in sorted(wanted) if text not in there), None)
    if unknown is not None:
        raise InputError(f"{name}: {expected_one_of(unknown, there)}, several with {BETWEEN} between them, got {unknown!r}")
    return wanted


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
    columns = {name: [str(entry.get(key) or "") for _, entry in rows] for name, key in COLUMNS.items()}
    columns = {name: column for name, column in columns.items() if any(entry.get(COLUMNS[name]) for entry in known.values())}
    return NamedPictures(paths, labels, groups if any(entry.get(field) for _, entry in rows) else None, columns=columns)


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
