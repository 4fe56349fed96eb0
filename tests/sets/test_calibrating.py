"""A rule fitted on predictions knows the sizes of its sets there."""

import pytest
import torch

from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.sets import average_k, lac, mass, parse_rule, threshold, top_k
from shortlist.sets.calibrating import calibrate_rule
from shortlist.sets.rule import origin_of


def predictions(link="softmax", rows=60, classes=4):
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, classes, (rows,), generator=generator)
    return Predictions(2 * torch.randn(rows, classes, generator=generator), target, link=link)


@pytest.mark.parametrize("make", [lambda: average_k(1.5), lambda: lac(0.2), lambda: parse_rule("lac:0.2,cap:2,floor:1")])
def test_the_rule_is_fitted_and_its_sizes_are_those_of_its_sets(make):
    rows = predictions()
    rule, alone = calibrate_rule(make(), rows), make().fit(rows)
    assert torch.equal(rule.threshold, alone.threshold)
    assert rule.origin == alone.origin == origin_of(rows)
    sizes = alone(rows.probs()).sum(1).double()
    assert rule.calibrated.rows == len(rows)
    assert rule.calibrated.mean == pytest.approx(float(sizes.mean()))
    assert rule.calibrated.variance == pytest.approx(float(sizes.var()))


@pytest.mark.parametrize("make", [lambda: top_k(2), lambda: threshold(0.3)])
def test_a_rule_with_nothing_to_fit_is_measured_and_goes_with_any_link(make):
    rule = calibrate_rule(make(), predictions())
    assert rule.calibrated.rows == 60
    assert rule.origin is None
    rule.check_origin(predictions("sigmoid"))


def test_blocks_are_read_as_they_are_given():
    rows, seen = predictions(), []

    def blocks():
        for start in range(0, len(rows), 25):
            seen.append(start)
            yield Predictions(rows.scores[start : start + 25], link="softmax")

    rule = calibrate_rule(average_k(2), rows, blocks)
    assert torch.equal(rule.threshold, average_k(2).fit(rows).threshold)
    assert (rule.calibrated.rows, rule.calibrated.mean) == (60, 2.0)
    assert seen[-3:] == [0, 25, 50]


@pytest.mark.parametrize("make", [lambda: mass(0.1), lambda: threshold(0.3), lambda: parse_rule("aps:0.2")])
def test_scores_without_a_link_are_refused_where_probabilities_are_needed(make):
    with pytest.raises(InputError, match="no reading as probabilities"):
        calibrate_rule(make(), predictions(None))


def test_scores_without_a_link_serve_where_their_order_does():
    assert calibrate_rule(average_k(2), predictions(None)).calibrated.mean == 2.0
