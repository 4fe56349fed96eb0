"""The same batches from the memory of the device, of the machine, and from files."""

import threading

import numpy as np
import pytest
import torch
from PIL import Image

from shortlist.data.loading import load_pictures
from shortlist.data.pictures import PictureFiles, Pictures
from shortlist.errors import InputError
from shortlist.training import row_sources as module
from shortlist.training.row_sources import DeviceRows, HostRows, StreamedRows, sequential_batches

CPU = torch.device("cpu")
ROWS, SIDE, DAMAGED = 12, 6, 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve pictures of noise; number 7 is cut short."""
    root, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(ROWS):
        Image.fromarray(random.integers(0, 256, (SIDE + number % 3, SIDE, 3), dtype=np.uint8)).save(root / f"{number}.png")
    whole = (root / f"{DAMAGED}.png").read_bytes()
    (root / f"{DAMAGED}.png").write_bytes(whole[: len(whole) // 2])
    return PictureFiles(root, [f"{number}.png" for number in range(ROWS)])


TARGET = torch.arange(ROWS) % 5
MARKS = torch.rand(ROWS, 4, generator=torch.Generator().manual_seed(0)) < 0.5
WANTED = [torch.tensor(part, dtype=torch.int64) for part in ([3, 1, 2], [11, 0], [5, 5, 6], [4], [], [10, 9, 8, 2, 1])]


@pytest.fixture(scope="module")
def images(folder):
    """All pictures as they are read, a black one for that which cannot be."""
    loaded = load_pictures(folder, size=SIDE, tolerance=1.0)
    whole = torch.zeros(ROWS, 3, SIDE, SIDE, dtype=torch.uint8)
    whole[loaded.rows] = loaded.images
    return whole


KINDS = ["device", "host", "streamed", "streamed by two"]


def make(kind, folder, images, target=TARGET):
    if kind.startswith("streamed"):
        return StreamedRows(folder, target, CPU, SIDE, "crop", workers=2 if kind == "streamed by two" else 0)
    return (DeviceRows if kind == "device" else HostRows)(images, target, CPU)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [TARGET, MARKS], ids=["one", "many"])
def test_every_kind_gives_the_rows_asked_for_in_their_order(kind, target, folder, images):
    found = list(make(kind, folder, images, target).batches(iter(WANTED)))
    assert len(found) == len(WANTED)
    for batch, rows in zip(found, WANTED, strict=True):
        assert torch.equal(batch.rows, rows)
        assert torch.equal(batch.inputs, images[rows])
        assert torch.equal(batch.target, target[rows])
        assert (batch.inputs.dtype, batch.target.dtype) == (torch.uint8, target.dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_counted_and_asked_for_again(kind, folder, images):
    made = make(kind, folder, images)
    assert len(made) == ROWS
    assert list(made.batches([])) == []
    for _ in range(2):
        (batch,) = made.batches([torch.tensor([1, 0])])
        assert batch.rows.tolist() == [1, 0]


@pytest.mark.parametrize("kind", KINDS[2:])
def test_a_picture_that_cannot_be_read_is_left_out_and_named(kind, folder, images):
    made = make(kind, folder, images)
    first, second, third = made.batches([torch.tensor([6, DAMAGED, 8]), torch.tensor([DAMAGED]), torch.tensor([0])])
    assert first.rows.tolist() == [6, 8]
    assert torch.equal(first.inputs, images[[6, 8]])
    assert first.target.tolist() == TARGET[[6, 8]].tolist()
    assert (len(second.rows), len(second.target), tuple(second.inputs.shape)) == (0, 0, (0, 3, SIDE, SIDE))
    assert third.rows.tolist() == [0]
    assert [(name, problem.where) for name, problem in made.problems.items()] == [(f"{DAMAGED}.png", f"{DAMAGED}.png")]


def test_features_come_as_they_are():
    features = torch.randn(5, 3)
    for kind in (DeviceRows, HostRows):
        (batch,) = kind(features, torch.arange(5), CPU).batches([torch.tensor([4, 0])])
        assert torch.equal(batch.inputs, features[[4, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_a_copy(kind, folder, images):
    before = images.clone()
    (batch,) = make(kind, folder, images).batches([torch.tensor([0, 1])])
    batch.inputs.fill_(0)
    assert torch.equal(images, before)


def threads():
    return {thread for thread in threading.enumerate() if thread.is_alive()}


def test_errors_of_the_thread_are_raised_to_whoever_waits():
    before = threads()
    ready = HostRows(torch.zeros(3, 2), torch.arange(3), CPU).batches([torch.tensor([0]), torch.tensor([7]), torch.tensor([1])])
    assert next(ready).rows.tolist() == [0]
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        next(ready)
    assert threads() <= before  # threads of others may end meanwhile


def test_errors_of_the_plan_are_raised_to_whoever_waits():
    def wanted():
        yield torch.tensor([0])
        raise InputError("no more rows")

    ready = HostRows(torch.zeros(3, 2), torch.arange(3), CPU).batches(wanted())
    next(ready)
    with pytest.raises(InputError, match="no more rows"):
        next(ready)


def endless():
    while True:
        yield torch.tensor([0, 1])


def test_closing_early_stops_the_thread():
    before = threads()
    ready = HostRows(torch.zeros(3, 2), torch.arange(3), CPU).batches(endless())
    next(ready)
    assert len(threads()) == len(before) + 1
    ready.close()
    assert threads() <= before  # threads of others may end meanwhile


def test_leaving_a_loop_early_stops_the_thread():
    before = threads()
    for _ in HostRows(torch.zeros(3, 2), torch.arange(3), CPU).batches(endless()):
        break
    assert threads() <= before  # threads of others may end meanwhile


def test_the_thread_works_a_few_batches_ahead_and_no_more():
    asked, enough = [], threading.Event()

    def wanted():
        for number in range(100):
            asked.append(number)
            if len(asked) == module.AHEAD + 2:  # one given out, those that wait, and one in the hands of the thread
                enough.set()
            yield torch.tensor([0])

    ready = HostRows(torch.zeros(3, 2), torch.arange(3), CPU).batches(wanted())
    next(ready)
    assert enough.wait(10)
    ready.close()
    assert len(asked) <= module.AHEAD + 3


@pytest.mark.parametrize("workers", [0, 2])
def test_streams_are_closed_early_without_waiting(folder, workers):
    ready = StreamedRows(folder, TARGET, CPU, SIDE, "crop", workers=workers).batches(endless())
    assert next(ready).rows.tolist() == [0, 1]
    ready.close()


class Broken(Pictures):
    """Pictures whose reader has an error of its own."""

    ids = ("a", "b")

    def decode(self, row, *, at_least=None):
        raise MemoryError("no room for the picture")

    def rows(self, rows):
        return self


def test_errors_of_the_reader_are_raised_to_whoever_waits():
    with pytest.raises(MemoryError, match="no room for the picture"):
        list(StreamedRows(Broken(), torch.zeros(2).long(), CPU, SIDE, "crop", workers=0).batches([torch.tensor([0])]))


def test_plain_batches_hold_every_row_in_order():
    assert [part.tolist() for part in sequential_batches(7, 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [part.tolist() for part in sequential_batches(2, 100)] == [[0, 1]]
    assert list(sequential_batches(0, 3)) == []
    with pytest.raises(InputError, match="batch_size: .*got 0"):
        sequential_batches(3, 0)
