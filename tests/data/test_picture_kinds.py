"""Kinds of picture files: read where there is a decoder, named and counted where there is none, never skipped in silence."""

import io

import numpy as np
import pytest
import torch
from PIL import Image, features

from shortlist.data import decoding
from shortlist.data.decoding import PictureError, read_picture
from shortlist.data.inspection import inspect_pictures
from shortlist.data.picture_kinds import SUFFIXES, kind_of_bytes
from shortlist.data.readers.class_folders import read_class_folders
from shortlist.data.readers.picture_files import read_picture_files
from shortlist.errors import InputError
from shortlist.training.loaded_data import load_data
from shortlist.training.recipe import Recipe
from shortlist.training.splits import split_for_training

pillow_heif = pytest.importorskip("pillow_heif")
LOSSY = {".heic": "HEIF", ".avif": "AVIF", ".jp2": "JPEG2000", ".tif": "TIFF", ".webp": "WEBP"}


def gradient(side=48):
    ramp = np.linspace(0, 255, side).astype(np.uint8)
    return Image.fromarray(
        np.stack([np.tile(ramp, (side, 1)), np.tile(ramp[:, None], (1, side)), np.full((side, side), 90)], 2).astype(np.uint8)
    )


def encoded(suffix):
    pillow_heif.register_heif_opener()  # as the library does, when it first reads a picture
    file = io.BytesIO()
    gradient().save(file, LOSSY[suffix], **({"quality": 90} if suffix in (".heic", ".avif") else {}))
    return file.getvalue()


@pytest.fixture
def without_decoders(monkeypatch):
    """A Pillow that knows neither HEIC nor AVIF, as where no decoder is installed."""
    monkeypatch.setattr(decoding, "_formats", lambda: ["JPEG", "PNG"])


@pytest.mark.parametrize("suffix", LOSSY)
def test_every_kind_is_read_where_there_is_a_decoder(tmp_path, suffix):
    if suffix == ".avif" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    path = tmp_path / f"picture{suffix.upper()}"
    path.write_bytes(encoded(suffix))
    expected = torch.from_numpy(np.asarray(gradient()).copy()).permute(2, 0, 1)
    for source in (path, path.read_bytes()):
        assert (read_picture(source).int() - expected.int()).abs().float().mean() < 4
    assert read_picture_files([tmp_path]).splits["all"].ids == [str(path)]


@pytest.mark.parametrize(
    ("suffix", "said"), [(".heic", r"HEIC, .*shortlist\[heic\]"), (".avif", "AVIF, .*pillow"), (".jp2", "JPEG 2000, ")]
)
@pytest.mark.parametrize("called", [None, ".jpg"])
def test_a_picture_without_a_decoder_says_which_it_needs(tmp_path, without_decoders, suffix, said, called):
    """Whatever it is called: telephones write HEIC into files called .jpg."""
    path = tmp_path / f"picture{called or suffix}"
    path.write_bytes(encoded(suffix))
    for source in (path, path.read_bytes()):
        with pytest.raises(PictureError, match=said):
            read_picture(source)


def test_other_files_are_no_pictures(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"hello, this is no picture")
    with pytest.raises(PictureError, match="^not a picture"):
        read_picture(tmp_path / "x.jpg")
    assert kind_of_bytes(b"\0\0\0\x18ftypisom") is None
    assert kind_of_bytes(b"\xff\x0a rest").name == "JPEG XL"


@pytest.fixture
def mixed(tmp_path):
    """Two classes, most pictures PNG, some HEIC, and a raw photograph."""
    for name in ("gull", "heron"):
        (tmp_path / name).mkdir()
        for number in range(10):
            gradient(8 + number).save(tmp_path / name / f"{number}.png")
        (tmp_path / name / "phone.heic").write_bytes(encoded(".heic"))
    (tmp_path / "gull" / "raw.NEF").write_bytes(b"raw")
    (tmp_path / "gull" / "notes.txt").write_bytes(b"text")
    return tmp_path


def test_pictures_of_a_kind_that_is_not_read_are_named(mixed):
    found = read_class_folders(mixed)
    assert found.train_counts.tolist() == [11, 11]
    assert [str(problem) for problem in found.problems] == ["gull/raw.NEF: .nef files are not read: left out"]
    assert all(problem.left_out for problem in found.problems)


def test_pictures_without_a_decoder_are_counted(mixed, without_decoders):
    found = read_class_folders(mixed)
    seen = inspect_pictures(found)
    assert [problem.where for problem in seen.unreadable] == ["gull/phone.heic", "heron/phone.heic"]
    recipe = Recipe("mine", "birds", method="cross-entropy", augmentation="none", size=8)
    loaded = load_data(split_for_training(found, recipe), recipe, torch.device("cpu"))
    assert "2 unreadable pictures left out" in loaded.remarks[0]
    assert "HEIC" in loaded.remarks[0]
    with pytest.raises(InputError, match=r"2 of 22 pictures .* HEIC.*shortlist\[heic\]"):
        load_data(split_for_training(found, recipe), recipe.with_settings(tolerance=0.0), torch.device("cpu"))


def test_pictures_with_a_decoder_are_trained_on(mixed):
    recipe = Recipe("mine", "birds", method="cross-entropy", augmentation="none", size=8)
    loaded = load_data(split_for_training(read_class_folders(mixed), recipe), recipe, torch.device("cpu"))
    assert sum(map(len, loaded.splits.values())) == 22
    assert ".heic" in SUFFIXES
