"""Requests in batches: everyone gets their own answer, whoever else asks."""

import threading

import pytest

from shortlist.web.batching import Batcher, BusyError


class Recorder:
    """Answers with the sum of a request; the first batch waits until it is told to go on."""

    def __init__(self):
        self.batches, self.go, self.began = [], threading.Event(), threading.Event()

    def __call__(self, requests):
        self.batches.append(requests)
        if len(self.batches) == 1:
            self.began.set()
            self.go.wait(10)
        return [sum(request) for request in requests]


def test_what_waits_goes_together_up_to_a_number_of_pictures():
    recorder = Recorder()
    with Batcher(recorder, most=4) as batcher:
        first = batcher.submit([1])
        recorder.began.wait(10)
        waiting = [batcher.submit([10] * n) for n in (1, 2, 2, 9, 1)]
        recorder.go.set()
        assert [future.result(10) for future in (first, *waiting)] == [1, 10, 20, 20, 90, 10]
    assert [[len(request) for request in batch] for batch in recorder.batches] == [[1], [1, 2], [2], [9], [1]]


def test_nothing_waits_for_company():
    with Batcher(lambda requests: [len(requests)] * len(requests)) as batcher:
        assert batcher.submit([1]).result(10) == 1


def test_an_error_belongs_to_its_batch_alone():
    def answer(requests):
        if requests == [["bad"]]:
            raise ValueError("bad")
        return requests

    with Batcher(answer) as batcher:
        with pytest.raises(ValueError, match="bad"):
            batcher.submit(["bad"]).result(10)
        assert batcher.submit(["good"]).result(10) == ["good"]


def test_too_many_are_refused_and_closing_answers_the_rest():
    recorder = Recorder()
    batcher = Batcher(recorder, most=1, waiting=2)
    first = batcher.submit([1])
    recorder.began.wait(10)
    others = [batcher.submit([2]), batcher.submit([3])]
    with pytest.raises(BusyError, match="too many"):
        batcher.submit([4])
    recorder.go.set()
    batcher.close()
    assert [future.result(0) for future in (first, *others)] == [1, 2, 3]
    with pytest.raises(BusyError, match="stopping"):
        batcher.submit([5])


def test_a_request_that_was_given_up_is_not_computed():
    recorder = Recorder()
    with Batcher(recorder) as batcher:
        batcher.submit([1])
        recorder.began.wait(10)
        gone, kept = batcher.submit([2]), batcher.submit([3])
        gone.cancel()
        recorder.go.set()
        assert kept.result(10) == 3
    assert recorder.batches == [[[1]], [[3]]]
