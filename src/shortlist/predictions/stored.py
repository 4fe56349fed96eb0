"""What every file format holds, between a file and a record."""

import fnmatch
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from shortlist.errors import InputError, ShortlistWarning
from shortlist.words import quoted

VERSION = "shortlist-predictions/1"
NUMBERING = re.compile(r"|__index_level_\d+__")  # columns in which pandas writes the numbers of rows


@dataclass
class Stored:
    """The fields of predictions in the forms that files can hold."""

    scores: Tensor
    target: Tensor | Sequence[str] | None = None  # names of classes where a foreign file has them
    classes: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    train_counts: Tensor | None = None
    link: dict[str, Any] | None = None
    link_tensors: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Keys:
    """The names under which a file holds scores, target and the names of rows; None: the names that we write."""

    scores: str | None = None
    target: str | None = None
    ids: str | None = None

    def __post_init__(self) -> None:
        if self.ids in (self.scores or "scores", self.target or "target", "classes", ""):
            raise InputError(f"ids_key (--ids-key): expected names of rows, got {self.ids!r}, which is something else")

    def find_scores(self, names: Iterable[str]) -> list[str]:
        """The array or columns that hold the scores; ``*`` stands for any text, the target and ``id`` aside.

        So are the columns in which pandas writes the numbers of rows.
        """
        aside = (self.target or "target", self.ids, "id")
        names = [name for name in names if name not in aside and not NUMBERING.fullmatch(name)]
        wanted = self.scores or "scores"
        found = [name for name in names if name == wanted] or [n for n in names if fnmatch.fnmatchcase(n, wanted)]
        if not found:
            raise InputError(
                f"expected scores under {wanted!r}, found {quoted(names)}: name them with scores_key (--scores-key)"
            )
        return found

    def find_target(self, names: Iterable[str]) -> str | None:
        """The array or column that holds the target, if there is one; one that was asked for must be there."""
        names = list(names)
        wanted = self.target or "target"
        if wanted not in names and self.target is not None:
            raise InputError(
                f"expected a target under {wanted!r}, found {quoted(names)}: name it with target_key (--target-key)"
            )
        return wanted if wanted in names else None

    def find_ids(self, names: Iterable[str], usual: str) -> str | None:
        """The array or column that names the rows, if there is one; one that was asked for must be there."""
        names = list(names)
        wanted = usual if self.ids is None else self.ids
        if wanted not in names and self.ids is not None:
            raise InputError(f"expected names of rows under {wanted!r}, found {quoted(names)}: see ids_key (--ids-key)")
        return wanted if wanted in names else None

    def check_ids(self, ids: Sequence[str]) -> Sequence[str] | None:
        """The names of rows of somebody's file, or None, with a warning, if they tell no rows apart; asked for, they must."""
        counts = Counter(ids)
        nameless = "" in counts
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is None and not nameless:
            return ids
        fault = "leave some rows without a name" if nameless else f"name several rows {twice!r}"
        if self.ids is not None:
            raise InputError(f"expected {self.ids!r} to tell rows apart, and it does not: its entries {fault}")
        warnings.warn(f"the ids {fault}, so rows go by their numbers from 0", ShortlistWarning, stacklevel=2)
        return None
