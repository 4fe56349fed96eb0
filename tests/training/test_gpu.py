"""Training on a GPU: what only a real one can show."""

import re

import pytest
import torch

from shortlist.training import train
from shortlist.training.criterion import Criterion
from shortlist.training.failures import OutOfMemoryError
from tests.training.small import dataset, recipe, weights
from tests.training.test_resume import CutAfter, PowerCut

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

MULTI = ("quasibinary", "two-way", "bce")
METHODS = ["average-k", "ldam", "noised-topk", "cross-entropy", *MULTI]
GIGABYTE = 2**30


def run(folder, data, *, resume=False, callback=None, **settings):
    """Train, on the GPU."""
    return train(
        recipe(**settings), folder, resume=resume, device="cuda", callback=callback, checkpoint_seconds=0.0, dataset=data
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_training_that_was_cut_goes_on(tmp_path, method):
    settings = {"method": method, "epochs": 3, "augmentation": "shift-flip", "ema": 0.9, "backbone": "resnet-8", "lr": 0.01}
    data = dataset(multi=method in MULTI)
    whole = run(tmp_path / "whole", data, **settings)
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", data, callback=CutAfter(7), **settings)
    again = run(tmp_path / "cut", data, resume=True, **settings)
    assert [line["step"] for line in again.history] == [line["step"] for line in whole.history]
    for name, expected in weights(whole).items():  # atomic additions of the backward pass come in any order
        torch.testing.assert_close(weights(again)[name], expected, rtol=1e-2, atol=1e-3)
    answers = again.classifier.predict(data.splits["test"].inputs)
    assert answers.sets.shape == (20, 5)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")  # likewise
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # of torch, about itself
def test_a_compiled_training_in_half_precision_learns(tmp_path):
    trained = run(
        tmp_path / "run", dataset(600), compile=True, precision="bfloat16", epochs=8, backbone="resnet-8", batch_size=60
    )
    assert trained.history[-1]["loss"] < 0.5 * trained.history[0]["loss"]


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")  # likewise
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # of torch, about itself
@pytest.mark.parametrize("method", ["cross-entropy", "average-k"])
def test_a_loss_in_the_recorded_graph_trains_like_one_outside(tmp_path, method, monkeypatch):
    settings = {"method": method, "compile": True, "epochs": 2, "backbone": "resnet-8", "batch_size": 60, "lr": 0.01}
    inside = run(tmp_path / "inside", dataset(600), **settings)
    monkeypatch.setattr(Criterion, "recordable", False)
    outside = run(tmp_path / "outside", dataset(600), **settings)
    for one, other in zip(inside.history, outside.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-2)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")
@pytest.mark.parametrize("method", ["cross-entropy", "noised-topk", "average-k", "ldam"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_with_a_fused_head_learns_the_same(tmp_path, method, compiled):
    settings = {"method": method, "precision": "bfloat16", "epochs": 4, "backbone": "plain-8", "batch_size": 60, "lr": 0.02}
    plain = run(tmp_path / "plain", dataset(600), fused_head=False, **settings)
    fused = run(tmp_path / "fused", dataset(600), fused_head=True, compile=compiled, **settings)
    for one, other in zip(plain.history, fused.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=0.1)


def test_what_is_said_to_fit_fits(tmp_path):
    data, size = dataset(6000), 6000
    run(tmp_path / "first", dataset(), backbone="resnet-18", epochs=1)  # NVIDIA's libraries take their own memory first
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(free - GIGABYTE // 4, dtype=torch.uint8, device="cuda")
    try:
        with pytest.raises(OutOfMemoryError, match="would fit") as caught:
            run(tmp_path / "full", data, backbone="resnet-18", batch_size=size, epochs=1)
        found = re.search(r"about (\d+) would fit", str(caught.value))
        assert found is not None
        assert 1 < int(found[1]) < size
        torch.cuda.empty_cache()
        run(tmp_path / "fits", data, backbone="resnet-18", batch_size=int(found[1]), epochs=1)
    finally:
        del hog
        torch.cuda.empty_cache()
