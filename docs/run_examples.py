"""MkDocs hook: runs the examples and shows each with its text, its code and what it printed.

A page asks for an example with a comment, ``<!-- example drop_in_loss -->``. Outputs are kept in ``docs/gallery/``, which git
ignores, under a hash of the example and of the library: a build runs only what has changed.
"""

import ast
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OUTPUTS = ROOT / "docs" / "gallery"
MARK = re.compile(r"^<!-- example (\w+) -->$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comments by the examples."""
    names = MARK.findall(markdown)
    if not names:
        return markdown
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = dict(zip(names, pool.map(output_of, names), strict=True))
    return MARK.sub(lambda found: shown(found[1], outputs[found[1]]), markdown)


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


def output_of(name: str) -> str:
    """What an example prints; from the last build if nothing has changed."""
    kept = OUTPUTS / f"{name}-{_key(name)}.txt"
    if not kept.exists():
        OUTPUTS.mkdir(exist_ok=True)
        for old in OUTPUTS.glob(f"{name}-*.txt"):
            old.unlink()
        kept.write_text(run(name), encoding="utf-8")
    return kept.read_text(encoding="utf-8")


def run(name: str) -> str:
    """Run an example in a process and a folder of its own; an error if it fails or prints nothing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        done = subprocess.run(
            [sys.executable, path_of(name)], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"examples/{name}.py: exit code {done.returncode}, output {done.stdout!r}\n{done.stderr}")
    return done.stdout.rstrip()


def _key(name: str) -> str:
    return hashlib.sha256(path_of(name).read_bytes() + _library()).hexdigest()[:16]


@cache
def _library() -> bytes:
    digest = hashlib.sha256()
    for file in sorted((ROOT / "src" / "shortlist").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()
