"""The answer in a sentence."""

import pytest

from shortlist.web.api import headline
from shortlist.web.identify import Candidate, Identification, Superclass


def answer(*probs, genera="aaaaaaaa", above=None, **options):
    candidates = tuple(Candidate(n, f"c{n}", p, True, genera[n]) for n, p in enumerate(probs))
    return Identification(candidates, 1, above, **options)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (answer(0.97), "It is c0 (97 %)."),
        (answer(0.6), "Only c0 is plausible (60 %)."),
        (answer(7.0, calibrated=False), "Only c0 is plausible."),
        (answer(0.9, 0.05), "Most likely c0 (90 %), otherwise the other one."),
        (answer(0.9, 0.05, 0.02), "Most likely c0 (90 %), otherwise one of the other 2."),
        (answer(0.5, 0.3, above=Superclass("a", 0.85, 3)), "Pretty sure: a (85 %), one of these 2."),
        (answer(0.5, 0.4, above=Superclass("a", 0.96, 3)), "Almost sure: a (96 %), one of these 2."),
        (answer(0.5, 0.3, genera="ab", above=Superclass("a", 0.85, 3)), "One of these 2."),
        (answer(*[0.15] * 6, genera="aaaaab", above=Superclass("a", 0.85, 9)), "Pretty sure: a (85 %), one of these 6."),
        (answer(0.4, 0.3, above=Superclass("a", 0.7, 3)), "One of these 2."),
        (answer(nothing_known="Too dark."), "Nothing I know. Too dark."),
    ],
)
def test_headlines(found, expected):
    assert headline(found) == expected
