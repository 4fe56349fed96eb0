"""The section of docs/benchmarks.md on losses on a GPU, and its plot, from the newest results."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.gpu_losses import CLASSES, DTYPES, GRID, SHAPES
from benchmarks.results_files import foot, newest, ratio
from shortlist.report.style import SETTINGS

PLOT = Path(__file__).parent.parent / "docs" / "images" / "gpu-losses.svg"
CAPTION = (
    "Forward and backward, as multiples of `F.cross_entropy` in the same rounds: called from Python, and after the stroke "
    "replayed from a CUDA graph, where only the work of the device counts. At the top: milliseconds of `F.cross_entropy` "
    "called and replayed, and in brackets those of one read of the scores and one write of their gradient at the speed of a "
    "large copy. *MB*: the peak above the scores and their gradient, at the last shape."
)
GRID_CAPTION = (
    "The same for batches of 1,024 rows. *Bandwidth*: what has to be read and written, scores, gradients and labels, at the "
    "speed of a large copy, as a share of the time replayed at 43,000 classes; 100 % would be the floor."
)
KERNELS_CAPTION = (
    "Microseconds of the device in one forward and backward pass in float32, by torch's profiler, with the kernels that take "
    "most. What lies between these and the times called is the processor: a call passes through Python twice, and every launch "
    "of a kernel written in Triton goes through its launcher. Where batches are small, let the losses be part of a recorded "
    "graph, as `shortlist train` does: an epoch then takes as long with any of them ([measured](#the-method-in-an-epoch))."
)
MOST_KERNELS = 3
DRAWN = (
    *("F.cross_entropy", "cross-entropy", "noised top-5, 5 draws", "noised top-50, 5 draws", "soft top-5", "average-5", "SPA"),
    *("quasibinary", "sparse-top", "smooth hinge, k = 5"),
)
TWO_SCORES = "average-"  # losses whose names begin so read and write two matrices
OF_MARKS = ("SPA", "asymmetric focal", "quasibinary", "sparse-top", "label pair penalty")  # which read booleans, twice


class Results:
    """The newest results by setting."""

    def __init__(self) -> None:
        self.called, self.replayed, self.memory, self.floors = (
            {line["setting"]: line for line in newest(name)}
            for name in ("gpu-losses", "gpu-losses-replayed", "gpu-loss-memory", "gpu-loss-floor")
        )

    def has(self, setting: object) -> bool:
        """Whether everything was measured at this setting."""
        return all(str(setting) in found for found in (self.called, self.replayed, self.memory, self.floors))

    def cell(self, setting: object, loss: str) -> str:
        """The ratios called and replayed; of the first loss the milliseconds, and the floor."""
        contenders = self.called[str(setting)]["contenders"]
        if loss not in contenders:
            return ""
        called, replayed = contenders[loss], self.replayed[str(setting)]["contenders"].get(loss)
        if loss == next(iter(contenders)):
            floor = self.floors[str(setting)]["floor_ms"]
            return f"{called['median_ms']:.2f} / {replayed['median_ms']:.2f} ({floor:.2f})"
        return ratio(called["ratio"]) + (f" / {ratio(replayed['ratio'])}" if replayed else "")

    def bandwidth(self, setting: Any, loss: str) -> str:
        """The floor of this loss as a share of its time replayed, in percent."""
        found = self.replayed[str(setting)]["contenders"].get(loss)
        if found is None:
            return ""
        traffic = 2.0 if loss.startswith(TWO_SCORES) else 1 + 1 / setting.dtype.itemsize if loss in OF_MARKS else 1.0
        return f"{100 * traffic * self.floors[str(setting)]['floor_ms'] / found['median_ms']:.0f} %"


def section() -> str:
    """The tables; nothing without results."""
    results = Results()
    if not all(map(results.has, SHAPES)):
        return ""
    rows = ["## Losses on a GPU", "", CAPTION, "", *_table(results, SHAPES, _megabytes, "MB")]
    rows += ["", foot(results.called[str(SHAPES[-1])]), *_kernels()]
    measured = [dtype for dtype in DTYPES if all(results.has(setting) for setting in GRID if setting.dtype == dtype)]
    if measured:
        rows += ["", "### By classes, precision and k", "", GRID_CAPTION, "", f"![Milliseconds by classes](images/{PLOT.name})"]
    for dtype in measured:
        settings = [setting for setting in GRID if setting.dtype == dtype]
        rows += ["", f"**{str(dtype).removeprefix('torch.')}**", "", *_table(results, settings, _bandwidth, "Bandwidth")]
    return "\n".join([*rows, "", foot(results.called[str(GRID[0])])] if measured else rows)


def _kernels() -> list[str]:
    """Where the time of the device goes: launches, microseconds, and the kernels that take most."""
    found = {line["setting"]: line for line in newest("gpu-kernels")}
    if not found:
        return []
    losses = dict.fromkeys(setting.removesuffix(f", {shape}") for setting in found for shape in SHAPES if str(shape) in setting)
    heads = [f"{shape.rows:,} × {shape.classes:,}" for shape in SHAPES]
    rows = ["", "### Where the time goes", "", KERNELS_CAPTION, "", "| | " + " | ".join(["launches", *heads]) + " |"]
    rows.append("|---|---:|" + "---|" * len(SHAPES))
    for loss in losses:
        lines = [found.get(f"{loss}, {shape}") for shape in SHAPES]
        launches = next(f"{line['launches']:g}" for line in lines if line)
        rows.append(f"| {loss} | {launches} | " + " | ".join("" if line is None else _times(line) for line in lines) + " |")
    return [*rows, "", foot(next(iter(found.values())))]


def _times(line: dict[str, Any]) -> str:
    """The sum over all kernels, and those that take most."""
    times = line["microseconds"]
    most = sorted(((time, name) for name, time in times.items()), reverse=True)[:MOST_KERNELS]
    return f"{sum(times.values()):.0f} µs: " + ", ".join(f"{name} {time:.0f}" for time, name in most)


def _table(results: Results, settings: list[Any], last: Any, title: str) -> list[str]:
    names = list(dict.fromkeys(loss for setting in settings for loss in results.called[str(setting)]["contenders"]))
    heads = [f"{setting.rows:,} × {setting.classes:,}" for setting in settings]
    rows = ["| | " + " | ".join([*heads, title]) + " |", "|---|" + "---:|" * (len(settings) + 1)]
    for loss in names:
        cells = [*(results.cell(setting, loss) for setting in settings), last(results, settings, loss)]
        rows.append(f"| {loss} | " + " | ".join(cells) + " |")
    return rows


def _megabytes(results: Results, settings: list[Any], loss: str) -> str:
    extra = results.memory[str(settings[-1])]["extra_mb"]
    return f"{extra[loss]:.0f}" if loss in extra else ""


def _bandwidth(results: Results, settings: list[Any], loss: str) -> str:
    return results.bandwidth(settings[-1], loss)


def draw() -> None:
    """Milliseconds of the device by the number of classes, in float32, with the floor."""
    results = Results()
    settings = [setting for setting in GRID if setting.dtype == DTYPES[0]]
    if not all(map(results.has, settings)):
        return
    with mpl.rc_context({**SETTINGS, "svg.hashsalt": "gpu-losses"}):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for loss in DRAWN:
            times = [results.replayed[str(setting)]["contenders"][loss]["median_ms"] for setting in settings]
            rival = {"color": "black", "linewidth": 2.5, "zorder": 3} if loss == DRAWN[0] else {}
            axes.plot(CLASSES, times, marker="o", markersize=3, label=loss, **rival)
        floors = [results.floors[str(setting)]["floor_ms"] for setting in settings]
        axes.plot(CLASSES, floors, color="0.6", linestyle=":", label="one read, one write")
        axes.set(xscale="log", yscale="log", xlabel="classes", ylabel="ms, forward and backward, replayed")
        axes.set_ylim(bottom=0.01)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        figure.savefig(PLOT, metadata={"Date": None})
