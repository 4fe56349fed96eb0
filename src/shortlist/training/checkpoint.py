"""Checkpoints: the state of a training in one safetensors file, written atomically and flushed to disk.

The header holds a digest of everything in the file: one bit of a weight that changes on the disk would change all that follows.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.checks import Check, flag, optional, whole
from shortlist.errors import InputError
from shortlist.files import PlaceError, order_header, written_whole
from shortlist.tensors import is_as_sealed, sealed
from shortlist.training.history import checked_history, number_or_nan
from shortlist.training.recipe import Recipe
from shortlist.words import counted, listed, shown

FORMAT = "shortlist-checkpoint/1"


@dataclass
class TrainingState:
    """The progress of a training.

    Args:
        step: number of steps done; the sampler, the schedule and all random numbers are functions of it.
        history: one dictionary per epoch, as in metrics.jsonl.
        best: the best value of the monitored metric so far.
        best_epoch: the epoch that reached it.
        stale: number of validations since then.
        skipped: number of steps skipped because their loss was not finite.
        running: sums over the steps of the current epoch.
        finished: whether training has ended.
    """

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: float | None = None
    best_epoch: int | None = None
    stale: int = 0
    skipped: int = 0
    running: dict[str, float] = field(default_factory=dict)
    finished: bool = False

    @staticmethod
    def from_record(record: Any) -> "TrainingState":
        """The state that was read from a file; an error names what cannot be part of one."""
        if not isinstance(record, dict) or record.keys() != CHECKS.keys():
            raise InputError(f"state: expected {listed(list(CHECKS))}, got {shown(record)}")
        return TrainingState(**{name: check(name, record[name]) for name, check in CHECKS.items()})

    def check_fits(self, steps: int, steps_per_epoch: int) -> None:
        """Raise an error if a training of so many steps cannot have this state."""
        whole(0, steps)("step", self.step)
        if len(self.history) != self.step // steps_per_epoch:
            raise InputError(
                f"history: expected {counted(self.step // steps_per_epoch, 'epoch')} after {self.step:,} steps, got "
                f"{len(self.history):,}"
            )


def _running(name: str, value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or not value.keys() <= {"loss", "steps", "seconds"}:
        raise InputError(f"{name}: expected loss, steps and seconds, got {shown(value)}")
    return {part: number_or_nan(f"{name}, {part}", found) for part, found in value.items()}


def _history(name: str, value: Any) -> list[dict[str, Any]]:
    return checked_history(value)


CHECKS: Mapping[str, Check] = {
    "step": whole(0, 2**53),
    "history": _history,
    "best": optional(number_or_nan),
    "best_epoch": optional(whole(1)),
    "stale": whole(0),
    "skipped": whole(0),
    "running": _running,
    "finished": flag,
}


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Args:
        state: the progress of the training.
        tensors: by name.
        plain: values that are not tensors.
        data: digest of the data of the training.
        recipe: record of its recipe; empty if the file does not say.
    """

    state: TrainingState
    tensors: Mapping[str, Tensor]
    plain: Mapping[str, Any]
    data: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)

    def check_recipe(self, recipe: Recipe, run: Path) -> None:
        """Raise an error if the weights were trained by another recipe than the one in the folder of the run.

        Where the data are may differ: their content is compared.
        """
        if not self.recipe:
            raise InputError(
                f"{run}: the checkpoint does not say with which recipe it was trained, so it may belong to another training: "
                "put back the run's own, or start again in a new folder"
            )
        changed = recipe.differences(Recipe.from_record(self.recipe))
        shown = "; ".join(f"{name} {old!r}, not {new!r}" for name, (new, old) in changed.items() if name != "data")
        if shown:
            raise InputError(
                f"{run} was trained with {shown}, as its recipe.json says now: put back what was there, or start again in a "
                "new folder"
            )


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint and flush it to disk."""
    state, plain = json.dumps(vars(checkpoint.state)), json.dumps(checkpoint.plain)
    recipe = json.dumps(checkpoint.recipe)
    header = {"format": FORMAT, "state": state, "plain": plain, "data": checkpoint.data, "recipe": recipe}
    tensors = _separate(checkpoint.tensors)
    try:
        with written_whole(path) as temporary:
            save_file(tensors, temporary, metadata=sealed(header, tensors))
            order_header(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        reason = error.reason if isinstance(error, PlaceError) else str(error)
        raise InputError(
            f"cannot write the checkpoint {path}: {reason}; the previous one is kept: free some space, then continue with "
            "resume=True"
        ) from error


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, none sharing memory with another, which safetensors would refuse."""
    ready: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        here = tensor.detach().cpu().contiguous()
        place = here.untyped_storage().data_ptr()
        ready[name] = here.clone() if place in taken else here
        taken.add(place)
    return ready


def load_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`save_checkpoint` wrote; an error if anything in the file has changed since.

    Earlier versions wrote no digest.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read the checkpoint {path}: {error}") from error
    if header.get("format") != FORMAT:
        raise InputError(f"cannot read the checkpoint {path}: expected the format {FORMAT}, got {header.get('format')}")
    if not is_as_sealed(header, tensors):
        raise InputError(
            f"cannot read the checkpoint {path}: it is damaged (its content is not what was written): put back a copy, or "
            "start again in a new folder"
        )
    try:
        plain, recipe = json.loads(header["plain"]), json.loads(header.get("recipe", "{}"))
        for name, record in (("plain", plain), ("recipe", recipe)):
            if not isinstance(record, dict):
                raise InputError(f"{name}: expected a record, got {shown(record)}")
        return Checkpoint(TrainingState.from_record(json.loads(header["state"])), tensors, plain, header["data"], recipe)
    except (InputError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read the checkpoint {path}: it is damaged ({error})") from error


def first_difference(saved: Mapping[str, Tensor], here: Mapping[str, Tensor]) -> str | None:
    """The first tensor that one of two states lacks or has in another shape or dtype, in words; None if they match.

    >>> import torch
    >>> first_difference({"head.weight": torch.zeros(30, 8)}, {"head.weight": torch.zeros(29, 8)})
    'head.weight is 30 x 8 in the checkpoint and 29 x 8 here'
    """
    for name in dict.fromkeys([*here, *saved]):
        shapes = ["missing" if name not in part else _shape(part[name]) for part in (saved, here)]
        if shapes[0] == shapes[1] and name in saved and saved[name].dtype != here[name].dtype:
            shapes = [str(part[name].dtype).removeprefix("torch.") for part in (saved, here)]
        if shapes[0] != shapes[1]:
            return f"{name} is {shapes[0]} in the checkpoint and {shapes[1]} here"
    return None


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with ``prefix.`` before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with ``prefix.``, without it."""
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}
