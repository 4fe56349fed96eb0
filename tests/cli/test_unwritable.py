"""Places where nothing can be written: whatever the command, one sentence with the path, exit code 1, and nothing lost."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import draw
from tests.cli.test_terminal import commands
from tests.data.drawings import write_picture
from tests.retrieval.small import predictions

QUICK = ("--epochs", "1", "--set", "batch_size=16", "--device", "cpu", "--no-tensorboard")
WRITES = {
    "sets": lambda out: ("sets", "new.npz", "-r", "top-k:1", "--out", f"{out}.jsonl"),
    "sets rule": lambda out: ("sets", "new.npz", "-r", "lac:0.1", "-c", "old.npz", "--save-rule", f"{out}.safetensors"),
    "report": lambda out: ("report", "new.npz", "-r", "top-k:1", "--out", f"{out}.html"),
    "calibrate": lambda out: ("calibrate", "new.npz", "--on", "old.npz", "--out", f"{out}.npz"),
    "shares": lambda out: ("shares", "new.npz", "-c", "old.npz", "--out", f"{out}.npz"),
    "weights": lambda out: ("weights", "new.npz", "-c", "old.npz", "--by", "classes", "--least", "1", "--out", f"{out}.npz"),
    "data votes": lambda out: ("data", "votes", "votes.csv", "-r", "majority", "--out", f"{out}.csv"),
    "data votes users": lambda out: ("data", "votes", "votes.csv", "-r", "majority", "--users", f"{out}.parquet"),
    "data sheet": lambda out: ("data", "sheet", "pictures", "--out", f"{out}.png"),
    "data build": lambda out: ("data", "build", "pictures", out),
    "data download": lambda out: ("data", "download", "omniglot", out),
    "train": lambda out: ("train", "table.csv", "-k", "1", "--out", out, *QUICK),
    "tune": lambda out: ("tune", "table.csv", "-k", "1", "--grid", "lr=0.1", "--out", out, "--device", "cpu"),
    "predict": lambda out: ("predict", "classifier", "table.csv", "--out", f"{out}.jsonl"),
    "predict scores": lambda out: ("predict", "classifier", "table.csv", "--out", f"{out}.safetensors"),
    "predict parts": lambda out: ("predict", "classifier", "table.csv", "--out", out),
    "export": lambda out: ("export", "classifier", "--out", f"{out}.onnx"),
    "index build": lambda out: ("index", "build", "many.safetensors", out),
    "search": lambda out: ("search", "fork", "index", "--html", f"{out}.html"),
    "retrieval-eval": lambda out: ("retrieval-eval", "labelled.npz", "--longest", "1", "--plot", f"{out}.svg"),
    "reproduce": lambda out: ("reproduce", "garcin-2023-sizes", "--quick", "--seeds", "1", "--results", f"{out}.jsonl"),
    "demo": lambda out: ("demo", "--scores", "--out", out),
}
READ_ONLY = ("evaluate", "data info", "recipes", "index info")  # commands that write nothing
CONTINUED = ("watch",)  # a file that is written again: test_watch_command tries it
IN_PLACE = ("index add", "index delete", "index compact")  # commands that change an index
BY_SQLITE = ("serve",)  # a file that SQLite opens: test_serve_command tries it


@pytest.fixture
def here(tmp_path):
    """What the commands read."""
    from tests.models.classifiers import fitted, of_features

    draw(60, seed=0).save(tmp_path / "old.npz")
    draw(60, seed=1).save(tmp_path / "new.npz")
    draw(60, seed=2, many=True).save(tmp_path / "labelled.npz")
    predictions(20).save(tmp_path / "many.safetensors")
    (tmp_path / "votes.csv").write_text("user,item,label\nann,a,oak\nbob,a,oak\nann,b,elm\n")
    classifier = fitted(of_features(), "lac:0.3")
    classifier.save(tmp_path / "classifier")
    width = classifier.inputs.size
    numbers = np.random.default_rng(0).normal(size=(60, width))
    head = ",".join([*(f"x{column}" for column in range(width)), "label"])
    lines = [",".join([*(f"{value:.3f}" for value in row), classifier.classes[n % 3]]) for n, row in enumerate(numbers)]
    (tmp_path / "table.csv").write_text("\n".join([head, *lines]))
    for number in range(12):
        write_picture(tmp_path / "pictures" / ("ash", "oak")[number % 2] / f"{number}.png", (20 * number, 9, 9))
    return tmp_path


def test_every_command_that_writes_is_tried():
    assert {" ".join(name.split()[:2]) if name.split()[0] in ("data", "index") else name.split()[0] for name in WRITES} | set(
        READ_ONLY
    ) | set(IN_PLACE) | set(CONTINUED) | set(BY_SQLITE) == set(commands())


def snapshot(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("how", ["a file in the way", "refused by the system"])
def test_a_place_that_cannot_be_written_is_one_sentence(name, how, here, run, monkeypatch):
    if name == "search":
        assert run("index", "build", "many.safetensors", "index").code == 0
    if how == "a file in the way":
        (here / "closed").write_text("a file")
    else:
        (here / "closed").mkdir()
        refuse_below(here / "closed", monkeypatch)
    before = snapshot(here)
    arguments = WRITES[name](os.path.join("closed", "out"))
    outcome = run(*arguments)
    assert outcome.code == 1, outcome.err
    assert "Traceback" not in outcome.err
    (sentence,) = (line for line in outcome.err.splitlines() if line.startswith("error: "))
    assert "closed" in sentence
    assert ".partial" not in sentence
    assert snapshot(here) == before


def refuse_below(folder, monkeypatch):
    """Permission denied for whatever creates something there; root, who runs the tests, is refused nothing by the system."""

    access, make, open_file = os.access, os.mkdir, os.open

    def check(path, creates):
        inside = isinstance(path, str | os.PathLike) and Path(path).absolute().is_relative_to(folder)
        if inside and creates and Path(path).absolute() != folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def mkdir(path, *given, **options):
        check(path, creates=True)
        return make(path, *given, **options)

    def opened(path, flags, *given, **options):
        check(path, creates=bool(flags & os.O_CREAT))
        return open_file(path, flags, *given, **options)

    def may(path, mode):
        return not (mode & os.W_OK and Path(path).absolute() == folder) and access(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "access", may)


@pytest.mark.parametrize("command", IN_PLACE)
def test_an_index_that_may_not_be_written_stays_as_it_is(command, here, run, fails, monkeypatch):
    assert run("index", "build", "many.safetensors", "index").code == 0
    predictions(5, ids=list("abcde")).save(here / "more.safetensors")
    before = snapshot(here / "index")
    refuse_below(here / "index", monkeypatch)
    arguments = {"index add": ("index", "add", "more.safetensors", "index"), "index delete": ("index", "delete", "index", "3")}
    sentence = fails(*arguments.get(command, ("index", "compact", "index")))
    assert sentence == "cannot write to index: permission denied"
    assert snapshot(here / "index") == before
