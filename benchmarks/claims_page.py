"""docs/claims.md with its plots, and the table of the README, from the results of ``shortlist reproduce``."""

from pathlib import Path

import matplotlib as mpl

from benchmarks.harness import RESULTS
from benchmarks.marked_tables import with_table
from shortlist.claims.menu import EXPERIMENTS
from shortlist.claims.page import judged, page_text, plot_name, readme_table
from shortlist.claims.plots import ArmCurves, Estimates
from shortlist.claims.results import Results
from shortlist.report import Display
from shortlist.report.style import SETTINGS, figure_of

ROOT = Path(__file__).parent.parent
FILE = RESULTS / "claims.jsonl"
PAGE, README = ROOT / "docs" / "claims.md", ROOT / "README.md"
BEGIN, END = "<!-- claims: written by `python -m benchmarks page` -->\n", "<!-- end of claims -->\n"


def text() -> str:
    return page_text(Results(FILE))


def readme(page: str) -> str:
    """The README with the table of now."""
    return with_table(page, readme_table(Results(FILE)) + "\n", BEGIN, END)


def plots() -> dict[str, Display]:
    """By file: the comparisons of each paper, and the plots that explain verdicts."""
    results = Results(FILE)
    found, drawn = judged(results), dict[str, Display]()
    for paper in dict.fromkeys(one.claim.paper for one in found):
        display = Estimates([verdict for one in found if one.claim.paper == paper for verdict in one.verdicts])
        if display.rows:
            drawn[plot_name(paper)] = display
    for one in found:
        if one.claim.curves is not None:
            curves = ArmCurves(one.claim.curves, results.of(EXPERIMENTS[one.claim.curves.experiment]))
            if not curves.empty:
                drawn[plot_name(one.claim.id)] = curves
    return drawn


def draw() -> None:
    for name, display in plots().items():
        with mpl.rc_context(SETTINGS):  # its salt makes the file the same each time
            figure_of(display).savefig(ROOT / "docs" / name, metadata={"Date": None})


def write() -> None:
    PAGE.write_text(text(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    draw()
