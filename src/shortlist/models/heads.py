"""Heads: features (N, F) → scores (N, C). A head owns the class weights."""

from typing import Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.tensors import Scores, TwoHeadScores as TwoHeadScores, working
from shortlist.words import expected_one_of

HeadName: TypeAlias = Literal["labels", "proposal"]
HEAD_NAMES: tuple[HeadName, ...] = get_args(HeadName)


class PendingScores(NamedTuple):
    """Scores that are not computed yet, so that a loss can compute them for some rows at a time.

    Args:
        inputs: (N, F).
        weight: (C, F); a pair of two heads.
        bias: (C,) or None; a pair of two heads.
    """

    inputs: Tensor
    weight: Tensor | tuple[Tensor, Tensor]
    bias: Tensor | tuple[Tensor | None, Tensor | None] | None


class LinearHead(nn.Linear):
    """``scores = weights · features + bias``.

    >>> LinearHead(8, 3)(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, features: int, classes: int):
        super().__init__(whole(1)("features", features), whole(1)("classes", classes))


class CosineHead(nn.Module):
    """``scores = cos(features, weights of the class)``, from -1 to 1: no bias, class weights of unit length at the start.

    Losses with margins are made for it: without lengths, a margin is an angle and means the same for every class. Computed
    in float32 whatever the precision around it; features that are all 0 have score 0.

    >>> head = CosineHead(8, 3)
    >>> bool((head.weight.norm(dim=1) - 1).abs().max() < 1e-6)
    True

    Cao et al. 2019; Garcin et al. 2022, section 4.
    """

    def __init__(self, features: int, classes: int):
        super().__init__()
        start = torch.randn(whole(1)("classes", classes), whole(1)("features", features))
        self.weight = nn.Parameter(normalize(start))

    def forward(self, features: Tensor) -> Scores:
        """Cosines, (N, C)."""
        with torch.autocast(features.device.type, enabled=False):
            return linear(normalize(working(features)), normalize(working(self.weight)))

    def extra_repr(self) -> str:
        """The sizes."""
        return f"features={self.weight.shape[1]}, classes={self.weight.shape[0]}"


class TwoHead(nn.Module):
    """Two linear heads on the same features: multi-label scores, and scores that propose pseudo-labels.

    The proposal head is trained with cross-entropy alone, so the softmax of its scores gives class probabilities; the label
    head only orders the labels for average-k sets.

    >>> TwoHead(8, 3)(torch.zeros(2, 8)).proposal_scores.shape
    torch.Size([2, 3])

    Garcin et al. 2023, section 5.
    """

    def __init__(self, features: int, classes: int):
        super().__init__()
        self.labels = LinearHead(features, classes)
        self.proposal = LinearHead(features, classes)

    def forward(self, features: Tensor) -> TwoHeadScores:
        """Both, (N, C) each."""
        return TwoHeadScores(self.labels(features), self.proposal(features))


def has_pending_scores(head: nn.Module) -> bool:
    """Whether the scores of the head are a linear function of something, and nothing else happens when it is called."""
    parts = [head.labels, head.proposal] if type(head) is TwoHead else [head]
    known = type(head) in (CosineHead, TwoHead, LinearHead, nn.Linear)
    return known and not any(part._forward_hooks or part._forward_pre_hooks for part in (head, *parts))


def pending_scores(head: nn.Module, features: Tensor, autocast: torch.dtype | None = None) -> PendingScores:
    """What the scores of a head are computed from.

    Args:
        head: one that :func:`has_pending_scores`.
        features: (N, F).
        autocast: the dtype in which linear heads are computed; default None, that of the features. Cosines are computed in
            float32.

    >>> head = LinearHead(8, 3)
    >>> pending_scores(head, torch.zeros(2, 8)).weight is head.weight
    True
    """
    if isinstance(head, CosineHead):
        with torch.autocast(features.device.type, enabled=False):
            return PendingScores(normalize(working(features)), normalize(working(head.weight)), None)
    inputs = features if autocast is None else features.to(autocast)
    if isinstance(head, TwoHead):
        return PendingScores(inputs, (head.labels.weight, head.proposal.weight), (head.labels.bias, head.proposal.bias))
    assert isinstance(head, nn.Linear)
    return PendingScores(inputs, head.weight, head.bias)


HEADS: dict[str, type[nn.Module]] = {"linear": LinearHead, "cosine": CosineHead, "two-head": TwoHead}


def make_head(kind: str, features: int, classes: int) -> nn.Module:
    """The head of this name.

    >>> make_head("cosine", 8, 3)
    CosineHead(features=8, classes=3)
    """
    if kind not in HEADS:
        raise InputError(f"head: {expected_one_of(kind, HEADS)}; got {kind!r}")
    return HEADS[kind](features, classes)
