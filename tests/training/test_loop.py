"""The loop: what a step does, which epoch is kept, what happens when a step fails."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from shortlist.errors import InputError
from shortlist.models import InputSpec, Network
from shortlist.training.augmented_network import compiled
from shortlist.training.callbacks import Callback
from shortlist.training.criterion import Criterion
from shortlist.training.failures import NonFiniteError, OutOfMemoryError
from shortlist.training.loop import Loop
from shortlist.training.monitor import Monitor
from shortlist.training.sampler import StepSampler
from tests.training.small import dataset, recipe, run, same, weights

METHODS = ["cross-entropy", "average-k", "noised-topk", "expected-positive", "role", "ldam", "focal"]
MULTI = ["bce", "spa-label-pair", "quasibinary", "two-way", "softmax-uniform"]


class Lines(Callback):
    def __init__(self):
        self.lines, self.sentences, self.losses = [], [], []

    def step_ended(self, step, loss):
        self.losses.append(loss)

    def epoch_ended(self, line, history):
        self.lines.append(line)

    def message(self, sentence):
        self.sentences.append(sentence)


def literal_sgd(settings, steps):
    """SGD with Nesterov momentum and a cosine schedule on cross-entropy, every update written out, from the same start."""
    data = dataset()
    images, target = data.splits["train"].inputs.images, data.splits["train"].target
    inputs = InputSpec.from_pictures(images, 8)
    torch.manual_seed(settings.seed)
    network = Network(settings.backbone, "linear", inputs, len(data.classes)).double()
    plan = StepSampler(len(target), settings.batch_size, settings.seed)
    velocity = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    total = settings.epochs * plan.steps_per_epoch
    for step in range(steps):
        rows = plan.step(step)[0].rows
        scores = network(inputs.prepare(images[rows]).double())
        log_probs = scores - scores.exp().sum(1, keepdim=True).log()
        loss = -log_probs[torch.arange(len(rows)), target[rows]].mean()
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        rate = settings.lr * (1 + math.cos(math.pi * step / total)) / 2
        with torch.no_grad():
            for (name, p), gradient in zip(network.named_parameters(), gradients, strict=True):
                slope = gradient + settings.weight_decay * p
                velocity[name] = settings.momentum * velocity[name] + slope
                p -= rate * (slope + settings.momentum * velocity[name])
    return network.state_dict()


def test_a_training_is_the_updates_written_out(tmp_path):
    settings = recipe(epochs=3)
    trained = run(tmp_path / "run", epochs=3, monitor="nll")
    kept = trained.classifier.network.state_dict()
    epoch = max(line["epoch"] for line in trained.history if line["best"])
    wanted = literal_sgd(settings, steps=epoch * 5)
    for name, tensor in wanted.items():
        np.testing.assert_allclose(kept[name].double(), tensor, atol=2e-6)


@pytest.mark.parametrize("method", METHODS + MULTI)
def test_every_method_trains_to_a_classifier(tmp_path, method):
    trained = run(tmp_path / "run", dataset(multi=method in MULTI), method=method, epochs=1)
    assert len(trained.predictions["test"]) == 20
    assert trained.classifier.rule.fitted
    answers = trained.classifier.predict(dataset().splits["test"].inputs)
    assert torch.equal(answers.scores, trained.predictions["test"].scores)


def test_a_training_on_a_processor_is_repeatable_to_the_bit(tmp_path):
    first, second = (run(tmp_path / name, method="average-k", augmentation="shift-flip", ema=0.9) for name in "ab")
    assert same(weights(first), weights(second))
    other = run(tmp_path / "c", method="average-k", augmentation="shift-flip", ema=0.9, seed=1)
    assert not same(weights(first), weights(other))


def test_micro_batches_give_the_step_of_the_batch(tmp_path):
    whole, parts = (run(tmp_path / str(n), accumulate=n, monitor="nll") for n in (1, 4))
    for name, tensor in weights(whole).items():
        np.testing.assert_allclose(weights(parts)[name], tensor, atol=1e-6)


def test_epochs_of_equal_value_are_chosen_by_log_loss(tmp_path, monkeypatch):
    """An accuracy that is 100 % from the first epoch on kept the weights of that epoch."""
    losses = iter([1.5, 0.5, 0.9, 0.2])
    monkeypatch.setattr(Monitor, "measure", lambda *_: {"average-2": 1.0, "nll": next(losses)})
    trained = run(tmp_path / "run", method="average-k", epochs=4)
    assert [line["best"] for line in trained.history] == [True, True, False, True]


def test_a_coupled_loss_says_that_it_couples_micro_batches(tmp_path):
    callback = Lines()
    run(tmp_path / "run", method="average-k", accumulate=2, callback=callback, epochs=1)
    assert any("couples those of each micro-batch of 6 rows" in sentence for sentence in callback.sentences)


def test_the_average_of_the_weights_is_what_is_kept(tmp_path):
    plain, averaged = (run(tmp_path / str(ema), ema=ema, monitor="nll") for ema in (None, 0.5))
    assert not same(weights(plain), weights(averaged))
    checkpoint = load_file(tmp_path / "0.5" / "checkpoint.safetensors")
    assert any(name.startswith("average.") for name in checkpoint)
    for name, tensor in weights(averaged).items():
        assert torch.equal(checkpoint[f"best.{name}"], tensor)


def test_the_best_epoch_is_kept_and_patience_ends_training(tmp_path, monkeypatch):
    values = iter([0.5, 0.9, 0.4, 0.9, 0.1, 0.99])
    monkeypatch.setattr(Monitor, "measure", lambda self, scores, target: {self.deciding: next(values)})
    seen = []
    ends = Loop._end_epoch

    def spy(self, epoch):
        seen.append({name: tensor.clone() for name, tensor in self.network.state_dict().items()})
        return ends(self, epoch)

    monkeypatch.setattr(Loop, "_end_epoch", spy)
    trained = run(tmp_path / "run", epochs=6, patience=3)
    assert [line["best"] for line in trained.history] == [True, True, False, False, False]  # an equal one is not better
    assert same(weights(trained), seen[1])


def test_validation_can_be_rarer_and_the_last_epoch_has_one(tmp_path):
    history = run(tmp_path / "run", epochs=5, validate_every=2).history
    assert ["value" in line for line in history] == [False, True, False, True, True]


def test_metrics_are_a_line_an_epoch(tmp_path):
    trained = run(tmp_path / "run", epochs=3)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == trained.history
    assert [line["step"] for line in lines] == [5, 10, 15]
    assert all(line["rows_per_second"] > 0 for line in lines)


def nan_at(steps, monkeypatch):
    """The loss of these steps (counted from 0) is not a number; so are the running statistics of their forward pass."""
    count = iter(range(10**6))
    forward = Criterion.forward

    def poisoned(self, *arguments):
        loss = forward(self, *arguments)
        return loss * float("nan") if next(count) in steps else loss

    monkeypatch.setattr(Criterion, "forward", poisoned)


def test_a_loss_that_is_not_finite_stops_before_it_harms_and_keeps_its_batch(tmp_path, monkeypatch):
    nan_at({7}, monkeypatch)
    with pytest.raises(NonFiniteError, match=r"the loss of step 8 is nan; its batch is in .*lower lr"):
        run(tmp_path / "run")
    batch = load_file(tmp_path / "run" / "failed-batch.safetensors")
    assert batch["inputs"].shape == (12, 3, 8, 8)
    assert torch.equal(batch["rows"], StepSampler(60, 12, 0).step(7)[0].rows)
    checkpoint = load_file(tmp_path / "run" / "checkpoint.safetensors")
    assert all(tensor.isfinite().all() for tensor in checkpoint.values() if tensor.is_floating_point())


def test_steps_that_are_not_finite_can_be_left_out_and_change_nothing(tmp_path, monkeypatch):
    callback = Lines()
    nan_at({3, 8}, monkeypatch)
    trained = run(tmp_path / "run", backbone="resnet-8", skip_nonfinite=2, callback=callback)
    assert sum("the step is skipped" in sentence for sentence in callback.sentences) == 2
    assert all(tensor.isfinite().all() for tensor in weights(trained).values())
    assert trained.history[0]["loss"] == trained.history[0]["loss"]


def test_one_step_too_many_that_is_not_finite_stops(tmp_path, monkeypatch):
    nan_at({1, 2, 3}, monkeypatch)
    with pytest.raises(NonFiniteError, match="step 4 is nan after 2 such steps"):
        run(tmp_path / "run", skip_nonfinite=2)


def test_a_first_step_that_is_not_finite_leaves_a_running_link_unstarted(tmp_path, monkeypatch):
    nan_at({0}, monkeypatch)
    trained = run(tmp_path / "run", dataset(multi=True), method="quasibinary", skip_nonfinite=1, epochs=1)
    assert trained.classifier.link.log_normalizer.isfinite()


def test_a_full_device_says_what_would_fit(tmp_path, monkeypatch):
    def full(self, step, parts, batches):
        if len(batches[0].rows) > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 1.0

    rows = {}
    monkeypatch.setattr(Loop, "_gradient", full)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (900, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100)
    peaks = iter([200.0, 300.0])
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: rows.setdefault(len(rows), next(peaks)))
    with pytest.raises(
        OutOfMemoryError, match=r"too little memory for 12 rows at once; about \d+ would fit: set accumulate=\d"
    ):
        run(tmp_path / "run")


def test_gradients_can_be_clipped(tmp_path):
    plain, clipped = (run(tmp_path / str(clip), clip=clip, epochs=1) for clip in (None, 1e-3))
    assert not same(weights(plain), weights(clipped))


def test_half_precision_trains_on_a_processor(tmp_path):
    trained = run(tmp_path / "run", precision="bfloat16", epochs=1)
    assert all(tensor.dtype == torch.float32 for tensor in weights(trained).values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # of torch, about itself
class Multiplied(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


def test_a_search_compiles_any_number_of_networks():
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        for by in (2, 3, 5):
            assert compiled(Multiplied(by), replay=False)(torch.ones(1)).item() == by


def test_a_compiled_network_trains_to_the_same_weights(tmp_path):
    plain, compiled = (run(tmp_path / str(flag), compile=flag, epochs=1, augmentation="shift-flip") for flag in (False, True))
    for name, tensor in weights(plain).items():
        np.testing.assert_allclose(weights(compiled)[name], tensor, atol=1e-5)


def test_tensorboard_is_written_where_it_is_installed(tmp_path):
    pytest.importorskip("tensorboard")
    from shortlist.training import train

    train(recipe(epochs=1), tmp_path / "run", device="cpu", dataset=dataset(), tensorboard=True)
    assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"backbone": "resnet-9"}, "resnet"),
        ({"method": "average-k", "k": 5}, "k: expected a number from 1 to 4"),
        ({"method": "topk-hinge", "k": 5}, "k: expected a number from 1 to 4"),
        ({"method": "bce"}, "method bce is for any number of labels"),
        ({"monitor": "top-9"}, "monitor: .*expected one of .*got 'top-9'"),
        ({"precision": "float16"}, "precision: .*float16"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(tmp_path, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        run(tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_a_gpu_that_is_absent_is_said(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    from shortlist.training import train

    with pytest.raises(InputError, match="device: .*cuda.* found no GPU"):
        train(recipe(), tmp_path / "run", device="cuda", dataset=dataset())


def test_a_disk_without_room_is_said_before_the_first_step(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(InputError, match=r"run: expected [1-9][\d,]+ bytes of free space .*got 1,000:"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_running_link_is_kept_as_it_was_in_the_best_epoch(tmp_path, monkeypatch):
    values = iter([0.9, 0.1, 0.2])
    monkeypatch.setattr(Monitor, "measure", lambda self, scores, target: {self.deciding: next(values)})
    links = []
    ends = Loop._end_epoch

    def spy(self, epoch):
        links.append(self.criterion.link.log_normalizer.clone())
        return ends(self, epoch)

    monkeypatch.setattr(Loop, "_end_epoch", spy)
    trained = run(tmp_path / "run", dataset(multi=True), method="quasibinary", epochs=3)
    assert torch.equal(trained.classifier.link.log_normalizer, links[0])
    assert not torch.equal(links[0], links[2])


def test_pictures_that_cannot_be_read_on_the_way_are_named_once_and_fatal_above_a_share(tmp_path, monkeypatch):
    from shortlist.data.problems import Problem
    from shortlist.training.row_sources import DeviceRows

    callback, bad = Lines(), {"one.png"}
    batches = DeviceRows.batches

    def failing(self, wanted):
        for batch in batches(self, wanted):
            self.problems |= {name: Problem("unreadable picture", name, "cut short") for name in sorted(bad)}
            yield batch

    monkeypatch.setattr(DeviceRows, "batches", failing)
    trained = run(tmp_path / "few", dataset(120), callback=callback)
    assert callback.sentences.count("one.png: cut short") == 1
    assert any("left out (train 1, val 1, calibration 1, test 1): one.png: cut short" in remark for remark in trained.remarks)
    bad |= {"two.png", "three.png"}
    run(tmp_path / "handful", dataset(120))
    bad |= {"four.png"}
    with pytest.raises(InputError, match=r"4 of 120 pictures could not be used, .* tolerance=0.04$"):
        run(tmp_path / "many", dataset(120))
    run(tmp_path / "tolerated", dataset(120), tolerance=0.04)


def test_a_place_where_nothing_can_be_written_is_told_before_anything_is_read(tmp_path, monkeypatch):
    import shortlist.training.run as module

    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(module, "split_for_training", lambda *_: pytest.fail("nothing is read for a run that has no place"))
    with pytest.raises(InputError, match=r"^cannot write \S+/file/run: \S+/file is a file"):
        run(tmp_path / "file" / "run")
    usage = type(shutil.disk_usage(tmp_path))(0, 0, 0)  # of a folder without a disk, such as /proc
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match=r"^cannot write \S+/run: \S+ is not writable"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()
