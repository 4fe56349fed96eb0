"""ImageNet in its three layouts, Tiny ImageNet, ImageNet-LT: label = rank of the WordNet id, whatever a file numbers."""

import pytest

from shortlist.data.readers.imagenet import read_imagenet, read_imagenet_lt
from shortlist.data.readers.tiny_imagenet import read_tiny_imagenet
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import SYNSETS, kinds, picture, text

NAMES = ["tench, Tinca tinca", "crane (n02012849)", "crane (n03126707)"]


def labels(data, split):
    return dict(zip(data.splits[split].ids, data.splits[split].target.tolist(), strict=True))


def test_class_folders(tmp_path):
    fixtures.imagenet(tmp_path, flat=False)
    fixtures.synset_mapping(tmp_path)
    data = read_imagenet(tmp_path)
    assert data.classes == NAMES
    assert data.splits["train"].target.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.splits["train"].ids[0] == "train/n01440764/n01440764_190.JPEG"
    assert labels(data, "val") == {f"val/{SYNSETS[c]}/ILSVRC2012_val_{n:08d}.JPEG": c for n, c in ((1, 2), (2, 0), (3, 1))}
    assert data.problems == []
    assert "1409.0575" in data.reference


def flat_labels(data):
    return {path[-10:]: label for path, label in labels(data, "val").items()}


def test_validation_in_one_folder_with_the_list_of_the_competition(tmp_path):
    fixtures.imagenet(tmp_path / "ILSVRC/Data/CLS-LOC", flat=True)
    fixtures.synset_mapping(tmp_path)
    fixtures.val_solution(tmp_path)
    data = read_imagenet(tmp_path)
    assert flat_labels(data) == {"00001.JPEG": 2, "00002.JPEG": 0, "00003.JPEG": 1}
    assert data.classes == NAMES
    assert data.problems == []


def test_validation_in_one_folder_with_the_devkit(tmp_path):
    """The devkit's numbers of the classes are not ranks: its 2 is the third WordNet id."""
    fixtures.imagenet(tmp_path, flat=True)
    fixtures.devkit(tmp_path)
    data = read_imagenet(tmp_path)
    assert flat_labels(data) == {"00001.JPEG": 2, "00002.JPEG": 0, "00003.JPEG": 1}
    assert data.classes == NAMES


def test_validation_alone(tmp_path):
    fixtures.val_solution(tmp_path)
    for number in (1, 2, 3):
        picture(tmp_path / f"val/ILSVRC2012_val_{number:08d}.JPEG")
    data = read_imagenet(tmp_path)
    assert list(data.splits) == ["val"]
    assert data.classes == list(SYNSETS)
    assert kinds(data)["class without a name"] == list(SYNSETS)
    assert kinds(data)["split without pictures"] == ["train"]


def test_validation_without_labels_is_refused(tmp_path):
    fixtures.imagenet(tmp_path, flat=True)
    with pytest.raises(InputError, match=r"val: expected class folders, or LOC_val_solution.csv or .*got pictures alone"):
        read_imagenet(tmp_path)


def test_list_and_pictures_that_do_not_match(tmp_path):
    fixtures.imagenet(tmp_path, flat=True)
    fixtures.val_solution(tmp_path, synsets=("n09999999", SYNSETS[0]))
    text(
        tmp_path / "LOC_val_solution.csv",
        *(tmp_path / "LOC_val_solution.csv").read_text().split("\n"),
        f"absent,{SYNSETS[1]} 1 1 2 2",
    )
    data = read_imagenet(tmp_path)
    assert kinds(data)["unknown label"] == ["val/ILSVRC2012_val_00000001.JPEG"]
    assert kinds(data)["picture without a label"] == ["val/ILSVRC2012_val_00000003.JPEG"]
    assert kinds(data)["absent picture"] == ["val/absent.JPEG"]
    assert flat_labels(data) == {"00002.JPEG": 0}


def test_a_list_with_other_columns_is_refused(tmp_path):
    fixtures.imagenet(tmp_path, flat=True)
    text(tmp_path / "LOC_val_solution.csv", "a,b", "c,d")
    with pytest.raises(InputError, match="expected the columns ImageId and PredictionString, got a, b"):
        read_imagenet(tmp_path)


def test_a_devkit_that_is_damaged_is_refused(tmp_path):
    fixtures.imagenet(tmp_path, flat=True)
    folder = fixtures.devkit(tmp_path, truth=(2, 4, 1))
    with pytest.raises(InputError, match=r"ground_truth.txt: .*got '4'"):
        read_imagenet(tmp_path)
    (folder / "meta.mat").write_bytes(b"nothing of the kind" * 20)
    with pytest.raises(InputError, match=r"meta.mat: .*got a file that cannot be read so"):
        read_imagenet(tmp_path)
    (folder / "meta.mat").unlink()
    with pytest.raises(InputError, match=r"meta.mat: .*got nothing"):
        read_imagenet(tmp_path)


def test_other_folders_are_noted(tmp_path):
    fixtures.imagenet(tmp_path, flat=False)
    picture(tmp_path / "train/extra/1.JPEG")
    assert kinds(read_imagenet(tmp_path))["folder that is no class"] == ["train/extra"]


def test_pictures_beside_class_folders_are_noted(tmp_path):
    fixtures.imagenet(tmp_path, flat=False)
    picture(tmp_path / "val/ILSVRC2012_val_00000009.JPEG")
    data = read_imagenet(tmp_path)
    assert kinds(data)["picture outside a class folder"] == ["val/ILSVRC2012_val_00000009.JPEG"]
    assert len(data.splits["val"]) == 3


def test_no_imagenet_names_the_page(tmp_path):
    with pytest.raises(InputError, match=r"ImageNet.*with train or val in it.*got an empty folder.*image-net.org"):
        read_imagenet(tmp_path)


@pytest.mark.parametrize("flat", [False, True])
def test_long_tailed_lists(tmp_path, flat):
    fixtures.imagenet(tmp_path / "pictures", flat=flat)
    fixtures.synset_mapping(tmp_path / "pictures")
    data = read_imagenet_lt(tmp_path / "pictures", fixtures.imagenet_lt(tmp_path / "lists"))
    assert data.classes == NAMES
    assert data.splits["train"].target.tolist() == [0, 1, 2]
    assert data.splits["val"].ids[1] == "train/n02012849/n02012849_190.JPEG"
    assert {path[-10:]: label for path, label in labels(data, "test").items()} == {"00002.JPEG": 0, "00001.JPEG": 2}
    assert kinds(data) == {"class missing from a split": [NAMES[1], NAMES[2]]}


def test_long_tailed_lists_that_are_odd(tmp_path):
    fixtures.imagenet_lt(fixtures.imagenet(tmp_path, flat=False))
    path = tmp_path / "ImageNet_LT_train.txt"
    path.write_text("/train/n01440764/n01440764_190.JPEG 0\ntrain/n02012849/n02012849_7.JPEG 0\nnonsense\n")
    data = read_imagenet_lt(tmp_path)
    assert kinds(data)["line that cannot be read"] == ["ImageNet_LT_train.txt"]
    assert kinds(data)["label at odds with the folder"] == ["train/n02012849/n02012849_7.JPEG"]
    assert data.splits["train"].target.tolist() == [0, 0]
    (tmp_path / "ImageNet_LT_val.txt").unlink()
    with pytest.raises(InputError, match=r"ImageNet_LT_val.txt: .*got nothing"):
        read_imagenet_lt(tmp_path)
    with pytest.raises(InputError, match=r"expected the folder of the lists of ImageNet-LT.*OLTR"):
        read_imagenet_lt(tmp_path, tmp_path / "train")


def test_tiny(tmp_path):
    fixtures.tiny_imagenet(tmp_path)
    data = read_tiny_imagenet(tmp_path)
    assert data.classes == ["goldfish, Carassius auratus", "Egyptian cat"]  # sorted ids, not the order of wnids.txt
    assert data.splits["train"].target.tolist() == [0, 0, 1, 1]
    assert labels(data, "val") == {"val/images/val_0.JPEG": 1, "val/images/val_1.JPEG": 0}
    assert list(data.splits) == ["train", "val"]
    assert data.problems == []


def test_tiny_with_odd_files(tmp_path):
    home = fixtures.tiny_imagenet(tmp_path)
    picture(home / "train/n09999999/images/n09999999_0.JPEG")
    (home / "words.txt").unlink()
    lines = ("val_0.JPEG\tn02124075\t0\t0\t1\t1", "val_1.JPEG\tn09999999\t0\t0\t1\t1", "val_2.JPEG", "val_3.JPEG\tn01443537")
    text(home / "val/val_annotations.txt", *lines)
    data = read_tiny_imagenet(home)
    found = kinds(data)
    assert found["unknown label"] == ["train/n09999999", "val/images/val_1.JPEG", "val/images/val_2.JPEG"]
    assert found["absent picture"] == ["val/images/val_3.JPEG"]
    assert found["class without a name"] == data.classes == ["n01443537", "n02124075"]


def test_tiny_without_its_lists(tmp_path):
    home = fixtures.tiny_imagenet(tmp_path)
    (home / "val/val_annotations.txt").unlink()
    with pytest.raises(InputError, match=r"val_annotations.txt: .*got nothing"):
        read_tiny_imagenet(tmp_path)
    with pytest.raises(InputError, match=r"expected the folder of Tiny ImageNet, with wnids.txt in it.*cs231n"):
        read_tiny_imagenet(tmp_path / "elsewhere")
