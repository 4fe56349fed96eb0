"""Data of other libraries become a Dataset: paths, arrays, torch datasets, Hugging Face tables, dictionaries of splits."""

import pickle
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

from shortlist.data import Dataset, PictureArray, PictureFiles, Split, as_dataset, as_split, load_pictures
from shortlist.data.foreign_pictures import allows_many_readers
from shortlist.data.loading import picture_batches
from shortlist.errors import InputError
from shortlist.training.row_sources import StreamedRows
from tests.data.drawings import write_picture

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=GENERATOR)
LABELS = [2, 0, 1, 0]
FEATURES = torch.arange(8.0).reshape(4, 2)


def image(row):
    return Image.fromarray(IMAGES[row].permute(1, 2, 0).numpy())


class Folder:
    """Behaves like torchvision's ImageFolder: pictures when asked for, labels and class names beside."""

    def __init__(self, classes=("ash", "elm", "oak"), labels=LABELS, form=image, target_transform=None):
        self.classes, self.targets, self.form = list(classes), list(labels), form
        self.target_transform = target_transform
        self.samples = [(f"{self.classes[label]}/{row}.png", label) for row, label in enumerate(labels)]
        self.reads = []

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, row):
        if row >= len(self):
            raise IndexError
        self.reads.append(row)
        label = self.targets[row]
        return self.form(row), label if self.target_transform is None else self.target_transform(label)


def only(given, **options):
    dataset = as_dataset(given, **options)
    (split,) = dataset.splits.values()
    return dataset, split


def pictured(split):
    return load_pictures(split.inputs, size=8, workers=1).images


# Our own, and paths


def test_our_own_stay_what_they_are():
    split = Split(FEATURES, torch.tensor(LABELS), list("abcd"), groups=list("xxyy"), posterior=torch.eye(4)[:, :3])
    dataset = Dataset("garden", ["ash", "elm", "oak"], {"train": split}, ["x", "y", "x"], "a paper")
    assert as_dataset(dataset) is dataset
    assert as_split(split) is split
    assert as_split(dataset) is dataset.splits["train"]
    assert as_dataset(dataset, name="mine").name == "mine"
    whole, rows = only(split)
    assert (rows.inputs is split.inputs, rows.groups, rows.posterior is split.posterior) == (True, split.groups, True)
    assert whole.classes == ["0", "1", "2"]


def test_superclasses_and_feature_names_go_along():
    split = Split(FEATURES, torch.tensor(LABELS), list("abcd"))
    dataset = Dataset("garden", ["ash", "elm", "oak"], {"all": split}, ["x", "y", "z"], feature_names=["w", "h"])
    other = as_dataset(dataset, classes=["oak", "ash", "elm"])
    assert (other.classes, other.superclasses, list(other.feature_names)) == (
        ["oak", "ash", "elm"],
        ["z", "x", "y"],
        ["w", "h"],
    )
    assert other.splits["all"].target.tolist() == [0, 1, 2, 1]
    more = as_dataset({"train": dataset, "test": dataset})
    assert (more.classes, more.superclasses, list(more.feature_names)) == (["ash", "elm", "oak"], ["x", "y", "z"], ["w", "h"])
    assert as_dataset(dataset, classes=["oak", "ash", "elm", "fir"]).superclasses is None
    with pytest.raises(InputError, match=r"'oak'.*2 classes \('ash', 'elm'\)"):
        as_dataset(dataset, classes=["ash", "elm"])


def test_paths_are_opened(tmp_path):
    for name in ("ash/1.png", "oak/2.png"):
        write_picture(tmp_path / "leaves" / name)
    dataset, split = only(tmp_path / "leaves")
    assert (dataset.classes, split.target.tolist()) == (["ash", "oak"], [0, 1])
    assert as_split(str(tmp_path / "leaves")).target is None
    assert list(as_split([tmp_path / "leaves" / "oak" / "2.png"]).ids) == [str(tmp_path / "leaves" / "oak" / "2.png")]
    both = as_dataset({"train": tmp_path / "leaves", "test": str(tmp_path / "leaves")})
    assert (list(both.splits), both.classes, both.splits["test"].target.tolist()) == (["train", "test"], ["ash", "oak"], [0, 1])
    with pytest.raises(InputError, match="source: .*got 2"):
        as_dataset([tmp_path / "a.png", tmp_path / "b.png"])


# Arrays


@pytest.mark.parametrize("kind", [torch.Tensor.tolist, torch.Tensor.numpy, lambda x: x, lambda x: pd.DataFrame(x.numpy())])
def test_features_and_labels_as_arrays(kind):
    dataset, split = only((kind(FEATURES), LABELS))
    assert torch.equal(split.inputs, FEATURES)
    assert (split.target.tolist(), dataset.classes, dataset.name) == (LABELS, ["0", "1", "2"], "data")
    assert only((kind(FEATURES), None))[1].target is None
    assert only(kind(FEATURES))[1].target is None


def test_frames_keep_their_names():
    frame = pd.DataFrame({"width": [1.0, 2.0], "height": [3.0, 4.0]}, index=["leaf a", "leaf b"])
    dataset, split = only((frame, pd.Series(["oak", "elm"])), name="leaves")
    assert (list(dataset.feature_names), list(split.ids), dataset.name) == (["width", "height"], ["leaf a", "leaf b"], "leaves")
    assert (dataset.classes, split.target.tolist()) == (["elm", "oak"], [1, 0])
    assert list(only(frame.reset_index(drop=True))[1].ids) == ["0", "1"]


def test_pictures_as_arrays():
    dataset, split = only((IMAGES.permute(0, 2, 3, 1).numpy(), LABELS), classes=["ash", "elm", "oak"])
    assert isinstance(split.inputs, PictureArray)
    assert torch.equal(split.inputs.images, IMAGES)
    assert (dataset.input_kind, dataset.classes) == ("pictures", ["ash", "elm", "oak"])


def test_lists_of_pictures_and_of_paths_with_labels(tmp_path):
    images = [image(row) for row in range(4)]
    assert torch.equal(pictured(only((images, LABELS))[1]), IMAGES)
    assert torch.equal(pictured(as_split(images)), IMAGES)
    assert torch.equal(pictured(as_split(list(IMAGES))), IMAGES)
    for row, one in enumerate(images):
        one.save(tmp_path / f"{row}.png")
    paths = [tmp_path / f"{row}.png" for row in range(4)]
    split = only((paths, LABELS))[1]
    assert isinstance(split.inputs, PictureFiles)
    assert (list(split.ids), split.target.tolist()) == ([str(path) for path in paths], LABELS)
    assert torch.equal(pictured(split), IMAGES)


def test_several_labels_a_row():
    target = torch.tensor([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=torch.bool)
    assert torch.equal(only((FEATURES, target))[1].target, target)
    dataset, split = only((FEATURES, [["sky"], [], ["sea", "sky"], ["sea"]]))
    assert dataset.multi_label
    assert torch.equal(split.target, target.flip(1))


# Torch datasets


def test_tensors_are_taken_as_they_are():
    split = only(TensorDataset(FEATURES, torch.tensor(LABELS)))[1]
    assert torch.equal(split.inputs, FEATURES)
    assert split.target.tolist() == LABELS
    assert torch.equal(only(TensorDataset(IMAGES.float() / 255, torch.tensor(LABELS)))[1].inputs.images, IMAGES)
    assert as_split(TensorDataset(FEATURES)).target is None
    assert as_dataset(TensorDataset(FEATURES)).name == "TensorDataset"
    with pytest.raises(InputError, match="got 3 tensors a row"):
        as_dataset(TensorDataset(FEATURES, FEATURES, FEATURES))


def test_pictures_are_read_when_they_are_asked_for_and_labels_without_them():
    folder = Folder()
    dataset, split = only(folder)
    assert (dataset.classes, split.target.tolist(), dataset.name) == (["ash", "elm", "oak"], LABELS, "Folder")
    assert split.ids == ["oak/0.png", "ash/1.png", "elm/2.png", "ash/3.png"]
    folder.reads.clear()
    chosen = split.rows(torch.tensor([3, 1]))
    assert folder.reads == []
    assert torch.equal(pictured(chosen), IMAGES[[3, 1]])
    assert sorted(folder.reads) == [1, 3]
    many = Folder(labels=LABELS * 25, form=lambda row: image(row % 4))
    only(many)
    assert len(set(many.reads)) == 10  # spread over all rows: the first and the last are among them
    assert {0, 99} <= set(many.reads)


class OneAtATime(Folder):
    """A dataset that is right as long as it is asked for one row after the other, like one that reads from one open file."""

    def __getitem__(self, row):
        self.place = row
        time.sleep(0.001)
        return IMAGES[self.place % 4], self.targets[row]


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: Subset(one, range(40)), lambda one: ConcatDataset([one])])
def test_one_thread_asks_a_dataset_for_its_rows(wrap, monkeypatch):
    monkeypatch.setattr("shortlist.data.loading.usable_cores", lambda: 8)
    monkeypatch.setattr("shortlist.data.worker_processes.worthwhile_workers", lambda *_: pytest.fail("processes were started"))
    pictures = only(wrap(OneAtATime(labels=LABELS * 10)))[1].inputs
    for rows in (torch.arange(40), torch.arange(39, -1, -1)):
        found = [batch.images for batch in picture_batches(pictures, size=8, rows=rows, batch=16)]
        assert torch.equal(torch.cat(found), IMAGES[rows % 4])
    streamed = StreamedRows(pictures, torch.tensor(LABELS * 10), torch.device("cpu"), 8, "crop")
    threads = threading.active_count()
    (batch,) = streamed.batches([torch.tensor([7, 2])])
    assert torch.equal(batch.inputs, IMAGES[[3, 2]])
    assert (threading.active_count(), streamed._workers) == (threads, 0)


def test_a_picture_that_is_in_several_rows_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.data.loading.usable_cores", lambda: 8)
    path = write_picture(tmp_path / "a.png")
    with Image.open(path) as opened:
        rows = only([(opened, "oak")] * 64)[1]
        assert rows.inputs.one_reader
        loaded = load_pictures(rows.inputs, size=8)
    assert not loaded.problems
    assert torch.equal(loaded.images, load_pictures(PictureFiles("", [str(path)] * 64), size=8).images)


def torchvision(**parts):
    """A class like torchvision's ImageFolder, as far as anything is said about where its parts come from."""

    class ImageFolder(Folder):
        def __getitem__(self, row):
            return super().__getitem__(row)

    def default_loader(path):
        raise NotImplementedError

    ImageFolder.__getitem__.__module__ = default_loader.__module__ = "torchvision.datasets.folder"
    ImageFolder.loader, ImageFolder.transform = staticmethod(parts.get("loader", default_loader)), parts.get("transform")
    return ImageFolder()


def test_datasets_that_open_a_file_for_each_row_may_be_asked_by_many():
    resize = type("Resize", (), {"__module__": "torchvision.transforms.transforms"})()
    for known in (torchvision(), torchvision(transform=resize), ["a.png", b"x"], [("a.png", 3)]):
        assert allows_many_readers(known)
    assert allows_many_readers(Subset(ConcatDataset([torchvision(), torchvision()]), [0]))
    for other in (
        Folder(),
        torchvision(loader=image),
        torchvision(transform=image),
        ConcatDataset([torchvision(), Folder()]),
        Subset(Folder(), [0]),
        type("Mine", (ConcatDataset,), {"__getitem__": lambda self, row: self.datasets[0][row]})([torchvision()]),
        [(image(0), 3)],
        [image(0)],
        [{"image": image(0)}],
    ):
        assert not allows_many_readers(other)


@pytest.mark.parametrize(
    "form",
    [
        image,
        lambda row: IMAGES[row],
        lambda row: IMAGES[row].permute(1, 2, 0).numpy(),
        lambda row: IMAGES[row].float() / 255,
    ],
)
def test_pictures_in_every_form_are_the_same(form):
    assert torch.equal(pictured(only(Folder(form=form))[1]), IMAGES)


def test_subsets_take_labels_names_and_ids_along():
    folder = Folder()
    dataset, split = only(Subset(Subset(folder, [3, 2, 0]), [1, 2]))
    assert (dataset.classes, split.target.tolist(), split.ids) == (["ash", "elm", "oak"], [1, 2], ["elm/2.png", "oak/0.png"])
    assert set(folder.reads) == {2, 0}
    assert torch.equal(pictured(split), IMAGES[[2, 0]])


def test_concatenated_datasets():
    dataset, split = only(ConcatDataset([Folder(), Folder(labels=[1, 1])]))
    assert (dataset.classes, split.target.tolist()) == (["ash", "elm", "oak"], [*LABELS, 1, 1])


def test_concatenated_datasets_of_different_classes_are_matched_by_name():
    one, other = Folder(classes=["elm", "oak"], labels=[0, 1]), Folder(classes=["oak", "ash"], labels=[0, 1, 1])
    whole = ConcatDataset([one, other])
    dataset, split = only(whole)
    assert (dataset.classes, split.target.tolist()) == (["ash", "elm", "oak"], [1, 2, 2, 0, 0])
    assert only(ConcatDataset([other, Subset(whole, [2, 0])]))[1].target.tolist() == [2, 0, 0, 2, 1]
    assert only(Subset(whole, [3, 0]), classes=["oak", "ash", "elm"])[1].target.tolist() == [1, 2]
    several = [Several(["elm", "oak"], [[0], [0, 1]]), Several(["oak"], [[0]])]
    found = only(ConcatDataset(several))
    assert (found[0].classes, found[1].target.tolist()) == (["elm", "oak"], [[True, False], [True, True], [False, True]])
    with pytest.raises(InputError, match="labels: .*different kinds"):
        only(ConcatDataset([other, several[0]]))
    other.classes = None
    with pytest.raises(InputError, match="class names in every part.*'elm', 'oak'.*no classes"):
        only(whole)


class Several(Folder):
    """Rows with several labels, as lists of class numbers."""

    def __init__(self, classes, labels):
        super().__init__(classes, [several[0] for several in labels])
        self.targets = labels


@pytest.mark.parametrize(
    "wrap", [lambda one: one, lambda one: Subset(one, [1, 0]), lambda one: ConcatDataset([one, Subset(one, [1])])]
)
@pytest.mark.parametrize("stored", [True, False])
def test_names_that_a_target_transform_makes_wrong_are_refused(wrap, stored):
    def folder(transform):
        found = Folder(target_transform=transform)
        if not stored:
            found.targets = _Hidden(found.targets)
        return wrap(found)

    with pytest.raises(InputError, match=r"target_transform that turns 0 into 2.*classes = None"):
        only(folder(lambda label: 2 - label))
    with pytest.raises(InputError, match=r"target_transform that turns \d into "):
        only(folder({1: 0, 2: 1}.get))
    names = ["ash", "elm", "oak"]
    for kept in (lambda label: label, torch.tensor, lambda label: names[label]):
        assert set(only(folder(kept))[0].classes) == set(names)
    assert only(wrap(Folder(target_transform=None)))[0].classes == names


class _Hidden(list):
    """Labels that cannot be read without the rows."""

    def __call__(self):
        return self


def test_labels_that_are_changed_on_the_way_are_those_that_count():
    folder = Folder(target_transform=lambda label: 2 - label)
    folder.classes = None
    dataset, split = only(folder, classes=["oak", "elm", "ash"])
    assert (dataset.classes, split.target.tolist()) == (["oak", "elm", "ash"], [0, 2, 1, 2])
    folder = Folder()
    folder.targets = [0, 0, 0, 0]
    rows = list(zip([image(row) for row in range(4)], LABELS, strict=True))
    folder.__class__ = type("Other", (Folder,), {"__getitem__": lambda self, row: rows[row]})
    assert only(folder)[1].target.tolist() == LABELS  # the stored labels are others than those of the rows


def test_labels_of_a_shuffled_series_are_those_of_the_rows():
    """A series answers by the names of its rows, and lists its values by place."""
    order = np.random.default_rng(0).permutation(40)
    folder = Folder(labels=LABELS * 10, form=lambda row: image(row % 4))
    folder.labels, folder.targets = pd.Series(np.array(LABELS * 10)[order], index=order), None
    folder.__class__ = type(
        "Frame", (Folder,), {"__getitem__": lambda self, row: (image(row % 4), self.labels[row]), "__len__": lambda self: 40}
    )
    assert only(folder)[1].target.tolist() == LABELS * 10
    folder.labels = pd.Series(LABELS * 10)  # rows in their order: nothing has to be read
    folder.classes = ["ash", "elm", "oak"]
    assert only(folder)[1].inputs.labels is not None


@pytest.mark.parametrize("differs", [39, 5])
def test_a_stored_label_that_is_not_that_of_the_row_is_noticed(differs):
    folder = Folder(labels=LABELS * 10, form=lambda row: image(row % 4))
    given = list(folder.targets)
    given[differs] = 2
    folder.__class__ = type("Other", (Folder,), {"__getitem__": lambda self, row: (image(row % 4), given[row])})
    split = only(folder)[1]
    if differs == 39:  # the last is one of those that are compared at once
        assert split.target.tolist() == given
        return
    with pytest.raises(InputError, match=r"elm.5.png|ash.5.png: expected 0.*targets.*got 2"):
        load_pictures(split.inputs, size=8)
    assert len(load_pictures(split.inputs, size=8, rows=torch.arange(5))) == 5


def test_pairs_in_a_list_and_rows_by_name():
    pairs = [(image(row), ["ash", "elm", "oak"][label]) for row, label in enumerate(LABELS)]
    dataset, split = only(pairs)
    assert (dataset.classes, split.target.tolist()) == (["ash", "elm", "oak"], LABELS)
    by_name = [{"image": picture, "label": label} for picture, label in pairs]
    assert only(by_name)[1].target.tolist() == LABELS
    assert torch.equal(pictured(only(by_name)[1]), IMAGES)
    features = [(row, label) for row, label in zip(FEATURES, LABELS, strict=True)]
    assert torch.equal(only(features)[1].inputs, FEATURES)
    assert only(features)[1].target.tolist() == LABELS


def test_normalised_pictures_are_refused_at_once():
    with pytest.raises(InputError, match=r"row oak/0.png: .*before they are normalised"):
        as_dataset(Folder(form=lambda row: (IMAGES[row].float() / 255 - 0.5) / 0.25))


def test_damaged_pictures_are_counted_and_bugs_are_not_hidden():
    def damaged(row):
        if row == 2:
            raise OSError("cannot identify image file")
        return image(row)

    loaded = load_pictures(only(Folder(form=damaged))[1].inputs, size=8, tolerance=0.5, workers=1)
    assert loaded.rows.tolist() == [0, 1, 3]
    assert [str(problem) for problem in loaded.problems] == ["elm/2.png: cannot identify image file"]

    def broken(row):
        return image(row) if row == 0 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        load_pictures(only(Folder(form=broken))[1].inputs, size=8, workers=1)


def test_pictures_of_a_dataset_can_be_sent_to_another_process():
    again = pickle.loads(pickle.dumps(only(Folder())[1].inputs))
    assert torch.equal(load_pictures(again, size=8, workers=1).images, IMAGES)


# Tables like those of Hugging Face datasets


class ClassLabel:
    def __init__(self, names):
        self.names = names


class Sequence:
    def __init__(self, feature):
        self.feature = feature


class Feature:
    names = None


class HuggingFace:
    """The published behaviour: features by column, a row as a dictionary, a column by its name without decoding pictures."""

    def __init__(self, columns, features):
        self.columns, self.features, self.read = columns, features, []

    @property
    def column_names(self):
        return list(self.columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            self.read.append(key)
            return list(self.columns[key])
        self.read.append(key)
        return {name: column[key] for name, column in self.columns.items()}


def hugging_face(labels=LABELS, kind=None, images=None, column="fine_label"):
    image_kind = type("Image", (), {})()
    columns = {"note": ["x"] * 4, "img": images or [image(row) for row in range(4)], column: labels}
    return HuggingFace(columns, {"note": Feature(), "img": image_kind, column: kind or ClassLabel(["ash", "elm", "oak"])})


def test_tables_have_an_image_column_and_a_label_column():
    table = hugging_face()
    dataset, split = only(table)
    assert (dataset.classes, split.target.tolist()) == (["ash", "elm", "oak"], LABELS)
    assert table.read == [0, "fine_label"]  # neither other pictures nor the column of pictures
    assert torch.equal(pictured(split), IMAGES)


def test_tables_without_class_names_with_lists_and_without_labels(tmp_path):
    assert only(hugging_face(["oak", "ash", "elm", "ash"], Feature(), column="species"))[0].classes == ["ash", "elm", "oak"]
    several = hugging_face([[0, 1], [1, 0], [1, 0], [0, 1]], Sequence(ClassLabel(["ash", "elm", "oak"])))
    assert only(several)[1].target.tolist() == [[True, True, False]] * 4
    assert only(hugging_face([-1] * 4))[1].target is None
    assert only(hugging_face(["x"] * 4, Feature(), column="caption"))[1].target is None
    path = write_picture(tmp_path / "a.png")
    undecoded = [{"bytes": Path(path).read_bytes(), "path": None}, {"bytes": None, "path": str(path)}] * 2
    assert pictured(only(hugging_face(images=undecoded))[1]).shape == (4, 3, 8, 8)


def test_withheld_labels_among_several_are_never_those_of_a_class():
    several = Sequence(ClassLabel(["ash", "elm", "oak"]))
    for wrong in ([-1], None, [0, -1], [None], [3], -1):
        with pytest.raises(InputError, match=r"labels: expected .* got (None|-1|3) in row 1"):
            only(hugging_face([[0], wrong, [1], [2]], several))
    with pytest.raises(InputError, match="labels: expected .* got None in row 0"):
        only(hugging_face([None, [0], [1], [2]], several))
    for withheld in ([[-1]] * 4, [None] * 4, [[-1], None, [], [-1]]):
        assert only(hugging_face(withheld, several))[1].target is None
    assert not only(hugging_face([[], [], [], []], several))[1].target.any()
    arrays = [np.array([0, 2]), np.array([1]), np.array([]), np.array([2])]
    assert only(hugging_face(arrays, several))[1].target.int().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("module", "form", "one"), [("datasets.x", None, False), ("datasets.x", "custom", True), ("mine", None, True)]
)
def test_tables_without_functions_of_the_user_may_be_read_by_many(module, form, one):
    table = hugging_face()
    table.__class__ = type("Dataset", (HuggingFace,), {"__module__": module, "format": {"type": form}})
    assert only(table)[1].inputs.one_reader == one


def test_tables_without_images_are_refused():
    with pytest.raises(InputError, match="column of images, got 'text'"):
        as_dataset(HuggingFace({"text": ["a"]}, {"text": Feature()}))


# Dictionaries of splits


def test_dictionaries_are_splits_with_common_classes():
    given = {"train": (FEATURES, ["oak", "elm", "oak", "elm"]), "validation": (FEATURES[:1], ["ash"]), "new": FEATURES[:2]}
    dataset = as_dataset(given)
    assert (list(dataset.splits), dataset.classes) == (["train", "val", "new"], ["ash", "elm", "oak"])
    assert [split.target if split.target is None else split.target.tolist() for split in dataset.splits.values()] == [
        [2, 1, 2, 1],
        [0],
        None,
    ]
    assert as_split(given | {"test": FEATURES[:3]}).target is None


def test_other_names_of_splits_in_dictionaries():
    rows = (FEATURES, ["oak", "elm", "oak", "elm"])
    assert list(as_dataset({"train": rows, "dev": rows, "holdout": rows}).splits) == ["train", "val", "test"]
    assert list(as_dataset({"train": rows, "dev": rows, "val": rows}).splits) == ["train", "dev", "val"]
    with pytest.raises(InputError, match="'val', got another one as 'validation'"):
        as_dataset({"train": rows, "val": rows, "validation": rows})


def test_splits_with_different_class_numbers_are_matched_by_name():
    dataset = as_dataset({"train": Folder(), "test": Folder(classes=["elm", "fir", "oak"], labels=[0, 1, 2])})
    assert dataset.classes == ["ash", "elm", "fir", "oak"]
    assert dataset.splits["train"].target.tolist() == [3, 0, 1, 0]
    assert dataset.splits["test"].target.tolist() == [1, 2, 3]
    given = as_dataset(Folder(), classes=["oak", "elm", "ash"])
    assert given.splits["all"].target.tolist() == [0, 2, 1, 2]


def test_as_split_refers_to_the_classes_that_are_given():
    assert as_split((FEATURES, ["oak", "elm", "oak", "elm"]), classes=["oak", "ash", "elm"]).target.tolist() == [0, 2, 0, 2]
    assert as_split(Folder(), classes=["oak", "elm", "ash"]).target.tolist() == [0, 2, 1, 2]


# What is refused


class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(FEATURES, LABELS, strict=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (7, "got int"),
        (None, "got NoneType"),
        ({}, "empty dictionary"),
        (Stream(), "got Stream: rows must be countable"),
        (DataLoader(TensorDataset(FEATURES)), "got a DataLoader: give its dataset"),
        ({"val": FEATURES, "validation": FEATURES}, "another one as 'validation'"),
        ((row for row in FEATURES), "got generator"),
    ],
)
def test_other_things_are_refused(given, words):
    with pytest.raises(InputError, match=f"^data: .*{words}"):
        as_dataset(given)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="split all: .*each of the 4 rows, got 2"):
        as_dataset((FEATURES, [0, 1]))
    with pytest.raises(InputError, match="target: expected labels from 0 to 1, got 2 in row 0"):
        as_dataset((FEATURES, LABELS), classes=["ash", "elm"])
    with pytest.raises(InputError, match="pictures and features"):
        as_dataset({"train": (FEATURES, LABELS), "test": (IMAGES, LABELS)})


def test_arrays_of_numpy_train_like_tables():
    from shortlist.training.recipe import Recipe
    from shortlist.training.splits import split_for_training

    labels = np.arange(100) % 4
    chosen = split_for_training(as_dataset((np.zeros((100, 3)), labels)), Recipe("mine", "flora", parameters={"k": 2}))
    assert {name: len(split) for name, split in chosen.splits.items()}["train"] > 50


def test_class_names_alike_are_noted():
    dataset = as_dataset(([[1.0], [2.0], [3.0]], ["\u00e9", "e\u0301", "elm"]))
    assert [(problem.kind, problem.where) for problem in dataset.problems] == [("names alike", "\u00e9")]
