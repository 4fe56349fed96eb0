"""A gradient that is not finite stops a training although its loss is finite, and no checkpoint holds what it did."""

import math

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from shortlist.training.criterion import Criterion
from shortlist.training.device_state import PendingNumber
from shortlist.training.failures import NonFiniteError
from shortlist.training.gradients import GradientWatch, largest_gradient
from shortlist.training.loop import Loop
from shortlist.training.model_state import ModelState
from tests.training.small import run, same, weights
from tests.training.test_loop import Lines


class Poisoned(torch.autograd.Function):
    """The value as it is, with another gradient."""

    @staticmethod
    def forward(ctx, value, gradient):
        ctx.gradient = gradient
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.gradient, None


def poison(steps, monkeypatch, gradient=math.nan):
    """The gradient of these steps, counted from 0, is not finite, while the loss is."""
    count = iter(range(10**6))
    forward = Criterion.forward

    def poisoned(self, *arguments):
        loss = forward(self, *arguments)
        return Poisoned.apply(loss, gradient) if next(count) in steps else loss

    monkeypatch.setattr(Criterion, "forward", poisoned)


def saved(folder):
    return load_file(folder / "checkpoint.safetensors")


@pytest.mark.parametrize("gradient", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_it_stops_before_the_weights_change(tmp_path, monkeypatch, gradient, optimizer):
    poison({7}, monkeypatch, gradient)
    with pytest.raises(NonFiniteError, match=r"the gradient of step 8 is (nan|inf), .* loss is \d.*: lower lr, .*clip=1"):
        run(tmp_path / "run", optimizer=optimizer, lr=0.001)
    assert load_file(tmp_path / "run" / "failed-batch.safetensors")["rows"].shape == (12,)
    assert all(tensor.isfinite().all() for tensor in saved(tmp_path / "run").values() if tensor.is_floating_point())


def test_such_steps_can_be_skipped_and_change_nothing(tmp_path, monkeypatch):
    poison({3, 8}, monkeypatch)
    callback = Lines()
    trained = run(tmp_path / "run", backbone="resnet-8", skip_nonfinite=2, callback=callback)
    assert sum("the gradient of step" in sentence and "skipped" in sentence for sentence in callback.sentences) == 2
    assert all(tensor.isfinite().all() for tensor in weights(trained).values())


@pytest.mark.parametrize("clip", [None, 1.0])
def test_gradients_that_are_large_but_finite_are_no_reason_to_stop(tmp_path, monkeypatch, clip):
    """Their norm overflows; with clipping the step becomes a step of nothing."""
    poison({7}, monkeypatch, 1e25)
    if clip is None:
        with pytest.raises(NonFiniteError, match="the (loss|gradient) of step 9|after step 8"):
            run(tmp_path / "run")  # the weights that it leaves are too large for the next step
    else:
        run(tmp_path / "run", clip=clip)


def late(monkeypatch):
    """Look at the gradient only after the step, as on a GPU."""

    def after(self, step, loss, batches):
        self._watch.start([self.network, self.criterion], step, loss, batches)

    monkeypatch.setattr(Loop, "_nonfinite_gradient", after)


@pytest.mark.parametrize("step", [0, 3, 4, 7, 9])  # the fifth and the tenth end an epoch
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_gradient_that_is_seen_only_after_its_step_is_never_saved(tmp_path, monkeypatch, step, seconds):
    whole = run(tmp_path / "whole")
    with monkeypatch.context() as patch:
        late(patch)
        poison({step}, patch)
        with pytest.raises(NonFiniteError, match=rf"the gradient of step {step + 1} is nan"):
            run(tmp_path / "run", checkpoint_seconds=seconds)
    batch = load_file(tmp_path / "run" / "failed-batch.safetensors")
    from shortlist.training.sampler import StepSampler

    assert torch.equal(batch["rows"], StepSampler(60, 12, 0).step(step)[0].rows)
    if seconds == 0 and step:
        assert all(tensor.isfinite().all() for tensor in saved(tmp_path / "run").values() if tensor.is_floating_point())
    assert same(weights(whole), weights(run(tmp_path / "run", resume=True)))


@pytest.mark.parametrize("part", ["weight", "momentum", "buffer"])
def test_a_checkpoint_with_values_that_are_not_finite_is_not_written(tmp_path, monkeypatch, part):
    step = Loop._step

    def broken(self, number, *others):
        step(self, number, *others)
        if number == 7:
            with torch.no_grad():
                weight = next(self.network.parameters())
                chosen = {"weight": weight, "momentum": self.optimizer.state[weight]["momentum_buffer"]}
                chosen["buffer"] = next(one for name, one in self.network.named_buffers() if name.endswith("running_mean"))
                chosen[part].fill_(math.inf)

    monkeypatch.setattr(Loop, "_step", broken)
    with pytest.raises(NonFiniteError, match=r"after step 8, \S+ is not finite, so it is not saved; .*checkpoint.*: lower lr"):
        run(tmp_path / "run", backbone="resnet-8")
    assert all(tensor.isfinite().all() for tensor in saved(tmp_path / "run").values() if tensor.is_floating_point())


class Masked(nn.Module):
    """A network that keeps a mask of infinities, as attention layers do."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))
        self.layer = nn.Linear(3 * 8 * 8, 5)

    def forward(self, images):
        return self.layer(images.flatten(1))


def test_buffers_that_were_never_finite_are_no_reason_to_stop(tmp_path):
    from shortlist.training import train
    from tests.training.small import dataset, recipe
    from tests.training.test_resume import CutAfter, PowerCut

    how = {"device": "cpu", "dataset": dataset(), "checkpoint_seconds": 0.0}
    with pytest.raises(PowerCut):
        train(recipe(ema=0.9), tmp_path / "run", network=Masked(), callback=CutAfter(7), **how)
    train(recipe(ema=0.9), tmp_path / "run", network=Masked(), resume=True, **how)


def test_the_largest_entry_of_all_gradients():
    first, second = nn.Linear(2, 1, bias=False), nn.Linear(2, 1)
    assert largest_gradient([first, second]) is None
    first.weight.grad = torch.tensor([[1.0, -5.0]])
    second.weight.grad = torch.tensor([[2e38, 3e38]])
    assert largest_gradient([first]) == 5
    assert largest_gradient([first, second]) == 3e38  # whose norm overflows
    for value in (math.nan, math.inf, -math.inf):
        second.bias.grad = torch.tensor([value])
        assert not largest_gradient([first, second]).isfinite()


def test_sparse_gradients_are_looked_at():
    table = nn.Embedding(5, 2, sparse=True)
    (table(torch.tensor([1, 1])) * torch.tensor([1.0, math.inf])).sum().backward()
    assert table.weight.grad.is_sparse
    assert not largest_gradient([table]).isfinite()


def test_a_watch_reports_each_step_once():
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.grad = torch.tensor([[math.nan]])
    watch = GradientWatch()
    assert watch.failed() is None
    watch.start([layer], 3, 0.5, [])
    failed = watch.failed()
    assert (failed.step, failed.loss) == (3, 0.5)
    assert math.isnan(failed.gradient)
    assert watch.failed() is None


def test_a_watch_does_not_wait_before_it_is_asked(monkeypatch):
    monkeypatch.setattr(PendingNumber, "value", lambda self: pytest.fail("waited"))
    layer = nn.Linear(1, 1)
    layer.weight.grad = torch.ones(1, 1)
    GradientWatch().start([layer], 0, 0.5, [])


class Scaler:
    """Stands for the gradient scaler of float16."""

    def state_dict(self):
        return {"scale": 1.0}

    def load_state_dict(self, state):
        self.loaded = state


def test_the_scale_of_float16_is_part_of_the_state():
    from shortlist.training.optimizers import make_optimizer
    from tests.training.small import recipe

    layer = nn.Linear(1, 5)
    layer.num_classes = 5
    criterion = Criterion(recipe(), torch.ones(5), 3)
    held = ModelState(layer, make_optimizer(layer, recipe()), criterion, scaler=Scaler())
    assert held.plain()["scaler"] == {"scale": 1.0}
    held.restore(held.tensors(), held.plain(), torch.device("cpu"))
    assert held.scaler.loaded == {"scale": 1.0}


def test_float16_that_only_overflows_stops(tmp_path, monkeypatch):
    """The scaler skips overflows, which are normal; fifty in a row are not."""
    from shortlist.training import loop as module

    class Skips:
        step_was_skipped = True

        def step(self):
            pass

    def scaled(self, step, rate):
        self._scaled = Skips()
        self.context.accelerator.scaler = Scaler()
        try:
            update(self, step, rate)
        finally:
            self.context.accelerator.scaler = None

    update = Loop._update
    monkeypatch.setattr(Loop, "_update", scaled)
    monkeypatch.setattr(module, "MOST_OVERFLOWS", 8)
    with pytest.raises(NonFiniteError, match="the 8 steps up to step 8 all overflowed"):
        run(tmp_path / "run")
