"""Links that are fitted by the workers of a cluster: the same as in one process, to the last bit."""

from collections.abc import Iterator
from dataclasses import dataclass

from shortlist.cluster.measuring import Range
from shortlist.cluster.pooling import Pool
from shortlist.cluster.rows import Rows, block_rows, ranges
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.links.temperature import Slope
from shortlist.predictions import Predictions
from shortlist.tensors import is_single_label, row_blocks


@dataclass(frozen=True)
class _Sloping:
    """A job: the slopes of the blocks of a range of rows."""

    rows: Rows
    link: Temperature
    scale: float

    def __call__(self, task: Range) -> list[Slope]:
        found = self.rows.part(*task)
        scores, target = found.scores, found.target  # read once
        assert target is not None
        return [self.link.slope(scores[block], target[block], self.scale) for block in row_blocks(*scores.shape)]


def fit_temperature(pool: Pool, link: Temperature, rows: Rows | Predictions) -> Temperature:
    """Fit a temperature as :meth:`Temperature.fit` does; only two numbers for each block of rows travel.

    Other links are not fitted in this way: isotonic regression and Venn–Abers sort all rows, and the regressions of the others
    hold all rows while they take their steps.

    Args:
        pool: workers.
        link: is fitted in place, and returned.
        rows: with labels.
    """
    rows = rows if isinstance(rows, Rows) else Rows.of(rows)
    target = rows.whole().without_rows().target
    if target is None:
        raise InputError("rows: expected labels to fit a link on, got none")

    def slopes(begun: Temperature, scale: float) -> Iterator[Slope]:
        # Sums are over blocks: they are the same to the last bit if no block is cut.
        for blocks in pool.in_order(_Sloping(rows, begun, scale), ranges(len(rows), pool.size, block_rows(rows.classes))):
            yield from blocks

    return link.fit_from(slopes, is_single_label(target))
