"""The kernels run on the GPU, or in Triton's interpreter."""

import warnings

import pytest
import torch

from shortlist.kernels import use_kernels

pytest.importorskip("triton")


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_everywhere():
    # The interpreter computes with numpy, which warns of infinities that a GPU passes on.
    warnings.simplefilter("ignore", RuntimeWarning)
    with use_kernels("always"):
        yield
