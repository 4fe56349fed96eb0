"""Training curves: loss, validation log-loss, normaliser and monitored metric by epoch, and the epoch that was kept."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.report.display import Display
from shortlist.report.displays import Panels, append, whole_ticks
from shortlist.report.legend import NAMED, finish
from shortlist.report.style import SERIES
from shortlist.report.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

History: TypeAlias = Iterable[Mapping[str, Any]]
# Up to this many points are drawn as dots on their line; more would hide it.
DOTS = 30
LOG_LOSS = "nll"  # its name among the validation metrics of training


@dataclass(frozen=True)
class Epoch:
    """One epoch of a training record; None: not measured, NaN: measured, but not a number.

    Args:
        epoch: number of the epoch.
        loss: mean training loss.
        log_loss: validation log-loss, the mean of -log p of the labels.
        monitor: name of the validation metric that decides which epoch is kept.
        value: value of that metric.
        best: whether it was better than in all epochs before.
        log_normalizer: log of the normaliser of a quasibinary classifier.
    """

    epoch: int
    loss: float | None = None
    log_loss: float | None = None
    monitor: str | None = None
    value: float | None = None
    best: bool = False
    log_normalizer: float | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Epoch":
        """The epoch of one line of ``metrics.jsonl``, in which null stands for NaN.

        >>> Epoch.of({"epoch": 3, "loss": 2.31, "monitor": "top-1", "value": 0.9, "best": True, "metrics": {"nll": 2.5}})
        Epoch(epoch=3, loss=2.31, log_loss=2.5, monitor='top-1', value=0.9, best=True, log_normalizer=None)
        """
        if not isinstance(record, Mapping):
            raise InputError(f"history: expected a dictionary for each epoch, got {type(record).__name__}")
        epoch = whole(0)("history, epoch", record.get("epoch"))
        metrics = record.get("metrics") or {}
        if not isinstance(metrics, Mapping):
            raise InputError(f"history, metrics of epoch {epoch}: expected numbers by name, got {type(metrics).__name__}")
        monitor = record.get("monitor")
        return cls(
            epoch,
            _number(record.get("loss"), "loss", epoch, measured="loss" in record),
            _number(metrics.get(LOG_LOSS), "validation log-loss", epoch, measured=LOG_LOSS in metrics),
            None if monitor is None else str(monitor),
            _number(record.get("value"), "value", epoch, measured=bool(metrics) and "value" in record),
            bool(record.get("best")),
            _number(record.get("log_normalizer"), "log normaliser", epoch, measured="log_normalizer" in record),
        )


def _number(value: Any, name: str, epoch: int, *, measured: bool) -> float | None:
    if value is None:
        return math.nan if measured else None  # JSON has no NaN
    try:
        if isinstance(value, bool | str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"history, {name} of epoch {epoch}: expected a number or nothing, got {str(value)[:40]}") from error


@dataclass(frozen=True)
class Run:
    """The epochs of one training run, by number.

    Args:
        name: used in legends and tables.
        epochs: in increasing order.
    """

    name: str
    epochs: tuple[Epoch, ...]

    @classmethod
    def of(cls, name: str, history: History) -> "Run":
        """The run of the lines of ``metrics.jsonl``; of an epoch that was run again the last line counts.

        >>> Run.of("mine", [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5}, {"epoch": 2, "loss": 1.0}]).epochs[-1].loss
        1.0
        """
        if not isinstance(history, Iterable) or isinstance(history, Mapping | str):
            raise InputError(f"history of {name}: expected a sequence of epochs, got {type(history).__name__}")
        found = {epoch.epoch: epoch for epoch in map(Epoch.of, history)}
        if not found:
            raise InputError(f"history of {name}: expected at least one epoch, got none")
        return cls(name, tuple(found[number] for number in sorted(found)))

    @property
    def chosen(self) -> Epoch | None:
        """The epoch that was kept: the last that was better than all before; None if none was compared."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.best), None)

    @property
    def monitor(self) -> str | None:
        """Name of the monitored metric."""
        return next((epoch.monitor for epoch in reversed(self.epochs) if epoch.monitor is not None), None)

    def line(self, field: str) -> tuple[list[int], list[float]]:
        """Epochs in which the field was measured, and its values; infinite values become NaN, which breaks the line."""
        known = [(epoch.epoch, getattr(epoch, field)) for epoch in self.epochs if getattr(epoch, field) is not None]
        return [number for number, _ in known], [value if math.isfinite(value) else math.nan for _, value in known]


class TrainingLoss(Display):
    """Training loss by epoch."""

    title: ClassVar[str] = "Loss"
    caption: ClassVar[str] = "Mean training loss of each epoch. Rings mark the epoch that was kept."
    label: ClassVar[str] = "training loss"
    field: ClassVar[str] = "loss"

    def __init__(self, runs: Iterable[Run]):
        self.runs = [run for run in runs if run.line(self.field)[0]]

    def points(self) -> dict[str, list[object]]:
        """name, epoch, and the field that is drawn."""
        columns: dict[str, list[object]] = {"name": [], "epoch": [], self.field: []}
        for run in self.runs:
            for epoch in run.epochs:
                append(columns, run.name, epoch.epoch, _plain(getattr(epoch, self.field)))
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line for each run."""
        ax = self._axes(ax, "epoch", self.label)
        alone = len(self.runs) == 1
        for n, run in enumerate(self.runs):
            _draw(ax, run, self.field, SERIES[n % len(SERIES)], None if alone else run.name)
        whole_ticks(ax)
        return finish(ax, legend=True, below=True)


class ValidationLogLoss(TrainingLoss):
    """Validation log-loss by epoch.

    It has a plot of its own because it equals the training loss only for cross-entropy.
    """

    title: ClassVar[str] = "Validation log-loss"
    caption: ClassVar[str] = (
        "Mean of -log p of the labels of the validation rows, before calibration; comparable with the training loss only for "
        "cross-entropy. Rings mark the epoch that was kept."
    )
    label: ClassVar[str] = "validation log-loss"
    field: ClassVar[str] = "log_loss"


class Normalizer(TrainingLoss):
    """The normaliser of a quasibinary classifier by epoch (Liao, Fig. 2)."""

    title: ClassVar[str] = "Normaliser"
    caption: ClassVar[str] = (
        "Logarithm of the running normaliser C at the end of each epoch; a label has probability exp(score) / C, so C has to "
        "settle. Rings mark the epoch that was kept."
    )
    label: ClassVar[str] = "log C"
    field: ClassVar[str] = "log_normalizer"


class TrainingMetric(Display):
    """The monitored validation metric by epoch."""

    title: ClassVar[str] = "Monitored metric"
    caption: ClassVar[str] = "The validation metric that decides which epoch is kept. Rings mark that epoch."

    def __init__(self, runs: Iterable[Run]):
        self.runs = [run for run in runs if run.line("value")[0]]

    def points(self) -> dict[str, list[object]]:
        """name, epoch, monitor, value, chosen."""
        columns: dict[str, list[object]] = {"name": [], "epoch": [], "monitor": [], "value": [], "chosen": []}
        for run in self.runs:
            for epoch in run.epochs:
                append(columns, run.name, epoch.epoch, epoch.monitor, _plain(epoch.value), epoch is run.chosen)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line for each run."""
        monitors = {run.monitor for run in self.runs}
        alike = len(monitors) == 1
        ax = self._axes(ax, "epoch", (next(iter(monitors)) if alike else None) or "monitored metric")
        ax.yaxis.label.set_parse_math(False)  # not a formula
        alone = len(self.runs) == 1
        for n, run in enumerate(self.runs):
            named = run.name if alike else f"{run.name}, {run.monitor or 'metric'}"
            kept = f"epoch {run.chosen.epoch}, kept" if alone and run.chosen is not None else None
            _draw(ax, run, "value", SERIES[(1 if alone else n) % len(SERIES)], None if alone else named, kept=kept)
        whole_ticks(ax)
        return finish(ax, legend=True, below=True)


class TrainingCurves(Panels):
    """Training curves: training loss, validation log-loss, normaliser, monitored metric, and the epoch that was kept.

    Args:
        history: a dictionary for each epoch, as in ``metrics.jsonl``, with ``epoch``, ``loss``, ``monitor``, ``value``,
            ``best`` and ``metrics``, of which all but the first may be missing or None; or several such histories by name.
            The log-loss is ``nll`` among the metrics; training measures it if scores can be interpreted as probabilities.
            ``log_normalizer`` is there for quasibinary classifiers.

    >>> history = [
    ...     {"epoch": 1, "loss": 2.31, "monitor": "top-1", "value": 0.61, "best": True, "metrics": {"nll": 2.4}},
    ...     {"epoch": 2, "loss": 1.52, "monitor": "top-1", "value": 0.74, "best": True, "metrics": {"nll": 1.9}},
    ...     {"epoch": 3, "loss": 1.03, "monitor": "top-1", "value": 0.73, "best": False, "metrics": {"nll": 2.2}},
    ... ]
    >>> TrainingCurves(history).frame()[["epoch", "loss", "log_loss", "value", "chosen"]]
       epoch  loss  log_loss  value  chosen
    0      1  2.31       2.4   0.61   False
    1      2  1.52       1.9   0.74    True
    2      3  1.03       2.2   0.73   False
    """

    title: ClassVar[str] = "Training"
    caption: ClassVar[str] = (
        "Training loss, validation log-loss, logarithm of the normaliser (quasibinary only) and monitored validation metric by "
        "epoch, as far as they were measured. Rings mark the epoch that was kept."
    )

    def __init__(self, history: History | Mapping[str, History]):
        named = history if isinstance(history, Mapping) else {"training": history}
        if not named:
            raise InputError("history: expected at least one run, got none")
        self.runs = [Run.of(str(name), run) for name, run in named.items()]

    def panels(self) -> list[Display]:
        """The loss, the log-loss, the normaliser, and the monitored metric unless it is the log-loss."""
        metric = TrainingMetric(run for run in self.runs if run.line("value") != run.line("log_loss"))
        panels: list[TrainingLoss | TrainingMetric] = [
            TrainingLoss(self.runs),
            ValidationLogLoss(self.runs),
            Normalizer(self.runs),
            metric,
        ]
        return [panel for panel in panels if panel.runs] or [panels[0]]

    def points(self) -> dict[str, list[object]]:
        """name, epoch, loss, log_loss, monitor, value, chosen; NaN for what was not measured.

        With a quasibinary run also log_normalizer.
        """
        epochs = [(run, epoch) for run in self.runs for epoch in run.epochs]
        columns: dict[str, list[object]] = {"name": [run.name for run, _ in epochs]}
        columns["epoch"] = [epoch.epoch for _, epoch in epochs]
        columns["loss"] = [_plain(epoch.loss) for _, epoch in epochs]
        columns["log_loss"] = [_plain(epoch.log_loss) for _, epoch in epochs]
        columns["monitor"] = [epoch.monitor for _, epoch in epochs]
        columns["value"] = [_plain(epoch.value) for _, epoch in epochs]
        columns["chosen"] = [epoch is run.chosen for run, epoch in epochs]
        if any(epoch.log_normalizer is not None for _, epoch in epochs):
            columns["log_normalizer"] = [_plain(epoch.log_normalizer) for _, epoch in epochs]
        return columns

    def table(self) -> Table:
        """One row for each run: number of epochs, and the values of the epoch that was kept, or else of the last.

        >>> history = [{"epoch": 1, "loss": 2.31, "monitor": "top-1", "value": 0.61, "best": True}]
        >>> print(TrainingCurves(history).table().markdown())
        | monitored | epochs | epoch | value | training loss | validation log-loss |
        | --- | ---: | ---: | ---: | ---: | ---: |
        | top-1 | 1 | 1 (kept) | 0.6100 | 2.3100 | – |
        """
        columns = ["run", "monitored", "epochs", "epoch", "value", "training loss", "validation log-loss"]
        rows = []
        for run in self.runs:
            at = run.chosen or run.epochs[-1]
            shown = f"{at.epoch} ({'last' if run.chosen is None else 'kept'})"
            rows.append([run.name, run.monitor, len(run.epochs), shown, at.value, at.loss, at.log_loss])
        first = 1 if len(self.runs) == 1 else 0  # a single run needs no name
        formats = ["", "", ",d", "", ".4f", ".4f", ".4f"]
        right = [False, False, *[True] * 5]
        return Table(columns[first:], [row[first:] for row in rows], formats[first:], right[first:])


def _draw(ax: "Axes", run: Run, field: str, colour: str, label: str | None, *, kept: str | None = None) -> None:
    """A line through the measured epochs and a ring around the one that was kept."""
    epochs, values = run.line(field)
    if not epochs:
        return
    # A single point between two gaps has no line.
    dots = "o" if len(epochs) <= DOTS or any(map(math.isnan, values)) else ""
    line, ring = (None if name is None else NAMED + name for name in (label, kept))
    ax.plot(epochs, values, color=colour, marker=dots, markersize=3.5, label=line)
    if run.chosen is not None and run.chosen.epoch in epochs:
        height = values[epochs.index(run.chosen.epoch)]
        ax.plot(
            [run.chosen.epoch],
            [height],
            color=colour,
            linestyle="",
            marker="o",
            markersize=10,
            markerfacecolor="none",
            markeredgewidth=1.8,
            label=ring,
        )


def _plain(value: float | None) -> float:
    return math.nan if value is None else value
