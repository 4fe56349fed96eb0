"""Plots of claims: every comparison of a paper with its estimate and its interval, and arms that explain a verdict."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from shortlist.claims.claim import Curves, Decision, Interval, PartVerdict, Verdict, Within
from shortlist.claims.results import Result
from shortlist.report.display import Display
from shortlist.report.style import GRID, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: dict[Decision, str] = {"holds": SERIES[2], "fails": SERIES[4], "open": MUTED}
ROW, FRAME = 0.24, 1.0  # inches of a row, and of axis and legend


class Estimates(Display):
    """Estimates of the comparisons of several verdicts, with 95 % intervals, each relative to what its rule asks.

    Args:
        verdicts: those with at least two seeds are drawn.
    """

    title: ClassVar[str] = "Estimates of the claims"
    caption: ClassVar[str] = (
        "Mean over seeds and 95 % interval of every comparison. A comparison holds if its interval lies right of the line "
        "(or within the band, where a claim is that nothing changes)."
    )

    def __init__(self, verdicts: Sequence[Verdict]):
        several = len({verdict.experiment.partition("-")[0] for verdict in verdicts if verdict.n > 1}) > 1
        self.rows: list[tuple[str, PartVerdict]] = [
            (_row_name(verdict, part, several), part)
            for verdict in verdicts
            for part in verdict.parts
            if part.interval is not None and part.interval.n > 1
        ]

    @property
    def size_in_inches(self) -> tuple[float, float]:
        """Width and height: a row for each comparison."""
        return 7.5, FRAME + ROW * len(self.rows)

    def points(self) -> dict[str, list[object]]:
        """Columns name, mean, low, high, decision."""
        columns: dict[str, list[object]] = {name: [] for name in ("name", "mean", "low", "high", "decision")}
        for name, part in self.rows:
            assert part.interval is not None
            for key, value in zip(
                columns, (name, part.interval.mean, part.interval.low, part.interval.high, part.decision), strict=True
            ):
                columns[key].append(value)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A row for each comparison, from the top, on an axis that is linear near 0."""
        ax = self._axes(ax, "estimate (points)", "")
        places = range(len(self.rows))
        for place, (_, part) in enumerate(self.rows):
            found = part.interval
            assert found is not None
            colour = COLOURS[part.decision]
            ax.plot([found.low, found.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            ax.plot([found.mean], [place], marker="o", color=colour, markersize=5)
            rule = part.part.rule
            edges = [-rule.tolerance, rule.tolerance] if isinstance(rule, Within) else [rule.margin]
            ax.plot(edges, [place] * len(edges), linestyle="none", marker="|", markersize=11, color="black")
        ax.axvline(0, color=GRID, linewidth=1.4, zorder=0)
        ax.set_xscale("symlog", linthresh=1.0)
        ax.set_yticks(list(places), [name for name, _ in self.rows], fontsize=8)
        ax.set_ylim(len(self.rows) - 0.5, -0.5)
        for decision, colour in COLOURS.items():
            ax.plot([], [], color=colour, linewidth=2.2, label=decision)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8)
        return ax


def _row_name(verdict: Verdict, part: PartVerdict, several: bool) -> str:
    """The claim without its paper, the part, and if there are several the experiment."""
    name = f"{verdict.claim.id.removeprefix(verdict.claim.paper + '-')}: {part.part.name}"
    return f"{name} ({verdict.experiment})" if several else name


class ArmCurves(Display):
    """One number of some arms, mean and 95 % interval over seeds, against what distinguishes them.

    Args:
        curves: what to draw.
        results: of its experiment.
    """

    title: ClassVar[str] = "Arms of an experiment"
    caption: ClassVar[str] = "Mean over seeds, and its 95 % interval."

    def __init__(self, curves: Curves, results: Iterable[Result]):
        self.curves = curves
        values: dict[str, list[float]] = {}
        for result in results:
            values.setdefault(result.arm, []).append(result.numbers[curves.number])
        self.found = {
            name: {place: Interval.of(values[arm]) for arm, place in arms.items() if len(values.get(arm, ())) > 1}
            for name, arms in curves.series.items()
        }

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not any(self.found.values())

    def points(self) -> dict[str, list[object]]:
        """Columns name, place, mean, low, high, n."""
        columns: dict[str, list[object]] = {key: [] for key in ("name", "place", "mean", "low", "high", "n")}
        for name, line in self.found.items():
            for place, found in line.items():
                row = (name, place, found.mean, found.low, found.high, found.n)
                for key, value in zip(columns, row, strict=True):
                    columns[key].append(value)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line with a band for each series."""
        ax = self._axes(ax, self.curves.xlabel, f"{self.curves.number}, %")
        for colour, (name, line) in zip(SERIES, self.found.items(), strict=False):
            places = list(line)
            ax.plot(places, [found.mean for found in line.values()], color=colour, marker="o", label=name)
            low, high = ([getattr(found, end) for found in line.values()] for end in ("low", "high"))
            ax.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0)
        ax.legend()
        return ax
