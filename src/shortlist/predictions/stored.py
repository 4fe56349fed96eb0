"""What every file format holds, between a file and a record."""

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from shortlist.errors import InputError

VERSION = "shortlist-predictions/1"


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
    """The names under which a file holds scores and target; None: the names that we write."""

    scores: str | None = None
    target: str | None = None

    def find_scores(self, names: Iterable[str]) -> list[str]:
        """The array or columns that hold the scores; ``*`` stands for any text, the target and ``id`` aside."""
        names = [name for name in names if name not in (self.target or "target", "id")]
        wanted = self.scores or "scores"
        found = [name for name in names if name == wanted] or [n for n in names if fnmatch.fnmatchcase(n, wanted)]
        if not found:
            raise InputError(
                f"expected scores under {wanted!r}, found {_listed(names)}: name them with scores_key (--scores-key)"
            )
        return found

    def find_target(self, names: Iterable[str]) -> str | None:
        """The array or column that holds the target, if there is one; one that was asked for must be there."""
        names = list(names)
        wanted = self.target or "target"
        if wanted not in names and self.target is not None:
            raise InputError(
                f"expected a target under {wanted!r}, found {_listed(names)}: name it with target_key (--target-key)"
            )
        return wanted if wanted in names else None


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most])) or "nothing"
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
