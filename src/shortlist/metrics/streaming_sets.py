"""The streaming form of the metrics of sets: coverage and sizes."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from shortlist.checks import Kind, whole
from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.metrics import accuracy, sizes, strata
from shortlist.metrics.streaming import Streaming
from shortlist.sets import average_k, top_k
from shortlist.sets.constraints import check_alpha
from shortlist.sets.hierarchy import superclass_numbers
from shortlist.sets.origin import check_same_origin
from shortlist.tensors import as_tensor
from shortlist.words import understands


class Coverage(Streaming):
    """Streaming form of :func:`~shortlist.metrics.coverage`; its state is two numbers a class."""

    higher_is_better = True
    kind: Kind = "sets"

    @understands(num_classes=accuracy.NO_CLASSES, top_k=accuracy.OF_SETS)
    def __init__(self, average: accuracy.Average = "micro", **kwargs: Any):
        super().__init__(**kwargs)
        self.average = accuracy.check_average(average)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return accuracy.class_hits(values, target)

    def _finish(self, total: Tensor) -> Tensor:
        return accuracy.averaged(total, self.average)


class ShotCoverage(Streaming):
    """Streaming form of :func:`~shortlist.metrics.shot_coverage`; its state is two numbers a class."""

    higher_is_better = True
    kind: Kind = "sets"

    @understands(num_classes=accuracy.NO_CLASSES)
    def __init__(self, train_counts: Any, edges: Sequence[int] | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        counts = as_tensor(by_class("train_counts", train_counts), "train_counts")
        self.train_counts, self.edges = counts.clone(), accuracy.check_edges(edges)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return accuracy.class_hits(values, target)

    def _finish(self, total: Tensor) -> dict[str, Tensor]:
        return accuracy.coverage_by_shot(total, self.train_counts.to(total.device), self.edges)


class SuperclassCoverage(Coverage):
    """Streaming form of :func:`~shortlist.metrics.superclass_coverage`; its state is two numbers a superclass."""

    @understands(num_classes=accuracy.NO_CLASSES, top_k=accuracy.OF_SETS)
    def __init__(self, superclasses: Any, average: accuracy.Average = "micro", **kwargs: Any):
        super().__init__(average, **kwargs)
        self.groups = superclass_numbers(superclasses)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        if len(self.groups) != values.shape[1]:
            raise InputError(f"superclasses: expected one for each of {values.shape[1]} classes, got {len(self.groups)}")
        return accuracy.superclass_hits(values, target, self.groups.to(values.device))


SetAccuracy = Coverage
ShotAccuracy = ShotCoverage


class TopKAccuracy(Coverage):
    """Streaming form of :func:`~shortlist.metrics.top_k_accuracy`; its state is two numbers a class."""

    kind: Kind = "scores"

    @understands(top_k="k", num_classes=accuracy.NO_CLASSES)
    def __init__(self, k: int, average: accuracy.Average = "micro", **kwargs: Any):
        super().__init__(average, **kwargs)
        self.rule = top_k(k)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return accuracy.class_hits(self.rule.sets(values), target)


class AverageKAccuracy(Coverage):
    """Streaming form of :func:`~shortlist.metrics.average_k_accuracy`; with calibration rows its state is two numbers a class.

    Without them the threshold is that of the streamed rows, and all of them are kept: :class:`SizeAccuracyCurve` is the
    alternative of constant size.
    """

    kind: Kind = "scores"

    @understands(num_classes=accuracy.NO_CLASSES)
    def __init__(
        self, k: float, calibration: Any = None, prior: Any = None, average: accuracy.Average = "micro", **kwargs: Any
    ):
        Streaming.__init__(self, calibration is None, **kwargs)
        self.average = accuracy.check_average(average)
        self.rule = average_k(k, prior)
        self.calibrated = calibration is not None
        if self.calibrated:
            accuracy.calibrated(self.rule, calibration)

    def _check_columns(self, values: Any, target: Any) -> None:
        if self.calibrated:
            check_same_origin(self.rule.text, self.rule.origin, values)
        super()._check_columns(values, target)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return accuracy.class_hits(self.rule(values), target)

    def _whole(self, values: Tensor, target: Tensor) -> Tensor:
        return accuracy.averaged(accuracy.class_hits(self.rule.fit(values)(values), target), self.average)


class SetSize(Streaming):
    """Streaming form of :func:`~shortlist.metrics.set_size`."""

    kind: Kind = "sets"
    needs_target = False

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return sizes.size_sums(values)


class EmptyRate(Streaming):
    """Streaming form of :func:`~shortlist.metrics.empty_rate`."""

    kind: Kind = "sets"
    needs_target = False

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return sizes.empty_sums(values)


class SetPrecision(Streaming):
    """Streaming form of :func:`~shortlist.metrics.set_precision`."""

    kind: Kind = "sets"
    higher_is_better = True

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return sizes.right_sums(values, target)


class SizeStratifiedCoverage(Streaming):
    """Streaming form of :func:`~shortlist.metrics.size_stratified_coverage`; its state is three numbers a size."""

    kind: Kind = "sets"
    higher_is_better = True

    @understands(num_classes=accuracy.NO_CLASSES, top_k=accuracy.OF_SETS)
    def __init__(self, edges: Sequence[int] | None = None, min_rows: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        self.edges, self.min_rows = accuracy.check_edges(edges), whole(1)("min_rows", min_rows)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return strata.size_hits(values, target)

    def _finish(self, total: Tensor) -> Tensor:
        return strata.lowest_share(strata.strata(total, self.edges), self.min_rows)


class ClassCoverageGap(Streaming):
    """Streaming form of :func:`~shortlist.metrics.class_coverage_gap`; its state is two numbers a class."""

    kind: Kind = "sets"
    higher_is_better = False

    @understands(num_classes=accuracy.NO_CLASSES, top_k=accuracy.OF_SETS)
    def __init__(self, alpha: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.level = 1 - float(check_alpha(alpha))

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return accuracy.class_hits(values, target)

    def _finish(self, total: Tensor) -> Tensor:
        return strata.mean_gap(total, self.level)
