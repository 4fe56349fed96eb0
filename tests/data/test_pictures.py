"""Pictures by row number: in memory, in files, in a column of bytes."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from shortlist.data.decoding import PictureError
from shortlist.data.picture_bytes import PictureBytes
from shortlist.data.pictures import PictureArray, PictureFiles
from shortlist.errors import InputError
from tests.data.drawings import file_of, noise

ARRAYS = [noise(5, 7, seed=seed) for seed in range(3)]


def in_memory(tmp_path):
    return PictureArray(torch.from_numpy(np.stack(ARRAYS).transpose(0, 3, 1, 2).copy()), ["a", "b", "c"])


def in_files(tmp_path):
    for name, values in zip("abc", ARRAYS, strict=True):
        Image.fromarray(values).save(tmp_path / f"{name}.png")
    return PictureFiles(tmp_path, ["a.png", "b.png", "c.png"])


def in_bytes(tmp_path):
    files = [file_of(Image.fromarray(values)) for values in ARRAYS]
    return PictureBytes(pa.chunked_array([files[:1], files[1:]], pa.binary()), ["a", "b", "c"])


EVERYWHERE = pytest.mark.parametrize("make", [in_memory, in_files, in_bytes])


@EVERYWHERE
def test_each_row_is_its_picture(make, tmp_path):
    pictures = make(tmp_path)
    assert len(pictures) == 3
    for row, values in enumerate(ARRAYS):
        decoded = pictures.decode(row)
        assert (np.asarray(decoded.image) == values).all()
        assert decoded.pixels.shape == (3, 5, 7)


@EVERYWHERE
def test_rows_are_chosen_in_any_order_and_again(make, tmp_path):
    pictures = make(tmp_path)
    chosen = pictures.rows(torch.tensor([2, 0, 2])).rows(torch.tensor([1, 2]))
    assert [str(name)[0] for name in chosen.ids] == ["a", "c"]
    assert (np.asarray(chosen.decode(0).image) == ARRAYS[0]).all()
    assert (np.asarray(chosen.decode(1).image) == ARRAYS[2]).all()


@EVERYWHERE
def test_no_rows_are_no_pictures(make, tmp_path):
    assert len(make(tmp_path).rows(torch.zeros(0, dtype=torch.int64))) == 0


def test_a_file_may_have_an_absolute_path(tmp_path):
    Image.fromarray(ARRAYS[0]).save(tmp_path / "a.png")
    pictures = PictureFiles("elsewhere", [str(tmp_path / "a.png")])
    assert pictures.decode(0).image.size == (7, 5)
    assert pictures.path(0) == tmp_path / "a.png"


def test_an_absent_file_and_absent_bytes_are_refused(tmp_path):
    with pytest.raises(PictureError, match="there is no such file"):
        PictureFiles(tmp_path, ["a.png"]).decode(0)
    with pytest.raises(PictureError, match="there are no bytes"):
        PictureBytes(pa.array([None, b""], pa.binary())).decode(0)
    with pytest.raises(PictureError, match="not a picture"):
        PictureBytes(pa.array([None, b""], pa.binary())).decode(1)


def test_another_process_is_sent_only_the_pictures_that_it_needs():
    column = pa.chunked_array([[bytes(1000)] * 50, [b"first", b"second"]], pa.binary())
    sent = pickle.dumps(PictureBytes(column).rows(torch.tensor([51, 50])))
    assert len(sent) < 1500
    found = pickle.loads(sent)
    assert (found.ids, found.column.to_pylist()) == (["51", "50"], [b"second", b"first"])
    assert found.rows(torch.tensor([1])).places.tolist() == [1]


@pytest.mark.parametrize(
    "images", [torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4, 3, dtype=torch.uint8), torch.zeros(3, 4, 4, dtype=torch.uint8)]
)
def test_images_in_memory_are_bytes_channels_first(images):
    with pytest.raises(InputError, match=r"images: .*got (float32|uint8)"):
        PictureArray(images)


def test_a_column_of_pictures_holds_bytes():
    with pytest.raises(InputError, match="column: .*got string"):
        PictureBytes(pa.array(["a.png"]))
    with pytest.raises(InputError, match="ids: .*got 2"):
        PictureBytes(pa.array([b""]), ["a", "b"])


def test_images_in_memory_have_an_id_each():
    with pytest.raises(InputError, match="ids: expected"):
        PictureArray(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), ["a"])
