"""The concept of a link: a module that turns scores into probabilities."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from shortlist.checks import Check, check_values
from shortlist.class_names import column_names
from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.tensors import Probs, Scores, as_tensor, check_scores, shape_of, working
from shortlist.words import expected_one_of, listed, shown


class Link(Fitted):
    """Turns scores into probabilities and, if it has an inverse, probabilities into scores.

    Half precision is computed in float32. A subclass implements :meth:`_log_odds` or :meth:`_probs` (the other follows).

    Attributes:
        kind: its name, as in text and in configurations.
        domains: the check of each parameter; losses with the same parameters use the same checks.
        parameter_names: the constructor's parameters that its configuration contains.
        running: whether it is updated batch by batch during training, instead of fitted afterwards.
        kinds: every link class by its name.
    """

    kind: ClassVar[str]
    domains: ClassVar[Mapping[str, Check]] = {}
    parameter_names: ClassVar[tuple[str, ...]] = ()
    running: ClassVar[bool] = False
    kinds: ClassVar[dict[str, type["Link"]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Link.kinds[cls.kind] = cls

    def _set(self, **parameters: Any) -> None:
        """Keep the parameters as attributes, checked against their domains."""
        for name, value in parameters.items():
            setattr(self, name, self.domains[name](name, value))

    def probs(self, scores: Scores) -> Probs:
        """Probabilities (N, C) of scores (N, C); NaN for a label whose probability depends on a score that is NaN."""
        return self._probs(self._checked(scores))

    def log_odds(self, scores: Scores) -> Tensor:
        """``log(p / (1 - p))`` of the probabilities, without the loss of precision of taking it from them."""
        return self._log_odds(self._checked(scores))

    def scores(self, probs: Probs) -> Scores:
        """Scores (N, C) that have these probabilities."""
        probs = as_tensor(probs)
        check_scores(probs, "probs")
        return self._scores(working(check_values(probs, "probabilities")))

    @property
    def fitted(self) -> bool:
        """Whether the link has all its buffers; a running link has none before its first batch."""
        return not self.missing_buffers()

    @property
    def reaches_zero(self) -> bool:
        """Whether finite scores can have probability exactly 0, so that their log-odds are -∞."""
        return type(self)._log_odds is Link._log_odds

    @property
    def exclusive(self) -> bool:
        """Whether the probabilities of a row sum to one: exactly one of its labels is true, so labels exclude each other."""
        return False

    @property
    def records_fit(self) -> bool:
        """Whether the configuration implies that the link was fitted, so that its buffers must exist."""
        return False

    def missing_buffers(self) -> list[str]:
        """The names of the buffers that do not exist before a fit or a state dict creates them."""
        return [name for name, buffer in self._buffers.items() if buffer is None]

    def check_classes(self, classes: int) -> None:
        """Raise unless the link applies to scores of this many classes."""

    def check_names(self, names: Sequence[str] | None) -> None:
        """Raise if the link has a map for each class and these names show that the classes are in another order.

        Args:
            names: the names of the columns of the scores; None if they are not known.
        """

    def for_rows(self, *, single: bool) -> "Link | None":
        """This link, or None if it cannot give the probabilities of rows with one label (``single``) or any number."""
        return self

    def check_buffers(self) -> None:
        """Raise unless the buffers, which may come from a file, hold what a fit can give."""

    def _check_buffer(self, name: str, shape: Literal["()", "(C,)"], above: float = -math.inf) -> None:
        """Raise unless the buffer, if it exists, is floating point of this shape and finite."""
        values = self._buffers[name]
        if values is None:
            return
        if values.ndim != (shape == "(C,)") or not values.is_floating_point():
            raise InputError(f"{name}: expected floating point {shape}, got {shape_of(values)}")
        wrong = ~values.isfinite() | (values <= above)
        if wrong.any():
            bound = f" above {above:g}" if above > -math.inf else ""
            raise InputError(f"{name}: expected finite numbers{bound}, got {values[wrong][0].item():g}")

    def forward(self, scores: Scores) -> Probs:
        """The same as :meth:`probs`."""
        return self.probs(scores)

    def _checked(self, scores: Scores) -> Scores:
        self.check_names(column_names(scores))
        scores = as_tensor(scores, "scores")
        check_scores(scores)
        self.check_classes(scores.shape[1])
        return working(scores)

    def fingerprint(self) -> list[Any]:
        """Equal for links that give equal probabilities: the configuration, and a hash of each buffer."""
        buffers = {name: tensor.cpu().contiguous().numpy().tobytes() for name, tensor in self.state_dict().items()}
        return [self.config(), {name: hashlib.sha256(content).hexdigest()[:16] for name, content in buffers.items()}]

    def config(self) -> dict[str, Any]:
        """What ``link_from_config`` needs to rebuild this link, apart from its fitted buffers."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.parameter_names}}

    def _probs(self, scores: Scores) -> Probs:
        return torch.sigmoid(self._log_odds(scores))

    def _log_odds(self, scores: Scores) -> Tensor:
        return torch.logit(self._probs(scores))

    def _scores(self, probs: Probs) -> Scores:
        raise InputError(f"the link {self} has no inverse: scores cannot be computed from its probabilities")

    def __repr__(self) -> str:
        return ":".join([self.kind, *(f"{getattr(self, name)}" for name in self.parameter_names)])


def link_from_config(config: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Link:
    """The link that wrote this configuration, with its fitted buffers.

    Args:
        config: what :meth:`Link.config` returned.
        tensors: its state dict. It may be empty for a link that has not been fitted, but must be complete otherwise. None
            means that the buffers are loaded later.

    >>> from shortlist.links import Sigmoid
    >>> link_from_config({"kind": "sigmoid"})
    sigmoid
    """
    if not isinstance(config, Mapping):
        raise InputError(f"link: expected a kind and its parameters, got {shown(config)}")
    parameters = dict(config)
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str) or kind not in Link.kinds:
        raise InputError(f"link: {expected_one_of(kind, Link.kinds)}; got {shown(kind)}")
    try:
        link = Link.kinds[kind](**parameters)
    except TypeError as error:
        came = ", ".join(sorted(map(str, parameters)))
        raise InputError(f"link {kind}: expected {Link.kinds[kind].parameter_names}, got {came}") from error
    except InputError as error:
        raise InputError(f"link {kind}: {error}") from error
    unknown = link.load_state_dict(tensors or {}, strict=False).unexpected_keys
    if unknown:
        raise InputError(f"link {kind}: expected no tensors but its own, got {listed(unknown)}")
    missing = link.missing_buffers()
    try:
        link.check_buffers()
    except InputError as error:
        raise InputError(f"link {kind}: {error}: the file is damaged, fit the link again") from error
    if tensors is not None and missing and (tensors or link.records_fit):
        raise InputError(f"link {kind}: expected its fitted tensors, {', '.join(missing)}, which are missing: fit it again")
    return link


def invert_increasing(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """The points at which an increasing function on the real line takes these values, by bisection in float64."""
    wanted = values.double()
    low, high = torch.full_like(wanted, -1.0), torch.full_like(wanted, 1.0)
    for _ in range(64):  # widen until every value is bracketed; infinite ones are handled below
        low = torch.where(function(low) > wanted, low * 2, low)
        high = torch.where(function(high) < wanted, high * 2, high)
    for _ in range(128):
        middle = (low + high) / 2
        below = function(middle) < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.where(wanted.isinf(), wanted, (low + high) / 2).to(values.dtype)
