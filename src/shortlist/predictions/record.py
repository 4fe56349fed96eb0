"""Predictions: scores, and what is known about their rows and columns. The waist of the library.

Training ends here and decisions start here. Values are checked once, on entry; large arrays stay memory-mapped in their file
and are processed in row blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_labels, check_values
from shortlist.class_names import (
    by_class,
    check_same_names,
    class_list,
    column_names,
    labels_by_name,
    named_columns,
    names_in_order,
    superclass_by_class,
)
from shortlist.errors import InputError
from shortlist.links import Identity, Link, parse_link
from shortlist.predictions.checks import as_quality, check_columns, check_counts, check_names, check_superclasses
from shortlist.predictions.columns import as_columns, column_list, taken
from shortlist.row_names import check_row_names, check_same_rows
from shortlist.tensors import (
    BLOCK_ENTRIES,
    Array,
    Probs,
    Scores,
    Target,
    as_target,
    as_tensor,
    check_scores,
    check_target,
    row_blocks,
    shape_of,
)
from shortlist.words import shown


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """Scores of N rows for C classes, with their target, names, and the link that turns scores into probabilities.

    Args:
        scores: float32, float16 or float64 (N, C); numpy arrays are used without a copy.
        target: int64 (N,), bool (N, C), or None if the labels are not known.
        classes: C names, all different, or a dict between them and the columns from 0; by default those of the columns of a
            data frame, or else numbers from 0.
        link: turns scores into probabilities (a link or its text); None if scores cannot be interpreted as probabilities.
        ids: N names of rows, all different; None numbers them from 0.
        train_counts: the number of training examples of each class, (C,).
        superclasses: the name of the superclass of each class (its genus, its coarse label), C names; None if there are none.
            A class whose name is missing (None, NaN) is its own superclass.
        network_digest: digest of the network that computed the scores, to tell whose they are; None if it is not known.
        quality: one finite number per row, kept as float64 (N,), higher for rows that are more worth answering: the sharpness
            of a picture, or what a second network says of it. A gate may compare rows by it, see :func:`shortlist.sets.gate`.
        columns: what else is known about each row, by name, such as the site of a picture: N texts or numbers each, kept as
            arrays. What is missing is an empty text.

    >>> predictions = Predictions([[2.0, 0.0], [0.0, 1.0]], target=[0, 1], classes=["yes", "no"], link="softmax")
    >>> predictions.probs()
    tensor([[0.8808, 0.1192], [0.2689, 0.7311]])
    """

    scores: Scores
    target: Target | None = None
    classes: Sequence[str] | None = None
    link: Link | None = None
    ids: Sequence[str] | None = None
    train_counts: Tensor | None = None
    superclasses: Sequence[str] | None = None
    network_digest: str | None = None
    quality: Tensor | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __init__(
        self,
        scores: Any,
        target: Any = None,
        classes: Sequence[str] | Mapping[Any, Any] | None = None,
        link: Link | str | None = None,
        ids: Sequence[str] | None = None,
        train_counts: Any = None,
        superclasses: Sequence[str] | None = None,
        network_digest: str | None = None,
        quality: Any = None,
        columns: Any = None,
    ):
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        named = column_names(scores)
        names = named_columns(scores) if classes is None else classes
        keep("classes", None if names is None else tuple(class_list(names)))
        check_columns(self.classes, named)
        known = self.classes or named
        keep("ids", None if ids is None else tuple(names_in_order("ids", ids)))
        more = columns.items() if hasattr(columns, "items") else ()
        beside = [("target", target), ("quality", quality), *((f"column {name!r}", one) for name, one in more)]
        for name, given in [("scores", scores), *beside]:
            check_same_rows(scores, given, name)
            check_row_names(self.ids, given, name)
        check_same_rows(scores, ids, "ids")
        target = labels_by_name(target, scores, self.classes)
        check_same_names(scores, target, self.classes)
        scores = as_tensor(scores, "scores")
        keep("scores", scores.float() if scores.dtype == torch.bfloat16 else scores)
        keep("target", None if target is None else as_target(target))
        keep("link", parse_link(link) if isinstance(link, str) else link)
        counts = by_class("train_counts", train_counts, known)
        keep("train_counts", None if counts is None else as_tensor(counts, "train_counts"))
        keep("superclasses", None if superclasses is None else tuple(superclass_by_class(superclasses, known)))
        keep("network_digest", network_digest)
        keep("quality", None if quality is None else as_quality(quality, len(self.scores)))
        keep("columns", {} if columns is None else as_columns(columns, len(self.scores)))
        self._check()

    def _check(self) -> None:
        check_scores(self.scores)
        rows, classes = self.scores.shape
        if self.target is not None:
            check_target(self.scores, self.target)
            check_labels(self.target, classes)
        check_names(self.classes, classes, "classes")
        check_names(self.ids, rows, "ids")
        check_superclasses(self.superclasses, classes)
        if self.train_counts is not None:
            check_counts(self.train_counts, classes)
        if self.network_digest is not None and not isinstance(self.network_digest, str):
            raise InputError(f"network_digest: expected text or None, got {shown(self.network_digest)}")
        if self.link is not None and not isinstance(self.link, Link):
            raise InputError(f"link: expected a link, its text or None, got {type(self.link).__name__}")
        if self.link is not None:
            self.link.check_classes(classes)
            self.link.check_names(self.classes)
        if isinstance(self.link, Identity):
            check_values(self.scores, "probabilities", "scores with the link identity")
        else:
            check_values(self.scores, "finite", "scores")

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        labels = "no target" if self.target is None else "one label a row" if self.target.ndim == 1 else "many labels"
        return f"Predictions({len(self)} rows, {self.num_classes} classes, {labels}, link {self.link!r})"

    @property
    def num_classes(self) -> int:
        """C, the number of classes."""
        return self.scores.shape[1]

    @property
    def class_names(self) -> Sequence[str]:
        """The names of the classes, or their numbers from 0 where none were given."""
        return self.classes or tuple(map(str, range(self.num_classes)))

    @property
    def prior(self) -> Tensor | None:
        """Shares of the classes among the training examples."""
        if self.train_counts is None:
            return None
        counts = self.train_counts.double()  # before they are added: half precision ends at 65504
        if not counts.sum() > 0:
            raise InputError("train_counts: expected training examples to take a prior from, got 0 of every class")
        return counts / counts.sum()

    def probs(self) -> Probs:
        """Probabilities (N, C) by the link; row blocks of a large file come from ``block.probs()``."""
        if self.link is None:
            raise InputError(
                "scores: cannot be interpreted as probabilities: set the link they were trained for "
                "(softmax, sigmoid, …), or identity if they are probabilities"
            )
        with torch.no_grad():
            return self.link.probs(self.scores)

    def plausibility(self) -> Tensor:
        """Probabilities if there is a link, else the scores themselves: enough for rules that need only an order."""
        return self.scores if self.link is None else self.probs()

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator["Predictions"]:
        """The same rows in order, in blocks of about ``entries`` scores."""
        for rows in row_blocks(len(self), self.num_classes, entries):
            yield self._rows(rows)

    def rows(self, index: Any) -> "Predictions":
        """These rows (numbers, booleans or a slice), in this order; without ids, row numbers become ids."""
        if isinstance(index, slice):
            return self._rows(index)
        places = as_tensor(index, "rows")
        if not places.numel() and places.ndim == 1 and isinstance(index, list | tuple):  # of which torch makes floats
            return self._rows(places.long())
        if places.dtype == torch.bool and places.shape == (len(self),):
            return self._rows(places.nonzero().squeeze(1))
        if places.is_floating_point() or places.dtype == torch.bool or places.ndim != 1:
            raise InputError(f"rows: expected row numbers, or bool ({len(self)},), got {shape_of(places)}")
        if len(places) and not -len(self) <= int(places.min()) <= int(places.max()) < len(self):
            raise InputError(f"rows: expected numbers below {len(self)}, got {int(places.min())} to {int(places.max())}")
        return self._rows(places.long())

    def without_rows(self) -> "Predictions":
        """What is known about the classes, and which fields rows have, without any row."""
        part = self._rows(slice(0, 0))
        if self.ids is None:
            object.__setattr__(part, "ids", None)
        return part

    def split(self, share: float = 0.5, *, seed: int = 0) -> tuple["Predictions", "Predictions"]:
        """Two disjoint random parts, the first with this share of the rows, each in the order of the rows."""
        first, second = self.split_rows(share, seed=seed)
        return self.rows(first), self.rows(second)

    def split_rows(self, share: float = 0.5, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """The row numbers of the two parts of :meth:`split`."""
        if not 0 < share < 1:
            raise InputError(f"share: expected a number between 0 and 1, got {share}")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        first = int(share * len(self) + 0.5)
        if not 0 < first < len(self):
            raise InputError(f"cannot split {len(self)} rows into two parts at {share}: one would be empty")
        return order[:first].sort().values, order[first:].sort().values

    def with_link(self, link: Link | str | None) -> "Predictions":
        """The same scores with another link."""
        return replace(self, link=link)  # type: ignore[arg-type]

    def with_quality(self, quality: Any) -> "Predictions":
        """The same rows with another quality: one number per row, or None."""
        return replace(self, quality=quality)

    def with_columns(self, columns: Any) -> "Predictions":
        """The same rows with these columns besides those that they have; one of the same name is replaced.

        >>> Predictions([[0.7, 0.3]]).with_columns({"site": ["north"]}).columns
        {'site': array(['north'], dtype='<U5')}
        """
        return replace(self, columns={**self.columns, **as_columns(columns, len(self))})

    def save(self, path: str | Path) -> None:
        """Write to ``.safetensors``, ``.npz`` or ``.parquet``, whole or not at all."""
        from shortlist.predictions.storage import save

        save(self, Path(path))

    @staticmethod
    def load(
        path: str | Path,
        *,
        scores_key: str | None = None,
        target_key: str | None = None,
        ids_key: str | None = None,
        quality_key: str | None = None,
        no_label: str | None = None,
        columns: Sequence[str] = (),
        link: Link | str | None = None,
        classes: Sequence[str] | Mapping[Any, Any] | None = None,
    ) -> "Predictions":
        """Read a file that :meth:`save` wrote, or any other by the names of its arrays and its link.

        Args:
            path: ``.safetensors``, ``.npz``, ``.npy``, ``.parquet`` or ``.csv``; or a folder of parts, which is opened lazily,
                also by an address that Arrow knows (``s3://bucket/scores``).
            scores_key: the array or column of the scores; ``*`` stands for any text, one column per class.
            target_key: the array or column of the labels; for ``.npy`` scores the ``.npy`` file of the labels.
            ids_key: the array or column of the row names.
            quality_key: the array or column of the quality, one number per row, for a gate; by default ``quality``.
            no_label: the entry of the target that stands for no label, such as ``"-1"``, ``"none"`` or ``""`` (an empty cell);
                the target is then bool (N, C), and a gate can be fitted on such rows.
            columns: names of arrays or columns to keep beside the scores; those of a file of ours are always kept.
            link: replaces the link of the file.
            classes: the name of each column of scores, in a file that does not name them.
        """
        from shortlist.predictions.storage import load
        from shortlist.predictions.stored import Keys

        keys = Keys(scores_key, target_key, ids_key, quality_key, no_label, column_list(columns))
        place = path if isinstance(path, str) and "://" in path else Path(path)
        return load(place, keys, link, classes)

    def _rows(self, index: Tensor | slice) -> "Predictions":
        """A selection of checked rows, which need no second check."""
        part = object.__new__(Predictions)
        fields = {
            "scores": self.scores[index],
            "target": None if self.target is None else self.target[index],
            "ids": _take(self.ids or range(len(self)), index),
            "classes": self.classes,
            "link": self.link,
            "train_counts": self.train_counts,
            "superclasses": self.superclasses,
            "network_digest": self.network_digest,
            "quality": None if self.quality is None else self.quality[index],
            "columns": taken(self.columns, index),
        }
        for name, value in fields.items():
            object.__setattr__(part, name, value)
        return part


def _take(names: Sequence[str] | range, index: Tensor | slice) -> Sequence[str] | None:
    taken = names[index] if isinstance(index, slice) else [names[row] for row in index.tolist()]
    return tuple(map(str, taken)) if len(set(taken)) == len(taken) else None  # duplicate rows are numbered instead
