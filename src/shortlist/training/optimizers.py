"""Optimisers, and their state as named tensors for a checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.tensors import shape_of
from shortlist.training.recipe import Recipe
from shortlist.words import listed, shown

LONGEST_NUMBER = 10  # digits


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
    """An optimiser's state as named tensors and plain values; its settings are those of the recipe."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {"state": {}}
    for number, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{name}"] = value
            else:
                plain["state"].setdefault(str(number), {})[name] = value
    return tensors, plain


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Restore the state that :func:`optimizer_tensors` returned; an error names what does not fit the optimiser."""
    if not isinstance(plain, Mapping) or not isinstance(plain.get("state"), Mapping):
        raise InputError(f"the state of the optimiser: expected a record, got {shown(plain)}")
    state: dict[int, dict[str, Any]] = {}
    for number, entries in plain["state"].items():
        if not isinstance(entries, Mapping) or any(value is not None for value in entries.values()):
            raise InputError(f"the state of the optimiser: expected no values for weight {number}, got {shown(entries)}")
        state[_whole(number)] = dict(entries)
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(_whole(number), {})[name] = tensor
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for place, entries in state.items():
        _check_entries(optimizer, weights, place, entries)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, entries in optimizer.state.items():
        for name, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                # Files do not keep strides, and the fused kernel needs the state in the layout of the weights.
                entries[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _whole(number: Any) -> int:
    if not isinstance(number, str) or not (number.isascii() and number.isdigit() and len(number) < LONGEST_NUMBER):
        raise InputError(f"the state of the optimiser: expected the number of a weight, got {shown(number)}")
    return int(number)


def _check_entries(optimizer: torch.optim.Optimizer, weights: Sequence[Tensor], place: int, entries: Mapping[str, Any]) -> None:
    """Raise an error unless these are the entries that the optimiser keeps for one weight."""
    wanted = ("step", "exp_avg", "exp_avg_sq") if isinstance(optimizer, torch.optim.AdamW) else ("momentum_buffer",)
    if place >= len(weights) or set(entries) != set(wanted):
        raise InputError(
            f"the state of the optimiser: expected {listed(wanted)} for each of {len(weights)} weights, got "
            f"{listed([shown(name) for name in entries])} for weight {place}"
        )
    for name, value in entries.items():
        shape = torch.Size() if name == "step" else weights[place].shape
        if value is None and name == "momentum_buffer":
            continue
        if value is None or value.shape != shape or not value.is_floating_point():
            came = "none" if value is None else shape_of(value)
            raise InputError(f"optimizer.{place}.{name}: expected floating point {tuple(shape)}, got {came}")
