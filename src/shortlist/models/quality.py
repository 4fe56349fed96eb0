"""The quality of rows, which a gate may compare them by: given for each row, or computed from inputs while they are scored."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from shortlist.data.focus import sharpness
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec
from shortlist.predictions.checks import as_quality
from shortlist.sets import SetRule
from shortlist.sets.gates import SHARPNESS, needs_quality

QualityOf: TypeAlias = Callable[[Tensor], Any]  # raw inputs of some rows → a number for each
PASS = "pass quality=, an array with one number for each row or a function of a raw batch"


class RowQuality:
    """The quality of the rows of a source.

    Args:
        given: a number for each row, (N,); a function of a raw batch (uint8 pictures, or features) that returns one for each of
            its rows, such as a second network; or ``"sharpness"``, which is such a function of pictures.
        rows: N.

    >>> quality = RowQuality(lambda batch: batch.sum(1), rows=3)
    >>> batches = [(torch.tensor([0, 2]), torch.ones(2, 5)), (torch.tensor([1]), torch.zeros(1, 5))]
    >>> _ = list(quality.watching(batches))
    >>> quality.values
    tensor([5., 0., 5.], dtype=torch.float64)
    """

    def __init__(self, given: Any, rows: int):
        self._of: QualityOf | None = quality_function(given)
        self.values = torch.zeros(rows, dtype=torch.float64) if self._of is not None else as_quality(given, rows).cpu()

    def watching(self, batches: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """The same batches of row numbers and raw inputs; their quality is known once they have been read."""
        for rows, batch in batches:
            if self._of is not None:
                self.values[rows] = as_quality(self._of(batch), len(rows)).cpu()
            yield rows, batch


def quality_function(given: Any) -> QualityOf | None:
    """The function of a raw batch that this is or names; None for numbers."""
    if isinstance(given, str):
        if given != SHARPNESS:
            raise InputError(f"quality: expected numbers, a function or {SHARPNESS!r}, got {given!r}")
        return sharpness
    return given if callable(given) else None


def quality_for(rule: SetRule | None, inputs: InputSpec, given: Any = None, *, required: bool = True) -> Any:
    """The quality as it is given, or else sharpness where the gate of the rule compares pictures by it; None if none is needed.

    Args:
        rule: of the classifier.
        inputs: what its network reads.
        given: for :class:`RowQuality`.
        required: whether a quality that the rule needs and that cannot be computed is an error.
    """
    if given is not None or rule is None or not rule.needs_quality:
        return given
    if rule.gate is not None and rule.gate.by == SHARPNESS and inputs.is_pictures:
        return SHARPNESS
    if required:
        raise needs_quality(rule.text, PASS)
    return None
