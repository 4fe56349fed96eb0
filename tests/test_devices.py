"""Everything that decides and measures answers the same on every device there is."""

import pytest
import torch

from shortlist import links, losses, metrics, operators
from shortlist.models import CosineHead
from shortlist.sets import parse_rule
from tests.losses.cases import CASES, draw

DEVICES = ["cpu", *(f"cuda:{n}" for n in range(min(1, torch.cuda.device_count())))]
RULES = ["top-k:3", "average-k:2.5", "threshold:0.2", "mass:0.1", "lac:0.1", "aps:0.1", "raps:0.1", "lac:0.2,classwise"]
RULES += ["lac:0.2,interpolated:0.5", "average-k:2.5:prior", "pas:0.1", "average-k:3,cap:4,floor:2"]
MANY = ["risk-control:recall:0.2", "per-label:f1", "per-label:precision:0.5", "per-label:recall:0.5"]


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(400, 300, generator=generator)
    probs = scores.softmax(1)
    single = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    many = torch.rand(400, 300, generator=generator) < probs
    return scores, probs, single, many


def rule_of(text):
    return parse_rule(text, prior=torch.linspace(0.5, 1.5, 300) / 300)


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", RULES + MANY)
def test_rules_give_the_same_sets(device, text, data):
    _, probs, single, many = data
    target = many if text in MANY else single
    expected = rule_of(text).fit(probs, target)(probs)
    rule = rule_of(text).to(device).fit(probs.to(device), target.to(device))
    found = rule(probs.to(device))
    assert found.device == torch.device(device)
    assert torch.equal(found.cpu(), expected)
    assert torch.equal(rule.cpu()(probs), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["temperature", "platt", "isotonic"])
@pytest.mark.parametrize("single", [True, False])
def test_fitted_links_give_the_same_probabilities(device, name, single, data):
    scores, _, one, _ = data
    target = one % 20 if single else torch.rand(400, 20, generator=torch.Generator().manual_seed(1)) < scores[:, :20].sigmoid()
    scores = scores[:, :20] + (2 * torch.nn.functional.one_hot(target, 20) if single else 0)
    made = links.Link.kinds[name]
    expected = made().fit(scores, target).probs(scores)
    found = made().fit(scores.to(device), target.to(device)).probs(scores.to(device))
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("single", [True, False])
def test_metrics_give_the_same_numbers(device, single, data):
    _, probs, one, many = data
    target = one if single else many
    for function in (metrics.mean_average_precision, metrics.calibration_error, metrics.top_n_f1, metrics.size_accuracy_curve):
        expected, found = function(probs, target), function(probs.to(device), target.to(device))
        for here, there in zip(
            torch.atleast_1d(*expected) if isinstance(expected, tuple) else [expected],
            torch.atleast_1d(*found) if isinstance(found, tuple) else [found],
            strict=True,
        ):
            torch.testing.assert_close(there.cpu(), here, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_give_the_same_value_and_gradient(device, case):
    batch = draw(case)
    value, gradients = case.with_gradients(batch)
    there = type(batch)(
        batch.scores.to(device),
        None if batch.target is None else batch.target.to(device),
        {name: tensor.to(device) for name, tensor in batch.per_call.items()},
        {name: tensor.to(device) for name, tensor in batch.per_class.items()},
    )
    found, others = case.with_gradients(there)
    assert found.device == torch.device(device)
    torch.testing.assert_close(found.cpu(), value, rtol=1e-9, atol=1e-12)
    for other, gradient in zip(others, gradients, strict=True):
        torch.testing.assert_close(other.cpu(), gradient, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("antithetic", [False, True])
def test_drawn_noise_has_the_expectation_of_the_integral(device, antithetic):
    """Four standard errors of 20,000 draws: a false alarm once in 16,000 runs."""
    scores = torch.linspace(-1, 1, 12, dtype=torch.float64)[None]
    many = scores.repeat(1000, 1).to(device)
    drawn = operators.noised_top_value(
        many, 3, 0.7, 20, antithetic=antithetic, generator=torch.Generator(device).manual_seed(0)
    )
    expected = operators.expected_top_value(scores, 3, 0.7)
    assert abs(float(drawn.mean()) - float(expected)) < 4 * float(drawn.std()) / 1000**0.5


@pytest.mark.parametrize("device", DEVICES)
def test_modules_heads_and_estimates_move_with_the_model(device):
    margins = losses.class_margins([100, 10, 1])
    loss = losses.LdamLoss(margins=margins).to(device)
    assert loss.margins.device == torch.device(device)
    head = CosineHead(4, 3).to(device)
    target = torch.tensor([0, 2], device=device)
    loss(head(torch.ones(2, 4, device=device)), target).backward()
    assert head.weight.grad.isfinite().all()
    store = losses.RoleEstimates(10, 3).to(device)
    rows = store(torch.tensor([7, 1], device=device), target)
    losses.role_loss(torch.zeros(2, 3, device=device), target, estimates=rows, k=2).backward()
    store.step(rate=0.1)
    assert store.logits.device == torch.device(device)
    assert store(torch.tensor([7], device=device), target[:1]).isfinite().all()
