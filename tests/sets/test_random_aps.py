"""APS with a generator: the label at the boundary is in or out by chance."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import SetRule, aps, classwise, raps
from tests.references import sets as ref
from tests.sets.cases import draw


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def test_one_uniform_draw_a_row_takes_that_share_of_the_own_probability_away():
    data = draw()
    rows = np.arange(150)
    own, share = data.calibration[rows, data.target], torch.rand(150, 1, generator=generator(), dtype=torch.float64).numpy()
    scores = ref.aps_scores(data.calibration)[rows, data.target] - share[:, 0] * own
    rule = aps(0.2, generator()).fit(data.calibration, data.target)
    assert rule.threshold.item() == pytest.approx(ref.conformal_quantile(scores.tolist(), 0.2), rel=1e-13)


@pytest.mark.parametrize("make", [aps, raps, lambda alpha, generator: classwise(aps(alpha, generator))])
def test_the_generator_is_the_only_chance(make):
    data = draw()
    first, second = (make(0.2, generator=generator()).fit(data.calibration, data.target) for _ in range(2))
    assert torch.equal(first.threshold, second.threshold)
    np.testing.assert_array_equal(first(data.new), second(data.new))


def test_two_calls_answer_differently_and_without_a_generator_the_same():
    data = draw()
    rule = aps(0.2, generator()).fit(data.calibration, data.target)
    assert (rule(data.new) != rule(data.new)).any()
    plain = aps(0.2).fit(data.calibration, data.target)
    np.testing.assert_array_equal(plain(data.new), plain(data.new))


def test_sets_are_the_first_labels_of_the_row():
    data = draw()
    sets = aps(0.2, generator()).fit(data.calibration, data.target)(data.new)
    for row, kept in zip(data.new, sets, strict=True):
        assert set(ref.ranked(row)[: kept.sum()]) == set(np.flatnonzero(kept))


def test_sets_are_smaller_than_without_chance():
    data = draw(rows=1000)
    sizes = [aps(0.1, g).fit(data.calibration, data.target)(data.calibration).sum() for g in (generator(), None)]
    assert sizes[0] < sizes[1]


def test_chance_is_not_lost_on_disk(tmp_path):
    """Read back as the plain rule, a threshold that was fitted with chance covers too little."""
    data = draw()
    rule = aps(0.2, generator()).fit(data.calibration, data.target)
    try:
        rule.save(tmp_path / "rule")
        loaded = SetRule.load(tmp_path / "rule")
    except InputError:
        return
    assert loaded.ordering.generator is not None
