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
    with pytest.raises(InputError, match="expected a column with the bytes of pictures, got one of paths"):
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
