"""The menu: every name gives a head, a loss and a link that belong together."""

import copy
import math
import pickle
import re
from pathlib import Path

import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from shortlist.losses import PenalisedLoss
from shortlist.methods import Method, all_methods, find_method, menu, register_method
from shortlist.models import TwoHeadScores
from tests.references import links, losses as ref

COUNTS = [100, 50, 20, 10, 5, 1, 1]
CLASSES = len(COUNTS)
NAMES = [method.name for method in all_methods()]


def call(method, scores, target, loss):
    per_call = {}
    if isinstance(scores, TwoHeadScores):
        scores, per_call["proposal_scores"] = scores
    if method.name == "role":
        per_call["estimates"] = torch.zeros_like(scores)
    return loss(scores, target, **per_call)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_trains_its_head(name):
    torch.manual_seed(0)
    method = find_method(name)
    head, loss = method.head(16, CLASSES), method.loss(COUNTS)
    features = torch.randn(8, 16)
    target = torch.randint(CLASSES, (8,))
    if method.labels == "any":
        target = torch.nn.functional.one_hot(target, CLASSES).bool()
        target[0] = False
    call(method, head(features), target, loss).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())
    assert any(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_the_link_of_a_method_is_the_one_its_loss_names(name):
    method = find_method(name)
    loss, link = method.loss(COUNTS), method.link(COUNTS)
    assert (link is None) == (loss.link() is None)
    if link is not None:
        assert link.config() == loss.link().config()
    assert list(loss.parameters()) == []


def test_every_loss_is_on_the_menu():
    made = set()
    for method in all_methods():
        loss = method.loss(COUNTS)
        parts = [loss.loss, loss.penalty] if isinstance(loss, PenalisedLoss) else [loss]
        made |= {type(part).__name__ for part in parts}
    every = {name for name in losses.__all__ if name.endswith(("Loss", "Penalty"))} - {"Loss", "PenalisedLoss"}
    # A method has one of our heads, and none of them scores the sizes of sets.
    assert every - made == {"CardinalityAwareLoss"}
    assert made <= every


def test_parameters_have_the_values_of_the_papers():
    noised, tail = find_method("noised-topk").parameters, find_method("noised-topk-imbalanced").parameters
    assert (noised["epsilon"], noised["samples"]) == (1.0, 5)
    assert (tail["epsilon"], tail["samples"], tail["max_margin"], tail["scale"]) == (0.01, 5, 0.2, 60)
    assert (find_method("ldam").parameters["max_margin"], find_method("ldam").parameters["scale"]) == (0.2, 40)
    assert find_method("average-k").parameters["alpha"] == 0.3
    conformal = {"conformal_weight": 0.5, "alpha": 0.1, "temperature": 1, "size_weight": 1}
    assert find_method("conformal-training").parameters == conformal
    assert list(find_method("spa").parameters.values()) == [1, 1, 0, 5, 3, 1]
    assert find_method("asy").parameters == {"gamma_pos": 0, "gamma_neg": 4, "shift": 0.05, "probabilities": "recovered"}
    assert find_method("role").parameters["estimates_rate"] == 1


def test_changed_parameters_reach_the_loss_and_the_menu_stays_as_it_was():
    changed = find_method("average-k", k=3, alpha=5)
    assert changed.loss().keywords["k"] == 3
    assert changed.loss().keywords["alpha"] == 5
    assert find_method("average-k").parameters["k"] == 5
    with pytest.raises(TypeError):
        changed.parameters["k"] = 4


@pytest.mark.parametrize("name", NAMES)
def test_methods_are_copied_and_sent_by_name(name):
    method = find_method(name)
    for other in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
        assert other.name == method.name
        assert other.parameters == method.parameters
    if "k" in method.parameters:
        assert copy.copy(method.with_parameters(k=2)).parameters["k"] == 2


def test_margins_come_from_the_counts():
    loss = find_method("ldam").loss(COUNTS)
    torch.testing.assert_close(loss.margins, losses.class_margins(COUNTS, 0.2))
    with pytest.raises(InputError, match="method ldam: expected counts"):
        find_method("ldam").loss()


def test_misspelt_names_and_parameters_get_a_hint():
    with pytest.raises(InputError, match="did you mean 'average-k'"):
        find_method("average_k")
    with pytest.raises(InputError, match="method average-k: did you mean 'alpha'\\? expected k, alpha; got 'alhpa'"):
        find_method("average-k", alhpa=1)
    with pytest.raises(InputError, match="method bce: .*got 'k'"):
        find_method("bce", k=1)
    with pytest.raises(InputError, match="k: .*got 0"):
        find_method("noised-topk", k=0).loss()


def test_the_label_pair_penalty_of_a_method_reads_the_links_log_odds():
    loss = find_method("spa-label-pair", pair_weight=0.7).loss()
    scores = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = scores > 0
    odds = loss.link().log_odds(scores)
    expected = losses.spa_loss(scores, target) + 0.7 * losses.label_pair_penalty(odds, target)
    torch.testing.assert_close(loss(scores, target), expected, rtol=1e-12, atol=0)


def test_conformal_training_is_added_to_cross_entropy():
    scores = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.arange(8) % 5
    given = {"alpha": 0.3, "temperature": 0.5, "size_weight": 0.2}
    found = find_method("conformal-training", conformal_weight=0.7, **given).loss()(scores, target)
    labels = [[label] for label in target.tolist()]
    conformal = ref.conformal_training_loss(scores.tolist(), labels, **given)
    expected = sum(ref.cross_entropy_loss(scores.tolist(), labels)) / 8 + 0.7 * conformal
    assert float(found) == pytest.approx(expected, rel=1e-10)


PAIRS = {"bce-label-pair": "bce", "focal-label-pair": "focal-multilabel", "asymmetric-label-pair": "asy"}


@pytest.mark.parametrize("probabilities", ["recovered", "sigmoid"])
@pytest.mark.parametrize("name", PAIRS)
def test_label_pairs_beside_other_losses(name, probabilities):
    """The partial losses, and pairs of log-odds: through φ (recovered, without a shift) or the scores themselves."""
    given = {} if name == "bce-label-pair" else {"probabilities": probabilities}
    method = find_method(name, pair_weight=0.7, **given)
    scores = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.rand(6, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    gammas = {"bce-label-pair": (0, 0, 0), "focal-label-pair": (2, 2, 0), "asymmetric-label-pair": (0, 4, 0.05)}[name]
    shift, marks = gammas[2], [row.nonzero().flatten().tolist() for row in target]
    plain = ref.asymmetric_focal_loss(scores.tolist(), marks, gamma_pos=gammas[0], gamma_neg=gammas[1], shift=shift)
    through_phi = name == "focal-label-pair" and probabilities == "recovered"
    odds = scores.tolist()
    if through_phi:
        phi = [[links.phi(links.sigmoid(v), 2, 2, 0) for v in row] for row in odds]
        odds = [[math.log(p / (1 - p)) for p in row] for row in phi]
    pairs = ref.label_pair_penalty(odds, marks)
    expected = (sum(plain) + 0.7 * sum(pairs)) / 6
    assert float(method.loss()(scores, target)) == pytest.approx(expected, rel=1e-10)
    assert set(method.parameters) == {"pair_weight", *find_method(PAIRS[name]).parameters}
    assert method.link().kind == ("sigmoid" if given.get("probabilities", "sigmoid") == "sigmoid" else "focal-recovery")


@pytest.mark.parametrize("name", ["focal-multilabel", "asy", "focal-label-pair", "asymmetric-label-pair"])
def test_probabilities_are_recovered_or_the_plain_sigmoid(name):
    scores = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    raw = find_method(name, probabilities="sigmoid")
    assert torch.equal(raw.link().probs(scores), scores.sigmoid())
    assert not torch.allclose(find_method(name).link().probs(scores), scores.sigmoid(), atol=0.01)
    target = scores > 0
    if name in ("focal-multilabel", "asy"):  # the loss itself is the same
        assert torch.equal(raw.loss()(scores, target), find_method(name).loss()(scores, target))
    with pytest.raises(InputError, match="probabilities: .*'recovered', 'sigmoid'; got 'raw'"):
        find_method(name, probabilities="raw").loss()


def test_softmax_takes_any_number_of_labels():
    method = find_method("softmax")
    scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    target = torch.tensor([[True, True, False], [False, False, True], [False] * 3])
    logs = [[value - math.log(sum(map(math.exp, row))) for value in row] for row in scores.tolist()]
    expected = (-(logs[0][0] + logs[0][1]) / 2 - logs[1][2] + 0) / 3
    assert (method.labels, method.link().kind) == ("any", "softmax")
    assert float(method.loss()(scores, target)) == pytest.approx(expected, rel=1e-12)


def test_the_rate_of_roles_estimates_is_a_parameter():
    for rate in (1.0, 10.0):
        state = find_method("role", k=2, estimates_rate=rate).loss().training_state(4, 3, 0)
        rows, target = torch.tensor([0, 2]), torch.tensor([1, 0])
        before = state.estimates(rows, target).detach().clone()
        state(torch.zeros(2, 3), target, rows).backward()
        gradient = state._lookups[0].values.grad.clone()
        state.stepped(0.1)
        moved = state.estimates(rows, target).detach()
        torch.testing.assert_close(moved, before - 0.1 * rate * gradient, rtol=0, atol=5e-3)  # kept in float16
    with pytest.raises(InputError, match="estimates_rate: .*got 0"):
        losses.RoleLoss(k=2, estimates_rate=0)
    assert repr(losses.RoleLoss(k=2, estimates_rate=10.0)) == "RoleLoss(k=2, weight=0.0, estimates_rate=10.0)"


def test_outlier_terms_act_on_rows_without_labels_only():
    loss = find_method("softmax-uniform", outlier_weight=2.0).loss()
    scores = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[True, False, False, False], [False] * 4, [False, False, True, False]])
    inside = losses.cross_entropy_loss(scores[[0, 2]], torch.tensor([0, 2]))
    expected = inside + 2 * losses.uniform_outlier_loss(scores[1:2])
    torch.testing.assert_close(loss(scores, target), expected, rtol=1e-12, atol=0)


def test_every_method_is_in_the_guide():
    guide = (Path(__file__).parent.parent.parent / "docs" / "losses.md").read_text()
    table = re.findall(r"`([a-z-]+)`", guide[guide.index("## Methods") :])
    assert set(NAMES) <= set(table)


@pytest.fixture
def own_methods(monkeypatch):
    """Methods that a test registers are forgotten after it."""
    monkeypatch.setattr(menu, "METHODS", dict(menu.METHODS))


@pytest.mark.usefixtures("own_methods")
def test_a_registered_method_is_found_by_name_with_its_parameters():
    given = {"gamma": 5.0}
    method = register_method(Method("sharp", "a toy", "one", losses.FocalLoss, given))
    given["gamma"] = 6.0
    assert method in all_methods()
    assert find_method("sharp").loss().gamma == 5.0
    assert find_method("sharp", gamma=3.0).loss().gamma == 3.0
    assert pickle.loads(pickle.dumps(find_method("sharp", gamma=3.0))).parameters == {"gamma": 3.0}
    assert find_method("sharp").link().kind == losses.FocalLoss(gamma=5.0).link().kind


@pytest.mark.usefixtures("own_methods")
def test_a_method_is_registered_once_but_may_be_defined_again():
    register_method(Method("sharp", "a toy", "one", losses.FocalLoss, {"gamma": 5.0}))
    register_method(Method("sharp", "a toy", "one", losses.FocalLoss, {"gamma": 4.0}))
    assert find_method("sharp").parameters["gamma"] == 4.0
    with pytest.raises(InputError, match="name: 'sharp' is already .*FocalLoss"):
        register_method(Method("sharp", "another", "one", losses.CrossEntropyLoss))
    with pytest.raises(InputError, match="name: 'average-k' is already .*AverageKLoss"):
        register_method(Method("average-k", "another", "one", losses.CrossEntropyLoss))


@pytest.mark.parametrize("name", ["", "Sharp", "a b", "a:b", "a,b"])
def test_a_method_needs_a_name_that_a_command_line_can_hold(name):
    with pytest.raises(InputError, match=f"name: .*got {name!r}"):
        register_method(Method(name, "a toy", "one", losses.CrossEntropyLoss))
