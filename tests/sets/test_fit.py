"""A fitted rule knows the sizes of its sets on the calibration rows, and where they came from, whatever it was fitted on."""

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist.errors import InputError, ShortlistWarning
from shortlist.predictions import Predictions
from shortlist.sets import aps, average_k, cap, lac, mass, parse_rule, threshold, top_k
from shortlist.sets.rule import origin_of


def predictions(link="softmax", rows=60, classes=4):
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, classes, (rows,), generator=generator)
    return Predictions(2 * torch.randn(rows, classes, generator=generator), target, link=link)


@pytest.mark.parametrize("make", [lambda: average_k(1.5), lambda: lac(0.2), lambda: parse_rule("lac:0.2,cap:2,floor:1")])
def test_the_rule_is_fitted_and_its_sizes_are_those_of_its_sets(make):
    rows = predictions()
    rule = make().fit(rows)
    assert rule.origin == origin_of(rows)
    sizes = rule(rows.probs()).sum(1).double()
    assert rule.calibrated.rows == len(rows)
    assert rule.calibrated.mean == pytest.approx(float(sizes.mean()))
    assert rule.calibrated.variance == pytest.approx(float(sizes.var()))


@pytest.mark.parametrize("make", [lambda: top_k(2), lambda: threshold(0.3)])
def test_a_rule_with_nothing_to_fit_is_measured_and_goes_with_any_link(make):
    rule = make().fit(predictions())
    assert rule.calibrated.rows == 60
    assert rule.origin is None
    rule.check_origin(predictions("sigmoid"))


SOURCES = {
    "tensor": lambda probs, target: (probs, target),
    "array": lambda probs, target: (probs.numpy(), target.numpy()),
    "lists": lambda probs, target: (probs.tolist(), target.tolist()),
    "list of rows": lambda probs, target: (list(probs.numpy()), target),
    "frame": lambda probs, target: (pd.DataFrame(probs.numpy()), pd.Series(target.numpy())),
    "predictions": lambda probs, target: (Predictions(probs, target, link="identity"), None),
    "batches": lambda probs, target: (list(zip(probs.split(25), target.split(25), strict=True)), None),
    "batches of lists": lambda probs, target: ([[probs.tolist(), target.tolist()]], None),
    "callable": lambda probs, target: (lambda: zip(probs.split(25), target.split(25), strict=True), None),
    "loader": lambda probs, target: (torch.utils.data.DataLoader([*zip(probs, target, strict=True)], batch_size=7), None),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", ["average-k:1.5", "lac:0.2", "lac:0.2,classwise", "top-k:2"])
def test_every_source_gives_the_same_threshold_sizes_and_classes(source, text):
    probs, target = predictions().probs().double(), predictions().target
    wanted = parse_rule(text)
    wanted.fit(probs, target)
    rule = parse_rule(text).fit(*SOURCES[source](probs, target))
    assert torch.equal(rule.threshold, wanted.threshold)
    sizes = wanted(probs).sum(1).double()
    assert rule.calibrated.rows == 60
    assert rule.calibrated.mean == pytest.approx(float(sizes.mean()))
    assert rule.calibrated.variance == pytest.approx(float(sizes.var()))
    assert (rule.origin is None) if not rule.needs_fit else (rule.origin["classes"] == 4)


def test_batches_that_can_be_read_only_once_leave_the_sizes_unknown():
    rows = predictions()
    once = lambda: ((part, label) for part, label in [(rows.probs(), rows.target)])  # noqa: E731
    rule = lac(0.2).fit(once())
    assert torch.equal(rule.threshold, lac(0.2).fit(rows).threshold)
    assert (rule.calibrated, rule.origin) == (None, {"classes": 4})
    assert top_k(2).fit(once()).calibrated.mean == 2  # measured in the only pass
    assert rule.fit(rows).calibrated.rows == 60


def test_a_rule_fitted_on_an_array_is_refused_for_other_classes_and_goes_with_any_link():
    rule = lac(0.2).fit(predictions().probs(), predictions().target)
    rule.check_origin(predictions("sigmoid"))
    with pytest.raises(InputError, match="fitted on 4 classes, got scores of 5"):
        rule.check_origin(predictions(classes=5))


def test_no_rows_leave_nothing_measured():
    assert top_k(2).fit(torch.empty(0, 3)).calibrated is None


def test_a_bound_that_is_added_later_forgets_the_sizes():
    rule = average_k(2).fit(predictions())
    assert cap(rule, 1).calibrated is None
    assert rule.calibrated.mean == 2


def test_measuring_a_randomised_rule_does_not_change_its_next_draws():
    rows, generators = predictions(), [torch.Generator().manual_seed(3) for _ in range(2)]
    rule = aps(0.2, generators[0]).fit(rows)
    rule.ordering(rows.probs())
    for _ in range(2):  # the draws of the fit, and of one more call
        torch.rand(60, 1, dtype=torch.float64, generator=generators[1])
    assert torch.equal(generators[0].get_state(), generators[1].get_state())


def test_progress_counts_the_rows_of_every_pass():
    seen = []
    average_k(2).fit(list(predictions().probs().split(25)), progress=seen.append)
    assert seen[-3:] == [25, 50, 60]
    assert seen[:3] == [25, 50, 60]


def test_sizes_are_measured_by_blocks_of_rows(monkeypatch):
    sizes = []
    rule = top_k(2)
    unbounded = rule.unbounded
    monkeypatch.setattr("shortlist.sets.blocks.blocks_of", lambda probs: (slice(at, at + 8) for at in range(0, len(probs), 8)))
    monkeypatch.setattr(rule, "unbounded", lambda probs, *draws: sizes.append(len(probs)) or unbounded(probs, *draws))
    rule.fit(predictions().probs())
    assert sizes == [8] * 7 + [4]
    assert rule.calibrated.rows == 60


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([[0.5, 0.5], [1.0]], "probs: expected rows of the same length"),
        ([0.5, 0.5], "probs: expected floating point"),
        (3, "probs: expected a matrix, predictions or batches, got int"),
        (pd.DataFrame({"a": ["x"]}), "probs: expected numbers"),
        (np.array([["a", "b"]]), "probs: expected numbers"),
    ],
)
def test_what_is_no_matrix_is_refused(probs, message):
    with pytest.raises(InputError, match=message):
        average_k(1).fit(probs)


@pytest.mark.parametrize("make", [lambda: mass(0.1), lambda: threshold(0.3), lambda: parse_rule("aps:0.2")])
def test_scores_without_a_link_are_refused_where_probabilities_are_needed(make):
    with pytest.raises(InputError, match="as probabilities, which .* needs"):
        make().fit(predictions(None))


def test_scores_without_a_link_serve_where_their_order_does():
    assert average_k(2).fit(predictions(None)).calibrated.mean == 2.0


def test_a_warning_points_at_the_line_that_fits():
    with pytest.warns(ShortlistWarning, match="tie at the cut") as found:
        average_k(1).fit(torch.full((4, 3), 0.25))
    assert [warning.filename for warning in found] == [__file__]
