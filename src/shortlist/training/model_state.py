"""The tensors that a training changes: weights, optimiser, criterion, average and best weights; kept in checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.models.network import Network
from shortlist.training.averaging import AveragedWeights
from shortlist.training.checkpoint import first_difference, with_prefix, without_prefix
from shortlist.training.criterion import Criterion
from shortlist.training.optimizers import optimizer_tensors, restore_optimizer

LINK = "criterion.link."  # a running link may hold infinities until labelled rows have updated it


@dataclass
class ModelState:
    """What a training changes.

    Args:
        network: the network that is trained.
        optimizer: its optimiser.
        criterion: the loss and what it keeps between steps.
        average: the average of the weights, if the recipe has one.
        scaler: scales float16 gradients; None in other precisions.
        best: the weights of the best epoch so far, on the device.
        best_link: the running link at the time of these weights.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    criterion: Criterion
    average: AveragedWeights[Network] | None = None
    scaler: Any = None
    best: dict[str, Tensor] | None = None
    best_link: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Such as the mask of an attention layer, which is no weight.
        self._never_finite = set(_nonfinite(self._tensors()))

    @property
    def evaluated(self) -> Network:
        """The network that is validated and kept: the average of the weights if the recipe has one."""
        return self.network if self.average is None else self.average.network

    def keep_best(self) -> None:
        """Remember the weights as the best so far."""
        self.best = {name: tensor.clone() for name, tensor in self.evaluated.state_dict().items()}
        self.best_link = {name: tensor.clone() for name, tensor in self.criterion.link_tensors().items()}

    def load_best(self) -> None:
        """Return to the best weights."""
        if self.best is not None:
            self.evaluated.load_state_dict(self.best)
            self.criterion.restore_link(self.best_link)

    def first_nonfinite(self) -> str | None:
        """The name of a tensor that was finite before training and is no longer; None if there is none."""
        found = _nonfinite(self._tensors())
        return next((name for name in found if name not in self._never_finite), None)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, for a checkpoint."""
        if self.best is None:
            return self._tensors()
        return self._tensors() | with_prefix("best", self.best) | with_prefix("best_link", self.best_link)

    def plain(self) -> dict[str, Any]:
        """What is not a tensor, for a checkpoint."""
        found: dict[str, Any] = {"optimizer": optimizer_tensors(self.optimizer)[1]}
        return found if self.scaler is None else found | {"scaler": self.scaler.state_dict()}

    def restore(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any], device: torch.device) -> None:
        """Continue from the tensors and the plain values of a checkpoint; an error says what does not fit."""
        known = {"network": self.network} | ({} if self.average is None else {"average": self.average.network})
        best = without_prefix("best", tensors)
        here = {name: tensor for part, module in known.items() for name, tensor in _state(part, module).items()}
        here |= _state("best", self.evaluated) if best else {}
        saved = {name: tensor for name, tensor in tensors.items() if name.split(".")[0] in ("network", "average", "best")}
        differs = first_difference(saved, here)
        if differs is not None:
            raise InputError(differs)
        wrong = _nonfinite({name: tensor for name, tensor in tensors.items() if not name.startswith((LINK, "best_link."))})
        if wrong := [name for name in wrong if name.replace("best.", "network.", 1) not in self._never_finite]:
            raise InputError(f"{wrong[0]} is not finite")
        try:
            self.network.load_state_dict(without_prefix("network", tensors))
            restore_optimizer(self.optimizer, without_prefix("optimizer", tensors), plain["optimizer"])
            self.criterion.restore(without_prefix("criterion", tensors))
            self.criterion.to(device)  # a link without values takes them from the file, which was read to the CPU
            self._check_link(without_prefix("best_link", tensors))
            if self.average is not None:
                self.average.network.load_state_dict(without_prefix("average", tensors))
            if self.scaler is not None:
                self.scaler.load_state_dict(plain["scaler"])
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError((str(error).strip().splitlines() or [type(error).__name__])[-1].strip()) from error
        self.best = {name: tensor.to(device) for name, tensor in best.items()} or None
        self.best_link = {name: tensor.to(device) for name, tensor in without_prefix("best_link", tensors).items()}

    def _check_link(self, best: Mapping[str, Tensor]) -> None:
        """Raise an error if the running link that was restored cannot turn scores into probabilities."""
        link = self.criterion.link
        shapes = {name: tensor.shape for name, tensor in self.criterion.link_tensors().items()}
        wrong = next((name for name, tensor in best.items() if tensor.shape != shapes.get(name)), None)
        if wrong is not None:
            raise InputError(f"best_link.{wrong} does not fit the link")
        if link is None or not link.fitted:
            return
        scores = torch.zeros(2, self.network.num_classes, device=next(self.network.parameters()).device)
        probs = link(scores)
        if probs.shape != scores.shape or probs.isnan().any():
            raise InputError("the buffers of its link do not fit the classes")

    def _tensors(self) -> dict[str, Tensor]:
        found = _state("network", self.network) | with_prefix("optimizer", optimizer_tensors(self.optimizer)[0])
        found |= with_prefix("criterion", self.criterion.tensors())
        return found if self.average is None else found | _state("average", self.average.network)


def _state(prefix: str, module: torch.nn.Module) -> dict[str, Tensor]:
    return with_prefix(prefix, module.state_dict())


@torch.no_grad()
def _nonfinite(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of tensors with infinite or NaN entries; waits for the device once."""
    floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point() and not name.startswith(LINK)}
    by_device: dict[torch.device, list[str]] = {}
    for name, tensor in floats.items():
        by_device.setdefault(tensor.device, []).append(name)
    found: set[str] = set()
    for names in by_device.values():
        finite = torch.stack([floats[name].isfinite().all() for name in names]).tolist()
        found |= {name for name, fine in zip(names, finite, strict=True) if not fine}
    return [name for name in floats if name in found]
