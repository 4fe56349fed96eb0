"""Pillow's warnings: quiet while anybody is inside, and everything as before when the last has left."""

import threading
import warnings

import pytest

from shortlist.data.quiet import QuietPillow

PILLOW = "PIL.TiffImagePlugin"


@pytest.fixture(autouse=True)
def own_filters():
    """Whatever a test does to the filters ends with it."""
    with warnings.catch_warnings():
        yield


def heard(module=PILLOW):
    """Whether a warning of this module is an error, as these tests have it, or ignored."""
    try:
        warnings.warn_explicit("odd file", UserWarning, "file.py", 1, module=module, registry={})
    except UserWarning:
        return True
    return False


def test_warnings_of_pillow_are_ignored_inside_only():
    quiet = QuietPillow()
    assert heard()
    with quiet:
        assert not heard()
        assert heard("numpy.linalg")
        assert heard("PILLOWCASE")
    assert heard()


def test_a_warning_that_was_ignored_inside_is_heard_afterwards_from_the_same_place():
    registry = {}

    def ask():
        warnings.warn_explicit("odd file", UserWarning, "file.py", 1, module=PILLOW, registry=registry)

    warnings.simplefilter("error")
    with QuietPillow():
        ask()
    with pytest.raises(UserWarning, match="odd file"):
        ask()


def test_filters_are_as_before_also_after_an_error():
    before = list(warnings.filters)
    quiet = QuietPillow()
    with quiet:
        assert warnings.filters != before
    assert warnings.filters == before

    def fails():
        with quiet:
            raise KeyError("inside")

    with pytest.raises(KeyError):
        fails()
    assert warnings.filters == before
    assert quiet.inside == 0


def test_nested_entries_end_with_the_outermost():
    before, quiet = list(warnings.filters), QuietPillow()
    with quiet:
        with quiet:
            assert not heard()
        assert not heard()
        assert len(warnings.filters) == len(before) + 1
    assert warnings.filters == before


def test_threads_that_overlap_stay_quiet_until_the_last_has_left():
    before, quiet = list(warnings.filters), QuietPillow()
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def first():
        with quiet:
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        first_in.wait(10)
        with quiet:
            second_in.set()
            first_out.wait(10)
            seen.append(heard())

    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [False]
    assert warnings.filters == before


def test_many_threads_leave_the_filters_alone():
    before, quiet, loud = list(warnings.filters), QuietPillow(), []

    def work():
        for _ in range(200):
            with quiet:
                loud.extend([1] if heard() else [])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert loud == []
    assert warnings.filters == before
    assert quiet.inside == 0


def test_filters_that_somebody_adds_meanwhile_stay():
    quiet = QuietPillow()
    before = list(warnings.filters)
    with quiet:
        warnings.filterwarnings("ignore", message="theirs")
    assert warnings.filters[1:] == before
    assert "theirs" in str(warnings.filters[0])


def test_filters_that_somebody_clears_meanwhile_stay_cleared():
    with QuietPillow():
        warnings.resetwarnings()
    assert warnings.filters == []


def test_filters_that_somebody_puts_back_meanwhile_are_left_as_they_are():
    before, quiet, other = list(warnings.filters), QuietPillow(), warnings.catch_warnings()
    other.__enter__()
    quiet.__enter__()
    other.__exit__(None, None, None)
    assert warnings.filters == before
    quiet.__exit__(None, None, None)
    assert warnings.filters == before


def test_filters_that_somebody_puts_back_afterwards_do_not_hold_ours():
    before, quiet, other = list(warnings.filters), QuietPillow(), warnings.catch_warnings()
    quiet.__enter__()
    other.__enter__()
    quiet.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert warnings.filters == before


def test_an_equal_filter_of_somebody_else_stays():
    warnings.filterwarnings("ignore", module=r"PIL\.")
    with QuietPillow():
        assert not heard()
    assert not heard()
