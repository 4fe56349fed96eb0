"""Pl@ntNet-300K in both layouts, and what is not it."""

from pathlib import Path

import pytest
import torch

from shortlist.data import open_dataset
from shortlist.data.readers.plantnet import read_plantnet
from shortlist.errors import InputError
from shortlist.report.data_card import columns_table
from tests.data.readers import fixtures
from tests.data.readers.fixtures import PLANTNET, dump, kinds, text


@pytest.mark.parametrize("later", [True, False])
def test_both_layouts(tmp_path, later):
    home = fixtures.plantnet(tmp_path, later=later)
    data = read_plantnet(tmp_path)
    assert data.classes == ["Lactuca virosa L. (1355868)", "Pelargonium capitatum (L.) L'Hér.", "Lactuca virosa L. (1356257)"]
    assert data.superclasses == ["Lactuca", "Pelargonium", "Lactuca"]
    assert {name: split.target.tolist() for name, split in data.splits.items()} == {"train": [1, 0, 2], "val": [0], "test": [1]}
    assert data.splits["train"].inputs.path(0) == home / ("images/train" if later else "images_train") / "1355920/aa.jpg"
    assert set(kinds(data)) == {"class missing from a split"}
    assert "Garcin" in data.reference


def test_groups_are_observations_or_authors(tmp_path):
    fixtures.plantnet(tmp_path)
    assert read_plantnet(tmp_path).splits["train"].groups == ["7", "7", "cc"]
    assert read_plantnet(tmp_path, group="author").splits["train"].groups == ["Ada", "Bob", "Bob"]
    with pytest.raises(InputError, match="group: .*got 'organ'"):
        read_plantnet(tmp_path, group="organ")


def test_organ_and_licence_are_columns(tmp_path):
    fixtures.plantnet(tmp_path)
    data = read_plantnet(tmp_path)
    assert data.splits["train"].columns == {"organ": ["flower", "", ""], "licence": ["cc-by-sa", "", ""]}
    assert data.splits["val"].columns == {"organ": [""], "licence": [""]}
    assert data.splits["train"].rows(torch.tensor([2, 0])).columns["organ"] == ["", "flower"]
    shown = columns_table(data).records()
    assert [list(line.values()) for line in shown] == [
        ["organ", "unknown", 2, 1, 1],
        ["organ", "flower", 1, 0, 0],
        ["licence", "unknown", 2, 1, 1],
        ["licence", "cc-by-sa", 1, 0, 0],
    ]


def species(rows, organs=("flower", "leaf")):
    """So many test pictures of three species each, and one of each to train on and to choose the epoch."""
    ids = list(fixtures.SPECIES)
    entries = [("test", one, f"{one}{row}") for row in range(rows) for one in ids]
    entries += [(split, one, f"{split}{one}") for split in ("train", "val") for one in ids]
    return {
        name: {"species_id": one, "split": split, "organ": organs[place % len(organs)], "license": "cc-by-sa"}
        for place, (split, one, name) in enumerate(entries)
    }


def test_pictures_of_some_organs(tmp_path):
    metadata = species(8, organs=("flower", "leaf", "bark", "fruit"))
    fixtures.plantnet(tmp_path, metadata=metadata)
    every = read_plantnet(tmp_path)
    for organ, organs in (("leaf", {"leaf"}), ("flower+bark", {"flower", "bark"})):
        data = read_plantnet(tmp_path, organ=organ)
        assert data.name == f"Pl@ntNet-300K, organ {organ}"
        assert data.classes == every.classes
        for name, split in data.splits.items():
            assert set(split.columns["organ"]) <= organs
            whole = every.splits[name]
            kept = [row for row, own in enumerate(whole.columns["organ"]) if own in organs]
            assert split.ids == [whole.ids[row] for row in kept]
            assert split.target.tolist() == whole.target[kept].tolist()
    with pytest.raises(InputError, match="organ: did you mean 'leaf'.*bark, flower, fruit, leaf.*got 'leav'"):
        read_plantnet(tmp_path, organ="leav")


def test_an_organ_of_data_that_name_none_is_refused(tmp_path):
    brief = {name: {"species_id": entry["species_id"], "split": entry["split"]} for name, entry in PLANTNET.items()}
    fixtures.plantnet(tmp_path, metadata=brief)
    assert not read_plantnet(tmp_path).splits["train"].columns
    with pytest.raises(InputError, match="organ: .*got 'leaf'"):
        read_plantnet(tmp_path, organ="leaf")


def test_the_mini_test_set(tmp_path):
    fixtures.plantnet(tmp_path, metadata=species(8))
    every = read_plantnet(tmp_path)
    data = read_plantnet(tmp_path, mini_test=5)
    assert data.splits["test"].counts(3).tolist() == [5, 5, 5]
    assert data.splits["train"].ids == every.splits["train"].ids
    assert data.splits["test"].ids == [name for name in every.splits["test"].ids if name in set(data.splits["test"].ids)]
    assert read_plantnet(tmp_path, mini_test=5).splits["test"].ids == data.splits["test"].ids
    assert read_plantnet(tmp_path, mini_test=5, mini_seed=1).splits["test"].ids != data.splits["test"].ids
    assert read_plantnet(tmp_path, mini_test=9).splits["test"].ids == every.splits["test"].ids
    # Recorded once: which pictures a seed means must not change.
    assert [Path(name).stem[-1] for name in data.splits["test"].ids] == list("001112344456677")


@pytest.mark.parametrize("option", ["mini_test=2", "mini_genera=Pelargonium"])
def test_rows_chosen_for_the_test_and_val_as_test_are_refused_together(tmp_path, option):
    fixtures.plantnet(tmp_path, metadata=species(3))
    with pytest.raises(InputError, match=rf"{option.partition('=')[0]} .*test=val"):
        open_dataset(f"plantnet-300k:{tmp_path},{option},test=val")


def test_the_mini_test_set_of_some_genera(tmp_path):
    fixtures.plantnet(tmp_path, metadata=species(8))
    data = open_dataset(f"plantnet-300k:{tmp_path},mini_test=2,mini_genera=Pelargonium")
    assert data.splits["test"].counts(3).tolist() == [0, 2, 0]
    assert len(data.classes) == 3
    assert data.notes == [
        "the test split has only species of the genera Pelargonium",
        "the test split has at most 2 pictures of each species (seed 0)",
    ]
    assert not data.problems  # that other genera are missing was asked for
    both = read_plantnet(tmp_path, mini_genera="Lactuca+Pelargonium")
    assert both.splits["test"].counts(3).tolist() == [8, 8, 8]
    with pytest.raises(InputError, match="mini_genera: did you mean 'Lactuca'.*got 'Lactua'"):
        read_plantnet(tmp_path, mini_genera="Lactua")
    with pytest.raises(InputError, match="mini_test: .*got 0"):
        read_plantnet(tmp_path, mini_test=0)
    with pytest.raises(InputError, match="mini_seed: .*got -1"):
        read_plantnet(tmp_path, mini_test=1, mini_seed=-1)
    (tmp_path / "plantnet_300K/plantnet300K_species_id_2_name.json").unlink()
    with pytest.raises(InputError, match="mini_genera: .*species names"):
        read_plantnet(tmp_path, mini_genera="Lactuca")


def test_species_and_split_are_enough(tmp_path):
    brief = {name: {"species_id": entry["species_id"], "split": entry["split"]} for name, entry in PLANTNET.items()}
    fixtures.plantnet(tmp_path, metadata=brief)
    assert read_plantnet(tmp_path).splits["train"].groups is None


def test_entries_that_say_too_little_and_pictures_that_are_absent(tmp_path):
    home = fixtures.plantnet(tmp_path)
    odd = {
        "ff": {"species_id": "1355868"},
        "gg": {"split": "train"},
        "hh": {"species_id": "1355868", "split": "other"},
        "ii": 3,
    }
    dump(home / "plantnet300K_metadata.json", PLANTNET | odd | {"jj": {"species_id": "1", "split": "train"}})
    data = read_plantnet(home)
    assert kinds(data)["entry that cannot be read"] == ["ff", "gg", "hh", "ii"]
    assert kinds(data)["absent picture"] == ["images/train/1/jj.jpg"]
    assert kinds(data)["class without a name"] == ["1"]
    assert data.classes[0] == "1"


def test_an_id_as_a_number_and_as_text_is_one_species(tmp_path):
    home = fixtures.plantnet(tmp_path)
    number = {name: {**entry, "species_id": int(entry["species_id"])} for name, entry in list(PLANTNET.items())[:2]}
    dump(home / "plantnet300K_metadata.json", PLANTNET | number | {"zz": {"species_id": True, "split": "train"}})
    data = read_plantnet(home)
    assert len(data.classes) == 3
    assert data.splits["train"].target.tolist() == [1, 0, 2]
    assert kinds(data)["entry that cannot be read"] == ["zz"]


def test_without_names_species_are_called_by_their_ids(tmp_path):
    home = fixtures.plantnet(tmp_path)
    (home / "plantnet300K_species_id_2_name.json").unlink()
    data = read_plantnet(tmp_path)
    assert data.classes == ["1355868", "1355920", "1356257"]
    assert data.superclasses is None
    assert "names are absent" in kinds(data)


def test_version_2_is_refused_by_name(tmp_path):
    text(tmp_path / "plantnet300K_metadata.csv", "species_id,split")
    with pytest.raises(
        InputError,
        match=r"expected version 1.1 of Pl@ntNet-300K, got 2.0, which is another dataset.*zenodo.org/records/5645731",
    ):
        read_plantnet(tmp_path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected the folder of Pl@ntNet-300K, with plantnet300K_metadata.json.*zenodo"):
        read_plantnet(tmp_path)
    dump(tmp_path / "plantnet300K_metadata.json", [1])
    with pytest.raises(InputError, match="expected an object with an entry for each picture, got list"):
        read_plantnet(tmp_path)
