"""Photographs from outside: within limits, decoded as everywhere else, and kept without anything but their pixels."""

import io
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from PIL import Image

from shortlist.data.decoding import decode
from shortlist.data.loading import fit_square
from shortlist.web import uploads
from shortlist.web.budgets import Budget
from shortlist.web.recent import RecentAnswers
from shortlist.web.uploads import UploadError, check_uploads, encoded_anew, read_upload
from tests.web.site import classifier, jpeg, made

fit = partial(fit_square, size=8)
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
        read_upload(content, fit, 3)
    assert refused.value.status == 415


def test_pictures_of_too_many_pixels_are_refused_before_they_are_decoded(monkeypatch):
    monkeypatch.setattr(uploads, "MOST_PIXELS", 100)
    with pytest.raises(UploadError, match="limit of 100"):
        read_upload(jpeg(size=(11, 10)), fit)


def test_decoded_pixels_are_bounded_whatever_the_number_of_requests(site, monkeypatch):
    """Six requests of five pictures of 1,200 pixels, with room for 3,000: two at most, and all are answered."""
    made, most, lock = [], [], threading.Lock()

    def counted(*arguments, **options):
        found = decode(*arguments, **options)
        with lock:
            made.append(weakref.ref(found.image))
            most.append(sum(image.width * image.height for one in made if (image := one()) is not None))
        return found

    monkeypatch.setattr(uploads, "decode", counted)
    monkeypatch.setattr(uploads, "DECODED", Budget(3000), raising=False)
    with ThreadPoolExecutor(6) as clients:
        answered = list(clients.map(site.prepared, [[jpeg()] * 5] * 6))
    assert [len(photographs) for photographs in answered] == [5] * 6
    assert len(most) == 30
    assert max(most) <= 3000
    assert uploads.DECODED.used == 0


def test_photographs_reach_no_temporary_file(client, monkeypatch):
    """Several megabytes, which form parsers write to a file by default."""
    written = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", lambda file: written.append(file))
    noise = torch.randint(256, (1000, 1000, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    content = io.BytesIO()
    Image.fromarray(noise.numpy()).save(content, "PNG")
    assert len(content.getvalue()) > 2 * 2**20
    answer = client.post("/v1/identify", files=[("images", ("x.png", content.getvalue()))] * 2)
    assert answer.status_code == 200
    assert written == []


def test_requests_beyond_the_memory_for_them_are_refused_for_the_moment(client, site):
    site.reading = Budget(10_000)
    files = [("images", ("x.jpg", jpeg()))]
    with site.reading.at_once(9_999):
        refused = client.post("/v1/identify", files=files)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
    assert client.post("/v1/identify", files=files).status_code == 200
    assert site.reading.used == 0


def test_a_budget_waits_for_room():
    budget, seen = Budget(10), []

    def wait():
        with budget.waiting(99):
            seen.append(budget.used)

    with budget.waiting(8):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert seen == []
    waiting.join(10)
    assert seen == [10]
    assert budget.used == 0


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
