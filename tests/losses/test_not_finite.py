"""Scores that are NaN, infinite or at the end of their precision: NaN is never hidden, a finite loss has a finite gradient."""

import math

import pytest
import torch

from shortlist import losses, operators
from shortlist.errors import InputError
from tests.losses.cases import CASES, FUNCTIONS, IGNORING, draw

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FAR = [math.inf, -math.inf, 1e30, -1e30, 1e37, -1e37, 3.4e38, -3.4e38]
every_loss = pytest.mark.parametrize("case", CASES, ids=str)


def with_score(batch, leaf, row, label, value):
    leaves = {name: tensor.detach().clone() for name, tensor in batch.leaves().items()}
    leaves[leaf][row, label] = value
    return batch.put(**leaves)


def places(batch):
    return [(leaf, row, label) for leaf in batch.leaves() for row in range(3) for label in (0, -1)]


@every_loss
def test_nan_in_any_place_makes_the_loss_nan(case):
    """A row without labels, one with all, a hinge that is closed, a label under a shift: none of them may hide it."""
    batch = draw(case, rows=3).cast(torch.float32)
    for place in places(batch):
        spoilt = with_score(batch, *place, math.nan)
        assert case.loss(spoilt).isnan(), place
        assert case.loss(spoilt, reduction="sum").isnan(), place
        if not case.coupled:
            rows = case.loss(spoilt, reduction="none")
            assert rows.isnan().tolist() == [row == place[1] for row in range(3)], place


@every_loss
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_finite_loss_has_a_finite_gradient(case, dtype):
    batch = draw(case, rows=3).cast(dtype)
    for place in places(batch):
        for value in FAR:
            found, gradients = case.with_gradients(with_score(batch, *place, value))
            assert not found.isfinite() or all(gradient.isfinite().all() for gradient in gradients), (place, value)


@every_loss
@pytest.mark.parametrize("far", [1e30, -1e30, 1e37, -1e37, 3e38, -3e38])
def test_scores_near_the_end_of_float32_have_the_loss_of_float64_or_one_that_overflows(case, far):
    if case.keywords.get("smoothing") == "expected":
        return  # integrates over the noise, which is lost beside such scores
    batch = draw(case, rows=3).cast(torch.float32)
    for place in places(batch):
        spoilt = with_score(batch, *place, far)
        found, expected = case.loss(spoilt).item(), case.loss(spoilt.cast(torch.float64)).item()
        if math.isfinite(found):
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-3), place
        else:
            # Sums over rows and labels, a temperature, or a scale go beyond float32 before the mean does.
            assert abs(expected) > 3e38 / 100, place


@pytest.mark.parametrize("case", [case for case in CASES if case.name in IGNORING and case.takes == "one"], ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_ignored_row_may_hold_anything(case, value):
    batch = draw(case).cast(torch.float32)
    batch.target[2] = -100
    spoilt = batch.put(**{name: leaf.detach().clone() for name, leaf in batch.leaves().items()})
    for tensor in (spoilt.scores, *spoilt.per_call.values()):
        if tensor.ndim == 2:
            tensor[2] = value
    found, gradients = case.with_gradients(spoilt)
    expected, others = case.with_gradients(batch)
    assert found == expected
    assert all(torch.equal(one, other) for one, other in zip(gradients, others, strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rows", [0, 2])
def test_scores_without_classes_are_refused(name, rows):
    case = next(case for case in CASES if case.name == name)
    batch = draw(case, rows=rows)
    per_call = {key: value[..., :0] if value.ndim else value for key, value in batch.per_call.items()}
    target = None if batch.target is None else batch.target[:, :0] if batch.target.ndim == 2 else batch.target
    keywords = {**case.keywords, **{key: value[:0] for key, value in batch.per_class.items()}, **per_call}
    with pytest.raises(InputError, match=r"(scores|log_odds): expected at least one class, got float64 \(\d, 0\)"):
        getattr(losses, name)(batch.scores[:, :0], target, **keywords)


@pytest.mark.parametrize("name", operators.__all__)
def test_operators_refuse_scores_without_classes(name):
    with pytest.raises(InputError, match="scores: expected at least one class"):
        getattr(operators, name)(torch.zeros(2, 0), 1)
