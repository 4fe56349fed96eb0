"""What a garden cannot be, in words."""

import math

import pytest

from shortlist.data import Flora, best_accuracies, flora_dataset
from shortlist.errors import InputError

SMALL = Flora(4, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"species": 1}, "species: expected a whole number from 2, got 1"),
        ({"species": 12.5}, "species: expected a whole number from 2, got 12.5"),
        ({"species": True}, "species: expected a whole number from 2, got True"),
        ({"species": "many"}, "species: expected a whole number from 2, got .many"),
        ({"species": None}, "species: expected a whole number from 2, got None"),
        ({"genera": 0}, "genera: expected a whole number from 1, got 0"),
        ({"species": 5, "genera": 6}, "genera: expected at most one for each of the 5 species, got 6"),
        ({"species": 101, "genera": 1}, "species: expected at most 100 for each of the 1 genera, got 101"),
        ({"seed": -1}, r"seed: expected a whole number from 0 to 2\^63 - 1, got -1"),
        ({"seed": 2**63}, r"seed: expected a whole number from 0 to 2\^63 - 1, got 9223372036854775808"),
        ({"seed": 1.5}, r"seed: expected a whole number from 0 to 2\^63 - 1, got 1.5"),
        ({"seed": None}, r"seed: expected a whole number from 0 to 2\^63 - 1, got None"),
        ({"abundance": "even"}, "abundance: expected 'long-tailed' or 'balanced', got 'even'"),
        ({"abundance": None}, "abundance: expected 'long-tailed' or 'balanced', got None"),
        ({"variation": -0.1}, "variation: expected a number from 0 to 2, got -0.1"),
        ({"variation": 2.1}, "variation: expected a number from 0 to 2, got 2.1"),
        ({"variation": math.nan}, "variation: expected a number from 0 to 2, got nan"),
        ({"variation": "much"}, "variation: expected a number from 0 to 2, got much"),
        ({"variation": None}, "variation: expected a number from 0 to 2, got None"),
    ],
    ids=str,
)
def test_gardens_that_cannot_be(arguments, message):
    with pytest.raises(InputError, match=message):
        Flora(**arguments)


@pytest.mark.parametrize("draw", [SMALL.observe, SMALL.observations, SMALL.specimens, SMALL.quadrats, SMALL.open_set])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": -1}, "n: expected a whole number from 0, got -1"),
        ({"n": 1.5}, "n: expected a whole number from 0, got 1.5"),
        ({"n": "few"}, "n: expected a whole number from 0, got .few"),
        ({"n": 2, "seed": -1}, "seed: expected a whole number from 0"),
        ({"n": 0, "seed": -1}, "seed: expected a whole number from 0"),
        ({"n": 2, "seed": 0.5}, "seed: expected a whole number from 0"),
    ],
    ids=str,
)
def test_draws_that_cannot_be(draw, arguments, message):
    with pytest.raises(InputError, match=message):
        draw(**arguments)


@pytest.mark.parametrize("draw", [SMALL.specimens, SMALL.quadrats, SMALL.open_set])
@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize(
    ("size", "message"),
    [
        (7, "size: expected from 8 to 1024 pixels, got 7"),
        (1025, "size: expected from 8 to 1024 pixels, got 1025"),
        (0, "size: expected"),
        (-32, "size: expected"),
        (32.5, "size: expected a whole number from 1, got 32.5"),
        ("big", "size: expected a whole number from 1, got .big"),
    ],
)
def test_sizes_that_cannot_be(draw, n, size, message):
    with pytest.raises(InputError, match=message):
        draw(n, size=size)


@pytest.mark.parametrize("draw", [SMALL.specimens, SMALL.quadrats, SMALL.open_set])
def test_whole_numbers_may_come_as_floats(draw):
    """From a table or a config file they do."""
    assert draw(2.0, size=16.0)[0].shape == (2, 3, 16, 16)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, "some", None])
def test_shares_that_cannot_be(share):
    with pytest.raises(InputError, match="share: expected a number from 0 to 1, got"):
        SMALL.labelled(share)


def test_rows_start_at_zero():
    with pytest.raises(InputError, match="start: .*got -1"):
        SMALL.observations(1, start=-1)


@pytest.mark.parametrize("ks", [[0], [5], [], [-1, 2], [1.5], ["a"]], ids=str)
def test_set_sizes_that_cannot_be(ks):
    with pytest.raises(InputError, match="ks: expected set sizes from 1 to 4, got"):
        SMALL.limits(ks)
    _, posterior = SMALL.observe(3)
    with pytest.raises(InputError, match="ks: expected set sizes from 1 to 4, got"):
        best_accuracies(posterior.numpy(), SMALL.prior, ks)


def test_kinds_that_cannot_be():
    with pytest.raises(InputError, match="kind: .*got 'herbarium'"):
        flora_dataset(SMALL, kind="herbarium")


def test_a_cache_that_is_a_file_is_named(tmp_path):
    path = tmp_path / "file"
    path.write_text("not a folder")
    with pytest.raises(InputError, match=f"cache: expected a folder, got the file {path}"):
        SMALL.specimens(2, cache=path)
