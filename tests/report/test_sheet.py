"""The contact sheet: every picture where it belongs, with the right words beside it."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import ImageColor, ImageDraw

from shortlist.data import Dataset, PictureArray, Split
from shortlist.errors import InputError
from shortlist.report import contact_sheet
from shortlist.report.sheet import CAPTION, CAPTION_LINES, GAP, MARGIN, PAPER, TILE
from tests.report.garden import folder, garden, meadow

SIZE = 16


@pytest.fixture
def written(monkeypatch):
    """The texts that are written onto sheets, with their places, in order."""
    texts = []
    plain = ImageDraw.ImageDraw.text

    def noted(self, xy, text, *rest, **more):
        texts.append((text, *xy))
        return plain(self, xy, text, *rest, **more)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", noted)
    return texts


def places(sheet, dataset, size=SIZE):
    """Where each picture of the first split stands on the sheet, pixel by pixel: row → (x, y), for those that do."""
    pixels = np.asarray(sheet)
    found = {}
    (split, *_) = dataset.splits.values()
    for row, image in enumerate(split.inputs.images.permute(0, 2, 3, 1).numpy()):
        corners = np.argwhere((pixels == image[0, 0]).all(-1))
        for y, x in corners.tolist():
            if np.array_equal(pixels[y : y + size, x : x + size], image):
                assert row not in found, "a picture is there twice"
                found[row] = (x, y)
    return found


def test_every_picture_stands_in_the_line_of_its_class():
    labels = [0, 1, 2, 0, 1, 0]
    data = garden(labels, ["ash", "elm", "oak"])
    sheet = contact_sheet(data, per_class=4, size=SIZE)
    found = places(sheet, data)
    assert sorted(found) == list(range(6))
    tops = {label: {found[row][1] for row in range(6) if labels[row] == label} for label in range(3)}
    assert [len(each) for each in tops.values()] == [1, 1, 1]
    (ash,), (elm,), (oak,) = tops.values()
    assert (elm - ash, oak - elm) == (SIZE + GAP, SIZE + GAP)  # in the order of their names
    for label in range(3):
        lefts = sorted(found[row][0] for row in range(6) if labels[row] == label)
        assert lefts == [MARGIN + CAPTION + n * (SIZE + GAP) for n in range(len(lefts))]


def test_the_sheet_is_as_large_as_what_is_on_it():
    data = garden([0, 1, 1], ["ash", "elm"])
    sheet = contact_sheet(data, per_class=5, size=40)
    assert sheet.mode == "RGB"
    assert sheet.size == (MARGIN + CAPTION + 5 * 40 + 4 * GAP + MARGIN, 2 * MARGIN + 40 + 2 * (40 + GAP))
    assert contact_sheet(data, per_class=1, size=1).width == 420
    with_headings = contact_sheet(garden([0, 1, 1], ["ash", "elm"], ["Oleaceae", "Ulmaceae"]), per_class=5, size=40)
    assert with_headings.height == sheet.height + 2 * 22


def test_nothing_is_drawn_over_the_edge():
    data = garden([0] * 9, ["x" * 200], ["y" * 400], name="z" * 300)
    sheet = np.asarray(contact_sheet(data, per_class=3, size=SIZE))
    paper = np.array(ImageColor.getrgb(PAPER))
    for border in (sheet[:4], sheet[-4:], sheet[:, :4], sheet[:, -4:]):
        assert (border == paper).all()
    assert (sheet[:, MARGIN + CAPTION - 8 : MARGIN + CAPTION - 1][-SIZE - MARGIN :] == paper).all()


def test_pictures_of_other_sizes_are_fitted():
    data = garden([0], ["ash"], size=64)
    sheet = contact_sheet(data, per_class=1, size=32)
    tile = np.asarray(sheet)[MARGIN + 40 : MARGIN + 40 + 32, MARGIN + CAPTION : MARGIN + CAPTION + 32]
    image = data.splits["train"].inputs.images[0].permute(1, 2, 0).numpy().astype(float)
    blocks = image.reshape(32, 2, 32, 2, 3).mean((1, 3))
    assert np.abs(tile - blocks).mean() < 30  # noise with a spread of 37 around its mean; elsewhere there is paper
    assert abs(tile.mean() - blocks.mean()) < 2


def test_titles_names_and_counts_are_written(written):
    contact_sheet(garden([0, 1, 1], ["ash", "elm"]), size=SIZE)
    title, ash, one, elm, two = written
    assert title[0] == "garden, train: 3 pictures, 2 classes"
    assert [each[0] for each in (ash, one, elm, two)] == ["ash", "1", "elm", "2"]
    assert title[2] < ash[2] < one[2] < elm[2]


def test_long_texts_are_shortened(written):
    contact_sheet(garden([0], ["x" * 500], ["genus " * 100], name="name, " * 100), size=SIZE)
    for text, *_ in written[:3]:
        assert text.endswith("…")
        assert not text.endswith((" …", ",…"))
        assert len(text) < 120


def test_classes_of_one_superclass_stand_together_under_its_name(written):
    above = ["Quercus", "Acer", "Quercus", "Acer", "Ilex"]
    data = garden([0, 1, 2, 3, 4], ["robur", "rubrum", "alba", "campestre", "aquifolium"], above)
    found = places(contact_sheet(data, size=SIZE), data)
    by_height = sorted(found, key=lambda row: found[row][1])
    order = [above[row] for row in by_height]
    assert [name for place, name in enumerate(order) if name not in order[:place]] == [
        name for place, name in enumerate(order) if place == 0 or order[place - 1] != name
    ]
    names = [text for text, *_ in written]
    assert [name for name in names if name in above] == list(dict.fromkeys(order))
    for one, other in pairwise(by_height):
        if above[one] == above[other]:
            assert data.classes[one] < data.classes[other]


def test_a_few_classes_are_of_a_few_superclasses():
    """Four classes of twelve, in genera of three: at most a third of the lines, but two, are of one genus."""
    labels = list(range(12))
    above = [f"genus-{label % 4}" for label in labels]
    for seed in range(5):
        data = garden(labels, [f"class-{label}" for label in labels], above)
        shown = places(contact_sheet(data, classes=4, size=SIZE, seed=seed), data)
        assert sorted(Counter(above[row] for row in shown).values()) == [2, 2]


def test_the_commonest_classes_of_a_superclass_are_shown():
    data = garden([0] + [1] * 3 + [2] * 2 + [3], ["ash", "elm", "fir", "oak"], ["x", "x", "x", "y"])
    shown = places(contact_sheet(data, classes=3, size=SIZE), data)
    assert {int(data.splits["train"].target[row]) for row in shown} == {1, 2, 3}


def test_only_some_classes_are_shown_where_that_is_asked_for():
    data = garden([0, 1, 2], ["ash", "elm", "oak"], ["x", "x", "y"])
    for only, expected in ((["oak"], {2}), (["x"], {0, 1}), (["x", "oak"], {0, 1, 2})):
        assert set(places(contact_sheet(data, size=SIZE, only=only), data)) == expected
    with pytest.raises(InputError, match=r"^oka: expected a class or a superclass, such as oak"):
        contact_sheet(data, only=["oka"])


def test_no_more_pictures_than_asked_for_and_no_picture_twice():
    data = garden([0] * 9 + [1] * 2, ["ash", "elm"])
    found = places(contact_sheet(data, per_class=4, size=SIZE), data)
    assert sum(row < 9 for row in found) == 4
    assert sum(row >= 9 for row in found) == 2


def test_a_sheet_comes_from_its_seed():
    data = garden([0] * 30, ["ash"])
    first, again, other = (contact_sheet(data, per_class=5, size=SIZE, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(np.asarray(first), np.asarray(again))
    assert set(places(first, data)) != set(places(other, data))


def test_one_class_one_picture():
    data = garden([0], ["ash"])
    assert places(contact_sheet(data, size=SIZE), data) == {0: (MARGIN + CAPTION, MARGIN + 40)}


def test_classes_without_a_picture_are_left_out(written):
    contact_sheet(garden([2, 2], ["ash", "elm", "oak"]), size=SIZE)
    assert [text for text, *_ in written[1:]] == ["oak", "2"]


def test_rows_with_many_labels_have_them_below(written):
    classes = ["ash", "beech", "elm", "fir", "oak"]
    data = meadow([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], classes)
    found = places(contact_sheet(data, per_class=3, size=96), data, 16)
    assert not found  # enlarged
    below = {}
    for text, x, _ in written[1:]:
        below.setdefault(x, []).append(text)
    assert sorted(below.values()) == [["ash", "beech", "and 3 more"], ["ash", "elm"], ["no label"]]
    assert max(map(len, below.values())) <= CAPTION_LINES


def test_lines_of_rows_with_many_labels():
    data = meadow([[1]] * 7, ["ash"])
    found = places(contact_sheet(data, classes=2, per_class=3, size=SIZE), data)
    assert len(found) == 6
    assert {x for x, _ in found.values()} == {MARGIN + n * (SIZE + GAP) for n in range(3)}
    assert len({y for _, y in found.values()}) == 2


def test_what_cannot_be_read_is_a_grey_tile(tmp_path, written):
    sheet = contact_sheet(folder(tmp_path, broken=[1, 2]), per_class=4, size=96)
    pixels = np.asarray(sheet)
    corners = [tuple(pixels[MARGIN + 40, MARGIN + CAPTION + n * (96 + GAP)].tolist()) for n in range(4)]
    assert sorted(corners) == sorted([(0, 200, 30), (30, 200, 30), *[ImageColor.getrgb(TILE)] * 2])
    assert [text for text, *_ in written].count("unreadable") == 2


def test_a_sheet_of_which_nothing_can_be_read(tmp_path, written):
    contact_sheet(folder(tmp_path, broken=range(4)), size=SIZE)
    assert len([text for text, *_ in written if text.endswith("…")]) == 4  # too small for the word


def test_the_split_can_be_chosen(written):
    data = garden([0], ["ash"])
    rows = data.splits["train"]
    both = data.with_splits({"val": rows, "train": rows})
    contact_sheet(both, size=SIZE)
    contact_sheet(both, split="val", size=SIZE)
    contact_sheet(data.with_splits({"later": rows, "first": rows}), size=SIZE)
    titles = [text.split(":")[0] for text, *_ in written if "pictures" in text]
    assert titles == ["garden, train", "garden, val", "garden, later"]


def test_a_split_that_is_not_there_or_empty_is_refused():
    data = garden([0], ["ash"])
    with pytest.raises(InputError, match=r"^split: .*got test$"):
        contact_sheet(data, split="test")
    empty = data.splits["train"].rows(torch.zeros(0, dtype=torch.int64))
    with pytest.raises(InputError, match=r"^garden: the split train is empty$"):
        contact_sheet(data.with_splits({"train": empty}))


def test_features_are_refused():
    data = Dataset("leaves", ["ash"], {"train": Split(torch.zeros(2, 7), torch.tensor([0, 0]), ["a", "b"])})
    with pytest.raises(InputError, match=r"^leaves: .*got a table of 7 features$"):
        contact_sheet(data)


@pytest.mark.parametrize("option", ["classes", "per_class", "size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "few", True])
def test_options_are_checked(option, value):
    with pytest.raises(InputError, match=f"^{option}: expected a whole number from 1, got "):
        contact_sheet(garden([0], ["ash"]), **{option: value})


@pytest.mark.parametrize("seed", [-1, "x"])
def test_seeds_are_checked(seed):
    with pytest.raises(InputError, match=r"^seed: expected"):
        contact_sheet(garden([0], ["ash"]), seed=seed)


@pytest.mark.parametrize("where", ["class", "superclass", "name", "label"])
def test_line_ends_in_names_are_no_obstacle(where):
    if where == "label":
        contact_sheet(meadow([[1]], ["two\nlines"]), size=SIZE)
    else:
        words = {"class": ["two\nlines"], "superclass": ["two\nlines"], "name": "two\nlines"}
        classes, above, name = (words[kind] if kind == where else None for kind in ("class", "superclass", "name"))
        contact_sheet(garden([0], classes or ["ash"], above, name=name or "garden"), size=SIZE)


def test_pictures_in_memory_stay_as_they_are():
    data = garden([0, 0], ["ash"])
    inputs = data.splits["train"].inputs
    assert isinstance(inputs, PictureArray)
    before = inputs.images.clone()
    contact_sheet(data, size=SIZE)
    assert torch.equal(inputs.images, before)
