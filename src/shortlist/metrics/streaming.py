"""The streaming form of every metric: batches go in one by one, in any order, on any number of processes.

A name is the CamelCase of its function's, with the same parameters and defaults; ``compute`` returns tensors, as in
torchmetrics. This is the only file that imports torchmetrics, which takes a second or more: it is loaded when one of these
names, or of those in ``streaming_sets``, is first used.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from shortlist.checks import Kind, whole
from shortlist.class_names import check_same_batches, check_same_names, column_names, labels_by_name
from shortlist.errors import InputError
from shortlist.metrics import binned_pairs, calibration, classwise, confidence, curves, outliers, ranking, retrieval, smooth
from shortlist.metrics.inputs import checked
from shortlist.metrics.totals import ratio
from shortlist.sets.gates import RowMeasure
from shortlist.tensors import as_target, is_single_label
from shortlist.words import understands

ONE_KIND = "target: expected one label a row in every batch or several in every batch, got both"


class Streaming(Metric):
    """A metric that is a function of a total to which each batch adds a tensor of constant size.

    A subclass defines ``_accumulate`` (what a batch adds, float64) and ``_finish`` (the result); the function of the same name
    is one after the other. A metric that needs every score passes ``gathers=True``, keeps the batches, and defines ``_whole``
    instead. ``kind`` says what :meth:`update` takes: every batch is checked when it is added, and not again.
    """

    full_state_update = False
    kind: Kind = "probabilities"
    needs_target = True
    unshared: Tensor
    total: Tensor
    values: list[Tensor]
    targets: list[Tensor]

    def __init__(self, gathers: bool = False, /, **kwargs: Any):
        super().__init__(**kwargs)
        self.gathers, self.columns = gathers, 0
        self.names: list[str] | None = None  # of the columns of the batches so far, where these are data frames
        # A MetricCollection lets metrics whose states have equal names and values share one state from then on. Equal totals
        # of one batch do not make two metrics the same; NaN equals nothing, so each metric keeps a state of its own.
        self.add_state("unshared", torch.tensor(torch.nan), dist_reduce_fx="sum")
        if gathers:
            self.add_state("values", [], dist_reduce_fx="cat")
            self.add_state("targets", [], dist_reduce_fx="cat")
        else:
            # A scalar: the first batch gives it its shape, which may depend on the number of classes.
            self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, values: Any, target: Any = None) -> None:
        """Add a batch of sets or probabilities and, where the metric needs it, its target.

        Batches that are data frames must have the same columns in the same order.
        """
        self._check_columns(values, target)
        names = column_names(values)
        values, target = checked(values, target, self.kind)
        if target is None and self.needs_target:
            raise InputError(f"{type(self).__name__}: expected a target, got none")
        if self.gathers:
            if self.values and self.columns != values.shape[1]:
                raise InputError(f"{type(self).__name__}: expected batches with the same classes, got others")
            _check_one_kind([*self.targets[:1], target], type(self).__name__)
            self.columns = values.shape[1]
            values, target = self._kept(values, target)
            self.values.append(values.clone())  # the caller may fill its buffer again
            self.targets.append(target.clone())
        else:
            added = self._accumulate(values, target)
            if self.total.ndim and self.total.shape != added.shape:
                raise InputError(f"{type(self).__name__}: expected batches with the same classes, got others")
            self.total = self.total + added
        self.names = self.names or names

    def forward(self, values: Any, target: Any = None) -> Any:
        """Add a batch, and return the metric of this batch alone."""
        self._check_columns(values, target)
        # torchmetrics resets the metric, updates it, and puts the batches before back unless the update raises an error.
        before = {name: [*value] if isinstance(value, list) else value for name, value in vars(self).items()}
        try:
            found = super().forward(values, target)
        except Exception:
            vars(self).update(before)
            raise
        self.names = before["names"] or self.names
        return found

    def reset(self) -> None:
        """Forget all batches."""
        super().reset()
        self.names = None

    def _check_columns(self, values: Any, target: Any) -> None:
        """Raise an error if a batch, or its target, has other columns than the batches before."""
        check_same_batches(self.names, column_names(values))
        target = labels_by_name(target, values, self.names)
        check_same_names(values, target, self.names)

    def compute(self) -> Any:
        """The metric over all batches so far."""
        if not (self.values if self.gathers else self.total.ndim):
            raise InputError(f"{type(self).__name__}: expected a batch before compute, got none")
        if self.gathers:
            _check_one_kind(self.targets, type(self).__name__)
            return self._whole(_joined(self.values), _joined(self.targets))
        return self._finish(self.total)

    def _kept(self, values: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """What is kept of a batch; everything by default."""
        return values, target

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        raise TypeError(f"{type(self).__name__} defines no _accumulate")

    def _finish(self, total: Tensor) -> Any:
        return ratio(total)

    def _whole(self, values: Tensor, target: Tensor) -> Any:
        raise TypeError(f"{type(self).__name__} defines no _whole")


def _check_one_kind(targets: list[Tensor] | Tensor, name: str) -> None:
    """Raise an error unless all targets have one label a row, or all have several."""
    if isinstance(targets, list) and len({target.ndim for target in targets}) > 1:
        raise InputError(f"{name}: {ONE_KIND}")


def _joined(parts: list[Tensor] | Tensor) -> Tensor:
    return parts if isinstance(parts, Tensor) else torch.cat(parts)


class PairStreaming(Streaming):
    """A metric over (row, label) pairs; which ones, the kind of the batches decides if ``over`` leaves it open."""

    batches: Tensor

    def __init__(self, over: calibration.Over | None, gathers: bool = False, /, **kwargs: Any):
        super().__init__(gathers, **kwargs)
        self.over = over
        # Batches with one label a row, and with several: a state, so that a sum over processes shows a mixture too.
        self.add_state("batches", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, values: Any, target: Any = None) -> None:
        """Add a batch of probabilities and its target."""
        target = labels_by_name(target, values)
        kind = torch.zeros_like(self.batches) if target is None else _kind(as_target(target)).to(self.batches.device)
        self._pairs(self.batches + kind)
        super().update(values, target)
        self.batches = self.batches + kind

    def compute(self) -> Any:
        """The metric over all batches so far."""
        self._pairs()
        return super().compute()

    def _pairs(self, batches: Tensor | None = None) -> calibration.Over | None:
        """Which pairs count; if that was left open, the batches decide, and the definition says so from then on."""
        one, several = (self.batches if batches is None else batches).tolist()
        if self.over is None and one and several:
            raise InputError(f"{type(self).__name__}: {ONE_KIND}: set over to count the same pairs in all of them")
        return self.over if self.over is not None or not one + several else "top" if one else "all"

    def _over(self, target: Tensor) -> calibration.Over:
        return calibration.usual_pairs(target) if self.over is None else self.over


class CalibrationError(PairStreaming):
    """Streaming form of :func:`~shortlist.metrics.calibration_error`; in bins of equal width its state is three numbers a bin
    and two counts.

    Bins of equal mass need every confidence, so the batches are kept; many bins of equal width are the alternative of constant
    size.
    """

    higher_is_better = False

    @understands(n_bins="bins", num_bins="bins", num_classes=calibration.NO_CLASSES, top_k=calibration.TOP_N)
    def __init__(
        self,
        norm: calibration.Norm = "expected",
        bins: int = 15,
        binning: calibration.Binning = "width",
        over: calibration.Over | None = None,
        **kwargs: Any,
    ):
        norm = calibration.check_definition(norm, bins, binning, over)
        super().__init__(over, binning == "mass", **kwargs)
        self.norm, self.bins, self.binning = norm, int(bins), binning

    @property
    def definition(self) -> str:
        """What the number means; print it with the number."""
        return calibration.calibration_definition(self.norm, self.bins, self.binning, self._pairs())

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return calibration.width_bins(values, target, self.bins, self._over(target))

    def _finish(self, total: Tensor) -> Tensor:
        return calibration.bin_error(total, self.norm)

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return calibration.bin_error(calibration.mass_bins(values, target, self.bins, self._over(target)), self.norm)


class SmoothCalibrationError(PairStreaming):
    """Streaming form of :func:`~shortlist.metrics.smooth_calibration_error`; its state is 2,050 numbers and two counts."""

    higher_is_better = False

    @understands(num_classes=calibration.NO_CLASSES, top_k=calibration.TOP_N)
    def __init__(self, over: calibration.Over | None = None, **kwargs: Any):
        calibration.check_definition("expected", 1, "width", over)
        super().__init__(over, **kwargs)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return smooth.residual_sums(values, target, self._over(target))

    def _finish(self, total: Tensor) -> Tensor:
        return smooth.smooth_error(total)


def _kind(target: Tensor) -> Tensor:
    """(1, 0) for one label a row, (0, 1) for several."""
    return torch.tensor([1, 0] if is_single_label(target) else [0, 1])


class ClasswiseCalibrationError(Streaming):
    """Streaming form of :func:`~shortlist.metrics.classwise_calibration_error`; its state is four numbers a bin and class."""

    higher_is_better = False

    @understands(n_bins="bins", num_bins="bins", num_classes=calibration.NO_CLASSES)
    def __init__(
        self,
        norm: calibration.Norm = "expected",
        bins: int = 15,
        average: Literal["macro", "none"] = "macro",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.norm, self.bins = calibration.check_definition(norm, bins, "width", "all"), int(bins)
        self.average = classwise.check_class_average(average)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return binned_pairs.bins_by("class", values, target, self.bins)

    def _finish(self, total: Tensor) -> Tensor:
        return classwise.class_errors(total, self.norm, self.average)


class MeanAveragePrecision(Streaming):
    """Streaming form of :func:`~shortlist.metrics.mean_average_precision`, exact; over examples its state is two numbers.

    Over classes all scores are kept; :class:`BinnedMeanAveragePrecision` is the alternative of constant size, with bounds on
    its error.
    """

    kind: Kind = "scores"
    higher_is_better = True

    @understands(num_classes=ranking.NO_CLASSES, num_labels=ranking.NO_LABELS)
    def __init__(self, axis: ranking.Axis = "class", average: Literal["macro", "none"] = "macro", **kwargs: Any):
        super().__init__(ranking.check_axis(axis, average) == "class", **kwargs)
        self.axis, self.average = axis, average

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return ranking.example_sums(values, target)

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return ranking.averaged_precision(ranking.average_precisions(values, target), self.average)


class BinnedMeanAveragePrecision(Streaming):
    """Mean average precision over classes from a histogram of each class; its state is two numbers a bin and class.

    Probabilities in one bin count as tied. :meth:`bounds` gives the interval in which the exact value lies, whatever the
    order inside the bins. Bins are equally wide in the log-odds from -20 to 20, where multi-label probabilities live.
    """

    higher_is_better = True

    @understands(n_bins="bins", num_classes=ranking.NO_CLASSES, num_labels=ranking.NO_LABELS)
    def __init__(self, bins: int = 512, **kwargs: Any):
        super().__init__(**kwargs)
        self.bins = whole(2)("bins", bins)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return ranking.precision_histograms(values, target, self.bins)

    def _finish(self, total: Tensor) -> Tensor:
        return ranking.binned_precision(total)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """The lowest and highest value that the exact mean average precision can have."""
        return ranking.binned_precision_bounds(self.total)


class TopNF1(Streaming):
    """Streaming form of :func:`~shortlist.metrics.top_n_f1`; its state is three numbers a class."""

    kind: Kind = "scores"
    higher_is_better = True

    @understands(top_k="n", num_classes=ranking.NO_CLASSES, num_labels=ranking.NO_LABELS)
    def __init__(self, n: int = 4, **kwargs: Any):
        super().__init__(**kwargs)
        self.n = whole(1)("n", n)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return ranking.top_counts(values, target, self.n)

    def _finish(self, total: Tensor) -> Tensor:
        return ranking.macro_f1(total)


class MeanMaxConfidence(Streaming):
    """Streaming form of :func:`~shortlist.metrics.mean_max_confidence`."""

    higher_is_better = False

    needs_target = False

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return confidence.confidence_sums(values, target)


class OutlierAuroc(Streaming):
    """Streaming form of :func:`~shortlist.metrics.outlier_auroc`; its state is two numbers a row."""

    higher_is_better = True

    def __init__(self, by: RowMeasure = "confidence", **kwargs: Any):
        super().__init__(True, **kwargs)
        self.by = outliers.check_by(by)

    def _kept(self, values: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        found = outliers.row_scores(values, target, self.by)
        return found.scores[:, None], found.labelled[:, None]

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return outliers.auroc(outliers.RowScores(values[:, 0], target[:, 0]))


class OutlierFpr(OutlierAuroc):
    """Streaming form of :func:`~shortlist.metrics.outlier_fpr`; its state is two numbers a row."""

    higher_is_better = False

    def __init__(self, tpr: float = 0.95, by: RowMeasure = "confidence", **kwargs: Any):
        super().__init__(by, **kwargs)
        self.tpr = outliers.check_tpr(tpr)

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return outliers.false_positives(outliers.RowScores(values[:, 0], target[:, 0]), self.tpr)


class SizeAccuracyCurve(Streaming):
    """Streaming form of :func:`~shortlist.metrics.size_accuracy_curve`; its state is 2 × 16,258 numbers."""

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return curves.size_histograms(values, target)

    def _finish(self, total: Tensor) -> curves.Curve:
        return curves.curve_of_sizes(total)


class RankCurve(Streaming):
    """Streaming form of :func:`~shortlist.metrics.rank_curve`; its state is one number a class."""

    kind: Kind = "scores"

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return curves.rank_counts(values, target)

    def _finish(self, total: Tensor) -> curves.Curve:
        return curves.curve_of_ranks(total)


class RetrievalMap(Streaming):
    """Streaming form of :func:`~shortlist.metrics.retrieval_map`, which needs every score: the batches are kept."""

    higher_is_better = True

    def __init__(self, max_length: int = 5, sample: int | None = None, seed: int = 0, **kwargs: Any):
        super().__init__(True, **kwargs)
        retrieval.check_asked(max_length, sample)
        self.max_length, self.sample, self.seed = max_length, sample, seed

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return retrieval.retrieval_map(values, target, max_length=self.max_length, sample=self.sample, seed=self.seed)
