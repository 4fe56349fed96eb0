"""References: the nearest of a class, exactly; built whole, opened again, and noticed when they are of something else."""

import json

import numpy as np
import pytest
import torch

from shortlist.data import Dataset, PictureArray, PictureFiles, Split
from shortlist.errors import InputError
from shortlist.models.embeddings import score_and_embed
from shortlist.web.opening import open_references
from shortlist.web.reference_pictures import ReferencePictures
from shortlist.web.references import References, file_digests, record_digest
from tests.models.classifiers import NAMES, image, of_pictures, pictures
from tests.references import identification as reference


def split(n=30, classes=NAMES, many=False, **options):
    target = torch.arange(n) % 3  # nothing of the last class
    if many:
        target = torch.nn.functional.one_hot(target, len(classes)).bool()
        target[::5, 3] = True
    images = pictures(n, seed=7)
    return Split(
        PictureArray(images, [f"{row}.png" for row in range(n)]),
        target,
        [f"{row}.png" for row in range(n)],
        classes=classes,
        **options,
    )


@pytest.mark.parametrize("many", [False, True])
def test_the_most_similar_of_a_class_are_the_nearest(tmp_path, many):
    classifier, rows = of_pictures(), split(many=many)
    found, problems = References.build(classifier, rows, tmp_path / "references")
    assert problems == []
    _, embedded = score_and_embed(classifier.network.eval(), rows.inputs.images)
    halves = embedded.half().double().tolist()
    wanted = embedded[4].double().tolist()
    for place in range(len(NAMES)):
        own = [row for row in range(30) if (rows.target[row, place] if many else rows.target[row] == place)]
        expected = [own[near] for near in reference.nearest([halves[row] for row in own], wanted, 4)]
        similar = found.similar(embedded[4].numpy(), place, 4)
        assert [int(found.rows[number]) for number in similar] == expected
        assert all(found.class_of(number) == place for number in similar)
    assert len(found) == int(rows.target.sum()) if many else len(found) == 30


def test_typical_ones_are_nearest_to_the_mean_of_their_class(tmp_path):
    found, _ = References.build(of_pictures(), split(), tmp_path / "references")
    block = found.embeddings[found.starts[1] : found.starts[2]].astype(np.float64)
    expected = reference.nearest(block.tolist(), block.mean(0).tolist(), 3)
    assert found.typical_of(1, 3) == [int(found.starts[1]) + near for near in expected]
    assert found.typical_of(3, 3) == []
    assert found.similar(np.ones(found.embeddings.shape[1]), 3, 3) == []


def test_they_are_opened_again_and_belong_to_their_network_and_rows(tmp_path):
    classifier, rows = of_pictures(), split()
    built, _ = References.build(classifier, rows, tmp_path / "references")
    opened = References.open(tmp_path / "references")
    assert isinstance(opened.embeddings, np.memmap)
    np.testing.assert_array_equal(opened.embeddings, built.embeddings)
    assert opened.are_of(classifier, rows)
    assert not opened.are_of(classifier, split(29))
    assert not opened.are_of(of_pictures(backbone="plain-8-8"), rows)


@pytest.mark.parametrize("name", ["embeddings.npy", "rows.npy", "typical.npy", "references.json"])
def test_a_single_changed_bit_of_any_file_is_noticed(tmp_path, name):
    classifier, rows, folder = of_pictures(), split(9), tmp_path / "references"
    References.build(classifier, rows, folder)
    good = (folder / name).read_bytes()
    for place in range(0, len(good) - 1, max(1, len(good) // 60)):  # the last byte of the record is its line end
        (folder / name).write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(InputError, match="cannot read the references"):
            References.open(folder)
    built = []
    again = open_references(classifier, rows, folder, built.append)
    assert built != []
    assert "references" in again.notes[0]
    assert (folder / name).read_bytes() == good


def test_a_picture_that_was_replaced_under_its_name_is_embedded_again(tmp_path):
    for row in range(4):
        image(seed=row).save(tmp_path / f"{row}.png")
    ids = [f"{row}.png" for row in range(4)]
    rows = Split(PictureFiles(tmp_path, ids), torch.arange(4) % 2, ids, classes=NAMES)
    classifier, built = of_pictures(), []
    before = open_references(classifier, rows, tmp_path / "references").references
    open_references(classifier, rows, tmp_path / "references", built.append)
    assert built == []
    image(seed=9).save(tmp_path / "0.png")
    after = open_references(classifier, rows, tmp_path / "references", built.append).references
    assert built != []
    assert [np.array_equal(*pair) for pair in zip(before.embeddings, after.embeddings, strict=True)].count(False) == 1


def test_classes_are_matched_by_name_and_building_again_replaces(tmp_path):
    classifier = of_pictures()
    other = split(12, classes=["oak", "elm", "ash"])
    References.build(classifier, split(), tmp_path / "references")
    found, _ = References.build(classifier, other, tmp_path / "references")
    assert np.diff(found.starts).tolist() == [4, 0, 4, 4]  # ash, birch, elm, oak
    assert len(References.open(tmp_path / "references")) == 12


def test_unreadable_pictures_are_left_out_and_named(tmp_path):
    for row in range(6):
        image(seed=row).save(tmp_path / f"{row}.png")
    (tmp_path / "3.png").write_bytes(b"no picture")
    ids = [f"{row}.png" for row in range(6)]
    rows = Split(PictureFiles(tmp_path, ids), torch.arange(6) % 2, ids, classes=NAMES)
    found, problems = References.build(of_pictures(), rows, tmp_path / "references")
    assert sorted(found.rows.tolist()) == [0, 1, 2, 4, 5]
    assert [problem.where for problem in problems] == ["3.png"]
    shown = ReferencePictures(rows, found)
    assert all(shown.jpeg(number)[:2] == b"\xff\xd8" for number in range(5))
    assert shown.jpeg(5) is None
    assert shown.jpeg(-1) is None
    (tmp_path / "0.png").unlink()
    assert ReferencePictures(rows, found).jpeg(found.rows.tolist().index(0)) is None


def test_credits_and_licences_are_those_of_the_data(tmp_path):
    columns = {"Author": [f"person {row}" for row in range(30)], "license": ["CC BY"] * 29 + [""], "organ": ["leaf"] * 30}
    rows = split(columns=columns)
    found, _ = References.build(of_pictures(), rows, tmp_path / "references")
    shown = ReferencePictures(rows, found)
    number = found.rows.tolist().index(5)
    assert shown.credit(number) == {"credit": "person 5", "licence": "CC BY"}
    assert shown.credit(found.rows.tolist().index(29)) == {"credit": "person 29"}


@pytest.mark.parametrize(
    "harm",
    [
        lambda starts, rows, typical: starts.__setitem__(1, 10**6),  # a class that ends behind all of them
        lambda starts, rows, typical: starts.__setitem__(0, 1),
        lambda starts, rows, typical: starts.insert(1, starts[1]),  # one class too many
        lambda starts, rows, typical: typical.__setitem__((0, 0), len(rows)),
        lambda starts, rows, typical: typical.__setitem__((0, 0), -7),
        lambda starts, rows, typical: rows.__setitem__(0, -1),
    ],
)
def test_numbers_that_lead_elsewhere_are_damage(tmp_path, harm):
    """Of another class, or behind the last reference: they would be shown as references of a class that they are not of."""
    folder = tmp_path / "references"
    References.build(of_pictures(), split(), folder)
    record = json.loads((folder / "references.json").read_text())
    rows, typical = np.load(folder / "rows.npy"), np.load(folder / "typical.npy")
    harm(record["starts"], rows, typical)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "typical.npy", typical)
    del record["digest"]
    record["files"] = file_digests(folder)
    (folder / "references.json").write_text(json.dumps({**record, "digest": record_digest(record)}))
    with pytest.raises(InputError, match="its parts do not belong together: remove the folder"):
        References.open(folder)


@pytest.mark.parametrize("harm", ["record", "embeddings", "format"])
def test_damage_is_one_sentence(tmp_path, harm):
    References.build(of_pictures(), split(), tmp_path / "references")
    if harm == "record":
        (tmp_path / "references" / "references.json").write_text("{")
    elif harm == "format":
        (tmp_path / "references" / "references.json").write_text('{"format": "other"}')
    else:
        np.save(tmp_path / "references" / "embeddings.npy", np.zeros((3, 8), np.float16))
    with pytest.raises(InputError, match="remove the folder"):
        References.open(tmp_path / "references")


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "mine.jpg").write_bytes(b"precious")
    with pytest.raises(InputError, match="other files"):
        References.build(of_pictures(), split(), tmp_path / "photos")
    assert (tmp_path / "photos" / "mine.jpg").exists()


def test_rows_of_unknown_classes_are_refused_and_nothing_is_left(tmp_path):
    dataset = Dataset(
        "garden", ["fern"], {"all": Split(PictureArray(pictures(2)), torch.zeros(2, dtype=torch.int64), ["a", "b"])}
    )
    with pytest.raises(InputError, match="fern"):
        References.build(of_pictures(), dataset.splits["all"], tmp_path / "references")
    assert not (tmp_path / "references").exists()
