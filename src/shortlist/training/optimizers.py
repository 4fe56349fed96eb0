"""Optimisers, and their state as named tensors for a checkpoint."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.training.recipe import Recipe


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum, or AdamW; fused on a GPU."""
    fused = next(network.parameters()).device.type == "cuda"
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=fused)
    nesterov = recipe.momentum > 0
    return torch.optim.SGD(
        network.parameters(),
        lr=recipe.lr,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=nesterov,
        fused=fused or None,
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and plain values."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {
        "groups": [{**group, "params": list(group["params"])} for group in state["param_groups"]],
        "state": {},
    }
    for number, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{name}"] = value
            else:
                plain["state"].setdefault(str(number), {})[name] = value
    return tensors, plain


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Restore the state that :func:`optimizer_tensors` returned."""
    state: dict[int, dict[str, Any]] = {int(number): dict(entries) for number, entries in plain["state"].items()}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": plain["groups"]})
    for parameter, entries in optimizer.state.items():
        for name, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                # Files do not keep strides, and the fused kernel needs the state in the layout of the weights.
                entries[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
