"""Accuracy against size: every point against the sets that it stands for."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.metrics import Curve, RankCurve, SizeAccuracyCurve, rank_curve, set_accuracy, size_accuracy_curve, top_k_accuracy
from shortlist.sets import average_k
from tests.references import metrics as ref


def draw(rows=60, classes=5, seed=0, many_labels=False, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    probs = torch.randn(rows, classes, generator=generator).mul(2).softmax(1).to(dtype)
    if many_labels:
        return probs, torch.rand(rows, classes, generator=generator) < probs
    return probs, torch.randint(classes, (rows,), generator=generator)


def streamed(metric, probs, target, step=17):
    for start in range(0, len(probs), step):
        metric.update(probs[start : start + step], target[start : start + step])
    return metric


def leading_bits(values):
    """The float32 number with only the leading 16 bits of each."""
    return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize("many_labels", [False, True], ids=["one label", "many labels"])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_point_is_the_size_and_accuracy_of_one_threshold(many_labels, seed):
    probs, target = draw(many_labels=many_labels, seed=seed)
    curve = streamed(SizeAccuracyCurve(), probs, target).compute()
    cuts = sorted(set(leading_bits(probs.numpy()).ravel().tolist()), reverse=True)
    expected = [(0.0, 0.0), *(ref.size_accuracy(probs.numpy(), target.numpy(), cut) for cut in cuts)]
    points = sorted(set(zip(curve.sizes.tolist(), curve.accuracies.tolist(), strict=True)))
    np.testing.assert_allclose(points, expected, rtol=1e-12)


def test_the_curve_starts_with_nothing_ends_with_everything_and_rises():
    curve = streamed(SizeAccuracyCurve(), *draw()).compute()
    assert (curve.sizes[0], curve.accuracies[0]) == (0, 0)
    assert (curve.sizes[-1], curve.accuracies[-1]) == (5, 1)
    assert (curve.sizes.diff() >= 0).all()
    assert (curve.accuracies.diff() >= 0).all()


@pytest.mark.parametrize("k", [0.5, 1, 1.7, 3, 4.9])
def test_average_k_accuracy_lies_between_the_points_around_it(k):
    probs, target = draw(rows=300)
    curve = SizeAccuracyCurve()
    curve.update(probs, target)
    curve = curve.compute()
    sets = average_k(k).fit(probs)(probs)
    size, accuracy = sets.sum(1).double().mean(), set_accuracy(sets, target)
    below, above = curve.sizes <= size, curve.sizes >= size
    assert curve.accuracies[below].max() <= accuracy + 1e-12
    assert accuracy <= curve.accuracies[above].min() + 1e-12
    assert curve.at(k) == pytest.approx(accuracy.item(), abs=0.02)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_and_one_are_on_the_curve(zero):
    probs = torch.tensor([[1.0, zero], [zero, 1.0], [0.5, 0.5]])
    curve = size_accuracy_curve(probs, torch.tensor([0, 0, 1]))
    points = sorted(set(zip(curve.sizes.tolist(), curve.accuracies.tolist(), strict=True)))
    np.testing.assert_allclose(points, [(0, 0), (2 / 3, 1 / 3), (4 / 3, 2 / 3), (2, 1)])


@pytest.mark.parametrize(("function", "metric"), [(size_accuracy_curve, SizeAccuracyCurve), (rank_curve, RankCurve)])
def test_any_batching_order_and_merge_gives_the_curve_of_the_function(function, metric):
    probs, target = draw()
    flipped = streamed(metric(), probs.flip(0), target.flip(0), step=7).compute()
    first, second = streamed(metric(), probs[:20], target[:20]), streamed(metric(), probs[20:], target[20:])
    first.merge_state(second)
    whole = function(probs.numpy(), target.numpy())
    for curve in (streamed(metric(), probs, target).compute(), flipped, first.compute()):
        np.testing.assert_array_equal(curve.sizes, whole.sizes)
        np.testing.assert_array_equal(curve.accuracies, whole.accuracies)
    assert whole.at(1.0) == function(probs, target).at(1.0)


@pytest.mark.parametrize(("metric", "most"), [(SizeAccuracyCurve, 2 * 16258), (RankCurve, 5)])
def test_the_state_has_one_size_whatever_the_number_of_rows(metric, most):
    sizes = {streamed(metric(), *draw(rows)).total.numel() for rows in (3, 500)}
    assert len(sizes) == 1
    assert max(sizes) <= most


def test_the_rank_curve_is_the_accuracy_of_every_top_k():
    probs, target = draw()
    curve = streamed(RankCurve(), probs, target).compute()
    assert curve.sizes.tolist() == [0, 1, 2, 3, 4, 5]
    expected = [0.0, *(top_k_accuracy(probs, target, k=k).item() for k in range(1, 6))]
    np.testing.assert_allclose(curve.accuracies.numpy(), expected, rtol=1e-15)
    np.testing.assert_allclose(expected[1:], [ref.top_k_accuracy(probs.numpy(), target.numpy(), k) for k in range(1, 6)])


def test_ranks_of_ties_go_to_the_lower_index():
    metric = RankCurve()
    metric.update(torch.full((3, 3), 0.25), torch.tensor([0, 1, 2]))
    np.testing.assert_allclose(metric.compute().accuracies.numpy(), [0, 1 / 3, 2 / 3, 1])


def test_ranks_are_of_one_label_a_row():
    with pytest.raises(InputError, match="one label a row"):
        RankCurve().update(torch.rand(2, 3), torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    ("size", "accuracy"), [(-1, 0.0), (0, 0.0), (0.5, 0.25), (1, 0.5), (2, 0.6), (3, 0.7), (4, 0.85), (5, 1.0), (9, 1.0)]
)
def test_a_curve_is_linear_between_its_points(size, accuracy):
    curve = Curve(torch.tensor([0.0, 1.0, 3.0, 5.0]).double(), torch.tensor([0.0, 0.5, 0.7, 1.0]).double())
    assert curve.at(size) == pytest.approx(accuracy)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions_have_the_curve_of_the_float32_that_they_are(dtype):
    probs, target = draw(dtype=dtype)
    found, expected = (streamed(SizeAccuracyCurve(), p, target).compute() for p in (probs, probs.float()))
    assert torch.equal(found.sizes, expected.sizes)
    assert torch.equal(found.accuracies, expected.accuracies)


@pytest.mark.parametrize("metric", [SizeAccuracyCurve, RankCurve])
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_a_curve_of_nothing_says_so(metric):
    with pytest.raises(InputError):
        metric().compute()
