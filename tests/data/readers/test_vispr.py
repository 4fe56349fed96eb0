"""VISPR: one annotation a picture, attributes in the order of their table."""

import pytest

from shortlist.data import open_dataset
from shortlist.data.readers.vispr import read_vispr
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import VISPR, dump, kinds, text


def labels(data, split):
    return [[data.classes[place] for place in row.nonzero()[:, 0]] for row in data.splits[split].target]


@pytest.mark.parametrize("images", ["images/", ""])
def test_labels_by_the_table(tmp_path, images):
    data = read_vispr(fixtures.vispr(tmp_path, images=images))
    assert data.classes == ["a0_safe", "a4_gender", "a10_face"]
    assert data.splits["train"].ids == [f"{images}train2017/2017_1.jpg", f"{images}train2017/2017_4.jpg"]
    assert labels(data, "train") == [["a4_gender"], ["a4_gender", "a10_face"]]
    assert labels(data, "val") == [["a0_safe"]]
    assert labels(data, "test") == [[]]
    assert data.multi_label
    assert "unknown label" not in kinds(data)


def test_without_a_table_classes_are_the_labels_that_occur_by_number(tmp_path):
    data = read_vispr(fixtures.vispr(tmp_path, table=False))
    assert data.classes == ["a0_safe", "a4_gender", "a9_old", "a10_face"]
    assert kinds(data)["names are absent"] == ["attributes.tsv"]


def test_the_table_may_lie_elsewhere(tmp_path):
    fixtures.vispr(tmp_path / "VISPR", table=False)
    table = text(tmp_path / "other.tsv", "idx\tattribute_id", "0\ta4_gender")
    data = read_vispr(tmp_path / "VISPR", attributes=table)
    assert data.classes == ["a4_gender"]
    assert len(kinds(data)["unknown label"]) == 4
    with pytest.raises(InputError, match="none.tsv: expected the attributes of VISPR, got nothing"):
        read_vispr(tmp_path / "VISPR", attributes=tmp_path / "none.tsv")


def test_train_and_val_together(tmp_path):
    data = open_dataset(f"vispr:{fixtures.vispr(tmp_path)},trainval=true")
    assert list(data.splits) == ["train", "test"]
    assert labels(data, "train") == [["a4_gender"], ["a4_gender", "a10_face"], ["a0_safe"]]
    only = fixtures.vispr(tmp_path / "less", {name: own for name, own in VISPR.items() if not name.startswith("val")})
    with pytest.raises(InputError, match="trainval: .*train and val, got those of train, test"):
        read_vispr(only, trainval=True)


def test_other_json_is_ignored_and_damaged_annotations_are_noted(tmp_path):
    fixtures.vispr(tmp_path)
    dump(tmp_path / "other.json", {"nothing": 1})
    text(tmp_path / "annotations/cut.json", '{"image_path"')
    dump(tmp_path / "annotations/lost.json", {"image_path": "pictures/1.jpg", "labels": []})
    dump(tmp_path / "annotations/odd.json", {"image_path": "train2017/1.jpg", "labels": "a0_safe"})
    data = read_vispr(tmp_path)
    assert kinds(data)["annotation that cannot be read"] == [f"annotations/{name}.json" for name in ("cut", "lost", "odd")]
    assert sum(map(len, data.splits.values())) == 4


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id,attribute"], "expected the columns idx and attribute_id"),
        (["idx\tattribute_id", "0\ta0_safe", "0\ta4_gender"], "expected an idx of its own .*got 0 twice"),
    ],
)
def test_odd_tables_are_named(tmp_path, lines, message):
    fixtures.vispr(tmp_path)
    text(tmp_path / "attributes.tsv", *lines)
    with pytest.raises(InputError, match=f"attributes.tsv: {message}"):
        read_vispr(tmp_path)


def test_a_folder_without_annotations_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected VISPR, .*got an empty folder"):
        read_vispr(tmp_path)
