"""Loading the rows of a training: at one size, aligned with their labels, in the memory that holds them."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from shortlist.data.dataset import Dataset, Split
from shortlist.data.loading import load_pictures
from shortlist.data.pictures import PictureArray, PictureFiles
from shortlist.data.readers.class_folders import read_class_folders
from shortlist.errors import InputError
from shortlist.models.input_spec import IMAGENET_MEAN, IMAGENET_STD
from shortlist.training import loaded_data
from shortlist.training.loaded_data import load_data, picture_size
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import DeviceRows, HostRows, StreamedRows
from shortlist.training.splits import TrainingSplits, split_for_training

CPU = torch.device("cpu")
FILES, SIDE, C = 120, 4, 3
NAMES = ("train", "val", "test")


def recipe(**settings):
    return Recipe("mine", "flora", **{"method": "cross-entropy", "augmentation": "none", **settings})


def splits_of(splits):
    return TrainingSplits(Dataset("garden", [f"class {number}" for number in range(C)], splits), splits, [])


def shade(number):
    """The colour by which a row is recognised after decoding."""
    return (2 * number, 255 - 2 * number, number)


def split_of(pictures, posterior=True):
    """Row i has label i mod 3 and a posterior that names i."""
    n = len(pictures)
    target = torch.arange(n) % C
    law = torch.arange(n).double()[:, None].expand(n, C) if posterior else None
    return Split(pictures, target, [f"row {number}" for number in range(n)], None, law)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder a split of 120 pictures of one shade each; ``damaged`` pictures of the second and third cannot be read."""

    def make(damaged):
        root = tmp_path_factory.mktemp("pictures")
        splits = {}
        for name in NAMES:
            (root / name).mkdir()
            for number in range(FILES):
                Image.new("RGB", (SIDE + 1, SIDE), shade(number)).save(root / name / f"{number}.png")
            for number in damaged if name != "train" else ():
                (root / name / f"{number}.png").write_bytes(b"no picture")
            splits[name] = split_of(PictureFiles(root / name, [f"{number}.png" for number in range(FILES)]))
        return splits_of(splits)

    return make


@pytest.fixture(scope="module")
def one_damaged(folders):
    return folders([50])


def arrays(count=20, side=SIDE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return splits_of({
        name: split_of(PictureArray(torch.randint(256, (count, 3, side, side), generator=generator, dtype=torch.uint8)))
        for name in NAMES
    })  # fmt: skip


def limits(monkeypatch, host, device):
    monkeypatch.setattr(loaded_data, "_limits", lambda *_: loaded_data._Limits(host, device))


def test_rows_that_cannot_be_read_are_dropped_from_everything(one_damaged):
    found = load_data(one_damaged, recipe(size=SIDE), CPU)
    for name in NAMES:
        kept = [number for number in range(FILES) if name == "train" or number != 50]
        rows, part = found.rows[name], found.splits[name]
        assert isinstance(rows, DeviceRows)
        assert len(rows) == len(part) == len(kept)
        assert rows.inputs[:, :, 0, 0].tolist() == [list(shade(number)) for number in kept]
        assert rows.target.tolist() == part.target.tolist() == [number % C for number in kept]
        assert list(part.ids) == [f"row {number}" for number in kept]
        assert part.posterior[:, 0].tolist() == kept
        assert list(part.inputs.ids) == [f"{number}.png" for number in kept]
    (remark,) = found.remarks
    assert re.match(r"garden: 2 unreadable pictures .*\(val 1, test 1\): 50\.png: \S.*; 50\.png: \S", remark)


def test_too_many_pictures_that_cannot_be_read_are_refused(folders):
    broken = folders([7, 90])
    with pytest.raises(
        InputError,
        match=r"4 of 360 pictures .* 1\.0%; the first is 7.png: .*shortlist data info \S+ --check .*tolerance=0\.02$",
    ):
        load_data(broken, recipe(size=SIDE), CPU)
    assert "4 unreadable pictures" in load_data(broken, recipe(size=SIDE, tolerance=0.02), CPU).remarks[0]


def test_without_tolerance_every_picture_counts(one_damaged):
    with pytest.raises(InputError, match=r"2 of 360 pictures could not be used, more than the tolerated 0\.0%"):
        load_data(one_damaged, recipe(size=SIDE, tolerance=0.0), CPU)


def rare_class(root, damaged, rare=1):
    """Three splits of 30 pictures; those of the last class, ``rare`` in each split, cannot be read in the damaged splits."""
    splits, target = {}, torch.cat([torch.arange(30 - rare) % (C - 1), torch.full((rare,), C - 1)])
    for name in NAMES:
        (root / name).mkdir()
        for number in range(30):
            path = root / name / f"{number}.png"
            if name in damaged and number >= 30 - rare:
                path.write_bytes(b"no picture")
            else:
                Image.new("RGB", (SIDE, SIDE), shade(number)).save(path)
        files = PictureFiles(root / name, [f"{number}.png" for number in range(30)])
        splits[name] = Split(files, target, list(files.ids))
    return splits_of(splits)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_class_of_which_no_training_picture_can_be_read_is_told(tmp_path, monkeypatch, streamed):
    if streamed:
        limits(monkeypatch, 0, 0)
    data = rare_class(tmp_path, ["train"])
    found = load_data(data, recipe(size=SIDE), CPU)
    assert found.splits["train"].counts(C).tolist() == [15, 14, 0]
    left, untrained = found.remarks
    assert "1 unreadable picture left out (train 1)" in left
    assert re.match(r"1 class \(class 2\) has no training row", untrained)
    with pytest.raises(InputError, match=r"method ldam .* 1 class \(class 2\) has no training row"):
        load_data(data, recipe(size=SIDE, method="ldam"), CPU)


def test_a_class_is_trained_on_the_readable_pictures_that_were_set_aside(tmp_path):
    """Splits are drawn before pictures are opened: the only readable ones of a class may all be validation or test rows."""
    for name, count in (("ash", 40), ("elm", 40), ("yew", 20)):
        (tmp_path / name).mkdir()
        for number in range(count):
            Image.new("RGB", (SIDE, SIDE), shade(number)).save(tmp_path / name / f"{number}.png")
    asked, dataset = recipe(size=SIDE, tolerance=1.0), read_class_folders(tmp_path)
    drawn = split_for_training(dataset, asked)
    for name in drawn.splits["train"].ids:
        if name.startswith("yew"):
            (tmp_path / name).write_bytes(b"no picture")
    aside = {name for split in drawn.drawn if split in drawn.splits for name in drawn.splits[split].ids}
    readable = {name for name in aside if name.startswith("yew")}
    assert readable
    found = load_data(drawn, asked, CPU)
    assert found.redrawn
    assert found.splits["train"].counts(3)[2] > 0
    assert {name for part in found.splits.values() for name in part.ids if name.startswith("yew")} == readable
    assert sum(len(part) for part in found.splits.values()) == len(found.rows["train"]) + sum(
        len(found.rows[name]) for name in found.splits if name != "train"
    )
    told = " ".join(found.remarks)
    assert "all training pictures of 1 class (yew) were unreadable: splits were drawn again" in told
    assert "has no training row" not in told


def test_given_splits_are_never_drawn_again(tmp_path):
    found = load_data(rare_class(tmp_path, ["train"]), recipe(size=SIDE), CPU)
    assert not found.redrawn
    assert [len(found.splits[name]) for name in NAMES] == [29, 30, 30]


def test_a_class_of_which_no_other_picture_can_be_read_is_told(tmp_path):
    found = load_data(rare_class(tmp_path, ["test"]), recipe(size=SIDE), CPU)
    assert re.match(r"1 class \(class 2\) has no row in some of val, calibration and test", found.remarks[1])


def test_what_was_known_before_the_pictures_were_read_is_not_told_again(tmp_path):
    data = rare_class(tmp_path, ["val"])
    without = {name: split.rows(torch.arange(29)) if name == "train" else split for name, split in data.splits.items()}
    known = split_for_training(Dataset("garden", data.dataset.classes, without), recipe(size=SIDE, calibration_share=0.0))
    assert sum("no training row" in remark for remark in known.remarks) == 1
    (left,) = load_data(known, recipe(size=SIDE), CPU).remarks
    assert "left out (val 1)" in left


def test_pictures_of_a_single_class_that_can_be_read_are_refused(tmp_path):
    data = rare_class(tmp_path, ["train"], rare=15)
    target = (torch.arange(30) >= 15).long()
    two = {name: Split(split.inputs, target, list(split.ids)) for name, split in data.splits.items()}
    data = TrainingSplits(Dataset("garden", ["class 0", "class 1"], two), two, [])
    with pytest.raises(InputError, match="garden: expected training rows of at least two classes, got 1"):
        load_data(data, recipe(size=SIDE, tolerance=1.0), CPU)


def test_a_split_of_which_no_picture_can_be_read_is_refused(one_damaged):
    splits = dict(one_damaged.splits) | {"val": one_damaged.splits["val"].rows(torch.tensor([50]))}
    with pytest.raises(InputError, match="garden, split val: .*got none"):
        load_data(splits_of(splits), recipe(size=SIDE), CPU)


@pytest.mark.parametrize("host", [1e9, 0])
@pytest.mark.parametrize("fit", ["crop", "center"])
def test_validation_and_test_pictures_become_squares_as_the_recipe_says(tmp_path, monkeypatch, fit, host):
    limits(monkeypatch, host, host)
    pictures = torch.randint(256, (3, 20, 30, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for name, picture in zip(NAMES, pictures, strict=True):
        Image.fromarray(picture.numpy()).save(tmp_path / f"{name}.png")
    splits = splits_of({name: split_of(PictureFiles(tmp_path, [f"{name}.png"])) for name in NAMES})
    found = load_data(splits, recipe(size=14, augmentation="crop-flip", test_fit=fit), CPU)
    assert found.inputs.fit == fit
    for name in NAMES:
        rows = found.rows[name]
        rows._workers = 0
        (batch,) = rows.batches([torch.tensor([0])])
        expected = load_pictures(PictureFiles(tmp_path, [f"{name}.png"]), size=16 if name == "train" else 14).images
        if name != "train" and fit == "center":
            expected = load_pictures(PictureFiles(tmp_path, [f"{name}.png"]), size=16).images[:, :, 1:15, 1:15]
        assert torch.equal(batch.inputs, expected)


def test_pretrained_networks_get_them_too():
    assert load_data(arrays(), recipe(size=SIDE, pretrained=True, test_fit="center"), CPU).inputs.fit == "center"


@pytest.mark.parametrize(
    "settings", [{}, {"augmentation": "crop-flip"}, {"augmentation": "resized-crop-flip", "test_fit": "center"}]
)
def test_memory_changes_neither_rows_nor_statistics(tmp_path, monkeypatch, settings):
    """Textured pictures, whose spread depends on the side they are shrunk to; some in each split cannot be read."""
    pictures = torch.randint(256, (30, 40, 60, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for number, picture in enumerate(pictures):
        Image.fromarray(picture.numpy()).save(tmp_path / f"{number}.png")
    for number in (2, 14):
        (tmp_path / f"{number}.png").write_bytes(b"no picture")
    splits = splits_of({
        name: split_of(PictureFiles(tmp_path, [f"{number}.png" for number in range(start, start + 10)]))
        for name, start in zip(NAMES, (0, 10, 20), strict=True)
    })  # fmt: skip
    found = []
    for host in (1e9, 0):
        limits(monkeypatch, host, host)
        found.append(load_data(splits, recipe(size=14, **settings), CPU))
    near, streamed = found
    assert isinstance(streamed.rows["train"], StreamedRows)
    assert (near.inputs, near.remarks) == (streamed.inputs, streamed.remarks)
    for name, count in zip(NAMES, (9, 9, 10), strict=True):
        rows, again = near.rows[name], streamed.rows[name]
        again._workers = 0
        assert len(rows) == len(again) == len(streamed.splits[name]) == count
        assert list(near.splits[name].ids) == list(streamed.splits[name].ids)
        assert torch.equal(rows.target, again.target)
        every = [torch.arange(count)]
        for one, other in zip(rows.batches(every), again.batches(every), strict=True):
            assert torch.equal(one.inputs, other.inputs)
            assert one.rows.tolist() == other.rows.tolist() == list(range(count))


@pytest.mark.parametrize(("host", "device", "kind"), [(1e9, 1e9, DeviceRows), (1e9, 0, HostRows), (0, 0, StreamedRows)])
def test_rows_lie_where_there_is_memory_for_them(one_damaged, monkeypatch, host, device, kind):
    limits(monkeypatch, host, device)
    found = load_data(one_damaged, recipe(size=SIDE), CPU)
    assert {type(rows) for rows in found.rows.values()} == {kind}
    assert list(found.rows) == list(NAMES)


def test_the_memory_needed_is_a_byte_a_colour_of_every_pixel(one_damaged, monkeypatch):
    needed = 3 * FILES * SIDE**2 * 3
    for host, kind in ((needed, DeviceRows), (needed - 1, StreamedRows)):
        limits(monkeypatch, host, device=1e9)
        assert isinstance(load_data(one_damaged, recipe(size=SIDE), CPU).rows["train"], kind)
    larger = 3 * SIDE**2 * FILES * 2 + 3 * (SIDE + 1) ** 2 * FILES  # training pictures are kept larger by 8/7
    for host, kind in ((larger, DeviceRows), (larger - 1, StreamedRows)):
        limits(monkeypatch, host, device=1e9)
        assert isinstance(load_data(one_damaged, recipe(size=SIDE, augmentation="crop-flip"), CPU).rows["train"], kind)


def test_half_of_the_free_memory_is_shared_by_the_processes_of_a_machine(monkeypatch):
    monkeypatch.setattr(loaded_data.psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    assert loaded_data._limits(CPU, 1) == loaded_data._Limits(500, 500)
    assert loaded_data._limits(CPU, 4) == loaded_data._Limits(125, 125)
    assert loaded_data._limits(CPU, 0) == loaded_data._Limits(500, 500)


def test_pictures_that_are_in_memory_already_are_never_decoded_again(monkeypatch):
    limits(monkeypatch, host=0, device=0)
    given = arrays()
    found = load_data(given, recipe(), CPU)
    assert {type(rows) for rows in found.rows.values()} == {HostRows}
    assert torch.equal(found.rows["val"].inputs, given.splits["val"].inputs.images)


@pytest.mark.parametrize("kind", ["none", "flip", "shift-flip", "crop-flip", "resized-crop-flip"])
def test_training_pictures_are_kept_larger_where_windows_are_cut(kind):
    found = load_data(arrays(side=14), recipe(augmentation=kind), CPU)
    larger = 16 if "crop" in kind else 14
    assert found.rows["train"].inputs.shape[2:] == (larger, larger)
    assert found.rows["val"].inputs.shape[2:] == found.rows["test"].inputs.shape[2:] == (14, 14)
    assert (found.inputs.kind, found.inputs.size) == ("pictures", 14)


@pytest.mark.parametrize(("shape", "size", "wanted"), [
    ((8, 8), None, 8), ((64, 64), None, 64), ((65, 65), None, 64), ((8, 12), None, 12), ((8, 8), 20, 20), ((100, 100), 7, 7),
])  # fmt: skip
def test_the_size_is_the_recipes_or_that_of_small_pictures(shape, size, wanted):
    given = splits_of({"train": split_of(PictureArray(torch.zeros(2, 3, *shape, dtype=torch.uint8)))})
    assert picture_size(given, recipe(size=size)) == wanted


def test_files_are_seen_at_the_usual_size(one_damaged):
    assert picture_size(one_damaged, recipe()) == loaded_data.DEFAULT_SIZE


def test_pictures_are_standardised_by_those_of_training():
    given = arrays(count=50)
    found = load_data(given, recipe(), CPU).inputs
    images = given.splits["train"].inputs.images.numpy().astype(np.float64) / 255
    assert found.mean == pytest.approx(images.mean((0, 2, 3)))
    assert found.std == pytest.approx(images.std((0, 2, 3)))


def test_streamed_pictures_are_standardised_by_those_of_training(one_damaged, monkeypatch):
    near = load_data(one_damaged, recipe(size=SIDE), CPU).inputs
    limits(monkeypatch, host=0, device=0)
    assert load_data(one_damaged, recipe(size=SIDE), CPU).inputs == near


def test_published_weights_bring_their_own_numbers():
    found = load_data(arrays(), recipe(pretrained=True), CPU).inputs
    assert (found.mean, found.std) == (IMAGENET_MEAN, IMAGENET_STD)


@pytest.mark.parametrize("rows", [3_000, 5_000])
def test_the_sample_stands_for_all_rows(rows):
    shades = torch.zeros(rows, 3, 1, 1, dtype=torch.uint8)
    shades[: rows // 2] = 255  # rows sorted by class, as folders give them
    given = splits_of({name: split_of(PictureArray(shades), posterior=False) for name in NAMES})
    assert load_data(given, recipe(), CPU).inputs.mean[0] == pytest.approx(0.5, abs=0.02)


def test_a_stream_of_nothing_but_broken_files_is_refused(tmp_path, monkeypatch):
    limits(monkeypatch, host=0, device=0)
    for number in range(3):
        (tmp_path / f"{number}.png").write_text("no picture")
    given = splits_of({name: split_of(PictureFiles(tmp_path, ["0.png", "1.png", "2.png"])) for name in NAMES})
    with pytest.raises(InputError, match="garden, split train: .*got none"):
        load_data(given, recipe(size=SIDE), CPU)


def test_progress_is_told_by_split():
    told = []
    load_data(arrays(count=300), recipe(), CPU, progress=lambda *line: told.append(line))
    assert told[-1] == ("test", 300, 300)
    assert {name for name, _, _ in told} == set(NAMES)
    for name in NAMES:
        done = [number for split, number, total in told if split == name and total == 300]
        assert done == sorted(done)
        assert done[-1] == 300


def features(dtype=torch.float64, **values):
    generator = torch.Generator().manual_seed(0)
    splits = {}
    for name in NAMES:
        table = (5 + 3 * torch.randn(10, 2, generator=generator)).to(dtype)
        table[4, 1] = values.get(name, 1.0)
        splits[name] = split_of(table)
    return splits_of(splits)


def test_features_are_rows_in_memory_standardised_by_those_of_training():
    given = features()
    found = load_data(given, recipe(), CPU)
    table = given.splits["train"].inputs.numpy()
    assert (found.inputs.kind, found.inputs.size) == ("features", 2)
    assert found.inputs.mean == pytest.approx(table.mean(0))
    assert found.inputs.std == pytest.approx(table.std(0))
    for name in NAMES:
        rows = found.rows[name]
        assert isinstance(rows, DeviceRows)
        assert rows.inputs.dtype == torch.float32
        assert torch.equal(rows.inputs, given.splits[name].inputs.float())
        assert torch.equal(rows.target, given.splits[name].target)
    assert found.splits == given.splits
    assert found.remarks == []


def test_training_features_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="features: .*got nan in row 4, column 1"):
        load_data(features(train=float("nan")), recipe(), CPU)


@pytest.mark.parametrize("name", ["val", "test"])
def test_other_features_that_are_no_numbers_are_refused(name):
    with pytest.raises(
        InputError, match=rf"^garden, split {name}: features: expected finite numbers, got nan in row 4, column 1"
    ):
        load_data(features(**{name: float("nan")}), recipe(), CPU)


def test_features_of_another_number_are_refused():
    given = features()
    splits = {**given.splits, "test": split_of(torch.zeros(10, 3))}
    with pytest.raises(InputError, match=r"^garden, split test: features: expected floating point \(N, 2\), got .*\(10, 3\)"):
        load_data(splits_of(splits), recipe(), CPU)


def test_features_that_single_precision_does_not_hold_are_refused():
    with pytest.raises(InputError, match=r"^garden, split val: features: expected finite numbers, got inf"):
        load_data(features(val=1e300), recipe(), CPU)
