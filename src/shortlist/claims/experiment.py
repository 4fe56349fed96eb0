"""Experiment: what is computed for claims, as data: arms by name, each a function with settings, over seeds.

Several claims read one experiment. A result belongs to an arm and a seed and carries the fingerprint of what was run, so an arm
that is changed is run again, and what was measured before is not mixed with it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from shortlist.errors import InputError

Numbers: TypeAlias = dict[str, float]
# (settings, seed, folder of the data that the settings name, or None) → numbers by name
Compute: TypeAlias = Callable[[Mapping[str, Any], int, Path | None], Numbers]
Data: TypeAlias = Literal["none", "cifar100", "mulan"]
Device: TypeAlias = Literal["any", "gpu"]
DIGITS = 16  # hexadecimal digits of a fingerprint


@dataclass(frozen=True)
class Arm:
    """One thing to compute for every seed.

    Args:
        compute: a function at the top level of a module: settings, seed, folder → numbers. A ``version`` attribute, if it
            has one, is part of the fingerprint: raise it when the function computes something else.
        settings: what the function gets, plain values that JSON can hold.
    """

    compute: Compute
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Of the function's name and version and of the settings; not of the package or the machine."""
        what = {
            "function": f"{self.compute.__module__}.{self.compute.__qualname__}",
            "version": getattr(self.compute, "version", 1),
            "settings": self.settings,
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:DIGITS]


@dataclass(frozen=True)
class Experiment:
    """Arms that are compared with each other, seed by seed.

    Args:
        id: its name in the results.
        what: one sentence.
        arms: by name.
        seeds: how many.
        data: the data that the user has to have.
        quick: whether it is part of the quick suite, for processors.
        shows: names of the numbers that the page shows of every arm.
        device: ``"gpu"`` if it means nothing elsewhere.
        first_seed: the first of them; results of earlier seeds, by which something was chosen, do not count.
    """

    id: str
    what: str
    arms: Mapping[str, Arm]
    seeds: int
    data: Data = "none"
    quick: bool = True
    shows: tuple[str, ...] = ()
    device: Device = "any"
    first_seed: int = 0

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.arms:
            raise InputError(
                f"experiment {self.id}: expected arms and at least one seed, got {len(self.arms)} and {self.seeds}"
            )


# By data: the files that are read, below its folder.
FILES: Mapping[Data, tuple[str, ...]] = {"none": (), "cifar100": ("*.bin", "*.txt"), "mulan": ("*/*.arff", "*/*.xml")}
# By data: what the folder that holds them has to contain, and the folders below --data to look in.
LAYOUTS: Mapping[Data, tuple[str, tuple[str, ...]]] = {
    "cifar100": ("fine_label_names.txt", ("cifar-100-binary", "cifar100", "cifar100/cifar-100-binary", ".")),
    "mulan": ("scene", ("mulan", ".")),
}


@lru_cache
def data_digest(data: Data, folder: Path | None) -> str:
    """Digest of the names and contents of the files of these data, computed once; empty where none are needed."""
    if folder is None:
        return ""
    found = hashlib.sha256()
    for path in sorted(path for pattern in FILES[data] for path in folder.glob(pattern)):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return found.hexdigest()[:DIGITS]


def lacking(experiment: Experiment, root: Path | None) -> str | None:
    """Why an experiment cannot be run here, in words; None if it can.

    Args:
        experiment: the experiment.
        root: the user's folder of data.
    """
    if experiment.device == "gpu":
        import torch

        if not torch.cuda.is_available():
            return "there is no GPU"
    if experiment.data != "none" and folder_of(experiment.data, root) is None:
        missing = f"its data, {experiment.data},"
        return f"{missing} were not given (--data)" if root is None else f"{missing} are not in {root}"
    return None


def folder_of(data: Data, root: Path | None) -> Path | None:
    """The folder with these data below the user's; None if they are not there or none are needed."""
    if data == "none" or root is None:
        return None
    holds, places = LAYOUTS[data]
    return next((root / place for place in places if (root / place / holds).exists()), None)
