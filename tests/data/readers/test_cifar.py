"""CIFAR in its binary version: pixels in the right place, labels, superclasses, and files that are not as published."""

import numpy as np
import pytest
import torch

from shortlist.data import open_dataset, unlabel
from shortlist.data.dataset import Dataset, Split
from shortlist.data.readers.cifar import cifar60_40, read_cifar10, read_cifar100
from shortlist.errors import InputError
from tests.data.readers import fixtures


def test_ten_classes(tmp_path):
    home = fixtures.cifar10(tmp_path)
    data = read_cifar10(tmp_path)
    assert data.classes == ["airplane", "automobile", "bird"]
    assert data.superclasses is None
    assert data.splits["train"].target.tolist() == [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2, 1, 2, 0]
    assert data.splits["test"].target.tolist() == [2, 1, 0]
    assert data.splits["train"].ids[3] == "data_batch_2:0"
    assert "Krizhevsky" in data.reference
    assert read_cifar10(home).splits["test"].ids == data.splits["test"].ids


def test_pixels_are_red_green_blue_row_by_row(tmp_path):
    home = fixtures.cifar10(tmp_path)
    raw = (home / "data_batch_2.bin").read_bytes()[3073:][:3073]
    images = read_cifar10(tmp_path).splits["train"].inputs.images
    assert images.shape == (15, 3, 32, 32)
    for channel, row, column in ((0, 0, 0), (0, 0, 31), (0, 1, 0), (1, 5, 7), (2, 31, 31)):
        assert images[4, channel, row, column] == raw[1 + 1024 * channel + 32 * row + column]


def test_a_hundred_classes_have_their_coarse_label_as_superclass(tmp_path):
    home = fixtures.cifar100(tmp_path)
    data = read_cifar100(tmp_path)
    assert data.classes == ["apple", "bear", "cup"]
    assert data.superclasses == ["things", "beasts", "things"]
    assert data.splits["train"].target.tolist() == [0, 1, 2]
    assert data.splits["test"].target.tolist() == [2, 0]
    raw = np.fromfile(home / "test.bin", np.uint8).reshape(2, 3074)
    assert torch.equal(data.splits["test"].inputs.images[1].flatten(), torch.from_numpy(raw[1, 2:]))


def test_fewer_pictures_than_published_are_noted(tmp_path):
    fixtures.cifar100(tmp_path)
    assert fixtures.kinds(read_cifar100(tmp_path)) == {
        "other size than published": ["train.bin", "test.bin"],
        "class missing from a split": ["bear"],
    }


def test_classes_of_one_name_are_told_apart_and_noted(tmp_path):
    home = fixtures.cifar10(tmp_path)
    fixtures.text(home / "batches.meta.txt", "bird", "Bird", "bird")
    data = read_cifar10(tmp_path)
    assert data.classes == ["bird (0)", "Bird", "bird (2)"]
    noted = fixtures.kinds(data)
    assert noted["name of several classes"] == ["bird"]
    assert noted["names alike"] == ["Bird"]
    home = fixtures.cifar100(tmp_path)
    fixtures.text(home / "coarse_label_names.txt", "things", "things")
    assert read_cifar100(tmp_path).superclasses == ["things (1)", "things (0)", "things (1)"]


def test_a_file_that_was_cut_short_is_refused(tmp_path):
    path = fixtures.cifar10(tmp_path) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"data_batch_3.bin: .*got 9,218: it was cut short"):
        read_cifar10(tmp_path)


@pytest.mark.parametrize("content", [None, b""])
def test_a_file_that_is_not_there_is_refused(tmp_path, content):
    path = fixtures.cifar10(tmp_path) / "test_batch.bin"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"test_batch.bin: .*got (nothing|an empty file)"):
        read_cifar10(tmp_path)


def test_another_folder_is_refused_with_the_page(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(
        InputError, match=r"expected the folder of CIFAR-10, binary version.*got a folder with cifar-10-batches-py.*kriz"
    ):
        read_cifar10(tmp_path)
    with pytest.raises(InputError, match=r"CIFAR-100.*got nothing.*download_cifar100"):
        read_cifar100(tmp_path / "elsewhere")


def test_labels_without_a_name_are_left_out(tmp_path):
    home = fixtures.cifar100(tmp_path)
    fixtures.cifar_bytes([(1, 0), (1, 7), (0, 1)], seed=3).tofile(home / "test.bin")
    data = read_cifar100(tmp_path)
    assert fixtures.kinds(data)["unknown label"] == ["test:1"]
    assert data.splits["test"].target.tolist() == [0, 1]
    assert data.splits["test"].inputs.ids == ["test:0", "test:2"]


def test_a_class_under_two_coarse_labels_is_noted(tmp_path):
    fixtures.cifar100(tmp_path, train=((1, 0), (0, 0), (1, 0), (0, 1), (1, 2)))
    data = read_cifar100(tmp_path)
    assert fixtures.kinds(data)["class of several superclasses"] == ["apple"]
    assert data.superclasses[0] == "things"


def test_superclasses_are_not_made_up_for_a_class_without_pictures(tmp_path):
    fixtures.cifar100(tmp_path, train=((1, 0), (0, 1)), test=((1, 0),))
    data = read_cifar100(tmp_path)
    assert fixtures.kinds(data)["empty class"] == fixtures.kinds(data)["superclasses unknown"] == ["cup"]
    assert data.superclasses is None


TWO_EACH = ((1, 0), (0, 1), (1, 2), (0, 3))


def with_ant(root):
    """CIFAR-100 of two superclasses with two classes each."""
    home = fixtures.cifar100(root, train=TWO_EACH, test=TWO_EACH[::-1])
    fixtures.text(home / "fine_label_names.txt", "apple", "bear", "cup", "ant")
    return home


def test_classes_without_a_label_are_an_option(tmp_path):
    with_ant(tmp_path)
    whole, data = read_cifar100(tmp_path, unlabelled=0), open_dataset(f"cifar100:{tmp_path},unlabelled=1")
    assert whole.classes == ["apple", "bear", "cup", "ant"]
    assert whole.splits["train"].target.tolist() == [0, 1, 2, 3]
    assert len(data.classes) == 2
    assert sorted(data.superclasses) == ["beasts", "things"]
    for name, split in data.splits.items():
        assert torch.equal(split.inputs.images, whole.splits[name].inputs.images)
        expected = [[whole.classes[label] == kept for kept in data.classes] for label in whole.splits[name].target]
        assert split.target.tolist() == expected
    assert data.classes == read_cifar100(tmp_path, unlabelled=1).classes == unlabel(whole, per_superclass=1).classes


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("2", "^unlabelled: expected fewer than the classes of every superclass, got 2, and '(beasts|things)' has 2$"),
        ("-1", "unlabelled: expected a whole number from 0, got -1"),
        ("some", "unlabelled: expected a number, got 'some'"),
    ],
)
def test_too_many_classes_without_a_label_are_refused(tmp_path, number, message):
    with_ant(tmp_path)
    with pytest.raises(InputError, match=message):
        open_dataset(f"cifar100:{tmp_path},unlabelled={number}")


def test_classes_cannot_lose_their_label_where_superclasses_are_unknown(tmp_path):
    fixtures.cifar100(tmp_path, train=((1, 0), (0, 1)), test=((1, 0),))
    with pytest.raises(InputError, match="unlabelled: CIFAR-100 has no superclasses"):
        read_cifar100(tmp_path, unlabelled=1)


def hundred():
    """100 classes in 20 superclasses of 5, two rows of each."""
    target = torch.arange(100).repeat(2)
    split = Split(torch.zeros(200, 1), target, [str(row) for row in range(200)])
    superclasses = [f"group {label % 20}" for label in range(100)]
    return Dataset("CIFAR-100", [f"class {label}" for label in range(100)], {"train": split}, superclasses)


def test_cifar60_40_takes_the_label_of_two_classes_of_each_superclass():
    data = cifar60_40(hundred())
    assert data.name == "CIFAR60+40"
    assert len(data.classes) == 60
    assert all(list(data.superclasses).count(name) == 3 for name in data.superclass_names)
    target = data.splits["train"].target
    assert target.shape == (200, 60)
    assert target.sum(1).bincount().tolist() == [80, 120]


def test_cifar60_40_is_of_cifar_100_only():
    features = Split(torch.zeros(1, 1), torch.tensor([0]), ["a"])
    with pytest.raises(InputError, match="expected CIFAR-100, superclasses of 5 classes each, got garden"):
        cifar60_40(Dataset("garden", ["oak"], {"train": features}))
