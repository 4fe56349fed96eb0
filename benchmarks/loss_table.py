"""The table of docs/losses.md: what each loss elicits, its link, its paper and its cost, from the code and the results."""

import inspect
import re

import torch

from benchmarks.marked_tables import write_table
from benchmarks.results_files import newest
from shortlist import losses
from shortlist.losses import Loss

PAGE = "losses.md"
NEEDED = {"k": 2, "margins": torch.ones(3)}


def functions() -> list[str]:
    """Every loss, in the order of the package's own table."""
    return re.findall(r"^(\w+(?:_loss|_penalty)) ", losses.__doc__, re.M)


def module_of(name: str) -> Loss:
    """The module form, with something for each parameter that has no default."""
    kind = getattr(losses, "".join(part[0].upper() + part[1:] for part in name.split("_")))
    parameters = inspect.signature(kind).parameters.values()
    return kind(**{p.name: NEEDED[p.name] for p in parameters if p.default is p.empty})


def paper_of(name: str) -> str:
    """The last paragraph of the docstring, where it is a reference."""
    last = inspect.getdoc(getattr(losses, name)).strip().split("\n\n")[-1]
    last = re.sub(r'"[^"]*",? ?', "", " ".join(last.split()))  # the titles are on the page of references
    return last if re.search(r"\b(19|20)\d\d\b|Cheng|Liao|thesis", last) and ">>>" not in last else ""


def text() -> str:
    measured = newest("losses")
    costs = measured[-1]["contenders"] if measured else {}
    rows = ["| loss | elicits | link | cost | paper |", "|---|---|---|---:|---|"]
    for name in functions():
        module = module_of(name)
        link = module.link()
        cost = f"{costs[name]['ratio']:.1f}" if name in costs else ""
        rows.append(f"| `{name}` | {module.elicits} | {link.kind if link else '–'} | {cost} | {paper_of(name)} |")
    foot = ""
    if measured:
        line = measured[-1]
        foot = "\nCost: forward and backward, as a multiple of `F.cross_entropy`. "
        foot += f"{line['setting']}, {line['rounds']} rounds, {line['machine']}, torch {line['versions']['torch']}.\n"
    return "\n".join(rows) + "\n" + foot


def write() -> None:
    write_table(PAGE, text())
