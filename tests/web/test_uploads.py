"""Photographs from outside: within limits, decoded as everywhere else, and kept without anything but their pixels."""

import io

import pytest
import torch
from PIL import Image

from shortlist.data.decoding import decode
from shortlist.data.loading import fit_square
from shortlist.web import uploads
from shortlist.web.recent import RecentAnswers
from shortlist.web.uploads import UploadError, check_uploads, decode_upload, encoded_anew
from tests.web.site import classifier, jpeg, made

GPS, ORIENTATION = 0x8825, 0x0112


def located(orientation=6):
    """A photograph lying on its side, with the place where it was taken, a comment and a thumbnail of its own."""
    exif = Image.Exif()
    exif[ORIENTATION], exif[0x010F] = orientation, "SecretCamera"
    exif.get_ifd(GPS)[2] = (48.0, 51.0, 30.0)
    return jpeg((10, 200, 30), (60, 20), exif=exif, comment=b"SecretComment", icc_profile=b"SecretProfile" * 20)


def test_what_is_kept_is_upright_and_holds_nothing_but_pixels():
    assert b"SecretCamera" in located()
    kept = encoded_anew(located())
    image = Image.open(io.BytesIO(kept))
    assert image.size == (20, 60)
    assert not image.getexif()
    assert b"Secret" not in kept
    assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_large_photographs_are_kept_smaller():
    assert Image.open(io.BytesIO(encoded_anew(jpeg(size=(3200, 400))))).size == (1600, 200)


def test_the_network_sees_what_it_sees_of_a_file(tmp_path):
    """The same pixels and so the same answer as predict() gives for the file."""
    path = tmp_path / "photo.jpg"
    path.write_bytes(located())
    with made(tmp_path) as site:
        [photograph] = site.prepared([path.read_bytes()])
        inputs = site.identifier.classifier.inputs
        assert torch.equal(photograph.pixels, fit_square(decode(path).image, inputs.size, inputs.fit))
        found = site.ask([photograph]).result(10).identification
    assert [one.name for one in found.answer] == classifier().predict(path).names[0]


def test_too_many_too_large_and_none_are_refused(monkeypatch):
    for contents, status in (([], 400), ([b""] * 6, 413)):
        with pytest.raises(UploadError) as refused:
            check_uploads(contents)
        assert refused.value.status == status
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    with pytest.raises(UploadError, match="photograph 2") as refused:
        check_uploads([b"x" * 10, b"x" * 11])
    assert refused.value.status == 413


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"<svg/>", b"%!PS\nshowpage", jpeg()[:200]])
def test_what_is_no_picture_is_refused_in_a_sentence(content):
    with pytest.raises(UploadError, match="photograph 3") as refused:
        decode_upload(content, 3)
    assert refused.value.status == 415


def test_pictures_of_too_many_pixels_are_refused_before_they_are_decoded(monkeypatch):
    monkeypatch.setattr(uploads, "MOST_PIXELS", 100)
    with pytest.raises(UploadError, match="limit of 100"):
        decode_upload(jpeg(size=(11, 10)))


def test_answers_are_remembered_within_bytes_and_time():
    now = [0.0]
    answers = RecentAnswers(most_bytes=3 * 1010, longest=10, clock=lambda: now[0])
    for name in "abcd":
        answers.add(name, [b"x" * 1000], name.encode() * 10)
    assert answers.find("a") is None
    assert answers.find("d").answer == b"d" * 10
    assert answers.bytes == 3 * 1010
    now[0] = 11.0
    assert answers.find("d") is None
    answers.add("e", [b"1234"], b"{}")
    assert answers.bytes == 6
