"""The streaming form of proper scores."""

from typing import Any

from torch import Tensor

from shortlist.metrics import calibration, proper
from shortlist.metrics.streaming import Streaming
from shortlist.words import understands


class LogLoss(Streaming):
    """Streaming form of :func:`~shortlist.metrics.log_loss`."""

    higher_is_better = False

    @understands(num_classes=calibration.NO_CLASSES)
    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return proper.log_losses(values, target)


class BrierScore(Streaming):
    """Streaming form of :func:`~shortlist.metrics.brier_score`."""

    higher_is_better = False

    @understands(num_classes=calibration.NO_CLASSES)
    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return proper.squared_errors(values, target)


class BrierDecomposition(Streaming):
    """Streaming form of :func:`~shortlist.metrics.brier_decomposition`; its state is six numbers a bin and class.

    With a bin of each different probability all batches are kept.
    """

    @understands(n_bins="bins", num_bins="bins", num_classes=calibration.NO_CLASSES)
    def __init__(self, bins: int | None = 15, **kwargs: Any):
        self.bins = proper.check_bins(bins)
        super().__init__(bins is None, **kwargs)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        assert self.bins is not None
        return proper.pair_products(values, target, self.bins)

    def _finish(self, total: Tensor) -> dict[str, Tensor]:
        return proper.brier_parts(total)

    def _whole(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        return proper.distinct_parts(values, target)
