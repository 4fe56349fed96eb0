"""Worst-slab coverage: the search against all slabs, the half that measures, and what must not matter."""

import numpy as np
import pytest

from shortlist import metrics
from shortlist.errors import InputError
from shortlist.metrics.slabs import row_counts, worst_slab
from shortlist.tensors import as_target, as_tensor
from tests.references import metrics as ref
from tests.references.sets import labels_of


def rows(n, seed=0, *, many=False, grid=None, classes=3):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n, 2))
    features = features if grid is None else np.round(features * grid) / grid
    sets = random.uniform(size=(n, classes)) < 0.7
    target = random.uniform(size=(n, classes)) < 0.3 if many else random.integers(classes, size=n)
    return sets, target, features


def counts(sets, target):
    return row_counts(as_tensor(sets, "sets"), as_target(target))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grid", [None, 1], ids=["apart", "tied"])
@pytest.mark.parametrize("many", [False, True], ids=["one label", "many labels"])
@pytest.mark.parametrize("share", [0.1, 0.34, 1])
def test_no_slab_covers_less_than_the_one_found(many, grid, seed, share):
    sets, target, features = rows(18, seed, many=many, grid=grid)
    vectors = np.random.default_rng(seed).standard_normal((5, 2))
    slab = worst_slab(*counts(sets, target), features, share, vectors)
    inside = np.flatnonzero(slab.holds(features))
    assert len(inside) >= share * len(features)
    found = np.mean([float(sets[i, j]) for i in inside for j in labels_of(target, i)])
    assert found == pytest.approx(ref.lowest_slab(sets, target, features, share, vectors), abs=1e-12)


def test_the_other_half_measures_the_slab_that_the_first_half_chose():
    sets, target, features = rows(40)
    random = np.random.default_rng(3)
    order = random.permutation(40)
    first, second = order[:20], order[20:]
    slab = worst_slab(*counts(sets[first], target[first]), features[first], 0.2, random.standard_normal((7, 2)))
    inside = second[slab.holds(features[second])]
    expected = np.mean([float(sets[i, target[i]]) for i in inside])
    assert metrics.worst_slab_coverage(sets, target, features, share=0.2, directions=7, seed=3) == pytest.approx(expected)


def test_rows_in_one_place_are_one_slab():
    sets, target, _ = rows(50)
    found = metrics.worst_slab_coverage(sets, target, np.ones((50, 4)) / 3)
    half = np.random.default_rng(0).permutation(50)[25:]
    assert found == pytest.approx(metrics.coverage(sets[half], target[half]))


def test_it_finds_where_a_rule_fails_and_not_where_none_does():
    random = np.random.default_rng(1)
    features, target = random.normal(size=(4000, 3)), np.zeros(4000, dtype=int)
    everywhere = random.uniform(size=4000) < 0.9
    there = np.where(features @ [1, 2, -1] > 2.5, random.uniform(size=4000) < 0.3, random.uniform(size=4000) < 0.98)
    sets = [np.stack([hit, ~hit], 1) for hit in (everywhere, there)]
    even, uneven = (float(metrics.worst_slab_coverage(one, target, features, directions=200)) for one in sets)
    # About 200 rows in the slab: four standard errors below 0.9 are 0.815.
    assert even > 0.8
    assert uneven < 0.5


@pytest.mark.parametrize("rows_of", [0, 1])
def test_without_rows_on_both_sides_there_is_no_number(rows_of):
    sets, target, features = (part[:rows_of] for part in rows(5))
    assert np.isnan(metrics.worst_slab_coverage(sets, target, features))


def test_rows_without_labels_have_no_coverage():
    sets, _, features = rows(20)
    assert np.isnan(metrics.worst_slab_coverage(sets, np.zeros((20, 3), bool), features))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"features": np.ones((19, 2))}, r"features: expected numbers of shape \(20, D\).*got \(19, 2\)"),
        ({"features": np.ones(20)}, r"features: .*got \(20,\)"),
        ({"features": np.full((20, 2), np.nan)}, "features: expected finite numbers"),
        ({"features": np.ones((20, 2), bool)}, "features: expected finite numbers"),
        ({"share": 0}, "share: expected a number"),
        ({"share": 1.5}, "share: .*got 1.5"),
        ({"directions": 0}, "directions: expected a whole number from 1"),
        ({"seed": -1}, "seed: "),
    ],
)
def test_parameters_are_checked(keywords, message):
    sets, target, features = rows(20)
    with pytest.raises(InputError, match=message):
        metrics.worst_slab_coverage(sets, target, **({"features": features} | keywords))
