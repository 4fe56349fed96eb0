"""Plots are drawn on pyplot figures, which stay open until they are closed."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    yield
    plt.close("all")
