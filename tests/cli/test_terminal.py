"""What reaches the terminal: no control character of a name, whatever command prints it, and whatever it prints it in."""

import ast
import io
import re
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
from rich.text import Text

import shortlist.cli
from shortlist import Predictions
from shortlist.cli import console
from shortlist.cli.commands import COMMANDS, load_command
from shortlist.cli.console import SafeConsole, emit
from shortlist.words import printable
from tests.cli.conftest import draw
from tests.data.drawings import write_picture

EVIL = "\x1b[31m\nforged\r\x9b2J\u202e\x7f"  # recolours, forges a line, overwrites it, clears the screen, turns the direction
CLASSES = [f"{name}{EVIL}" for name in ("ash", "beech", "elm", "fir", "oak")]
QUICK = ("--epochs", "1", "--set", "batch_size=16", "--device", "cpu")


def commands():
    """Every command, those in groups as well."""
    for name in COMMANDS:
        below = getattr(load_command(name), "commands", None)
        yield from [f"{name} {sub}" for sub in below] if below else [name]


def check_harmless(*texts):
    for text in texts:
        controls = [sign for sign in text if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
        assert not controls, text
        assert not re.search(r"^forged", text, re.MULTILINE), text


@pytest.fixture
def evil(tmp_path):
    """Files of every kind, whose names, classes, ids and columns are hostile; by short names."""
    files = {name: tmp_path / f"{name}{EVIL}{suffix}" for name, suffix in (("new", ".npz"), ("old", ".npz"), ("text", ".txt"))}
    for seed, name in enumerate(("old", "new")):
        draw(60, seed=seed, many=True, classes=CLASSES, ids=f"row{EVIL}").save(files[name])
    for seed, name in enumerate(("before", "after")):  # one label a row
        files[name] = tmp_path / f"{name}{EVIL}.npz"
        draw(60, seed=seed, classes=CLASSES, ids=f"row{EVIL}").save(files[name])
    files["none"] = tmp_path / f"none{EVIL}"
    files["text"].write_text("x")
    columns = files["columns"] = tmp_path / f"columns{EVIL}.csv"
    columns.write_text(f'id,"place{EVIL}"\n"{Predictions.load(files["new"]).ids[0]}",1\n', newline="")
    numbers = np.random.default_rng(0).normal(size=(60, 2)).round(3).tolist()
    table = files["table"] = tmp_path / f"table{EVIL}.csv"
    lines = [f'{a},{b},"{CLASSES[n % 3]}"' for n, (a, b) in enumerate(numbers)]
    table.write_text("\n".join([f'"width{EVIL}","height{EVIL}",label', *lines]), newline="")
    votes = files["votes"] = tmp_path / f"votes{EVIL}.csv"
    votes.write_text(f'user,item,label\n"ann{EVIL}","a{EVIL}","oak{EVIL}"\n"bob{EVIL}","a{EVIL}","elm{EVIL}"\n', newline="")
    pictures = files["pictures"] = tmp_path / f"pictures{EVIL}"
    for name in CLASSES[:2]:
        for number in range(6):
            write_picture(pictures / name / f"{number}{EVIL}.png", (40 * number, 30, 30))
        (pictures / name / f"broken{EVIL}.png").write_bytes(b"no picture")
    return files


# For each command what it is called with: things that work, and things that are refused.
CALLS = {
    "sets": lambda f: [
        ("sets", f["new"], "-r", "threshold:0.5"),
        ("sets", f["new"], "-r", "threshold:0.5", "--out", f["none"].with_suffix(".jsonl")),
        ("sets", f["new"], "-r", EVIL),
        ("sets", f["none"], "-r", "top-k:1"),
        ("sets", f["new"], "-r", "top-k:1", EVIL),
        ("sets", f["new"], "-r", "top-k:1", f"--{EVIL}"),
        ("sets", f["new"], "-r", "top-k:1", "--split", EVIL),
        ("sets", f["text"], "-r", "top-k:1"),
        ("sets", f["new"], "-r", "top-k:1", "--scores-key", EVIL),
    ],
    "evaluate": lambda f: [
        ("evaluate", f["new"], f["old"], "-r", "threshold:0.5", "-r", "threshold:0.2"),
        ("evaluate", f["new"], "-r", "per-label:f1", "-c", f["old"]),
        ("evaluate", f["new"], "-r", "per-label:f1", "--same-rows"),
    ],
    "report": lambda f: [
        ("report", f["new"], "-r", "threshold:0.5", "--title", EVIL, "--out", f["none"].with_suffix(".html")),
        ("report", f["new"], "-r", "threshold:0.5", "--out", f["none"]),
    ],
    "calibrate": lambda f: [
        ("calibrate", f["new"], "--on", f["old"], "-m", "platt", "--out", f["none"].with_suffix(".npz")),
        ("calibrate", f["new"], "--on", f["old"], "-m", EVIL, "--out", "x.npz"),
        ("calibrate", f["none"], "--out", "x.npz"),
    ],
    "weights": lambda f: [
        ("weights", f["after"], "-c", f["before"], "--by", by, "--least", "1", "--out", f["none"].with_suffix(".npz"))
        for by in ("classes", "inputs", EVIL)
    ],
    "shares": lambda f: [
        ("shares", f["after"], "-c", f["before"]),
        ("shares", f["after"], "-c", f["none"]),
        ("shares", f["text"], "-c", f["before"]),
        ("shares", f["after"], "-c", f["before"], "--method", EVIL),
    ],
    "watch": lambda f: [
        ("sets", f["after"], "-r", "lac:0.2", "-c", f["before"], "--save-rule", f["none"].with_suffix(".safetensors")),
        ("watch", f["none"].with_suffix(".safetensors"), f["after"], "--reference", f["before"]),
        ("watch", f["none"].with_suffix(".safetensors"), f["none"]),
        ("watch", f["text"], f["after"]),
    ],
    "data votes": lambda f: [
        ("data", "votes", f["votes"], "-r", "majority", "--out", f["none"].with_suffix(".csv")),
        ("data", "votes", f["votes"], "-r", EVIL),
        ("data", "votes", f["votes"], "-r", "majority", "--user-column", EVIL),
    ],
    "data info": lambda f: [
        ("data", "info", f["pictures"]),
        ("data", "info", f["pictures"], "--check"),
        ("data", "info", f["table"]),
        ("data", "info", f["none"]),
        ("data", "info", f"{EVIL}:{f['none']}"),
        ("data", "info", f"{f['table']},{EVIL}=3"),
        ("data", "info", f"{f['table']},label_column={EVIL}"),
    ],
    "data sheet": lambda f: [
        ("data", "sheet", f["pictures"], "--out", f["none"].with_suffix(".png")),
        ("data", "sheet", f["pictures"], "--only", EVIL),
        ("data", "sheet", f["pictures"], "--split", EVIL),
    ],
    "data build": lambda f: [
        ("data", "build", f["pictures"], f["none"], "--tolerance", "0.5"),
        ("data", "info", f["none"]),
        ("data", "build", f["pictures"], f["none"]),
        ("data", "build", f["pictures"], f["pictures"] / "inside"),
    ],
    "data download": lambda f: [("data", "download", EVIL, f["none"])],
    "train": lambda f: [
        ("train", f["table"], "-k", "2", "--out", f["none"], "--no-tensorboard", *QUICK),
        ("train", f["table"], "-k", "2", "--out", f["none"], *QUICK),
        ("evaluate", f["none"]),
        ("report", f["none"]),
        ("train", "--resume", "--out", f["none"], "--set", f"{EVIL}=3"),
        ("train", f["none"] / EVIL),
        ("train", "--recipe", EVIL),
    ],
    "tune": lambda f: [
        ("tune", f["table"], "-k", "2", "--grid", "lr=0.1", "--set", "epochs=1", "--out", f["none"], "--device", "cpu"),
        ("tune", f["table"], "-k", "2", "--grid", EVIL, "--out", f["none"]),
    ],
    "recipes": lambda f: [("recipes",), ("recipes", EVIL)],
    "predict": lambda f: [
        ("train", f["table"], "-k", "2", "--out", "run", "--no-tensorboard", *QUICK),
        ("predict", "run", f["table"]),
        ("predict", "run", f["pictures"]),
        ("predict", "run", f["none"]),
        ("predict", f["pictures"], f["table"]),
        ("predict", f["none"], f["table"]),
    ],
    "export": lambda f: [("export", f["none"], "--out", "x.onnx"), ("export", f["pictures"], "--out", f["none"])],
    "index build": lambda f: [
        ("index", "build", f["new"], f["none"], "--columns", f["columns"]),
        ("index", "build", f["new"], f["none"]),
        ("index", "build", f["new"], "other", "--pictures", f["pictures"]),
        ("index", "build", f["new"], "other", "--columns", f["votes"]),
    ],
    "index add": lambda f: [
        ("index", "build", f["new"], f["none"], "--columns", f["columns"]),
        ("index", "add", f["old"], f["none"]),
        ("index", "add", f["old"], f["none"]),
    ],
    "index delete": lambda f: [
        ("index", "build", f["new"], f["none"]),
        ("index", "delete", f["none"], Predictions.load(f["new"]).ids[3]),
        ("index", "delete", f["none"], EVIL),
        ("index", "delete", f["none"], "--ids-from", f["pictures"]),
    ],
    "index compact": lambda f: [("index", "build", f["new"], f["none"]), ("index", "compact", f["none"])],
    "index info": lambda f: [
        ("index", "build", f["new"], f["none"], "--columns", f["columns"]),
        ("index", "info", f["none"], "--labels", "--check"),
        ("index", "info", f["pictures"]),
    ],
    "search": lambda f: [
        ("index", "build", f["new"], f["none"], "--columns", f["columns"]),
        ("search", "count > 1", f["none"]),
        ("search", f'"{CLASSES[0]}" and not "{CLASSES[1]}"', f["none"]),
        ("search", f'"{CLASSES[0]}x"', f["none"]),
        ("search", f"oak{EVIL}", f["none"]),
        ("search", "oak", f["none"]),
        ("search", "count > 1", f["none"], "--html", f["none"].with_suffix(".html")),
        ("search", "count > 1", f["none"], "--engine", EVIL),
        ("search", "count > 1", f["text"]),
    ],
    "retrieval-eval": lambda f: [
        ("retrieval-eval", f["new"], "--longest", "2"),
        ("retrieval-eval", f["new"], f["new"]),
        ("retrieval-eval", f["new"], "--longest", "1", "--plot", f["none"].with_suffix(".svg")),
    ],
    "serve": lambda f: [("serve", f["none"]), ("serve", f["pictures"]), ("serve", f["pictures"], "--host", EVIL)],
    "reproduce": lambda f: [("reproduce", "--list"), ("reproduce", EVIL), ("reproduce", "--data", f["none"])],
    "demo": lambda f: [("demo", "--scores", "--out", f["none"])],
}


def test_every_command_is_called_with_hostile_names():
    assert set(CALLS) == set(commands())


@pytest.mark.parametrize("command", CALLS)
def test_names_reach_the_terminal_as_escapes(command, evil, run):
    for number, arguments in enumerate(CALLS[command](evil)):
        outcome = run(*arguments)
        fails = number or command in ("data download", "export", "serve")  # the others come to print
        assert fails or outcome.code == 0, outcome.err
        assert outcome.out or outcome.err, arguments
        assert "Traceback" not in outcome.err, arguments
        check_harmless(outcome.out, outcome.err)


def test_an_unexpected_error_and_a_foreign_warning_are_harmless_too(run, new, monkeypatch):
    def fail(*_):
        warnings.warn(f"careful{EVIL}", RuntimeWarning, stacklevel=1)
        raise RuntimeError(f"broken{EVIL}")

    monkeypatch.setattr("shortlist.cli.deciding.prepare_all", fail)
    monkeypatch.setattr(warnings, "filters", [])
    outcome = run("sets", new, "-r", "top-k:1")
    assert outcome.code == 1
    assert "RuntimeWarning: careful" in outcome.err
    assert "Traceback" in outcome.err
    assert "RuntimeError: broken\\x1b[31m" in outcome.err
    assert not set("\x1b\r\x9b\u202e\x7f") & set(outcome.err)


def test_only_the_styles_of_the_console_reach_a_terminal():
    out = io.StringIO()
    SafeConsole(file=out, force_terminal=True, color_system="standard", width=80).print(Text(EVIL, style="bold"))
    assert "\x1b[1m" in out.getvalue()
    assert "\\x1b[31m" in out.getvalue()
    assert not set("\r\x9b\u202e\x7f") & set(out.getvalue())
    assert "\x1b[31m" not in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_data_are_exact_in_a_pipe_and_harmless_on_a_terminal(terminal, monkeypatch):
    out = io.StringIO()
    out.isatty = lambda: terminal
    monkeypatch.setattr("sys.stdout", out)
    emit(f"{EVIL}\n")
    assert (out.getvalue() == f"{EVIL}\n") is not terminal
    assert ("\x1b" in out.getvalue()) is not terminal
    assert out.getvalue().endswith("\n")


def test_a_message_over_a_progress_bar_is_harmless():
    out = io.StringIO()
    console.say(f"reading{EVIL}", console=SafeConsole(file=out))
    check_harmless(out.getvalue())
    assert out.getvalue() == printable(f"reading{EVIL}") + "\n"


def test_nothing_prints_but_the_console():
    """No other file of the command line writes to the streams, whatever the spelling."""
    folder = Path(shortlist.cli.__file__).parent
    around = {"print", "echo", "secho", "Console", "write", "writelines", "print_exc", "showwarning", "print_json"}
    for path in folder.glob("*.py"):
        if path.name == "console.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                of_stream = name in ("write", "writelines") and "std" not in ast.unparse(called)
                assert name not in around or of_stream, f"{path.name}:{node.lineno}"
