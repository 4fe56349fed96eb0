"""The README's example runs where `shortlist demo --scores` has been run: its doctest gets a folder with what that makes."""

import os

import pytest

# Workers share the cores: threads of one would wait, spinning, for those of another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """A folder in which the demo was run."""
    from shortlist.cli.demo_scores import demo_scores

    folder = tmp_path_factory.mktemp("readme")
    demo_scores(folder / "runs" / "demo-scores")
    return folder


@pytest.fixture(autouse=True)
def _in_the_demo_folder(request, monkeypatch):
    if request.node.path.name == "README.md":
        monkeypatch.chdir(request.getfixturevalue("demo_folder"))
