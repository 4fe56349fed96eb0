"""The concept of a loss: a function, a module of the same name, what it elicits, its link, and its state while training."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from shortlist.checks import Check
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.losses.rows import check_reduction, mean_share
from shortlist.tensors import Scores, Target, TwoHeadScores

Elicits: TypeAlias = Literal["probabilities", "order", "top-k set", "average-k set", "nothing"]


class RowTerm(NamedTuple):
    """A term of a loss that is a sum over rows, times a number that does not depend on the scores.

    Args:
        summed: (scores, target) of some rows → their sum.
        share: what the sum over all rows is multiplied by.
    """

    summed: Callable[[Scores, Target | None], Tensor]
    share: Tensor | float


class Loss(nn.Module):
    """Module form of a loss function.

    A subclass names its :attr:`function` and repeats the function's keywords, with the same defaults, in a constructor that
    passes them on to this one. Tensors that change with every call (noise, proposals, estimates) are arguments of ``forward``
    instead. A loss has no parameters to train; tensors among its keywords become buffers, which follow ``.to(device)`` and
    are not saved.

    Attributes:
        elicits: what the scores that minimise the expected loss reveal about the distribution of the labels.
        couples: whether the loss of a row depends on the other rows of the batch.
        reads: whether it takes scores, or the log-odds of a link.
        of_unlabelled_rows: whether it is a loss of the rows without a label, and of no others.
        keeps_row_state: whether its training state holds something for every training row.
    """

    function: ClassVar[Callable[..., Tensor]]
    elicits: Elicits = "nothing"
    couples: bool = False
    reads: ClassVar[Literal["scores", "log-odds"]] = "scores"
    of_unlabelled_rows: ClassVar[bool] = False
    keeps_row_state: bool = False

    def __init_subclass__(cls) -> None:
        if "function" in cls.__dict__:
            # help() of the module explains its parameters; the examples stay with the function.
            cls.__doc__ = f"{cls.__doc__}\n\n    {(cls.function.__doc__ or '').split('>>>')[0].strip()}\n    "

    def __init__(self, **keywords: Any):
        super().__init__()
        checks: Mapping[str, Check] = getattr(getattr(type(self), "function", None), "domains", {})
        self._names = list(keywords)
        for name, value in keywords.items():
            checked = checks[name](name, value) if name in checks else value
            if isinstance(checked, Tensor):
                self.register_buffer(name, checked.detach().clone(), persistent=False)
            else:
                setattr(self, name, checked)
        if "reduction" in keywords:
            check_reduction(keywords["reduction"], couples=self.couples)

    @property
    def keywords(self) -> dict[str, Any]:
        """The parameters with which the function is called."""
        return {name: getattr(self, name) for name in self._names}

    def forward(self, scores: Scores, target: Target) -> Tensor:
        """The loss of these scores."""
        return type(self).function(scores, target, **self.keywords)

    def of_rows(self, scores: Scores, target: Target) -> Tensor:
        """The loss of each row, (N,); only for losses that do not couple rows."""
        return type(self).function(scores, target, **(self.keywords | {"reduction": "none"}))

    @property
    def has_row_terms(self) -> bool:
        """Whether the loss is a sum over rows, so that it can be computed for some rows at a time."""
        return hasattr(type(self), "function") and not self.couples and not self.keeps_row_state

    def row_terms(self, scores: Scores, target: Target | None) -> list[RowTerm]:
        """The terms of the loss of a batch, if it has them.

        Args:
            scores: (N, C), of which only shape, dtype and device are used.
            target: the labels of all rows.
        """
        keywords = self.keywords
        if keywords.get("reduction") == "none":
            raise InputError(f"reduction: expected 'mean' or 'sum' for a sum of terms, got 'none' in {type(self).__name__}")
        weight, ignored = keywords.get("weight"), keywords.get("ignore_index")
        share = 1.0 if keywords.get("reduction") == "sum" else mean_share(scores, target, weight, ignored)
        return [RowTerm(partial(type(self).function, **(keywords | {"reduction": "sum"})), share)]

    def link(self) -> Link | None:
        """The link that turns scores trained with this loss into probabilities; None if there is none."""
        return None

    def log_odds_link(self) -> Link | None:
        """The link whose log-odds a penalty takes, with a gradient everywhere; None for the scores themselves.

        By default the link of the loss.
        """
        return self.link()

    def training_state(self, rows: int, classes: int, seed: int) -> "LossState":
        """What this loss keeps between the steps of a training run; by default only its link.

        Args:
            rows: number of training rows.
            classes: number of classes.
            seed: seed for whatever the state draws.
        """
        return LossState(self)

    def extra_repr(self) -> str:
        """The parameters, as they would be typed; standard ones at their defaults are left out."""
        usual = {"reduction": "mean", "weight": None, "ignore_index": -100}
        shown = {n: v for n, v in self.keywords.items() if isinstance(v, Tensor) or n not in usual or v != usual[n]}
        return ", ".join(f"{n}=tensor{tuple(v.shape)}" if isinstance(v, Tensor) else f"{n}={v!r}" for n, v in shown.items())


class LossState(nn.Module):
    """What a loss keeps between the steps of a training run. The default keeps the loss and its link.

    The training loop calls the state with each micro-batch, :meth:`stepped` after each step of the optimiser, and
    :meth:`skipped` after a step that is dropped because its loss is not finite. A loss with a state of its own returns a
    subclass from :meth:`Loss.training_state`. Checkpoints hold the buffers of the state, those of submodules included.

    Attributes:
        link: the link that turns scores into probabilities; a state may update it.
    """

    def __init__(self, loss: Loss):
        super().__init__()
        self.loss = loss
        self.link = loss.link()

    def forward(self, output: Scores | TwoHeadScores, target: Target, rows: Tensor) -> Tensor:
        """The loss of a micro-batch.

        Args:
            output: the network's output.
            target: the labels.
            rows: the row numbers in the training set, int64 (N,).
        """
        value: Tensor = self.loss(output, target)
        return value

    def stepped(self, rate: float) -> None:
        """Called after each optimiser step, with its learning rate; the gradients are still there."""

    def skipped(self) -> None:
        """Called when a step is dropped: forget what its micro-batches left behind."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""
        return dict(self.state_dict())

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the tensors of a checkpoint."""
        self.load_state_dict(tensors)


def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` to full precision: torch's own is linear above 20, too early for float64."""
    return torch.nn.functional.softplus(x, threshold=40.0)
