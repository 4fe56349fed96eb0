"""The package as a whole: light to import, documented, small files, nothing that executes what it reads."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import shortlist

SOURCE = Path(shortlist.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = (
    "claims",
    "cli",
    "cluster",
    "data",
    "data.votes",
    "evaluation",
    "links",
    "losses",
    "methods",
    "metrics",
    "models",
    "kernels",
    "operators",
    "recipes",
    "report",
    "retrieval",
    "runs",
    "sets",
    "shift",
    "sklearn",
    "training",
    "web",
)
PUBLIC = ["shortlist", *(f"shortlist.{room}" for room in ROOMS)]
HEAVY = ["torchmetrics", "matplotlib", "pandas", "pyarrow", "sklearn", "scipy", "jinja2", "typer", "PIL", "ray"]


def loaded(statement):
    """The modules that are there after this statement, in an interpreter of its own."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import shortlist").isdisjoint([*HEAVY, "torch", "numpy"])


def test_using_sets_and_metrics_loads_neither_pictures_nor_tables():
    found = loaded("import shortlist.metrics, shortlist.sets; shortlist.Predictions; shortlist.metrics.set_size")
    assert "torch" in found
    assert found.isdisjoint(HEAVY)


def test_ray_is_loaded_by_work_on_a_cluster_alone():
    rooms = ", ".join(name for name in PUBLIC if name != "shortlist.cli")
    found = loaded(f"import {rooms}; import shortlist.cli.deciding, shortlist.cluster.measuring, shortlist.cluster.pooling")
    assert "shortlist.cluster.connecting" in found
    assert "ray" not in found
    for path in FILES:
        imports = any(line.strip().startswith(("import ray", "from ray")) for line in path.read_text("utf-8").splitlines())
        assert not imports or path.parent.name == "cluster", path


def test_importing_losses_does_not_load_the_compiler():
    """It takes longer to load than everything else together, and most programs never compile."""
    found = loaded("import shortlist.losses, shortlist.links, shortlist.sets")
    assert "torch" in found
    assert "torch._dynamo" not in found


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_sorted_importable_and_documented(name):
    module = importlib.import_module(name)
    assert inspect.getdoc(module)
    assert list(module.__all__) == sorted(set(module.__all__), key=lambda name: (not name.isupper(), name))
    for public in module.__all__:
        thing = getattr(module, public)
        own = thing.__doc__ if not inspect.isclass(thing) else thing.__dict__.get("__doc__")
        described = own or (public == "app" and thing.info.help)  # the program describes itself in its help
        assert described, f"{name}.{public} says nothing"
        assert len(described.strip()) > 15, f"{name}.{public} says little"


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "shortlist.cli"])
def test_public_methods_are_documented(name):
    module = importlib.import_module(name)
    things = {public: getattr(module, public) for public in module.__all__}
    silent = [
        f"{public}.{method}"
        for public, thing in things.items()
        if inspect.isclass(thing)
        for method, value in vars(thing).items()
        if not method.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | staticmethod))
        if not inspect.getdoc(value)
    ]
    assert silent == []


def test_every_public_package_is_in_the_list():
    packages = {f"shortlist.{path.parent.name}" for path in SOURCE.glob("*/__init__.py")}
    listing = {name for name in packages if hasattr(importlib.import_module(name), "__all__")}
    assert listing <= {*PUBLIC, "shortlist.predictions"}
    assert set(shortlist.__all__) == set(dir(shortlist))


def test_unknown_names_are_attribute_errors():
    for name in ("shortlist", "shortlist.metrics"):
        with pytest.raises(AttributeError, match=f"{name}.* nothing"):
            importlib.import_module(name).nothing  # noqa: B018


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_are_short_named_for_what_they_hold_and_never_unpickle(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert path.name not in ("utils.py", "helpers.py", "base.py", "common.py", "misc.py")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            roots = {name.split(".")[0] for name in names}
            assert roots.isdisjoint({"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"})
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            assert node.attr not in ("load", "save", "hub")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec")


def test_the_version_is_the_installed_one():
    assert importlib.import_module("importlib.metadata").version("shortlist") == shortlist.__version__


def test_the_program_runs_as_a_module():
    shown = subprocess.run([sys.executable, "-m", "shortlist", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["shortlist", shortlist.__version__]
