"""iNaturalist of four years: joined by ids, never by position."""

import json

import pytest

from shortlist.data.readers.inaturalist import read_inaturalist
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import dump, kinds


@pytest.mark.parametrize("year", [2017, 2018, 2019, 2021])
def test_every_year(tmp_path, year):
    fixtures.inaturalist(tmp_path, year)
    data = read_inaturalist(tmp_path)
    assert data.name == f"iNaturalist {year}"
    assert data.classes == ["code 0", "code 1", "code 2"]
    assert data.superclasses == (["Apis", "Quercus", "Quercus"] if year == 2019 else ["Insects", "Plants", "Plants"])
    assert data.splits["train"].target.tolist() == [2, 0, 1]
    assert data.splits["val"].target.tolist() == [0]
    assert data.splits["train"].inputs.decode(0).image.size == (8, 8)
    assert set(kinds(data)) == {"class missing from a split"}


@pytest.mark.parametrize("later", [False, True])
def test_an_id_that_means_another_species_in_the_second_file_is_refused(tmp_path, later):
    fixtures.inaturalist(tmp_path)
    if later:
        dump(tmp_path / "categories.json", [{"id": number, "name": f"species {number}"} for number in range(3)])
    document = json.loads((tmp_path / "val2018.json").read_text())
    document["categories"][0]["name"], document["categories"][1]["name"] = "code 1", "code 0"
    dump(tmp_path / "val2018.json", document)
    with pytest.raises(
        InputError, match=r"val2018.json: .* train2018.json, got 'code 1' with the id 0, which is 'code 0' there"
    ):
        read_inaturalist(tmp_path)


def test_groups_are_rights_holders(tmp_path):
    data = read_inaturalist(fixtures.inaturalist(tmp_path))
    assert data.splits["train"].groups == ["Ada", "Ada", data.splits["train"].ids[2]]


def test_superclasses_by_rank(tmp_path):
    fixtures.inaturalist(tmp_path)
    assert read_inaturalist(tmp_path, superclass="genus").superclasses == ["Apis", "Quercus", "Quercus"]
    with pytest.raises(
        InputError, match=r"superclass: expected supercategory or kingdom or .* or genus, as the file has it, got 'tribe'"
    ):
        read_inaturalist(tmp_path, superclass="tribe")


@pytest.mark.parametrize("wrapped", [False, True])
def test_names_published_later_replace_the_codes(tmp_path, wrapped):
    fixtures.inaturalist(tmp_path, 2019)
    listed = [
        {"id": number, "name": name, "genus": name.split()[0]}
        for number, name in ((2, "Quercus robur"), (0, "Apis mellifera"), (1, "Quercus ilex"))
    ]
    dump(tmp_path / "categories.json", {"categories": listed} if wrapped else listed)
    data = read_inaturalist(tmp_path)
    assert data.classes == ["Apis mellifera", "Quercus ilex", "Quercus robur"]
    assert data.splits["train"].target.tolist() == [2, 0, 1]


def species(*ids):
    return [{"id": number, "name": f"Quercus {'abcdefgh'[number]}", "supercategory": "Oaks"} for number in ids]


@pytest.mark.parametrize("year", [2018, 2019])
@pytest.mark.parametrize("ids", [range(8), range(1, 4), range(2)])
def test_later_names_with_other_ids_are_those_of_another_year(tmp_path, year, ids):
    """The 8,142 species of 2018 became the classes of the 1,010 of 2019."""
    fixtures.inaturalist(tmp_path, year)
    without = read_inaturalist(tmp_path)
    dump(tmp_path / "categories.json", species(*ids))
    data = read_inaturalist(tmp_path)
    assert data.classes == without.classes == ["code 0", "code 1", "code 2"]
    assert data.superclasses == without.superclasses
    assert data.splits["train"].target.tolist() == [2, 0, 1]
    assert kinds(data)["names that do not fit"] == ["categories.json"]


@pytest.mark.parametrize("year", [2017, 2021])
def test_years_with_names_keep_them(tmp_path, year):
    fixtures.inaturalist(tmp_path, year)
    dump(tmp_path / "categories.json", species(0, 1, 2))
    data = read_inaturalist(tmp_path)
    assert data.classes == ["code 0", "code 1", "code 2"]
    assert kinds(data)["names that do not fit"] == ["categories.json"]


@pytest.mark.parametrize("agree", [True, False])
def test_names_that_already_replaced_the_codes_are_kept(tmp_path, agree):
    fixtures.inaturalist(tmp_path)
    own = species(0, 1, 2)
    for file in ("train2018.json", "val2018.json"):
        dump(tmp_path / file, json.loads((tmp_path / file).read_text()) | {"categories": own})
    dump(tmp_path / "categories.json", own if agree else [one | {"name": "Acer " + one["name"][-1]} for one in own])
    data = read_inaturalist(tmp_path)
    assert data.classes == ["Quercus a", "Quercus b", "Quercus c"]
    assert ("names that do not fit" in kinds(data)) is not agree


def test_an_archive_unpacked_into_a_folder_of_its_name(tmp_path):
    fixtures.inaturalist(tmp_path)
    (tmp_path / "train_val2018").rename(tmp_path / "inner")
    (tmp_path / "train_val2018").mkdir()
    (tmp_path / "inner").rename(tmp_path / "train_val2018/train_val2018")
    data = read_inaturalist(tmp_path)
    assert data.splits["train"].ids[0] == "train_val2018/train_val2018/Plants/2/train0.jpg"


def test_the_smaller_training_set_of_2021(tmp_path):
    fixtures.inaturalist(tmp_path, 2021)
    document = json.loads((tmp_path / "train.json").read_text())
    dump(
        tmp_path / "train_mini.json", document | {"images": document["images"][:2], "annotations": document["annotations"][1:]}
    )
    assert len(read_inaturalist(tmp_path).splits["train"]) == 3
    assert len(read_inaturalist(tmp_path, mini=True).splits["train"]) == 2
    (tmp_path / "train.json").unlink()
    assert len(read_inaturalist(tmp_path).splits["train"]) == 2


def test_annotations_that_contradict_or_are_absent(tmp_path):
    fixtures.inaturalist(tmp_path)
    document = json.loads((tmp_path / "train2018.json").read_text())
    first, second, third = (image["id"] for image in document["images"])
    document["annotations"] = [
        {"id": n, "image_id": i, "category_id": c}
        for n, (i, c) in enumerate([(first, 2), (first, 2), (first, 1), (third, 1), (99, 0)])
    ]
    dump(tmp_path / "train2018.json", document)
    data = read_inaturalist(tmp_path)
    assert data.splits["train"].target.tolist() == [2, 1]
    assert kinds(data)["several labels"] == [document["images"][0]["file_name"]]
    assert kinds(data)["picture without a label"] == [document["images"][1]["file_name"]]
    assert kinds(data)["unknown image"] == ["train2018.json"]
    assert second != third


def test_years_and_other_folders(tmp_path):
    with pytest.raises(
        InputError, match=r"expected the label files of iNaturalist, train2018.json or its like, got an empty folder.*inat_comp"
    ):
        read_inaturalist(tmp_path)
    fixtures.inaturalist(tmp_path, 2018), fixtures.inaturalist(tmp_path, 2019)
    with pytest.raises(InputError, match="year: expected one of 2018 and 2019"):
        read_inaturalist(tmp_path)
    assert read_inaturalist(tmp_path, year=2019).name == "iNaturalist 2019"


def test_validation_alone(tmp_path):
    fixtures.inaturalist(tmp_path)
    (tmp_path / "train2018.json").unlink()
    data = read_inaturalist(tmp_path)
    assert list(data.splits) == ["val"]
    assert kinds(data)["absent label file"] == ["train.json"]
