"""SetRule: the labels within a threshold, the threshold chosen by a constraint, the size kept within bounds."""

import copy
import json
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import InputError, ShortlistWarning
from shortlist.files import written_whole
from shortlist.fitting import Fitted
from shortlist.predictions import Predictions
from shortlist.sets.batches import Batches, Source
from shortlist.sets.constraints import Constraint
from shortlist.sets.orderings import Ordering, bounded
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import Array, Sets, as_tensor, check_scores

FORMAT = "shortlist-rule/1"


def origin_of(predictions: Predictions) -> dict[str, Any]:
    """What a rule fitted on these predictions must find again: the number of classes and the link."""
    link = predictions.link
    return {"classes": predictions.num_classes, "link": None if link is None else link.fingerprint()}


class SetRule(Fitted):
    """probs (N, C) → sets bool (N, C): the labels whose ordering is within the threshold.

    Args:
        text: the rule as text, which :func:`~shortlist.sets.parse_rule` reads back.
        ordering: how plausible each label is.
        constraint: what the threshold is chosen for.
        least: every set has at least so many labels (``floor``).
        most: every set has at most so many labels (``cap``).
    """

    threshold: Tensor | None
    notes: tuple[str, ...]  # what a person should know about the last fit
    calibrated: SizeSummary | None  # sizes of the sets on the calibration rows, where they were measured
    origin: dict[str, Any] | None  # classes and link of the predictions it was fitted on, where it was on predictions

    def __init__(self, text: str, ordering: Ordering, constraint: Constraint, least: int = 0, most: int | None = None):
        super().__init__()
        self.text, self.ordering, self.constraint = text, ordering, constraint
        self.least, self.most = least, most
        self.notes, self.calibrated, self.origin = (), None, None
        fixed = constraint.fixed()
        self.register_buffer("threshold", None if fixed is None else torch.tensor(fixed, dtype=torch.float64))

    @property
    def needs_fit(self) -> bool:
        """Whether the rule has a threshold to choose on calibration rows, chosen or not."""
        return self.constraint.fixed() is None

    @property
    def fitted(self) -> bool:
        """Whether the rule has its threshold."""
        return self.threshold is not None

    @property
    def needs_labels(self) -> bool:
        """Whether the calibration rows must be labelled."""
        return self.constraint.needs_labels

    @property
    def guarantee(self) -> str:
        """What the rule promises, and on what assumption, in one sentence."""
        parts = [self.constraint.guarantee.removesuffix(".")]
        if self.most is not None:
            parts.append(f"the cap of {self.most} may take labels away from that")
        if self.least:
            parts.append(f"the floor of {self.least} may add labels to it")
        return "; ".join(parts) + "."

    @torch.no_grad()
    def fit(self, probs: Source, target: Any = None) -> Self:
        """Choose the threshold on calibration rows.

        Args:
            probs: (N, C) tensor or array, predictions, a re-iterable of batches (of ``(probs, target)`` where labels are
                needed), or a callable that starts a new pass over them.
            target: labels of the rows, where the rule needs them; ignored otherwise.
        """
        if not self.needs_fit:
            return self
        if isinstance(probs, Predictions):
            self.check_reads(probs)
        batches = Batches(probs, target)
        if self.ordering.needs_probabilities:
            batches.check_probabilities()
        fit = self.constraint.fit(self.ordering, batches)
        device = probs.device if isinstance(probs, Tensor) else "cpu"
        self.threshold, self.notes = fit.threshold.to(device), fit.notes
        self.origin = origin_of(probs) if isinstance(probs, Predictions) else None
        for note in fit.notes:
            warnings.warn(f"{self.text}: {note}", ShortlistWarning, stacklevel=2)
        return self

    def check_reads(self, predictions: Predictions) -> None:
        """The scores of these predictions read as probabilities, if the rule needs them to."""
        needed = self.ordering.needs_probabilities or self.constraint.needs_probabilities
        if predictions.link is None and needed:
            raise InputError(
                f"the scores have no reading as probabilities, which {self.text} needs: name the link they were trained for "
                "(softmax, sigmoid, …), or identity if they are probabilities"
            )

    def check_origin(self, predictions: Predictions) -> None:
        """These predictions have the classes and the link of those that the rule was fitted on."""
        here = origin_of(predictions)
        if self.origin is not None and self.origin["classes"] != here["classes"]:
            raise InputError(
                f"{self.text} was fitted on {self.origin['classes']} classes, got scores of {here['classes']} classes"
            )
        if self.origin is not None and self.origin["link"] != here["link"]:
            raise InputError(
                f"{self.text} was fitted on probabilities by another link than these scores have ({predictions.link!r}): "
                "fit it again, or give the scores that link"
            )

    @torch.no_grad()
    def forward(self, probs: Tensor | Array | Predictions) -> Any:
        """The sets, bool (N, C), of the kind (tensor or array) that came in; tensors for predictions."""
        if isinstance(probs, Predictions):
            self.check_reads(probs)
        values = probs.plausibility() if isinstance(probs, Predictions) else as_tensor(probs)
        check_scores(values, "probs")
        values = values.float() if values.dtype == torch.bfloat16 else values  # as rules are fitted
        sets = self.bounded(values, self.unbounded(values))
        return sets.numpy() if isinstance(probs, np.ndarray) else sets

    def unbounded(self, probs: Tensor) -> Sets:
        """The sets before a cap or a floor."""
        threshold = self.fitted_buffer("threshold")
        if threshold.ndim and len(threshold) != probs.shape[1]:
            raise InputError(f"probs: the rule was fitted for {len(threshold)} classes, got {probs.shape[1]}")
        return self.ordering.select(probs, threshold.to(probs.device))

    def bounded(self, probs: Tensor, sets: Sets) -> Sets:
        """These sets with the cap and the floor."""
        if self.least > probs.shape[1]:
            raise InputError(f"floor: expected at most the number of classes, {probs.shape[1]}, got {self.least}")
        if not self.least and self.most is None:
            return sets
        return bounded(self.ordering, probs, sets, self.least, self.most)

    def bounded_by(self, text: str, *, least: int | None = None, most: int | None = None) -> "SetRule":
        """The same rule with another bound on the size of its sets."""
        rule = copy.copy(self)
        rule._buffers = dict(self._buffers)
        rule.text = f"{self.text},{text}"
        rule.least = max(self.least, least or 0)
        rule.most = min((bound for bound in (self.most, most) if bound is not None), default=None)
        if rule.most is not None and rule.least > rule.most:
            raise InputError(f"expected a floor up to the cap, got floor {rule.least} and cap {rule.most}")
        return rule

    def save(self, path: str | Path) -> None:
        """The rule and its threshold as one safetensors file."""
        with written_whole(path) as temporary:
            state = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
            header = {"format": FORMAT, "rule": self.text, "notes": json.dumps(self.notes), "origin": json.dumps(self.origin)}
            if self.calibrated is not None:
                header["calibrated"] = json.dumps(self.calibrated.record())
            try:
                save_file(state, temporary, metadata=header)
            except SafetensorError as error:  # a full disk, most of all
                raise InputError(f"cannot write {path}: {error}") from error

    @staticmethod
    def load(path: str | Path) -> "SetRule":
        """The rule that :meth:`save` wrote."""
        from shortlist.sets.text import parse_rule

        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, OSError) as error:
            raise InputError(f"cannot read a rule from {path}: {error}") from error
        if header.get("format") != FORMAT:
            raise InputError(f"cannot read a rule from {path}: it was not written by SetRule.save")
        try:
            rule = parse_rule(header["rule"], prior=state.get("ordering.prior"))
            rule.load_state_dict(state)
            rule.notes, rule.origin = tuple(json.loads(header["notes"])), json.loads(header["origin"])
            rule.calibrated = SizeSummary(**json.loads(header["calibrated"])) if "calibrated" in header else None
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"cannot read a rule from {path}: the file is damaged ({error})") from error
        return rule

    def __repr__(self) -> str:
        threshold = self._buffers["threshold"]
        if threshold is None:
            return f"SetRule({self.text}, not fitted)"
        if threshold.ndim:
            return f"SetRule({self.text}, {len(threshold)} thresholds)"
        return f"SetRule({self.text}, threshold {threshold.item():.6g})"
