"""The README's example runs where `make demo` has been run: its doctest gets a folder with what the demo makes."""

import pytest


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """A folder in which the demo was run."""
    from shortlist.cli.demo import demo

    folder = tmp_path_factory.mktemp("readme")
    demo(folder / "runs" / "demo")
    return folder


@pytest.fixture(autouse=True)
def _in_the_demo_folder(request, monkeypatch):
    if request.node.path.name == "README.md":
        monkeypatch.chdir(request.getfixturevalue("demo_folder"))
