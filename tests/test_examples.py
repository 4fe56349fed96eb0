"""Each example runs as it stands, and is on the page of examples."""

import re

import pytest
from docs.run_examples import MARK, ROOT, kept, outcome, parts, run

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def test_the_examples_run_and_print_something():
    run(EXAMPLES)
    assert all(kept(name).read_text(encoding="utf-8").strip() for name in EXAMPLES)


def test_a_failing_example_tells_why():
    assert "No such file" in outcome("no_such_example")[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_says_what_it_shows(name):
    title, text, code = parts(name)
    assert title
    assert text
    assert len(code.splitlines()) <= 40


def test_the_page_shows_every_example_once():
    assert sorted(MARK.findall((ROOT / "docs/examples.md").read_text(encoding="utf-8"))) == EXAMPLES


def test_the_first_code_of_the_readme_runs_as_it_stands(capsys):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[0]
    assert len(code.strip().splitlines()) <= 12
    exec(compile(code, "README.md", "exec"), {})
    assert "coverage" in capsys.readouterr().out
