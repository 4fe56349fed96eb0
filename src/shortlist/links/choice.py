"""Which link to fit: the candidates by name, and the choice between them by cross-validation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import check_rows, whole
from shortlist.class_names import check_same_names, labels_by_name
from shortlist.errors import InputError, NotConvergedError
from shortlist.links.beta import Beta
from shortlist.links.dirichlet import Dirichlet, VectorScaling
from shortlist.links.fitted import FittedLink
from shortlist.links.fixed import Sigmoid, Softmax
from shortlist.links.link import Link
from shortlist.links.per_label import Isotonic, Platt
from shortlist.links.recovery import FocalRecovery
from shortlist.links.temperature import Temperature
from shortlist.links.venn_abers import VennAbers
from shortlist.tensors import Scores, Target, as_target, as_tensor, is_single_label, pick

CALIBRATIONS: Mapping[str, type[FittedLink]] = {
    link.kind: link for link in (Temperature, Platt, Beta, VectorScaling, Dirichlet, Isotonic, VennAbers)
}  # the simplest first
ONE_LABEL = (VectorScaling, Dirichlet)  # they are a softmax
MOST_CLASSES = 100  # of Dirichlet calibration, which has a number for each pair
MOST_ENTRIES = 2_000_000  # of Venn–Abers, whose fit takes a dozen microseconds for each row and label


def unfitted(name: str, base: Link | None, *, single: bool) -> FittedLink:
    """The link of this name, to be fitted on top of a base, which stays as it is in all cases but one.

    Platt scaling of scores of the asymmetric focal loss starts from the sigmoid: log-odds by :class:`FocalRecovery` are
    stretched at the lower end, to minus infinity if there is a shift, and no line through them fits both ends.

    Args:
        name: one of :data:`CALIBRATIONS`.
        base: the link of the loss; None for softmax or sigmoid.
        single: whether every row has exactly one label.

    >>> from shortlist.links import FocalRecovery
    >>> [unfitted(name, FocalRecovery(0, 4, 0.05), single=False).base for name in ("platt", "beta")]
    [sigmoid, focal-recovery:0:4:0.05]
    """
    kind = CALIBRATIONS[name]
    return kind(Sigmoid() if kind is Platt and isinstance(base, FocalRecovery) and not single else base)


@dataclass(frozen=True)
class Candidate:
    """A link that was tried.

    Args:
        name: its kind; ``none`` for the base alone.
        loss: the mean negative log-likelihood of rows that it was not fitted on; NaN if it could not be fitted.
        behind: by how much that is more than the smallest.
        error: the standard error of this difference, from those of the rows.
        note: why it could not be fitted.
    """

    name: str
    loss: float
    behind: float = math.nan
    error: float = math.nan
    note: str = ""


@dataclass(frozen=True)
class LinkChoice:
    """The candidates, and the best of them fitted on all rows.

    Args:
        link: the fitted link, or the base if nothing was better.
        chosen: its name among the candidates.
        candidates: all that were tried.
    """

    link: Link
    chosen: str
    candidates: tuple[Candidate, ...]


def choose_link(
    scores: Scores | np.ndarray[Any, Any],
    target: Target | np.ndarray[Any, Any],
    base: Link | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
) -> LinkChoice:
    """The simplest link whose log-loss on rows that it was not fitted on is within a standard error of the smallest.

    The log-loss, or negative log-likelihood, is cross-validated. With few rows the smallest is a matter of luck; the standard
    error is that of the difference, row by row (Breiman, Friedman, Olshen, Stone, "Classification and regression trees", 1984).
    The base alone is no simpler than a temperature here: one number needs no such doubt, and on few rows an error is so large
    that wrong probabilities would be left as they are.

    Candidates are the base alone and every fitted link that suits the labels: vector scaling and Dirichlet calibration (up to
    100 classes) for one label per row; Venn–Abers up to two million rows times labels. The likelihood is of the label of each
    row, or the mean over labels if a row may have any number.

    Args:
        scores: finite numbers (N, C).
        target: int64 (N,) or bool (N, C).
        base: the link that the others start from; softmax for one label per row, sigmoid for several by default.
        folds: in how many parts the rows are divided, of which each is left out once.
        seed: of the division.

    >>> generator = torch.Generator().manual_seed(0)
    >>> scores = torch.randn(400, 3, generator=generator)
    >>> choose_link(4 * scores, scores.softmax(1).multinomial(1, generator=generator).squeeze(1)).chosen
    'temperature'
    """
    target = labels_by_name(target, scores)
    check_same_names(scores, target)
    scores, target = as_tensor(scores, "scores"), as_target(target)
    check_rows(scores, target, kind="finite", name="scores")
    folds, seed = whole(2)("folds", folds), whole(0)("seed", seed)
    if len(scores) < folds:
        raise InputError(f"scores: expected at least {folds} labelled rows to divide into {folds} folds, got {len(scores)}")
    base = base or (Softmax() if is_single_label(target) else Sigmoid())
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
    parts = [order[fold::folds].sort().values.to(scores.device) for fold in range(folds)]
    found: dict[str, Tensor | str] = {"none": torch.cat([_losses(base, scores[part], target[part]) for part in parts])}
    single = is_single_label(target)
    for name, kind in CALIBRATIONS.items():
        if _suits(kind, scores, target):
            found[name] = _cross_validated(partial(unfitted, name, base, single=single), scores, target, parts)
    candidates = _compared(found)
    chosen = _simplest(candidates)
    link = base if chosen == "none" else unfitted(chosen, base, single=single).fit(scores, target)
    return LinkChoice(link, chosen, candidates)


def _compared(found: Mapping[str, Tensor | str]) -> tuple[Candidate, ...]:
    """Each candidate beside the best, from the losses of all rows or why there are none."""
    losses = {name: rows for name, rows in found.items() if isinstance(rows, Tensor)}
    best = min(losses.values(), key=lambda rows: float(rows.mean()))
    candidates = []
    for name, rows in found.items():
        if isinstance(rows, Tensor):
            more = rows - best
            error = float(more.std()) / len(more) ** 0.5
            candidates.append(Candidate(name, float(rows.mean()), float(more.mean()), error))
        else:
            candidates.append(Candidate(name, math.nan, note=rows))
    return tuple(candidates)


def _simplest(candidates: Sequence[Candidate]) -> str:
    """The name of the first that is within an error of the best; the base alone only if a temperature is no better.

    The doubt is for links that may follow the noise of few rows. One number does not: it costs 1/(2n) of log-loss.
    """
    temperature = next(one.loss for one in candidates if one.name == Temperature.kind)  # NaN if there is none
    fair = (one for one in candidates if one.name != "none" or not temperature < one.loss)
    # A base that gives a true label probability 0 has an infinite loss, behind by more than any error.
    return next(one.name for one in fair if one.behind == 0 or one.behind <= one.error < math.inf)


def _suits(kind: type[FittedLink], scores: Scores, target: Target) -> bool:
    if kind in ONE_LABEL and not is_single_label(target):
        return False
    if kind is VennAbers and scores.numel() > MOST_ENTRIES:
        return False
    return kind is not Dirichlet or scores.shape[1] <= MOST_CLASSES


def _cross_validated(make: Callable[[], FittedLink], scores: Scores, target: Target, parts: list[Tensor]) -> Tensor | str:
    """The losses of the rows of each part by a link fitted on the others, or why it could not be fitted."""
    found = []
    for part in parts:
        rest = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
        rest[part] = False
        try:
            link = make().fit(scores[rest], target[rest])
        except NotConvergedError as error:
            return str(error)
        found.append(_losses(link, scores[part], target[part]))
    return torch.cat(found)


def _losses(link: Link, scores: Scores, target: Target) -> Tensor:
    """The negative log-likelihood of each row."""
    odds = link.log_odds(scores.double())
    if is_single_label(target):
        return -logsigmoid(pick(odds, target))
    return -logsigmoid(torch.where(target, odds, -odds)).mean(1)
