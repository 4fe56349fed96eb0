"""The numbers that go onto a model card: few, each with its definition, the rows it is of, and its standard error."""

import math
from typing import Any

from torch import Tensor

from shortlist.metrics import (
    calibration_definition,
    calibration_error,
    mean_average_precision,
    set_accuracy,
    set_size,
    top_k_accuracy,
)
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.tensors import is_single_label


def card_numbers(predictions: Predictions, rule: SetRule) -> list[dict[str, Any]]:
    """What a person would ask about these test predictions and this rule."""
    target, plausible = predictions.target, predictions.plausibility()
    assert target is not None
    sets = rule(plausible)
    rows = len(predictions)
    found = [_share(f"label in the set ({rule.text})", set_accuracy(sets, target), rows)]
    found.append(
        {"name": "the same, averaged over classes", "value": float(set_accuracy(sets, target, average="macro")), "n": rows}
    )
    size = float(set_size(sets))
    found.append({"name": "labels in a set, on average", "value": size, "n": rows, "form": ".2f"})
    if is_single_label(target):
        found.append(_share("top-1 accuracy", top_k_accuracy(plausible, target, 1), rows))
    else:
        found.append({"name": "mAP by class", "value": float(mean_average_precision(plausible, target)), "n": rows})
    if predictions.link is not None:
        error = float(calibration_error(plausible, target, over="all"))
        found.append({"name": calibration_definition("expected", over="all"), "value": error, "n": rows, "form": ".2%"})
    return found


def _share(name: str, value: Tensor, rows: int) -> dict[str, Any]:
    share = float(value)
    return {"name": name, "value": share, "n": rows, "error": math.sqrt(share * (1 - share) / rows) if rows else math.nan}
