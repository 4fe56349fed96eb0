"""What validation measures after an epoch, and which of it decides."""

import copy
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from shortlist.errors import InputError, ShortlistWarning
from shortlist.links import Link
from shortlist.metrics import average_k_accuracy, calibration_error, mean_average_precision, top_k_accuracy
from shortlist.tensors import Scores, Target, is_single_label, pick
from shortlist.training.recipe import Recipe

LOWER_IS_BETTER = ("ace", "nll")


@dataclass(frozen=True)
class Monitor:
    """The metrics of validation, and the one that chooses the epoch.

    One label a row: ``top-1``, ``top-K``, ``macro-top-K``, ``average-K`` (at the threshold that gives K labels on average on
    these rows); many: ``map``; where scores read as probabilities also ``ace`` (all labels, 15 bins of equal width, the mean
    over bins) and ``nll``.
    """

    deciding: str
    k: float
    link: Link | None

    @property
    def rising(self) -> bool:
        """Whether more is better."""
        return self.deciding not in LOWER_IS_BETTER

    def better(self, value: float, best: float | None) -> bool:
        """Whether this value beats the best so far; nothing beats anything that is not a number."""
        if value != value:
            return False
        return best is None or (value > best if self.rising else value < best)

    def measure(self, scores: Scores, target: Target) -> dict[str, float]:
        """Every metric of these validation scores."""
        # A link in training lies on the device of the network, and the scores of validation do not.
        link = copy.deepcopy(self.link).cpu() if self.link is not None and self.link.fitted else None
        plausible = scores if link is None else link.probs(scores)
        found: Mapping[str, torch.Tensor]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortlistWarning)  # ties of an epoch that nobody will use
            found = (
                self._one(plausible, target) if is_single_label(target) else {"map": mean_average_precision(plausible, target)}
            )
        numbers = {name: float(value) for name, value in found.items()}
        if link is not None:
            numbers["ace"] = float(calibration_error(plausible, target, norm="average"))
            numbers["nll"] = _log_loss(link, scores, target)
        elif self.link is not None and self.deciding in LOWER_IS_BETTER:
            numbers[self.deciding] = math.nan  # a running link that no row with a label has moved yet
        return numbers

    def _one(self, plausible: torch.Tensor, target: Target) -> dict[str, torch.Tensor]:
        classes = plausible.shape[1]
        whole = min(max(1, round(self.k)), classes)
        return {
            "top-1": top_k_accuracy(plausible, target, 1),
            f"top-{whole}": top_k_accuracy(plausible, target, whole),
            f"macro-top-{whole}": top_k_accuracy(plausible, target, whole, average="macro"),
            f"average-{self.k:g}": average_k_accuracy(plausible, target, min(self.k, classes)),
        }


def monitor_of(recipe: Recipe, link: Link | None, classes: int) -> Monitor:
    """The monitor of a recipe; the deciding metric is the recipe's, or that which its method is for."""
    k = min(recipe.k, classes)
    method = recipe.chosen_method
    whole = f"{min(max(1, round(k)), classes)}"
    if method.labels == "any" or recipe.labels == "any":
        names = ["map", "ace", "nll"]
        usual = "map"
    else:
        names = ["top-1", f"top-{whole}", f"macro-top-{whole}", f"average-{k:g}", "ace", "nll"]
        usual = f"macro-top-{whole}" if method.sets_of_k else f"average-{k:g}"
    if link is None or not (link.fitted or method.trains_link):
        names = [name for name in names if name not in LOWER_IS_BETTER]
    if recipe.monitor is not None and recipe.monitor not in names:
        raise InputError(f"monitor: expected one of {', '.join(names)}; got {recipe.monitor!r}")
    return Monitor(recipe.monitor or usual, k, link)


def _log_loss(link: Link, scores: Scores, target: Target) -> float:
    """Mean of -log p of the label, or of the labels and non-labels."""
    if is_single_label(target):
        return float(-pick(link.probs(scores), target).double().clamp(min=1e-30).log().mean())
    odds = link.log_odds(scores).double().clamp(-100, 100)
    return float(torch.nn.functional.binary_cross_entropy_with_logits(odds, target.double()))
