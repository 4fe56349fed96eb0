"""Pictures of losses show the losses."""

import matplotlib as mpl
import pytest
import torch
from matplotlib.figure import Figure

from shortlist import losses
from shortlist.errors import InputError
from shortlist.report import LossLevels, PartialLosses

mpl.use("Agg")
SINGLE = {
    "cross-entropy": losses.CrossEntropyLoss(),
    "calibrated": losses.CalibratedTopkHingeLoss(k=2),
    "noised": losses.NoisedTopkHingeLoss(k=2, epsilon=0.3, samples=4),
    "expected-positive": losses.ExpectedPositiveLoss(k=2),
    "average-k": losses.AverageKLoss(k=2),
    "role": losses.RoleLoss(k=2),
}
MANY = [losses.BinaryCrossEntropyLoss(), losses.AsymmetricFocalLoss(shift=0.05), losses.SpaLoss()]


@pytest.mark.parametrize("name", SINGLE)
def test_levels_are_the_loss_at_points_of_the_triangle(name):
    display = LossLevels(SINGLE[name], resolution=6)
    frame = display.frame()
    assert list(frame.columns) == ["left", "right", "top", "loss"]
    assert len(frame) == 7 * 8 // 2
    assert (frame[["left", "right", "top"]].sum(axis=1) - 1).abs().max() < 1e-12
    if name in ("cross-entropy", "calibrated"):
        scores = torch.tensor(frame[["left", "right", "top"]].to_numpy())
        function = type(SINGLE[name]).function
        expected = function(scores, torch.full((len(scores),), 2), **{**SINGLE[name].keywords, "reduction": "none"})
        assert frame["loss"].tolist() == pytest.approx(expected.tolist())


def test_losses_are_lowest_where_the_true_class_is_sure():
    for loss in SINGLE.values():
        frame = LossLevels(loss, resolution=6).frame()
        assert frame["loss"].iloc[frame["top"].argmax()] < frame["loss"].iloc[frame["top"].argmin()]


def test_the_same_noise_at_every_point_makes_a_noised_picture_symmetric_in_no_draw_but_repeatable():
    one, other = (LossLevels(SINGLE["noised"], resolution=6).values for _ in range(2))
    assert torch.equal(one, other)


def test_replications_are_averaged_and_come_near_the_expectation():
    noised = losses.NoisedTopkHingeLoss(k=2, epsilon=0.5, samples=2)
    one, many = (LossLevels(noised, resolution=6, scale=2.0, replications=n).values for n in (1, 3000))
    scores = LossLevels(noised, resolution=6, scale=2.0).scores
    generator, total = torch.Generator().manual_seed(5), torch.zeros(len(scores), dtype=torch.float64)
    for _ in range(3000):
        noise = torch.randn(2, 1, 3, generator=generator, dtype=torch.float64)
        third = (scores + 0.5 * noise).sort(dim=2).values[..., 0]  # k + 1 = 3 of 3 classes: the smallest
        total += torch.relu(1 + third.mean(0) - scores[:, 2])
    assert (many - total / 3000).abs().max() < 0.03
    assert (one - total / 3000).abs().max() > 0.1


def test_rescaled_levels_reach_from_0_to_1_and_keep_their_order():
    plain, rescaled = (LossLevels(SINGLE["cross-entropy"], resolution=6, rescaled=flag).values for flag in (False, True))
    assert (rescaled.min(), rescaled.max()) == (0, 1)
    assert torch.equal(plain.argsort(stable=True), rescaled.argsort(stable=True))
    same = LossLevels(lambda scores, target: torch.ones(len(scores)), resolution=4, rescaled=True)
    assert same.values.tolist() == [0.0] * 15


def test_a_function_of_rows_is_drawn_like_a_loss():
    display = LossLevels(lambda scores, target: scores.gather(1, target[:, None])[:, 0], resolution=5, scale=2.0)
    assert torch.equal(display.values, display.scores[:, 2])


@pytest.mark.parametrize(("name", "value"), [("scale", 0), ("resolution", 0), ("replications", 0)])
def test_bad_sizes_of_a_plot_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name}: .*got 0"):
        LossLevels(SINGLE["cross-entropy"], **{name: value})


@pytest.mark.parametrize("name", SINGLE)
def test_levels_are_drawn_on_given_or_new_axes(name):
    given = Figure().subplots()
    display = LossLevels(SINGLE[name], resolution=6)
    assert display.plot(given) is given
    assert given.has_data()
    assert display.plot().figure is not given.figure


def test_a_loss_that_is_the_same_everywhere_is_drawn_too():
    assert LossLevels(losses.SmoothTopkHingeLoss(k=3), resolution=4).plot().has_data()


@pytest.mark.parametrize("loss", MANY, ids=lambda loss: type(loss).__name__)
def test_partial_losses_and_probability_against_the_score(loss):
    display = PartialLosses(loss, resolution=25)
    frame = display.frame()
    assert list(frame.columns) == ["score", "present", "absent", "probability"]
    marks = torch.ones(25, 1, dtype=torch.bool)
    scores = torch.tensor(frame["score"].to_numpy())[:, None]
    function, keywords = type(loss).function, {**loss.keywords, "reduction": "none"}
    assert frame["present"].tolist() == pytest.approx(function(scores, marks, **keywords).tolist())
    assert frame["absent"].tolist() == pytest.approx(function(scores, ~marks, **keywords).tolist())
    assert frame["probability"].tolist() == pytest.approx(loss.link().probs(scores).squeeze(1).tolist())
    assert display.plot(Figure().subplots()).has_data()


def test_without_a_link_there_is_no_probability():
    display = PartialLosses(losses.AsymmetricFocalLoss(detach_weight=True), resolution=9)
    assert "probability" not in display.frame()
    assert display.plot().has_data()
