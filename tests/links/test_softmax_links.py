"""Vector scaling and Dirichlet calibration against a general optimiser, and what few rows do to them."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from shortlist.errors import InputError, NotConvergedError
from shortlist.links import Dirichlet, Identity, Platt, Sigmoid, Softmax, Temperature, VectorScaling
from tests.references import links as reference

KINDS = [VectorScaling, Dirichlet]


def draw(seed, rows=60, classes=3):
    """Scores that are too bold, more so for some labels than for others."""
    generator = np.random.default_rng(seed)
    scores = generator.standard_normal((rows, classes))
    target = np.array([generator.choice(classes, p=row) for row in reference.softmax(scores)])
    return scores * np.linspace(1.5, 4, classes) + np.linspace(0, 1, classes), target


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [1.0, 0.01])
@pytest.mark.parametrize("seed", range(2))
def test_the_fit_minimises_the_penalised_likelihood(kind, penalty, seed):
    scores, target = draw(seed)
    link = kind(penalty=penalty).fit(scores, target)
    full = kind is Dirichlet
    logs = np.log(reference.softmax(scores))

    def objective(numbers):
        weights = numbers[1:-3].reshape(3, 3) if full else np.diag(numbers[1:-3])
        return reference.softmax_regression_objective(numbers[0], weights, numbers[-3:], logs, target, penalty)

    start = np.zeros(1 + (9 if full else 3) + 3)
    found = minimize(objective, start, method="BFGS", options={"gtol": 1e-5})
    weight = link.weight.numpy() if full else np.diag(link.weight.numpy())
    scale = np.trace(weight) / 3  # the common part, from which the diagonal differs by 0 on average
    ours = reference.softmax_regression_objective(
        scale, weight - scale * np.eye(3), link.intercept.numpy(), logs, target, penalty
    )
    assert ours <= found.fun + 1e-6
    z = logs @ weight.T + link.intercept.numpy()
    np.testing.assert_allclose(link.probs(scores).numpy(), reference.softmax(z), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_large_penalty_it_is_temperature_scaling(kind):
    scores, target = draw(2)
    torch.testing.assert_close(
        kind(penalty=1e9).fit(scores, target).probs(scores), Temperature().fit(scores, target).probs(scores), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_with_many_rows_the_penalty_fades(kind):
    scores, target = draw(3, 300)
    often, labels = np.tile(scores, (100, 1)), np.tile(target, 100)
    torch.testing.assert_close(
        kind().fit(often, labels).probs(scores), kind(penalty=1e-2).fit(scores, target).probs(scores), atol=1e-8, rtol=0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_their_probabilities_have_the_same_link(kind):
    scores, target = draw(4)
    of_scores, of_probs = kind().fit(scores + 5, target), kind(Identity()).fit(reference.softmax(scores), target)
    torch.testing.assert_close(of_probs.weight, of_scores.weight)
    torch.testing.assert_close(of_scores.probs(scores - 3), of_scores.probs(scores))
    other = kind(Platt(Softmax()).fit(scores, target)).fit(scores, target)
    assert torch.allclose(other.probs(scores).sum(1), torch.ones(len(scores), dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_classes_without_rows_stay_near_the_temperature(kind):
    scores, target = draw(5, classes=4)
    target[target == 2] = 0
    link = kind().fit(scores, target)
    assert link.probs(scores).isfinite().all()
    assert (link.probs(scores)[:, 2] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_optimum_is_refused(kind):
    with pytest.raises(NotConvergedError, match="ranks first"):
        kind().fit(torch.eye(4), torch.arange(4))
    with pytest.raises(NotConvergedError, match="chance"):
        kind().fit(torch.zeros(4, 4), torch.arange(4))


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_labels_is_refused_with_what_to_fit_instead(kind):
    with pytest.raises(InputError, match=f"target: {kind.kind} is for one label per row.* platt or beta"):
        kind().fit(torch.randn(5, 3), torch.ones(5, 3, dtype=torch.bool))


@pytest.mark.parametrize("kind", KINDS)
def test_another_number_of_classes_than_fitted_is_refused(kind):
    with pytest.raises(InputError, match="fitted on 3 classes, got 2"):
        kind().fit(*draw(6)).probs(torch.zeros(1, 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [0, -1, float("nan"), float("inf")])
def test_penalties_out_of_range_are_refused(kind, penalty):
    with pytest.raises(InputError, match="penalty"):
        kind(penalty=penalty)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refit_that_fails_leaves_the_link_as_it_was(kind):
    link = kind(Sigmoid()).fit(*draw(7))
    before = link.weight
    with pytest.raises(NotConvergedError):
        link.fit(torch.eye(4), torch.arange(4))
    assert link.weight is before
