"""Options that every dataset has: which rows are tested on."""

import pytest
import torch

from shortlist.data import Dataset, Split, open_dataset, val_as_test
from shortlist.errors import InputError
from shortlist.training import Recipe
from shortlist.training.splits import split_for_training
from tests.data.readers import fixtures


def rows(name, number, target=True):
    labels = torch.arange(number) % 2 if target else None
    return Split(torch.zeros(number, 1), labels, [f"{name}{row}" for row in range(number)])


def garden(**splits):
    return Dataset("garden", ["ash", "oak"], {name: rows(name, number) for name, number in splits.items()})


def test_val_becomes_the_test_split_and_no_val_is_left():
    data = val_as_test(garden(train=6, val=4))
    assert list(data.splits) == ["train", "test"]
    assert data.splits["test"].ids == ["val0", "val1", "val2", "val3"]
    assert data.name == "garden, val as test"
    assert not data.problems
    assert data.notes == ["the 4 official validation rows are the test split"]


def test_a_test_split_with_labels_is_left_out_and_said():
    data = val_as_test(garden(train=6, val=4, test=3))
    assert data.splits["test"].ids[0] == "val0"
    assert [str(problem) for problem in data.problems] == ["test: 3 rows, as val is the test split: left out"]
    bare = garden(train=6, val=4)
    assert not val_as_test(bare.with_splits({**bare.splits, "test": rows("test", 3, target=False)})).problems


@pytest.mark.parametrize("splits", [{"train": 4}, {"val": 4, "test": 2}])
def test_data_without_train_or_val_are_refused(splits):
    with pytest.raises(InputError, match=f"test: expected .*train and val, got garden with {', '.join(splits)}"):
        val_as_test(garden(**splits))


def test_training_cuts_its_validation_rows_from_train_by_the_seed():
    data = val_as_test(garden(train=100, val=30))
    cuts = [
        split_for_training(data, Recipe("mine", "x", method="cross-entropy", calibration_share=0, seed=s)) for s in (3, 3, 4)
    ]
    first, again, other = ({name: split.ids for name, split in cut.splits.items()} for cut in cuts)
    assert first == again
    assert first["val"] != other["val"]
    assert first["test"] == [f"val{row}" for row in range(30)]
    assert len(first["val"]) == 10
    assert sorted(first["train"] + first["val"]) == sorted(f"train{row}" for row in range(100))
    assert cuts[0].remarks[0] == "the 30 official validation rows are the test split"
    assert any("set aside from the training rows: 10 for val (stratified, seed 3)" in remark for remark in cuts[0].remarks)


@pytest.mark.parametrize(("source", "write"), [("coco", fixtures.coco), ("voc", fixtures.voc), ("imagenet", None)])
def test_published_data_by_text_and_by_argument(tmp_path, source, write):
    write(tmp_path) if write else fixtures.imagenet(tmp_path, flat=False)
    plain = open_dataset(f"{source}:{tmp_path}")
    for data in (open_dataset(f"{source}:{tmp_path},test=val"), open_dataset(f"{source}:{tmp_path}", test="val")):
        assert list(data.splits) == ["train", "test"]
        assert data.splits["test"].ids == plain.splits["val"].ids
        assert data.splits["test"].target.tolist() == plain.splits["val"].target.tolist()
        assert data.splits["train"].ids == plain.splits["train"].ids
    with pytest.raises(InputError, match="test: .*'val'.*got 'vall'"):
        open_dataset(f"{source}:{tmp_path},test=vall")


def test_an_option_of_the_reader_goes_first():
    data = open_dataset("flora:species=6,genera=2,train=8,val=2,test=3,size=8")
    assert len(data.splits["test"]) == 3


def test_what_is_classified_is_then_the_official_validation_split(tmp_path):
    fixtures.coco(tmp_path)
    given = open_dataset(f"coco:{tmp_path},test=val", require_labels=False)
    assert given.splits["test"].ids == open_dataset(f"coco:{tmp_path}").splits["val"].ids
