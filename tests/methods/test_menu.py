"""The menu: every name gives a head, a loss and a link that belong together."""

import copy
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
    assert made == every


def test_parameters_have_the_values_of_the_papers():
    noised, tail = find_method("noised-topk").parameters, find_method("noised-topk-imbalanced").parameters
    assert (noised["epsilon"], noised["samples"]) == (1.0, 5)
    assert (tail["epsilon"], tail["samples"], tail["max_margin"], tail["scale"]) == (0.01, 5, 0.2, 60)
    assert (find_method("ldam").parameters["max_margin"], find_method("ldam").parameters["scale"]) == (0.2, 40)
    assert find_method("average-k").parameters["alpha"] == 0.3
    assert list(find_method("spa").parameters.values()) == [1, 1, 0, 5, 3, 1]
    assert find_method("asy").parameters == {"gamma_pos": 0, "gamma_neg": 4, "shift": 0.05}


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
