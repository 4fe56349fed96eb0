"""Pictures at addresses are those of the same files by their paths."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions
from shortlist.data import PictureError, PictureFiles, open_dataset
from shortlist.data.addressed import AddressedPictures
from shortlist.data.parquet_pictures import ParquetPictures
from shortlist.data.readers.addresses import read_address
from shortlist.errors import InputError
from shortlist.training.fingerprint import contents
from tests.cli.conftest import fails, run
from tests.models.classifiers import image, of_pictures

__all__ = ["fails", "run"]


@pytest.fixture
def leaves(tmp_path):
    folder = tmp_path / "leaves"
    (folder / "below").mkdir(parents=True)
    for number, name in enumerate(("b.png", "a.jpg", "below/c.png", ".hidden.png")):
        image(20 + number, 30, seed=number).save(folder / name)
    (folder / "notes.txt").write_text("no picture")
    return folder


def pixels(pictures, row):
    return np.asarray(pictures.decode(row).image)


def test_a_folder_is_all_pictures_below_it(leaves):
    address = leaves.as_uri()
    (split,) = open_dataset(address, require_labels=False).splits.values()
    names = ["a.jpg", "b.png", "below/c.png"]
    assert split.ids == [f"{address}/{name}" for name in names]
    plain = PictureFiles(leaves, names)
    for pictures in (split.inputs, pickle.loads(pickle.dumps(split.inputs))):
        assert all(np.array_equal(pixels(pictures, row), pixels(plain, row)) for row in range(3))
    some = split.inputs.rows(torch.tensor([2, 0]))
    assert some.ids == [f"{address}/below/c.png", f"{address}/a.jpg"]
    assert np.array_equal(pixels(some, 0), pixels(plain, 2))
    assert np.array_equal(contents(split.inputs), contents(plain))
    (one,) = open_dataset(f"{address}/b.png", require_labels=False).splits.values()
    assert one.ids == [f"{address}/b.png"]


def test_large_files_have_the_number_that_they_have_by_their_paths(tmp_path):
    (tmp_path / "large.png").write_bytes(np.random.default_rng(0).bytes(300_000))
    there = AddressedPictures(pyarrow.fs.LocalFileSystem(), [str(tmp_path / "large.png")], ["large"])
    assert np.array_equal(contents(there), contents(PictureFiles(tmp_path, ["large.png"])))


def test_a_file_system_of_any_kind_will_do(leaves):
    system = pyarrow.fs.SubTreeFileSystem(str(leaves), pyarrow.fs.LocalFileSystem())
    pictures = AddressedPictures(system, ["a.jpg", "gone.jpg"], ["a", "gone"])
    assert np.array_equal(pixels(pictures, 0), pixels(PictureFiles(leaves, ["a.jpg"]), 0))
    with pytest.raises(PictureError):
        pictures.decode(1)
    assert contents(pictures)[1] == contents(PictureFiles(leaves, ["gone.jpg"]))[0]


@pytest.mark.parametrize("form", ["bytes", "struct"])
def test_parquet_files_hold_pictures_one_after_the_other(leaves, tmp_path, form):
    kept = [(leaves / name).read_bytes() for name in ("a.jpg", "b.png", "below/c.png")]
    shards = tmp_path / "shards"
    shards.mkdir()
    for number, part in enumerate((kept[:2], [*kept[2:], None])):
        column = part if form == "bytes" else [{"bytes": one, "path": f"{number}-{n}.png"} for n, one in enumerate(part)]
        pq.write_table(pa.table({"image": column, "label": range(len(part))}), shards / f"train-{number}.parquet")
    dataset = open_dataset(shards.as_uri(), require_labels=False)
    (split,) = dataset.splits.values()
    plain = PictureFiles(leaves, ["a.jpg", "b.png", "below/c.png"])
    assert all(np.array_equal(pixels(split.inputs, row), pixels(plain, row)) for row in range(3))
    assert split.ids == (["0", "1", "2"] if form == "bytes" else ["0-0.png", "0-1.png", "1-0.png"])
    assert [problem.where for problem in dataset.problems] == ["3" if form == "bytes" else "1-1.png"]
    (here,) = open_dataset(shards, require_labels=False).splits.values()
    assert here.ids == split.ids
    assert np.array_equal(contents(here.inputs), contents(split.inputs))
    assert not np.array_equal(contents(here.inputs)[:1], contents(here.inputs)[1:2])


def test_a_struct_without_paths_has_rows_by_number(leaves, tmp_path):
    (tmp_path / "shards").mkdir()
    column = pa.array([{"bytes": (leaves / name).read_bytes()} for name in ("a.jpg", "b.png")])
    pq.write_table(pa.table({"image": column}), tmp_path / "shards" / "0.parquet")
    (split,) = open_dataset(tmp_path / "shards", require_labels=False).splits.values()
    assert split.ids == ["0", "1"]
    assert np.array_equal(pixels(split.inputs, 1), pixels(PictureFiles(leaves, ["b.png"]), 0))


def test_paths_that_two_files_share_are_no_names(leaves, tmp_path):
    (tmp_path / "shards").mkdir()
    for number, name in enumerate(("a.jpg", "b.png")):
        column = [{"bytes": (leaves / name).read_bytes(), "path": "0.png"}]
        pq.write_table(pa.table({"image": column}), tmp_path / "shards" / f"{number}.parquet")
    dataset = open_dataset(tmp_path / "shards", require_labels=False)
    (split,) = dataset.splits.values()
    assert split.ids == split.inputs.ids == ["0", "1"]
    assert [problem.where for problem in dataset.problems] == ["path"]


def shards_of(folder, sizes, group=4):
    """Parquet files of so many rows of bytes, every seventh row without any."""
    folder.mkdir()
    content = [None if row % 7 == 6 else b"picture %d" % row for row in range(sum(sizes))]
    for number, size in enumerate(sizes):
        rows = content[sum(sizes[:number]) :][:size]
        table = pa.table({"image": pa.array(rows, pa.binary())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
    return content, [str(folder / f"{number}.parquet") for number in range(len(sizes))]


def test_bytes_are_read_a_row_group_at_a_time(tmp_path, monkeypatch):
    content, paths = shards_of(tmp_path / "shards", [9, 0, 5, 17])
    read = []
    whole = ParquetPictures._read
    monkeypatch.setattr(ParquetPictures, "_read", lambda self, group: read.append(group) or whole(self, group))
    pictures = ParquetPictures.open(pyarrow.fs.LocalFileSystem(), paths, ["image"] * 4)
    assert read == []
    assert pictures.absent().tolist() == [one is None for one in content]
    assert [group.rows for group in read] == [4, 1, 4, 4]  # others have as many bytes as rows, by their statistics
    read.clear()
    assert [pictures.content(row) for row in range(len(content))] == content
    assert len(read) == len(set(read)) == len(pictures.groups) == 10
    random = np.random.default_rng(0)
    for size in (0, 1, 5, 40):
        chosen = random.integers(len(content), size=size)
        some = pictures.rows(torch.from_numpy(chosen))
        sent = pickle.dumps(some)
        assert b"picture " not in sent  # no bytes of any
        for found in (some, pickle.loads(sent), pickle.loads(pickle.dumps(pickle.loads(sent)))):
            assert found.ids == [str(row) for row in chosen]
            assert [found.content(row) for row in range(size)] == [content[row] for row in chosen]
            assert found.absent().tolist() == [content[row] is None for row in chosen]
    one = pickle.loads(pickle.dumps(pictures.rows(torch.tensor([30, 29]))))
    assert (one.paths, [(group.file, group.number) for group in one.groups]) == (paths[3:], [(0, 3), (0, 4)])


def test_row_groups_without_statistics_are_looked_into(tmp_path):
    pq.write_table(pa.table({"image": [b"a", None]}), tmp_path / "x.parquet", write_statistics=False)
    pictures = ParquetPictures.open(pyarrow.fs.LocalFileSystem(), [str(tmp_path / "x.parquet")], ["image"])
    assert pictures.absent().tolist() == [False, True]
    with pytest.raises(PictureError, match="there are no bytes"):
        pictures.decode(1)
    (tmp_path / "x.parquet").unlink()
    gone = pickle.loads(pickle.dumps(pictures))
    with pytest.raises(PictureError, match=r"x\.parquet"):
        gone.decode(0)


def test_rows_of_parquet_files_go_by_their_ids(leaves, tmp_path):
    kept = [(leaves / name).read_bytes() for name in ("a.jpg", "b.png", "below/c.png")]
    (tmp_path / "shards").mkdir()

    def ids(first, second):
        for number, (pictures, columns) in enumerate(((kept[:2], first), (kept[2:], second))):
            pq.write_table(pa.table({"image": pictures} | columns), tmp_path / "shards" / f"{number}.parquet")
        dataset = open_dataset((tmp_path / "shards").as_uri(), require_labels=False)
        (split,) = dataset.splits.values()
        assert split.inputs.ids == split.ids
        return split.ids, [problem.where for problem in dataset.problems]

    assert ids({"id": ["r5", "r6"]}, {"id": [7]}) == (["r5", "r6", "7"], [])
    assert ids({"id": ["r5", "r6"]}, {}) == (["r5", "r6", "2"], [])
    assert ids({"id": ["r5", "r6"]}, {"id": ["r5"]}) == (["0", "1", "2"], ["id"])


def test_what_is_no_place_of_pictures_is_refused(leaves, tmp_path):
    for address, message in (
        ((tmp_path / "nothing").as_uri(), "there is nothing at this address"),
        ("mock:///empty", "there is nothing at this address"),
        ("gopher://leaves", "cannot be read"),
        ((leaves / "notes.txt").as_uri() + "/x", "nothing at this address|cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            read_address(address)
    (leaves / "only").mkdir()
    (leaves / "only" / "notes.txt").write_text("no picture")
    with pytest.raises(InputError, match="expected pictures, or Parquet files that hold them, got none"):
        read_address((leaves / "only").as_uri())
    pq.write_table(pa.table({"path": ["a.jpg"]}), leaves / "only" / "paths.parquet")
    with pytest.raises(InputError, match="path: expected the bytes of pictures, or {bytes, path}, got string"):
        read_address((leaves / "only").as_uri())
    with pytest.raises(InputError, match="an address must be given alone"):
        open_dataset([leaves.as_uri(), str(leaves)], require_labels=False)
    with pytest.raises(InputError, match="got an address, from which pictures are read without labels"):
        open_dataset(leaves.as_uri())


def test_predict_scores_them_as_it_does_files(run, fails, leaves, tmp_path):
    of_pictures("plain-8", size=16).save(tmp_path / "classifier")
    for source, out in ((leaves, "files"), (leaves.as_uri(), "addresses")):
        outcome = run("predict", "classifier", source, "--device", "cpu", "--out", out)
        assert outcome.code == 0, outcome.err
    found, plain = (Predictions.load(tmp_path / name) for name in ("addresses", "files"))
    assert torch.equal(found.scores, plain.scores)
    message = fails("predict", "classifier", leaves, "--out", "s3://bucket/scores")
    assert message.startswith("--out: expected a folder that is here or mounted, got the address")
