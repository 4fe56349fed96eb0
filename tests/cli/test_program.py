"""The program itself: modules that the user names, and a help that people can read."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

from shortlist.cli.commands import COMMANDS, load_command
from shortlist.sets import SetRule
from shortlist.sets.orderings import Ordering
from shortlist.sets.registry import RULES

MODULE = """
from shortlist.sets import AverageError, Probability, SetRule, register_rule


class {name}(Probability):
    kind = "{name}"


@register_rule("{name}", "alpha")
def rule(alpha):
    return SetRule(f"{name}:{{alpha}}", {name}(), AverageError(alpha))
"""


@pytest.fixture
def module(tmp_path):
    """A module in the current folder that registers a rule of its own name; forgotten afterwards."""
    made = []

    def write(name, text=MODULE):
        (tmp_path / f"{name}.py").write_text(text.replace("{name}", name).replace("{{", "{").replace("}}", "}"))
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)
        RULES.pop(name, None)
        Ordering.kinds.pop(name, None)


def test_a_rule_of_a_named_module_works_in_every_command(run, module, old, new, tmp_path):
    name, path = module("careful_rules"), list(sys.path)
    done = run(
        "--import", name, "sets", new, "-r", f"{name}:0.2,floor:1", "-c", old, "--save-rule", "rule.safetensors", "--json"
    )
    assert done.code == 0
    assert sys.path == path
    assert SetRule.load(tmp_path / "rule.safetensors").text == f"{name}:0.2,floor:1"
    shown = run("--import", name, "evaluate", new, "-r", "rule.safetensors", "--csv")
    assert shown.code == 0
    assert f"{name}:0.2" in shown.out
    assert run("--import", name, "report", new, "-r", f"{name}:0.2", "-c", old).code == 0
    assert f"{name}:0.2" in (tmp_path / "report.html").read_text()


def test_without_the_module_the_message_says_that_it_must_be_imported(run, fails, module, old, new):
    name = module("forgotten_rules")
    assert run("--import", name, "sets", new, "-r", f"{name}:0.2", "-c", old, "--save-rule", "rule.safetensors").code == 0
    RULES.pop(name)
    Ordering.kinds.pop(name)
    assert "--import my_rules" in fails("sets", new, "-r", "rule.safetensors")
    assert "--import" in fails("sets", new, "-r", f"{name}:0.2")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("not_there", None, "--import: .*got 'not_there'"),
        ("raising_rules", "1 / 0", "--import: raising_rules .*ZeroDivisionError"),
        ("needing_rules", "import nowhere_at_all", "--import: needing_rules .*nowhere_at_all"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_sentence(fails, module, new, name, text, message):
    if text is not None:
        module(name, text)
    assert re.search(message, fails("--import", name, "sets", new, "-r", "top-k:1"))


@pytest.mark.parametrize("command", ["", *(name for name in COMMANDS if name not in ("demo", "retrieval-eval"))])
def test_flags_have_no_type_in_the_help(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run(*filter(None, [command]), "--help")
    assert shown.code == 0
    assert "--help" in shown.out
    assert "<bool>" not in shown.out
    assert "9223372036854775807" not in shown.out


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_wrong_usage(run, new, seed):
    outcome = run("sets", new, "-r", "top-k:1", "--seed", seed)
    assert outcome.code == 2
    assert "--seed" in outcome.err


def test_an_error_that_looks_like_a_coverage_is_warned_of(run, old, new):
    outcome = run("sets", new, "-r", "lac:0.9", "-c", old)
    assert outcome.code == 0
    assert "warning: alpha=0.9" in outcome.err
    assert run("sets", new, "-r", "lac:0.9", "-c", old, "--strict").code == 3


# What help costs

ASKED = """
import sys
sys.argv = ["shortlist", *{arguments!r}]
from shortlist.cli import main
try:
    main()
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""


GROUPS = {"data": ("votes", "info", "sheet", "build", "download"), "index": ("build", "add", "info")}
INSIDE = [[group, name] for group, names in GROUPS.items() for name in names]
SHARED = {"tune": {"train"}, "export": {"predict"}, "serve": {"predict"}}  # commands with options of another


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], *([*names, "--help"] for names in [*([name] for name in COMMANDS), *INSIDE])], ids=" ".join
)
def test_help_needs_neither_torch_nor_the_modules_of_commands(arguments):
    code = ASKED.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stderr.split())
    assert "Usage: shortlist" in done.stdout
    assert found.isdisjoint(["torch", "numpy", "pyarrow", "PIL", "matplotlib", "accelerate"])
    places = {listed.place.partition(":")[0] for name, listed in COMMANDS.items() if name not in arguments}
    of_asked = {COMMANDS[name].place.partition(":")[0] for name in arguments if name in COMMANDS}
    of_asked |= SHARED.get(arguments[0] if arguments else "", set())
    assert found.isdisjoint(f"shortlist.cli.{place}" for place in places - of_asked)


def declared():
    """Every command that is declared apart from what it does, with the module of that."""
    for name in COMMANDS:
        command = load_command(name)
        for one in getattr(command, "commands", {"": command}).values():
            inside = inspect.getclosurevars(one.callback).nonlocals if hasattr(one.callback, "__wrapped__") else {}
            callback = inside.get("callback", one.callback)  # typer wraps what it calls
            found = inspect.getclosurevars(callback).nonlocals
            if "module" in found:
                yield found["command"], importlib.import_module(f"shortlist.cli.{found['module']}")


def test_what_a_command_does_takes_the_options_that_it_declares():
    found = list(declared())
    assert {command.__name__ for command, _ in found} >= {"sets", "evaluate", "report", "predict", "votes", "info", "serve"}
    for command, module in found:
        assert list(inspect.signature(getattr(module, command.__name__)).parameters) == list(
            inspect.signature(command).parameters
        )


def test_defaults_that_help_shows_are_those_of_the_library():
    from shortlist.cli import options
    from shortlist.cli.report import PICTURE_MB
    from shortlist.evaluation.tally import BINS
    from shortlist.report.pictures import MOST_BYTES

    assert (options.BINS, PICTURE_MB) == (BINS, MOST_BYTES / 1e6)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    told = load_command(name).help
    assert COMMANDS[name].summary == " ".join(told.partition("\n\n")[0].split())


def test_the_help_of_the_program_lists_every_command(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("--help").out
    for name, listed in COMMANDS.items():
        assert re.search(rf"│ {name} +{re.escape(listed.summary)} +│", shown)
