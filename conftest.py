"""Settings that all tests and all examples in docstrings and pages share."""

import os
import signal

import pytest
import torch

# Workers share the cores: threads of one would wait, spinning, for those of another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Without a GPU the kernels run in Triton's interpreter, which must be asked for before anything imports triton.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shell starts what runs in the background with Ctrl-C ignored; tests that interrupt a training send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _examples_register_for_themselves(request):
    """What the example of a docstring or a page registers is forgotten after it."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    from shortlist.data.sources import SOURCES
    from shortlist.methods.menu import METHODS
    from shortlist.sets.registry import MODIFIERS, RULES

    tables: list[dict] = [SOURCES, METHODS, MODIFIERS, RULES]
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)
