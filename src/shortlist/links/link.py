"""The concept: a module that reads scores as probabilities."""

import hashlib
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.tensors import Probs, Scores, as_tensor, check_scores, working


class Link(Fitted):
    """Reads scores as probabilities, and where it can be undone, probabilities as scores.

    Half precision is computed in float32. A subclass gives :meth:`_log_odds` or :meth:`_probs` (the other follows) and
    names its constructor's parameters in :attr:`parameter_names`, from which its configuration is written.
    """

    kind: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[dict[str, type["Link"]]] = {}  # every link by its name

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Link.kinds[cls.kind] = cls

    def probs(self, scores: Scores) -> Probs:
        """Probabilities (N, C) of scores (N, C)."""
        return self._probs(self._checked(scores))

    def log_odds(self, scores: Scores) -> Tensor:
        """``log(p / (1 - p))`` of the probabilities, without the loss of precision of taking it from them."""
        return self._log_odds(self._checked(scores))

    def scores(self, probs: Probs) -> Scores:
        """Scores (N, C) whose probabilities these are."""
        probs = as_tensor(probs)
        check_scores(probs, "probs")
        return self._scores(working(probs))

    @property
    def fitted(self) -> bool:
        """Whether the link has all of its numbers: a running one has none before its first batch; one without any has all."""
        return not self.missing_buffers()

    @property
    def tells_of_a_fit(self) -> bool:
        """Whether the configuration alone says that the link was fitted, so that it must have its buffers."""
        return False

    def missing_buffers(self) -> list[str]:
        """The names of the buffers that are not there yet, which a fit or a state dict brings."""
        return [name for name, buffer in self._buffers.items() if buffer is None]

    def check_classes(self, classes: int) -> None:
        """The link can read scores of this many classes."""

    def forward(self, scores: Scores) -> Probs:
        """The same as :meth:`probs`."""
        return self.probs(scores)

    def _checked(self, scores: Scores) -> Scores:
        scores = as_tensor(scores, "scores")
        check_scores(scores)
        self.check_classes(scores.shape[1])
        return working(scores)

    def fingerprint(self) -> list[Any]:
        """The same for links that read scores alike: the configuration, and a hash of each buffer."""
        buffers = {name: tensor.cpu().contiguous().numpy().tobytes() for name, tensor in self.state_dict().items()}
        return [self.config(), {name: hashlib.sha256(content).hexdigest()[:16] for name, content in buffers.items()}]

    def config(self) -> dict[str, Any]:
        """What ``link_from_config`` needs to build this link again, its fitted buffers aside."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.parameter_names}}

    def _probs(self, scores: Scores) -> Probs:
        return torch.sigmoid(self._log_odds(scores))

    def _log_odds(self, scores: Scores) -> Tensor:
        return torch.logit(self._probs(scores))

    def _scores(self, probs: Probs) -> Scores:
        raise InputError(f"the link {self} has no inverse: scores cannot be told from its probabilities")

    def __repr__(self) -> str:
        return ":".join([self.kind, *(f"{getattr(self, name)}" for name in self.parameter_names)])


def link_from_config(config: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Link:
    """The link that wrote this configuration, with its fitted buffers.

    Args:
        config: what :meth:`Link.config` gave.
        tensors: its state dict. Where it is empty, as that of a link before its fit, so is the link; but a part of it is
            refused, and none of it where the configuration is that of a fitted link. None: somebody else brings the buffers.

    >>> from shortlist.links import Sigmoid
    >>> link_from_config({"kind": "sigmoid"})
    sigmoid
    """
    parameters = dict(config)
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str) or kind not in Link.kinds:
        raise InputError(f"link: expected a kind out of {', '.join(Link.kinds)}; got {kind!r}")
    try:
        link = Link.kinds[kind](**parameters)
    except TypeError as error:
        raise InputError(f"link {kind}: expected {Link.kinds[kind].parameter_names}, got {sorted(parameters)}") from error
    unknown = link.load_state_dict(tensors or {}, strict=False).unexpected_keys
    if unknown:
        raise InputError(f"link {kind}: expected no tensors but its own, got {', '.join(unknown)}")
    missing = link.missing_buffers()
    if tensors is not None and missing and (tensors or link.tells_of_a_fit):
        raise InputError(f"link {kind}: expected its fitted numbers, {', '.join(missing)}, which are missing: fit it again")
    return link


def invert_increasing(function: Any, values: Tensor) -> Tensor:
    """The points at which an increasing function of the whole line takes these values, by bisection in float64."""
    wanted = values.double()
    low, high = torch.full_like(wanted, -1.0), torch.full_like(wanted, 1.0)
    for _ in range(64):  # widen until every value is enclosed; infinite ones run to the end
        low = torch.where(function(low) > wanted, low * 2, low)
        high = torch.where(function(high) < wanted, high * 2, high)
    for _ in range(128):
        middle = (low + high) / 2
        below = function(middle) < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.where(wanted.isinf(), wanted, (low + high) / 2).to(values.dtype)
