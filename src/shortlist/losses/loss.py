"""The concept: a loss is a function, a module of the same name, what it elicits, and the link that reads its scores."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.processes import total
from shortlist.tensors import Scores, Target

Elicits: TypeAlias = Literal["probabilities", "order", "top-k set", "average-k set", "nothing"]

# Tensors that change with every call: keywords of the function and of forward, never of a constructor.
PER_CALL = ("proposal_scores", "noise", "generator", "log_normalizer", "estimates")

WHERE_FROM = {
    "proposal_scores": "the second scores of a TwoHead",
    "estimates": "the batch's rows of a RoleEstimates store",
}


class Loss(nn.Module):
    """Module form of a loss function: its keywords are the constructor's, with the same defaults.

    A subclass names its :attr:`function`, what minimising it :attr:`elicits`, whether it :attr:`couples` the rows of a batch
    and whether it :attr:`reads` scores or log-odds. It owns no parameter; tensors among its keywords are buffers that follow
    ``.to(device)`` and are not saved.
    """

    function: ClassVar[Callable[..., Tensor]]
    elicits: ClassVar[Elicits] = "nothing"
    couples: ClassVar[bool] = False
    reads: ClassVar[Literal["scores", "log-odds"]] = "scores"
    _per_call: ClassVar[dict[str, bool]] = {}  # tensors of a call, and whether it needs them

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "function"):  # a family of losses
            return
        parameters = inspect.signature(cls.function).parameters.values()
        named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        cls.__signature__ = inspect.Signature([p for p in named if p.name not in PER_CALL])  # type: ignore[attr-defined]
        cls._per_call = {p.name: p.default is p.empty for p in named if p.name in PER_CALL}
        # help() of the module says what its parameters mean; examples are the function's.
        cls.__doc__ = f"{cls.__doc__}\n\n    {(cls.function.__doc__ or '').split('>>>')[0].strip()}\n    "

    def __init__(self, *positional: Any, **keywords: Any):
        super().__init__()
        signature: inspect.Signature = type(self).__signature__  # type: ignore[attr-defined]
        takes = ", ".join(signature.parameters)
        if positional:
            raise TypeError(
                f"{type(self).__name__}: expected its parameters by name ({takes}), got {positional[0]!r} without one"
            )
        try:
            bound = signature.bind(**keywords)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}; it takes {takes}") from None
        bound.apply_defaults()
        for name, check in getattr(type(self).function, "checks", {}).items():
            bound.arguments[name] = check(name, bound.arguments[name])
        check_reduction(bound.arguments["reduction"], couples=self.couples)
        self._names = list(bound.arguments)
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value.detach().clone(), persistent=False)
            else:
                setattr(self, name, value)

    @property
    def keywords(self) -> dict[str, Any]:
        """The parameters with which the function is called."""
        return {name: getattr(self, name) for name in self._names}

    def forward(self, scores: Scores, target: Target, **per_call: Any) -> Tensor:
        """The loss of these scores; what changes with every call (noise, proposals, estimates) is given here."""
        for name in per_call:
            if name not in self._per_call:
                takes = ", ".join(self._per_call) or "nothing more"
                place = "belongs to the constructor" if name in self._names else f"is unknown: a call takes {takes}"
                raise TypeError(f"{type(self).__name__}: {name!r} {place}")
        for name, needed in self._per_call.items():
            if needed and name not in per_call:
                raise TypeError(f"{type(self).__name__}: a call needs {name}=…, {WHERE_FROM[name]}")
        return type(self).function(scores, target, **self.keywords, **per_call)

    def link(self) -> Link | None:
        """The link that reads scores trained with this loss as probabilities; None where there is none."""
        return None

    def extra_repr(self) -> str:
        """The parameters, as they would be typed."""
        shown = {name: value for name, value in self.keywords.items() if not (name == "reduction" and value == "mean")}
        return ", ".join(f"{n}=tensor{tuple(v.shape)}" if isinstance(v, Tensor) else f"{n}={v!r}" for n, v in shown.items())


def check_reduction(reduction: str, *, couples: bool) -> None:
    """Losses that couple the rows of a batch have no value a row."""
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    if couples and reduction == "none":
        raise InputError("reduction: expected 'mean' or 'sum', got 'none': this loss couples the rows of a batch")


def reduce_coupled(mean: Tensor, rows: Tensor, reduction: str) -> Tensor:
    """A loss that is a mean over the global batch by itself; its sum is that times the batch's rows."""
    check_reduction(reduction, couples=True)
    return mean * rows if reduction == "sum" else mean


def global_rows(scores: Scores) -> Tensor:
    """Rows of the global batch, at least a little, so that nothing divided by it is nothing."""
    return total(scores.new_tensor(float(len(scores)))).clamp(min=0.5)


def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` to full precision: torch's own turns linear above 20, which float64 would notice."""
    return torch.nn.functional.softplus(x, threshold=40.0)
