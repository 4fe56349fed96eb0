"""The style of plots, in files and in a page with a light and a dark theme."""

import io
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 5.6, 3.6  # inches of a plot
INK, MUTED, GRID = "#1f2430", "#687084", "#d9dde5"
# Blue, orange, green, purple, red, brown: distinguishable for most readers, and legible on white and on black.
SERIES = ("#2f6fde", "#d9730d", "#1c8a5c", "#8b55d1", "#d2405c", "#8a6d3b")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))

SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "shortlist",
    "path.simplify": True,
}


def new_axes(width: float = WIDTH, height: float = HEIGHT) -> "Axes":
    """Axes on a new pyplot figure in this style, which notebooks and ``plt.show()`` show."""
    import matplotlib
    from matplotlib import pyplot

    with matplotlib.rc_context(SETTINGS):
        return pyplot.figure(figsize=(width, height), layout="constrained").subplots()


def detached_axes(width: float = WIDTH, height: float = HEIGHT) -> "Axes":
    """Axes on a figure that pyplot does not know of, for files and pages: it is freed when nothing refers to it any more."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        return Figure(figsize=(width, height), layout="constrained").subplots()


def figure_of(display: Any) -> "Figure":
    """A display drawn on a detached figure of its size."""
    import matplotlib

    width, height = getattr(display, "size_in_inches", (WIDTH, HEIGHT))
    with matplotlib.rc_context(SETTINGS):
        figure: Figure = display.plot(detached_axes(width, height)).figure
    return figure


def themed_svg(display: Any) -> str:
    """A display as an SVG element whose colours are the page's variables, so that it follows light and dark themes."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # Text stays text, in a font of the reader: matplotlib's own, which only measures it, need not have every letter.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure: Figure = display.plot(detached_axes(*getattr(display, "size_in_inches", (WIDTH, HEIGHT)))).figure
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    names = {INK: "ink", MUTED: "muted", GRID: "grid"} | {colour: f"series-{n}" for n, colour in enumerate(SERIES, 1)}
    for colour, name in names.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg
