"""Pl@ntNet-300K in both layouts, and what is not it."""

import pytest

from shortlist.data.readers.plantnet import read_plantnet
from shortlist.errors import InputError
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
