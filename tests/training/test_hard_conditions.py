"""Training where things go wrong: killed on a GPU in half precision, workers killed, folders and disks that take nothing.

On a machine with a GPU: ``python -m pytest -m "slow or not slow" tests/training/test_hard_conditions.py``.
"""

import errno
import os
import random
import signal
import subprocess
import time

import psutil
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import shortlist as sl
from shortlist.errors import InputError
from shortlist.training import checkpoint, loaded_data
from shortlist.training.callbacks import Callback
from shortlist.training.interruption import Terminated
from shortlist.training.row_sources import WorkersDiedError
from tests import warm
from tests.training.small import run, same, weights
from tests.training.test_resume import CutAfter, PowerCut

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

KILLED = """
import sys, torch
from shortlist.training import train
from tests.training.small import dataset, recipe
chosen = recipe(method="average-k", epochs=12, backbone="resnet-8", lr=0.01, ema=0.9, augmentation="shift-flip",
    precision=sys.argv[3])
train(chosen, sys.argv[1], resume=sys.argv[2] == "resume", device="cuda", checkpoint_seconds=0.2, dataset=dataset(240))
print("ended", flush=True)
"""


def start(program, folder, how, *more):
    return warm.Program(program, folder, how, *more)


def killed_until_it_ends(program, folder, kills, life, *more):
    """Kill the training at random moments of its life, then let it end."""
    chance = random.Random(0)
    for _ in range(kills):
        child = start(program, folder, "resume" if (folder / "recipe.json").exists() else "new", *more)
        try:
            child.communicate(timeout=chance.uniform(0.4 * life, 0.9 * life))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.communicate()
    child = start(program, folder, "resume" if (folder / "recipe.json").exists() else "new", *more)
    out, err = child.communicate()
    assert "ended" in out, err[-2000:]


def check_resumed_as_whole(chosen, folder, how, **tolerance):
    """A training that is cut after seven steps and resumed ends with the weights of one that was not."""
    from shortlist.training import train

    whole = train(chosen, folder / "whole", **how)
    with pytest.raises(PowerCut):
        train(chosen, folder / "cut", callback=CutAfter(7), **how)
    again = train(chosen, folder / "cut", resume=True, **how)
    for name, expected in weights(whole).items():
        torch.testing.assert_close(weights(again)[name], expected, **tolerance)


@gpu
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float32"])
def test_kill_9_on_a_gpu_loses_nothing(tmp_path, precision):
    """The atomic additions of a backward pass come in any order, so that weights agree to a tolerance only."""
    began = time.monotonic()
    out, err = start(KILLED, tmp_path / "whole", "new", precision).communicate()
    assert "ended" in out, err[-2000:]
    killed_until_it_ends(KILLED, tmp_path / "cut", 3, time.monotonic() - began, precision)
    one, other = (load_file(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "cut"))
    assert one.keys() == other.keys()
    histories = [sl.runs.Run(tmp_path / name).history for name in ("whole", "cut")]
    assert [line["step"] for line in histories[0]] == [line["step"] for line in histories[1]]
    assert all(line["loss"] == pytest.approx(histories[1][n]["loss"], rel=0.1, abs=0.05) for n, line in enumerate(histories[0]))
    scores = [load_file(tmp_path / name / "test.safetensors")["scores"].softmax(1) for name in ("whole", "cut")]
    assert (scores[0] - scores[1]).abs().max() < 0.1
    assert all(tensor.isfinite().all() for tensor in other.values() if tensor.is_floating_point())


@gpu
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_goes_on_where_it_was_cut(tmp_path, precision):
    """The scale of float16 gradients goes on too: it has grown or shrunk since the beginning."""
    from tests.training.small import dataset, recipe

    how = {"device": "cuda", "checkpoint_seconds": 0.0, "dataset": dataset()}
    chosen = recipe(epochs=3, precision=precision, lr=0.01)
    check_resumed_as_whole(chosen, tmp_path, how, rtol=2e-2, atol=5e-3)


@gpu
@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_a_gradient_that_is_not_finite_on_a_gpu_is_seen_a_step_later_and_never_saved(tmp_path, monkeypatch, precision):
    from shortlist.training import train
    from shortlist.training.failures import NonFiniteError
    from tests.training.small import dataset, recipe
    from tests.training.test_gradients import poison

    poison({6}, monkeypatch)
    with pytest.raises(NonFiniteError, match="the gradient of step 7 is nan"):
        train(recipe(precision=precision), tmp_path / "run", device="cuda", checkpoint_seconds=0.0, dataset=dataset())
    held = load_file(tmp_path / "run" / "checkpoint.safetensors")
    assert all(tensor.isfinite().all() for tensor in held.values() if tensor.is_floating_point())


@gpu
def test_float16_gradients_that_overflow_at_first_are_no_reason_to_stop(tmp_path):
    from shortlist.training import train
    from tests.training.small import dataset, recipe

    trained = train(recipe(precision="float16", epochs=6, lr=0.01), tmp_path / "run", device="cuda", dataset=dataset())
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]


def photos(folder, each=24):
    """Pictures in files, so that worker processes have something to decode."""
    generator = torch.Generator().manual_seed(0)
    for label, name in enumerate(("ash", "elm", "oak")):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            noise = torch.randint(0, 60, (12, 12, 3), generator=generator, dtype=torch.uint8)
            noise[..., label] += 150
            Image.fromarray(noise.numpy()).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture
def streamed(monkeypatch):
    """Pictures never fit into memory, so that two workers decode them."""
    monkeypatch.setattr(loaded_data, "_limits", lambda *_: loaded_data._Limits(0, 0))
    monkeypatch.setattr("shortlist.training.row_sources.cores_per_process", lambda: 2)


QUICK = {
    "method": "cross-entropy",
    "backbone": "plain-8",
    "epochs": 3,
    "batch_size": 12,
    "size": 8,
    "lr": 0.02,
    "device": "cpu",
}
FORKED = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class AtStep(Callback):
    """Does something after a step."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def step_ended(self, step, loss):
        if step == self.step:
            self.action()


def workers():
    own = psutil.Process()
    return [child for child in own.children() if child.cmdline() == own.cmdline()]  # forked, not started anew


@FORKED
def test_a_killed_worker_is_a_sentence_and_the_run_goes_on(tmp_path, streamed):
    data = photos(tmp_path / "photos")
    whole = sl.train(data, folder=tmp_path / "whole", report=False, **QUICK)
    callback = AtStep(5, lambda: [worker.kill() for worker in workers()])
    with pytest.raises(WorkersDiedError, match="worker process .* killed"):
        sl.train(data, folder=tmp_path / "cut", callback=callback, report=False, **QUICK)
    again = sl.train(folder=tmp_path / "cut", resume=True, device="cpu", report=False)
    assert torch.equal(whole.predictions().scores, again.predictions().scores)


@FORKED
def test_sigterm_that_reaches_the_workers_too_keeps_a_checkpoint(tmp_path, streamed):
    """As when a batch system stops a job: every process gets the signal."""
    data = photos(tmp_path / "photos")
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def everybody():
        signal.raise_signal(signal.SIGTERM)
        for worker in workers():
            worker.kill()
            worker.wait(10)

    try:
        with pytest.raises(Terminated, match="stopped after step"):
            sl.train(data, folder=tmp_path / "cut", callback=AtStep(4, everybody), report=False, **QUICK)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists()
    assert len(sl.train(folder=tmp_path / "cut", resume=True, device="cpu", report=False).history) == 3


STREAMS = """
import sys, torch
torch.set_num_threads(1)
import shortlist as sl
from shortlist.training import loaded_data, row_sources
from tests.training.test_hard_conditions import QUICK
loaded_data._limits = lambda *_: loaded_data._Limits(0, 0)
row_sources.cores_per_process = lambda: 2
if sys.argv[2] == "resume":
    sl.train(folder=sys.argv[1], resume=True, device="cpu", report=False)
else:
    sl.train(sys.argv[3], folder=sys.argv[1], report=False, **(QUICK | {"epochs": 8}))
print("ended", flush=True)
"""


@pytest.mark.slow
def test_kill_9_with_workers_loses_nothing_and_leaves_no_lock(tmp_path):
    data = photos(tmp_path / "photos")
    began = time.monotonic()
    out, err = start(STREAMS, tmp_path / "whole", "new", str(data)).communicate()
    assert "ended" in out, err[-2000:]
    killed_until_it_ends(STREAMS, tmp_path / "cut", 5, time.monotonic() - began, str(data))
    one, other = (load_file(tmp_path / name / "test.safetensors")["scores"] for name in ("whole", "cut"))
    assert torch.equal(one, other)


def timm_network(classes):
    """A network of timm, made by name."""
    import timm

    return timm.create_model("resnet10t", num_classes=classes)


def torchvision_network(classes):
    """A network of torchvision."""
    from torchvision.models import resnet18

    return resnet18(num_classes=classes)


def installed(name):
    """Whether the library can be imported; torchvision raises a RuntimeError beside a torch of another build."""
    try:
        __import__(name)
    except (ImportError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_networks_of_other_libraries_are_trained_cut_and_resumed(tmp_path, library):
    if not installed(library):
        pytest.skip(f"needs {library}")
    from tests.training.small import dataset, recipe

    make = {"timm": timm_network, "torchvision": torchvision_network}[library]
    how = {"dataset": dataset(), "checkpoint_seconds": 0.0, "device": "auto", "network": make}
    chosen = recipe(epochs=2, lr=0.01).with_settings(size=32)
    check_resumed_as_whole(chosen, tmp_path, how, rtol=5e-2, atol=1e-2)
    loaded = sl.runs.Run(tmp_path / "cut", network=make).classifier
    assert loaded.predict(dataset().splits["test"].inputs).sets.shape == (20, 5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("deep", [False, True])
def test_a_folder_that_may_not_be_written_is_a_sentence(tmp_path, deep):
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    with pytest.raises(InputError, match="cannot write .*locked is not writable: choose another folder"):
        run(place / "run" if deep else place)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("error", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_only_looks_writable_is_a_sentence(tmp_path, monkeypatch, error):
    """Access lists and read-only mounts are not seen by ``os.access`` everywhere."""
    opened = os.open

    def refuses(path, flags, *more, **others):
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(error, os.strerror(error), str(path))
        return opened(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(InputError, match=rf"^cannot write .*{os.strerror(error).lower()}"):
        run(tmp_path / "run")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_may_no_longer_be_written_to_is_not_resumed(tmp_path):
    run(tmp_path / "run")
    (tmp_path / "run").chmod(0o500)
    try:
        with pytest.raises(InputError, match="cannot write to .*run: permission denied"):
            run(tmp_path / "run", resume=True)
    finally:
        (tmp_path / "run").chmod(0o700)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("where", ["write", "flush"])
@pytest.mark.parametrize("number", [0, 3])
def test_a_disk_that_is_full_at_a_checkpoint_keeps_the_one_before(tmp_path, monkeypatch, code, where, number):
    whole = run(tmp_path / "whole")
    count = iter(range(10**6))
    holder, name = (checkpoint, "save_file") if where == "write" else (checkpoint.os, "fsync")
    usual = getattr(holder, name)

    def full(*arguments, **keywords):
        if next(count) == number:
            raise OSError(code, os.strerror(code))
        return usual(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(holder, name, full)
        with pytest.raises(InputError, match=r"cannot write the checkpoint .*the previous one is kept.*resume=True"):
            run(tmp_path / "cut")
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists() == (number > 0)
    assert not [entry for entry in (tmp_path / "cut").iterdir() if entry.name.startswith(".")]
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True)))


def test_a_tiny_module_is_a_network_like_any_other(tmp_path):
    """What the tests above do with timm and torchvision, where neither is installed."""
    from shortlist.training import train
    from tests.training.small import dataset, recipe

    def make(classes):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, classes))

    how = {"dataset": dataset(), "checkpoint_seconds": 0.0, "device": "cpu", "network": make}
    whole = train(recipe(), tmp_path / "whole", **how)
    with pytest.raises(PowerCut):
        train(recipe(), tmp_path / "cut", callback=CutAfter(7), **how)
    assert same(weights(whole), weights(train(recipe(), tmp_path / "cut", resume=True, **how)))
