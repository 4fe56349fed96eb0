"""Many pictures to one size: in their order, by any number of threads, the unreadable ones named."""

import math
import shutil
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from PIL import Image

from shortlist.data.loading import fit_square, load_pictures, one_ahead, picture_batches
from shortlist.data.pictures import PictureArray, PictureFiles
from shortlist.data.worker_processes import batches_by_processes, blocks_by_processes, worthwhile_workers
from shortlist.errors import InputError
from tests.data.drawings import noise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten pictures, each of one shade; numbers 3 and 7 cannot be read, 5 is gray."""
    root = tmp_path_factory.mktemp("pictures")
    for number in range(10):
        Image.new("RGB", (12 + number, 10), (20 * number,) * 3).save(root / f"{number}.png")
    (root / "3.png").write_text("no picture")
    (root / "7.png").write_bytes((root / "6.png").read_bytes()[:40])
    Image.new("L", (9, 9), 100).save(root / "5.png")
    return PictureFiles(root, [f"{number}.png" for number in range(10)])


READABLE = [0, 1, 2, 4, 5, 6, 8, 9]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("batch", [1, 3, 10, 99])
def test_order_is_kept_whatever_the_threads_and_batches(folder, workers, batch):
    batches = list(picture_batches(folder, size=4, batch=batch, workers=workers))
    assert len(batches) == math.ceil(10 / batch)
    rows = torch.cat([each.rows for each in batches]).int().tolist()
    images = torch.cat([each.images for each in batches])
    assert rows == READABLE
    assert images.shape == (8, 3, 4, 4)
    assert images[:, 0, 0, 0].tolist() == [20 * row for row in rows]


def test_unreadable_pictures_are_named_and_unusual_ones_noted(folder):
    loaded = load_pictures(folder, size=4, tolerance=0.2)
    told = {(problem.kind, problem.where) for problem in loaded.problems}
    assert told == {("unreadable picture", "3.png"), ("unreadable picture", "7.png"), ("unusual picture", "5.png")}
    assert "3.png: not a picture that can be read" in map(str, loaded.problems)
    assert len(loaded) == 8


def test_rows_are_loaded_in_the_order_asked_for(folder):
    loaded = load_pictures(folder, size=4, rows=torch.tensor([9, 3, 0, 9]), tolerance=0.25)
    assert loaded.rows.tolist() == [9, 0, 9]
    assert loaded.images[:, 1, 2, 2].tolist() == [180, 0, 180]


def test_the_share_that_may_be_unreadable_is_that_of_the_rows_asked_for(folder):
    assert len(load_pictures(folder, size=4, tolerance=0.2)) == 8
    with pytest.raises(
        InputError, match=r"2 of 10 pictures could not be used, more than the tolerated 19\.9%; the first is 3.png"
    ):
        load_pictures(folder, size=4, tolerance=0.199)
    with pytest.raises(InputError, match="1 of 2 pictures"):
        load_pictures(folder, size=4, rows=torch.tensor([3, 4]), tolerance=0.4)
    with pytest.raises(InputError, match="1 of 1 pictures"):
        load_pictures(folder, size=4, rows=torch.tensor([3]))


def test_no_pictures_are_loaded_as_none():
    for pictures, rows in [(PictureFiles(".", []), None), (PictureFiles(".", ["x"]), torch.zeros(0, dtype=torch.int64))]:
        loaded = load_pictures(pictures, size=5, rows=rows)
        assert loaded.images.shape == (0, 3, 5, 5)
        assert loaded.images.dtype == torch.uint8
        assert (loaded.rows.tolist(), loaded.rows.dtype, list(loaded.problems)) == ([], torch.int64, [])
        assert list(picture_batches(pictures, size=5, rows=rows)) == []


def test_a_batch_of_unreadable_pictures_is_empty(folder):
    loaded = load_pictures(folder, size=4, rows=torch.tensor([3, 7]), tolerance=1)
    assert loaded.images.shape == (0, 3, 4, 4)
    assert loaded.rows.tolist() == []
    assert len(loaded.problems) == 2


def test_unreadable_pictures_were_asked_for_too(folder):
    assert load_pictures(folder, size=4, tolerance=1).asked == 10
    assert [batch.asked for batch in picture_batches(folder, size=4, batch=4)] == [4, 4, 2]


def test_rows_stay_whole_numbers_beside_a_batch_of_unreadable_pictures(folder):
    batches = list(picture_batches(folder, size=4, batch=1, rows=torch.tensor([2, 3])))
    assert [batch.rows.dtype for batch in batches] == [torch.int64, torch.int64]


def test_progress_is_told_after_every_batch(folder):
    told = []
    load_pictures(folder, size=4, tolerance=1, progress=told.append)
    assert told == [10]
    told = []
    list(picture_batches(folder, size=4, batch=4, progress=told.append))
    assert told == [4, 8, 10]


def test_pictures_in_memory_of_the_right_size_are_handed_over():
    images = torch.from_numpy(noise(5, 3 * 4 * 4, 1).reshape(5, 3, 4, 4))
    loaded = load_pictures(PictureArray(images), size=4, rows=torch.tensor([4, 1]))
    assert torch.equal(loaded.images, images[[4, 1]])
    assert loaded.rows.tolist() == [4, 1]
    assert load_pictures(PictureArray(images), size=8).images.shape == (5, 3, 8, 8)


def test_a_loop_can_be_left_early(folder):
    for _ in picture_batches(folder, size=4, batch=2):
        break
    assert len(load_pictures(folder, size=4, tolerance=1)) == 8


def test_a_loop_leaves_the_warning_filters_alone(folder):
    before = warnings.filters[:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = picture_batches(folder, size=4, batch=2)
        next(batches)
    list(batches)
    try:
        assert warnings.filters == before
    finally:
        warnings.filters[:] = before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size: expected a whole number from 1, got 0"),
        ({"size": 2.5}, "size: expected a whole number from 1, got 2.5"),
        ({"size": 4, "batch": 0}, "batch: expected a whole number from 1, got 0"),
        ({"size": 4, "workers": 0}, "workers: expected a whole number from 1, got 0"),
        ({"size": 4, "fit": "squash"}, "fit: .*'crop', 'center', 'stretch', 'pad'.*got 'squash'"),
    ],
)
def test_options_are_checked(folder, options, message):
    with pytest.raises(InputError, match=message):
        list(picture_batches(folder, **options))


# One picture to a square


def halves(width, height, across):
    """Black, then white: left and right halves, or upper and lower."""
    values = np.zeros((height, width, 3), np.uint8)
    if across:
        values[:, width // 2 :] = 255
    else:
        values[height // 2 :] = 255
    return Image.fromarray(values)


def test_crop_cuts_the_longer_side_off_in_the_middle():
    values = noise(8, 20)
    found = fit_square(Image.fromarray(values), 8, "crop")
    assert (found.permute(1, 2, 0).numpy() == values[:, 6:14]).all()
    found = fit_square(Image.fromarray(values.transpose(1, 0, 2)), 8, "crop")
    assert (found.permute(1, 2, 0).numpy() == values.transpose(1, 0, 2)[6:14]).all()


def test_crop_and_shrink_is_the_resized_middle():
    """Pillow by hand: the middle square, cut out and resized; away from the border, where the filter sees beyond the cut."""
    image = Image.fromarray(noise(24, 40))
    by_hand = np.asarray(image.crop((8, 0, 32, 24)).resize((8, 8), Image.Resampling.BILINEAR)).astype(int)
    found = fit_square(image, 8, "crop").permute(1, 2, 0).numpy().astype(int)
    assert np.abs(found - by_hand)[:, 1:-1].max() <= 1


def test_stretch_takes_everything():
    image = Image.fromarray(noise(8, 20))
    by_hand = np.asarray(image.resize((4, 4), Image.Resampling.BILINEAR)).astype(int)
    found = fit_square(image, 4, "stretch").permute(1, 2, 0).numpy().astype(int)
    assert np.abs(found - by_hand).max() <= 1


def test_stretch_keeps_both_halves_and_crop_does_not():
    wide = halves(40, 10, across=True)
    assert fit_square(wide, 10, "stretch")[0, 5].tolist()[0] == 0
    assert fit_square(wide, 10, "stretch")[0, 5].tolist()[-1] == 255
    tall = halves(10, 40, across=False)
    assert fit_square(tall, 10, "stretch")[0, :, 5].tolist()[::9] == [0, 255]


def test_pad_fills_with_the_mean_of_the_border():
    values = np.full((4, 8, 3), 50, np.uint8)
    values[0], values[-1] = (10, 20, 30), (90, 40, 70)
    border = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]]).astype(float)
    found = fit_square(Image.fromarray(values), 8, "pad").permute(1, 2, 0).numpy()
    assert (found[:2] == border.mean(0).round()).all()
    assert (found[6:] == border.mean(0).round()).all()
    assert (found[2:6] == values).all()


@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
def test_a_square_of_the_right_size_is_untouched(fit):
    values = noise(6, 6)
    assert (fit_square(Image.fromarray(values), 6, fit).permute(1, 2, 0).numpy() == values).all()


@pytest.mark.parametrize(("size", "larger", "start"), [(224, 256, 16), (7, 8, 0), (6, 7, 0), (32, 37, 2)])
def test_center_is_the_middle_of_the_square_that_training_cuts_windows_from(size, larger, start):
    picture = Image.fromarray(noise(60, 90))
    square = fit_square(picture, larger, "crop")
    found = fit_square(picture, size, "center")
    assert torch.equal(found, square[:, start : start + size, start : start + size])
    assert found.is_contiguous()


def test_center_shows_things_at_the_scale_of_training():
    """A line of 100 pixels in a picture of 256: 100 pixels of a window of 224, and only 87 or 88 of the whole square."""
    values = np.zeros((256, 256, 3), np.uint8)
    values[:, 78:178] = 255
    widths = {fit: int((fit_square(Image.fromarray(values), 224, fit)[0, 0] > 127).sum()) for fit in ("center", "crop")}
    assert widths["center"] == 100
    assert widths["crop"] in (87, 88)


def test_center_treats_pictures_of_the_right_size_like_files(tmp_path):
    values = noise(14, 14)
    Image.fromarray(values).save(tmp_path / "x.png")
    files = load_pictures(PictureFiles(tmp_path, ["x.png"]), size=14, fit="center").images
    array = load_pictures(PictureArray(torch.from_numpy(values).permute(2, 0, 1)[None]), size=14, fit="center").images
    assert torch.equal(files, array)
    assert not torch.equal(array[0].permute(1, 2, 0), torch.from_numpy(values))


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 40), st.sampled_from(["crop", "center", "stretch", "pad"]))
@settings(max_examples=60, deadline=None)
def test_one_colour_stays_one_colour_at_any_size(width, height, size, fit):
    found = fit_square(Image.new("RGB", (width, height), (7, 77, 177)), size, fit)
    assert found.shape == (3, size, size)
    assert (found == torch.tensor([7, 77, 177], dtype=torch.uint8)[:, None, None]).all()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("fit", ["crop", "center"])
def test_processes_give_what_threads_give(folder, fit):
    every = torch.arange(len(folder))
    threads = list(picture_batches(folder, size=9, fit=fit, batch=5, workers=2))
    processes = list(blocks_by_processes(folder, every.split(5), size=9, fit=fit, workers=2))
    assert len(threads) == len(processes)
    for one, other in zip(threads, processes, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.rows, other.rows)
        assert (one.problems, one.asked) == (other.problems, other.asked)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_many_pictures_on_many_cores_are_decoded_by_processes(folder, monkeypatch):
    expected = load_pictures(folder, size=9, tolerance=1.0)
    started = []
    monkeypatch.setattr("shortlist.data.loading.usable_cores", lambda: 4)
    monkeypatch.setattr("shortlist.data.worker_processes.FEWEST_PICTURES", 1)
    monkeypatch.setattr("shortlist.data.worker_processes.FEWEST_WORKERS", 1)

    def counted(*arguments, **options):
        started.append(options["workers"])
        return batches_by_processes(*arguments, **options)

    monkeypatch.setattr("shortlist.data.worker_processes.batches_by_processes", counted)
    found = load_pictures(folder, size=9, tolerance=1.0)
    assert started == [1]  # one block needs no more
    assert torch.equal(found.images, expected.images)
    assert found.problems == expected.problems


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("handed_over", [1, 2, 5, 64])
def test_batches_are_put_together_from_what_processes_hand_over(folder, monkeypatch, handed_over):
    expected = list(picture_batches(folder, size=9, batch=5, workers=2))
    monkeypatch.setattr("shortlist.data.loading.usable_cores", lambda: 2)
    monkeypatch.setattr("shortlist.data.loading.HANDED_OVER", handed_over)
    monkeypatch.setattr("shortlist.data.worker_processes.FEWEST_PICTURES", 1)
    monkeypatch.setattr("shortlist.data.worker_processes.FEWEST_WORKERS", 1)
    found = list(picture_batches(folder, size=9, batch=5))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.rows, other.rows)
        assert (one.problems, one.asked) == (other.problems, other.asked)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_the_next_batch_is_made_while_one_is_used():
    makers, second_begun = [], threading.Event()

    def batches():
        for number in range(3):
            makers.append(threading.current_thread())
            if number == 1:
                second_begun.set()
            yield number

    found = one_ahead(batches())
    assert next(found) == 0
    assert second_begun.wait(30)
    assert list(found) == [1, 2]
    assert makers[0] is threading.current_thread()  # it may start processes by forking
    assert makers[0] not in makers[1:]
    assert list(one_ahead(iter(()))) == []


def test_an_error_in_the_next_batch_comes_after_the_one_before():
    def batches():
        yield 0
        raise InputError("expected a picture")

    found = one_ahead(batches())
    assert next(found) == 0
    with pytest.raises(InputError, match="expected a picture"):
        next(found)


def test_slots_of_shared_memory_are_used_again_only_when_their_pictures_are_copied(tmp_path):
    values = np.arange(120, dtype=np.uint8)
    for value in values:
        Image.new("RGB", (4, 4), (int(value), 0, 0)).save(tmp_path / f"{value:03}.png")
    files = PictureFiles(tmp_path, [f"{value:03}.png" for value in values])
    batches = torch.arange(120).flip(0).split(7)
    for found, rows in zip(
        batches_by_processes(files, batches, size=4, fit="crop", workers=2, handed_over=3), batches, strict=True
    ):
        assert torch.equal(found.rows, rows)
        assert torch.equal(found.images[:, 0, 0, 0].long(), rows)


@pytest.mark.parametrize(
    ("rows", "cores", "free", "workers"),
    [
        (100_000, 16, 2**40, 16),
        (100_000, 2, 2**40, 0),  # threads do as well
        (1_000, 16, 2**40, 0),  # done before the processes have started
        (100_000, 16, 64 * 2**20, 0),  # pictures could not be handed over
        (100_000, 16, 1_000 * 2**20, 6),
    ],
)
def test_processes_are_for_many_pictures_many_cores_and_room(monkeypatch, rows, cores, free, workers):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    monkeypatch.setattr("shortlist.data.worker_processes.can_fork", lambda: True)
    monkeypatch.setattr("shortlist.data.worker_processes.SHARED_MEMORY", Path("."))
    assert worthwhile_workers(rows, 256, 224, cores) == workers
