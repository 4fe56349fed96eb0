"""What calibration rows count for, from columns of their file: ``--weights-key`` and ``--votes-key``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.sets.weighting import NO_VOTE

Load = Callable[[Path, tuple[str, ...]], Predictions]  # a file with these columns beside its scores
MISSING = "columns: expected"  # how an error begins for a file without a column


@dataclass(frozen=True)
class Counted:
    """What rows count for; None where they count alike.

    Args:
        weights: of rows, (N,).
        votes: for each label, (N, C).
    """

    weights: Tensor | None = None
    votes: Tensor | None = None

    def __bool__(self) -> bool:
        return self.weights is not None or self.votes is not None

    def rows(self, index: Tensor) -> "Counted":
        """Those of these rows."""
        return Counted(*(None if part is None else part[index] for part in (self.weights, self.votes)))

    def check_in_one_place(self, pool: object) -> None:
        """Raise an error if workers are to fit on them."""
        if self and pool is not None:
            raise InputError(
                "--weights-key and --votes-key: expected --engine local, got ray: such rows have to be in one place"
            )

    def keywords(self) -> dict[str, Any]:
        """For :meth:`SetRule.fit`."""
        return {"target": self.votes, "weights": self.weights} if self else {}


@dataclass(frozen=True)
class CountKeys:
    """The options.

    Args:
        weights: the array or column with the weight of each row.
        votes: the array (N, C) with votes for each class, or with a ``*`` the columns of the classes.
    """

    weights: str | None = None
    votes: str | None = None

    def __bool__(self) -> bool:
        return self.weights is not None or self.votes is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are never scores, if a file has them, beside those of votes."""
        return () if self.weights is None else (self.weights,)

    def of(self, path: Path, rows: Predictions, load: Load) -> Counted:
        """What the rows of this file count for.

        Args:
            path: of the file.
            rows: what was read of it.
            load: reads it again with some columns.
        """
        weights = None
        if self.weights is not None:
            weights = _numbers(path, rows, (self.weights,), "--weights-key", load)[:, 0]
        return Counted(weights, None if self.votes is None else self._votes(path, rows, load))

    def _votes(self, path: Path, rows: Predictions, load: Load) -> Tensor:
        assert self.votes is not None
        if "*" in self.votes:
            names = tuple(self.votes.replace("*", name) for name in rows.class_names)
            return _numbers(path, rows, names, "--votes-key", load)
        found = array_of(path, self.votes, "--votes-key", "name columns with a *, such as votes_*")
        if tuple(found.shape) != (len(rows), rows.num_classes) or found.is_complex():
            raise InputError(
                f"--votes-key: expected an array ({len(rows)}, {rows.num_classes}) called {self.votes!r}, with the votes for "
                f"each label, got {tuple(found.shape)}"
            )
        return found.double()


ALIKE = CountKeys()


def _numbers(path: Path, rows: Predictions, names: tuple[str, ...], option: str, load: Load) -> Tensor:
    """These columns side by side, float64 (N, n)."""
    if any(name not in rows.columns for name in names):
        try:
            rows = load(path, names)
        except InputError as error:
            raise InputError(str(error).replace(MISSING, f"{option}: expected")) from error
    for name in names:
        if rows.columns[name].dtype.kind not in "if":
            truths = {text.casefold() for text in rows.columns[name].tolist()} <= {"true", "false", ""}
            came = "true and false" if truths else "texts"
            raise InputError(f"{option}: expected a number in every row of {name!r}, got {came}")
    return torch.from_numpy(np.stack([rows.columns[name].astype(np.float64) for name in names], 1))


def array_of(path: Path, name: str, option: str, advice: str) -> Tensor:
    """An array of a file that holds several.

    Args:
        path: of the file.
        name: of the array.
        option: that names it, for messages.
        advice: the end of the message where there is none.
    """
    names: list[str] = []
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            names = list(file)
            if name in names:
                return torch.from_numpy(np.asarray(file[name]))
    elif path.suffix == ".safetensors":
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if name in names:
                found: Tensor = file.get_tensor(name)
                return found
    found_names = f", found {', '.join(sorted(names))}" if names else ""
    raise InputError(f"{path}: {option}: expected an array {name!r} of an .npz or .safetensors file{found_names}; {advice}")


@contextmanager
def by_option() -> Iterator[None]:
    """Messages of the library name its parameters; here they are options of the command."""
    try:
        yield
    except InputError as error:
        text = str(error).replace(NO_VOTE, "--votes-key: expected a vote in every row")
        for name in ("weights", "votes"):
            text = text.replace(f"{name}: expected", f"--{name}-key: expected")
        raise InputError(text) from error
