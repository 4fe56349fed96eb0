"""What has changed about data, counted and told."""

import hashlib
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings, strategies as st
from pyarrow.fs import LocalFileSystem

from shortlist.data import PictureArray, Split
from shortlist.data.addressed import AddressedPictures
from shortlist.data.picture_bytes import PictureBytes
from shortlist.data.pictures import PictureBoxes, PictureFiles
from shortlist.errors import InputError
from shortlist.training.fingerprint import DataFingerprint, _row_changes, contents, fingerprint

CLASSES = ["ash", "elm", "oak"]


def rows(count=6, *, start=0, ids=None):
    """Features that differ from row to row."""
    features = torch.arange(start, start + count).float()[:, None].repeat(1, 2)
    return Split(features, torch.arange(count) % 3, ids or [f"row {start + n}" for n in range(count)])


def joined(*parts):
    """The rows of several splits as one."""
    return Split(
        torch.cat([part.inputs for part in parts]),
        torch.cat([part.target for part in parts]),
        [one for part in parts for one in part.ids],
    )


def taken(train, test=None, classes=CLASSES, superclasses=None):
    return fingerprint({"train": train} | ({} if test is None else {"test": test}), classes, superclasses)


def told(old, new):
    return new.changes_since(old)


def test_the_same_data_have_the_same_digest():
    assert taken(rows()).digest == taken(rows()).digest
    assert told(taken(rows()), taken(rows())) == ""
    assert taken(rows(), rows(3, start=50)).record() == {
        "digest": taken(rows(), rows(3, start=50)).digest,
        "classes": 3,
        "rows": {"train": 6, "test": 3},
    }


RELABELLED = rows().with_target(torch.tensor([0, 1, 2, 2, 1, 0]))
CHANGES = {
    "2 rows were added": (taken(rows()), taken(rows(8))),
    "1 row was removed": (taken(rows()), taken(rows(5))),
    "2 rows were relabelled": (taken(rows()), taken(RELABELLED)),
    "6 rows have other contents": (taken(rows(ids=list("abcdef"))), taken(rows(start=9, ids=list("abcdef")))),
    "the rows are in another order": (taken(rows()), taken(rows().rows(torch.tensor([1, 0, 2, 3, 4, 5])))),
    "2 rows moved between splits": (
        taken(rows(), rows(2, start=50)),
        taken(joined(rows(), rows(2, start=50)), rows(0)),
    ),
    "the classes are in another order": (taken(rows()), taken(rows(), classes=["ash", "oak", "elm"])),
    "the superclasses have changed": (taken(rows()), taken(rows(), superclasses=["a", "b", "b"])),
    "the ids of the rows have changed": (taken(rows()), taken(rows(ids=list("abcdef")))),
}


@pytest.mark.parametrize("sentence", CHANGES)
def test_each_change_is_told(sentence):
    old, new = CHANGES[sentence]
    assert sentence in told(old, new)
    assert told(old, old) == told(new, new) == ""


def test_rows_put_before_others_are_found_by_content_where_ids_are_numbers():
    old = rows(6, ids=list("012345"))
    new = joined(rows(2, start=70), rows(6))
    numbered = Split(new.inputs, new.target, list("01234567"))
    assert told(taken(old), taken(numbered)) == "2 rows were added"


def test_a_new_class_does_not_relabel_the_rows_of_those_after_it():
    more = rows().with_target(torch.tensor([0, 2, 3, 0, 2, 3]))
    assert told(taken(rows()), taken(more, classes=["ash", "beech", "elm", "oak"])) == "1 class ('beech') was added"


def test_labels_of_several_classes_are_compared_by_name():
    target = torch.tensor([[True, False, True], [False, False, False]])
    old, new = (Split(torch.eye(2), labels, ["a", "b"]) for labels in (target, target.flip(1)))
    assert told(taken(old), taken(new)) == ""  # oak and ash are both there
    assert told(taken(old), taken(new.with_target(~target))) == "2 rows were relabelled"


def test_equal_rows_are_counted_as_often_as_they_come():
    twice = Split(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]), ["a", "b", "c", "d"])
    assert told(taken(twice), taken(twice.rows(torch.tensor([0, 2, 3])))) == "1 row was removed"


def test_a_picture_file_of_another_size_has_another_content(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"12345")
    split = Split(PictureFiles(tmp_path, ["a", "b", "gone"]), torch.tensor([0, 1, 2]), ["a", "b", "gone"])
    old = taken(split)
    (tmp_path / "b").write_bytes(b"123456")
    assert told(old, taken(split)) == "1 row has other contents"
    (tmp_path / "b").write_bytes(b"12345")
    assert told(old, taken(split)) == ""
    (tmp_path / "gone").write_bytes(b"")
    assert told(old, taken(split)) == "1 row has other contents"


def test_parts_of_a_file_are_compared_by_its_bytes_and_by_their_boxes(tmp_path):
    def digest(content, box):
        (tmp_path / "a.png").write_bytes(content)
        parts = PictureBoxes(tmp_path, ["a.png"], [box])
        return fingerprint({"train": Split(parts, torch.tensor([0]), parts.ids)}, ["x"]).digest

    first = digest(b"one", (0, 0, 2, 2))
    assert digest(b"one", (0, 0, 2, 2)) == first
    assert digest(b"two", (0, 0, 2, 2)) != first
    assert digest(b"one", (0, 0, 2, 3)) != first


def test_pictures_in_memory_and_in_tables_are_compared_by_content():
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    changed = images.clone()
    changed[1, 0, 0, 0] = 1
    old, new = (taken(Split(PictureArray(each), torch.tensor([0, 1]), ["a", "b"])) for each in (images, changed))
    assert told(old, new) == "1 row has other contents"
    columns = ([b"one", b"two"], [b"one", b"too"], [b"one", None])
    first, *others = (taken(Split(PictureBytes(pa.array(each)), torch.tensor([0, 1]), ["a", "b"])) for each in columns)
    assert [told(first, other) for other in others] == ["1 row has other contents"] * 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_features_of_any_type_have_a_digest(dtype):
    split = Split(torch.eye(3).to(dtype), None, ["a", "b", "c"])
    assert told(taken(split), taken(split)) == ""
    assert "other contents" in told(taken(split), taken(Split((1 - torch.eye(3)).to(dtype), None, ["a", "b", "c"])))


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_counts_are_those_of_a_search_through_all_rows(seed):
    """Reference: dictionaries by id."""
    chance = random.Random(seed)

    def drawn():
        ids = chance.sample(range(20), chance.randrange(1, 15))
        return {one: (chance.randrange(3), chance.randrange(2), chance.randrange(2)) for one in ids}

    old, new = drawn(), drawn()

    def of(table):
        splits = {}
        for number, name in enumerate(("train", "test")):
            here = [one for one in table if table[one][1] == number]
            inputs = torch.tensor([[float(table[one][2])] for one in here]).reshape(-1, 1)
            splits[name] = Split(inputs, torch.tensor([table[one][0] for one in here]).long(), [str(one) for one in here])
        return fingerprint(splits, CLASSES)

    both = old.keys() & new.keys()
    assert _row_changes(of(old), of(new), "ids") == {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "relabelled": sum(old[one][0] != new[one][0] for one in both),
        "changed": sum(old[one][2] != new[one][2] for one in both),
        "moved": sum(old[one][1] != new[one][1] for one in both),
    }


def test_it_comes_back_from_its_file(tmp_path):
    found = taken(rows(), rows(2, start=9), superclasses=["a", "b", "b"])
    found.save(tmp_path / "rows.safetensors")
    assert DataFingerprint.load(tmp_path / "rows.safetensors").digest == found.digest


@pytest.mark.parametrize("content", [b"", b"no file of ours", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path, content):
    (tmp_path / "rows.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="^cannot read .*rows.safetensors: "):
        DataFingerprint.load(tmp_path / "rows.safetensors")


def test_columns_of_another_type_are_refused(tmp_path):
    from safetensors.numpy import save_file

    columns = {name: np.zeros(2, dtype=np.float32) for name in ("ids", "labels", "content", "split")}
    names = '[["a"], null, ["train"], true]'
    save_file(columns, tmp_path / "rows.safetensors", {"format": "shortlist-rows/1", "names": names})
    with pytest.raises(InputError, match="expected the format"):
        DataFingerprint.load(tmp_path / "rows.safetensors")


@pytest.mark.parametrize(
    ("size", "place"),
    [(100, 50), (65_536, 30_000), (90_000, 0), (90_000, 89_999), (90_000, 45_000), (3_000_000, 1_500_000)],
)
@pytest.mark.parametrize("kind", ["files", "boxes", "addressed"])
def test_files_of_the_same_size_are_compared_by_all_their_bytes(tmp_path, size, place, kind):
    def taken():
        pictures = {
            "files": lambda: PictureFiles(tmp_path, ["a.png"]),
            "boxes": lambda: PictureBoxes(tmp_path, ["a.png"], [(0, 0, 2, 2)]),
            "addressed": lambda: AddressedPictures(LocalFileSystem(), [str(tmp_path / "a.png")], ["a.png"]),
        }[kind]()
        return fingerprint({"train": Split(pictures, torch.tensor([0]), ["a.png"])}, ["x"])

    content = bytearray(size)
    (tmp_path / "a.png").write_bytes(content)
    before = taken()
    assert taken().changes_since(before) == ""
    content[place] = 1
    (tmp_path / "a.png").write_bytes(content)
    assert taken().changes_since(before) == "1 row has other contents"


def test_each_row_has_the_number_of_its_own_file(tmp_path):
    """Reference: one file at a time. More files than a thread takes at once, several boxes in one file, out of order."""
    chance = random.Random(0)
    names = [f"{number}.png" for number in range(150)]
    for name in names:
        (tmp_path / name).write_bytes(chance.randbytes(chance.randrange(200)))
    (tmp_path / names[70]).unlink()

    def number(name):
        if name == names[70]:
            return 2**64 - 1
        content = (tmp_path / name).read_bytes()
        found = hashlib.blake2b(len(content).to_bytes(8, "little") + content, digest_size=8)
        return int.from_bytes(found.digest(), "little")

    assert contents(PictureFiles(tmp_path, names)).tolist() == [number(name) for name in names]
    several = chance.choices(names, k=200)
    boxes = PictureBoxes(tmp_path, several, [(0, 0, 1, 1)] * 200)
    assert contents(boxes).tolist() == [number(name) for name in several]
    assert contents(PictureFiles(tmp_path, [])).tolist() == []


def test_what_an_earlier_version_saved_of_large_files_is_refused_with_the_reason(tmp_path):
    """It digested the size, the first and the last 16 KB of files above 64 KB, and of smaller ones what is digested now."""
    content = {"small.png": bytes(65_536), "large.png": bytes(range(256)) * 300}
    for name, written in content.items():
        (tmp_path / name).write_bytes(written)

    def of(*names):
        found = fingerprint({"train": Split(PictureFiles(tmp_path, names), torch.zeros(len(names)).long(), names)}, ["x"])
        ends = [content[name] if name == "small.png" else content[name][:16_384] + content[name][-16_384:] for name in names]
        digests = [
            hashlib.blake2b(len(content[name]).to_bytes(8, "little") + read, digest_size=8).digest()
            for name, read in zip(names, ends, strict=True)
        ]
        old = replace(found, content=np.frombuffer(b"".join(digests), "<u8"))
        old.save(tmp_path / "rows.safetensors")
        written = (tmp_path / "rows.safetensors").read_bytes()
        (tmp_path / "rows.safetensors").write_bytes(written.replace(b"shortlist-rows/2", b"shortlist-rows/1"))
        return found.changes_since(DataFingerprint.load(tmp_path / "rows.safetensors"))

    assert of("small.png") == ""
    told = "or files above 64 KB, of which an earlier version of shortlist compared only the two ends"
    assert of("small.png", "large.png") == f"1 row has other contents, {told}"
