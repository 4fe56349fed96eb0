"""MkDocs hook: runs the examples and shows each with its text, its code and what it printed.

A page asks for an example with a comment, ``<!-- example drop_in_loss -->``. Outputs are kept in ``docs/gallery/``, which git
ignores, under a hash of the example and of the library: a build runs only what has changed.

As a program, ``python docs/run_examples.py NAME...``, it runs these examples. Each has a process and a folder of its own, but
the processes are forks of one that has loaded the libraries, which takes longer than most examples.
"""

import ast
import contextlib
import hashlib
import importlib
import io
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OUTPUTS = ROOT / "docs" / "gallery"
LIBRARIES = ["matplotlib.pyplot", "sklearn.model_selection", "shortlist.cli.program", "torch._dynamo"]
MARK = re.compile(r"^<!-- example (\w+) -->$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comments by the examples."""
    names = MARK.findall(markdown)
    if not names:
        return markdown
    missing = [name for name in names if not kept(name).exists()]
    if missing:
        run(missing)
    return MARK.sub(lambda found: shown(found[1], kept(found[1]).read_text(encoding="utf-8")), markdown)


def shown(name: str, output: str) -> str:
    """An example as a section: its docstring as title and text, its code, and its output."""
    title, text, code = parts(name)
    program = f'```python title="examples/{name}.py"\n{code}\n```'
    printed = f'```{{ .text .printed title="Output" }}\n{output}\n```'
    return "\n\n".join(section for section in (f"### {title}", text, program, printed) if section) + "\n"


def parts(name: str) -> tuple[str, str, str]:
    """The first line of the docstring, the rest of it, and the code below it."""
    source = path_of(name).read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :])
    return title.rstrip("."), text.strip(), code.strip()


def path_of(name: str) -> Path:
    """The file of an example."""
    return ROOT / "examples" / f"{name}.py"


def kept(name: str) -> Path:
    """The file of the output of an example as it stands, with the library as it stands."""
    return OUTPUTS / f"{name}-{_key(name)}.txt"


def run(names: Sequence[str]) -> None:
    """Run examples and keep what they print; an error if one fails or prints nothing."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, __file__, *names], env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def main(names: Sequence[str]) -> None:
    """Run examples in forks of this process, as many at once as there are processors."""
    for library in LIBRARIES:
        importlib.import_module(library)
    OUTPUTS.mkdir(exist_ok=True)
    with multiprocessing.get_context("fork").Pool(maxtasksperchild=1) as pool:
        outcomes = dict(zip(names, pool.map(outcome, names, chunksize=1), strict=True))
    for name, (printed, error) in outcomes.items():
        for old in OUTPUTS.glob(f"{name}-*.txt"):
            old.unlink()
        if not error and printed:
            kept(name).write_text(printed, encoding="utf-8")
        else:
            sys.exit(f"examples/{name}.py printed {printed!r}\n{error}")


def outcome(name: str) -> tuple[str, str]:
    """What an example printed, and the traceback of its failure."""
    printed, error = io.StringIO(), ""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(str(path_of(name)), run_name="__main__")
        except BaseException:
            error = traceback.format_exc()
    return printed.getvalue().rstrip(), error


def _key(name: str) -> str:
    return hashlib.sha256(path_of(name).read_bytes() + _library()).hexdigest()[:16]


@cache
def _library() -> bytes:
    digest = hashlib.sha256()
    for file in sorted((ROOT / "src" / "shortlist").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


if __name__ == "__main__":
    main(sys.argv[1:])
