"""Pictures stored as bytes in a column of a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from shortlist.data.pictures import Pictures, row_numbers
from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded


class PictureBytes(Pictures):
    """The bytes of picture files in an Arrow array; each is decoded when it is used.

    Args:
        column: an Arrow array of binary values, in one piece or in chunks.
        ids: the name of each picture; by default its number in the column.
        places: which values of the column these pictures are, int64 (N,); all of them by default.

    >>> import pyarrow as pa
    >>> pictures = PictureBytes(pa.array([b"first", b"second"]))
    >>> len(pictures), pictures.rows(torch.tensor([1])).ids
    (2, ['1'])
    """

    def __init__(self, column: Any, ids: Sequence[str] | None = None, places: Tensor | None = None):
        kind = str(column.type)
        if kind not in ("binary", "large_binary", "binary_view"):
            raise InputError(f"column: expected the bytes of pictures, got {kind}")
        self.column = column
        self.places = torch.arange(len(column)) if places is None else places
        self.ids = [str(place) for place in self.places.tolist()] if ids is None else ids
        if len(self.ids) != len(self.places):
            raise InputError(f"ids: expected one for each of the {len(self.places)} pictures, got {len(self.ids)}")

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The bytes, decoded."""
        from shortlist.data.decoding import PictureError, decode

        content: bytes | None = self.column[int(self.places[row])].as_py()
        if content is None:
            raise PictureError("there are no bytes")
        return decode(content, at_least=at_least)

    def named(self, ids: Sequence[str]) -> "PictureBytes":
        """The same pictures with other names."""
        return PictureBytes(self.column, ids, self.places)

    def rows(self, rows: Tensor) -> "PictureBytes":
        """Only these rows, in this order; the bytes stay where they are."""
        rows = row_numbers(rows)
        return PictureBytes(self.column, [self.ids[row] for row in rows.tolist()], self.places[rows])

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the bytes of these pictures, without those of others in the column."""
        import pyarrow as pa

        return {"column": self.column.take(pa.array(self.places.numpy())), "ids": self.ids, "places": torch.arange(len(self))}
