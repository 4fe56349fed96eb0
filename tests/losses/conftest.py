"""One thread for the tests of losses: their tensors are tiny, and threads that wait for each other cost more than the work."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
