"""The head and the loss together, some rows at a time: the same training, without the scores of a batch."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from shortlist.errors import InputError
from shortlist.losses import linear
from shortlist.models import InputSpec, Network
from shortlist.models.heads import LinearHead, has_pending_scores, make_head, pending_scores
from shortlist.training import fused_head, train
from shortlist.training.criterion import Criterion
from shortlist.training.fused_head import uses_fused_head
from tests.training.small import CLASSES, dataset, recipe, run, weights

SINGLE = ["cross-entropy", "average-k", "ldam", "focal", "calibrated-topk"]
MULTI = ["bce", "spa-label-pair", "softmax-uniform"]
COUPLED = ["conformal-training", "expected-positive", "role", "quasibinary", "two-way"]


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of four rows, so that a batch has several."""
    for bound in ("FEWEST_ENTRIES", "MOST_ENTRIES"):
        monkeypatch.setattr(linear, bound, {"any": 4 * CLASSES})
    monkeypatch.setattr(linear, "ROWS_MULTIPLE", 1)


def known(methods):
    from shortlist.methods import all_methods

    names = {method.name for method in all_methods()}
    return [name for name in methods if name in names]


@pytest.mark.parametrize("method", known(SINGLE + MULTI))
def test_the_same_training(tmp_path, small_chunks, method):
    data = dataset(multi=method in MULTI)
    settings = {"method": method, "epochs": 2, "ema": 0.9, "clip": 1.0}
    plain = run(tmp_path / "plain", data, fused_head=False, **settings)
    fused = run(tmp_path / "fused", data, fused_head=True, **settings)
    for one, other in zip(plain.history, fused.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["metrics"] == pytest.approx(other["metrics"], rel=1e-3, abs=1e-4)
    for name, expected in weights(plain).items():
        torch.testing.assert_close(weights(fused)[name], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", ["cross-entropy", "average-k"])
def test_micro_batches(tmp_path, small_chunks, method):
    plain = run(tmp_path / "plain", method=method, accumulate=2, fused_head=False)
    fused = run(tmp_path / "fused", method=method, accumulate=2, fused_head=True)
    for name, expected in weights(plain).items():
        torch.testing.assert_close(weights(fused)[name], expected, rtol=1e-3, atol=1e-5)


def test_bfloat16(tmp_path, small_chunks):
    plain, fused = (run(tmp_path / str(choice), precision="bfloat16", epochs=1, fused_head=choice) for choice in (False, True))
    assert plain.history[0]["loss"] == pytest.approx(fused.history[0]["loss"], rel=5e-3)
    for name, expected in weights(plain).items():
        torch.testing.assert_close(weights(fused)[name], expected, rtol=0.05, atol=5e-3)


def test_noise_of_one_chunk_is_that_of_the_plain_training(tmp_path):
    plain, fused = (run(tmp_path / str(choice), method="noised-topk", fused_head=choice) for choice in (False, True))
    for name, expected in weights(plain).items():
        torch.testing.assert_close(weights(fused)[name], expected, rtol=1e-3, atol=1e-5)


def test_a_resumed_training_goes_on(tmp_path):
    from tests.training.test_resume import CutAfter, PowerCut

    whole = run(tmp_path / "whole", epochs=3, fused_head=True)
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", epochs=3, fused_head=True, callback=CutAfter(7))
    again = run(tmp_path / "cut", epochs=3, fused_head=True, resume=True)
    for name, expected in weights(whole).items():
        torch.testing.assert_close(weights(again)[name], expected, rtol=1e-6, atol=1e-7)


def test_training_steps_never_call_the_head(tmp_path, monkeypatch):
    forward = LinearHead.forward

    def refused(self, features):
        assert not self.training
        return forward(self, features)

    monkeypatch.setattr(LinearHead, "forward", refused)
    run(tmp_path / "fused", epochs=1, fused_head=True)
    with pytest.raises(AssertionError):
        run(tmp_path / "plain", epochs=1, fused_head=False)


@pytest.mark.parametrize("method", COUPLED)
def test_losses_that_need_all_scores_are_refused(tmp_path, method):
    data = dataset(multi=method in ("quasibinary", "two-way"))
    with pytest.raises(InputError, match=f"fused_head: .*method {method}.*got True"):
        run(tmp_path / "run", data, method=method, fused_head=True)


def test_networks_of_the_user(tmp_path):
    def backbone():
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU())

    inputs = InputSpec.pictures(8)
    own_head = Network(backbone(), nn.Linear(8, CLASSES), inputs, CLASSES)
    chosen = recipe(fused_head=True, epochs=1)
    trained = train(chosen, tmp_path / "own", network=own_head, inputs=inputs, device="cpu", dataset=dataset())
    assert len(trained.history) == 1
    whole = nn.Sequential(backbone(), nn.Linear(8, CLASSES))
    with pytest.raises(InputError, match="fused_head: .*Sequential.*got True"):
        train(chosen, tmp_path / "whole", network=whole, inputs=inputs, device="cpu", dataset=dataset())


@pytest.mark.parametrize("kind", ["linear", "cosine", "two-head"])
def test_pending_scores_are_those_of_the_head(kind):
    head, features = make_head(kind, 6, 4), torch.randn(3, 6)
    assert has_pending_scores(head)
    inputs, weight, bias = pending_scores(head, features)
    found = head(features)
    if kind == "two-head":
        for one, w, b in zip(found, weight, bias, strict=True):
            torch.testing.assert_close(nn.functional.linear(inputs, w, b), one)
    else:
        torch.testing.assert_close(nn.functional.linear(inputs, weight, bias), found)


def test_a_head_that_does_more_has_no_pending_scores():
    head = make_head("two-head", 6, 4)
    head.proposal.register_forward_hook(lambda *_: None)
    assert not has_pending_scores(head)
    assert not has_pending_scores(nn.Sequential(nn.Linear(2, 3)))


def chosen(method="cross-entropy", classes=1_001, device="cuda", processes=1, **settings):
    made = recipe(method=method, batch_size=100, **settings)
    network = Network("features", made.chosen_method.head_kind, InputSpec.features(2), classes)
    criterion = Criterion(made, torch.ones(classes), 10)
    accelerator = SimpleNamespace(device=torch.device(device), num_processes=processes)
    return uses_fused_head(made, network, criterion, accelerator)


def test_when_auto_chooses_it(monkeypatch):
    monkeypatch.setattr(fused_head, "gpu_memory", lambda device: 16_000_000)  # a tenth is that of 100 × 1,000 scores
    assert chosen()
    assert chosen("average-k")
    assert not chosen(fused_head=False)
    assert not chosen(device="cpu")
    assert not chosen(processes=2)
    assert not chosen(classes=1_000)
    assert not chosen(accumulate=2)
    assert chosen(classes=2_001, accumulate=2)
    assert not chosen("quasibinary")
    assert chosen(device="cpu", processes=2, classes=3, fused_head=True)
