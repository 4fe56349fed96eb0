"""Two processes train what one trains: batch, augmentation, loss and gradient are those of the global batch."""

import pytest
import torch
from safetensors.torch import load_file

from tests import warm
from tests.training.small import run, weights

# Quasibinary training magnifies the last bit of float32 by a thousand in forty steps: it is compared in float64.
PROGRAM = """
import sys, torch
torch.set_num_threads(1)
from tests.training.small import dataset, run
from tests.training.test_processes import exactly, settings
folder, method, accumulate = sys.argv[1:]
exactly()
run(folder, dataset(90, multi=method in ("quasibinary", "two-way", "spa-label-pair")), **settings(method, int(accumulate)))
"""


def settings(method, accumulate=1):
    """A network without batch normalisation, whose batch of 13 no two processes share evenly; of "METHOD fused" the head is."""
    name, *fused = method.split()
    return {
        "method": name,
        "fused_head": bool(fused),
        "epochs": 3,
        "batch_size": 13,
        "accumulate": accumulate,
        "augmentation": "shift-flip",
        "ema": 0.9,
        "lr": 0.02,
    }


def exactly():
    """Train in float64 from here on, so that the order of sums does not show."""
    from shortlist.models.input_spec import InputSpec
    from shortlist.models.network import Network
    from shortlist.training import network as module

    prepare = InputSpec.prepare

    class Exact(Network):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            self.double()

    InputSpec.prepare = lambda self, batch: prepare(self, batch).double()
    module.Network = Exact


def train_with(processes, folder, method, accumulate=1):
    programs = warm.together(processes, PROGRAM, folder, method, accumulate)
    for program in programs:
        with program:
            _, errors = program.communicate()
        assert program.returncode == 0, errors[-2000:]
    tensors = load_file(folder / "checkpoint.safetensors")
    return {name: tensor for name, tensor in tensors.items() if name.startswith(("best.", "average.", "network."))}


def compare(tmp_path, method, accumulate=1):
    one, two = (train_with(processes, tmp_path / str(processes), method, accumulate) for processes in (1, 2))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert tensor.dtype == torch.float64
        assert (tensor - two[name]).abs().max() < 1e-6, name
    for name in ("val", "calibration", "test"):
        scores = [load_file(tmp_path / str(processes) / f"{name}.safetensors")["scores"] for processes in (1, 2)]
        assert (scores[0] - scores[1]).abs().max() < 1e-5


def test_two_processes_train_the_average_k_method_as_one_does(tmp_path):
    compare(tmp_path, "average-k")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cross-entropy", "quasibinary", "expected-positive", "two-way", "spa-label-pair"])
def test_two_processes_train_as_one_does(tmp_path, method):
    compare(tmp_path, method)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cross-entropy", "average-k", "cross-entropy fused"])
def test_two_processes_with_micro_batches_train_as_one_does(tmp_path, method):
    compare(tmp_path, method, accumulate=3)


def test_one_process_of_several_is_no_different_here(tmp_path):
    """The recipe alone decides: what the comparison above runs is what a plain call runs."""
    trained = run(tmp_path / "run", **settings("average-k"))
    assert all(tensor.dtype == torch.float32 for tensor in weights(trained).values())


def test_what_processes_cannot_share_is_refused(tmp_path, monkeypatch):
    from shortlist.errors import InputError
    from shortlist.training.run import _check_processes
    from tests.training.small import recipe

    class Several:
        num_processes = 4

    with pytest.raises(InputError, match="^method role .*one process"):
        _check_processes(recipe(method="role"), Several())
    with pytest.raises(InputError, match="for each of the 4 processes in each micro-batch, got 3"):
        _check_processes(recipe(batch_size=3), Several())
