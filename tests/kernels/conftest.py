"""The kernels run on the GPU, or in Triton's interpreter."""

import pytest
import torch

from shortlist.kernels import use_kernels

pytest.importorskip("triton")


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_everywhere():
    with use_kernels("always"):
        yield
