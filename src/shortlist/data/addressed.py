"""Picture files of a file system that Arrow knows, such as a bucket; each is read when it is used."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from shortlist.data.pictures import Pictures, row_numbers

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded


class AddressedPictures(Pictures):
    """Picture files on a file system of Arrow's.

    Args:
        system: a :class:`pyarrow.fs.FileSystem`.
        paths: the file of each picture.
        ids: the name of each.
    """

    def __init__(self, system: Any, paths: Sequence[str], ids: Sequence[str]):
        self.system, self.paths, self.ids = system, paths, ids

    def content(self, row: int) -> bytes:
        """The bytes of a file."""
        with self.system.open_input_file(self.paths[row]) as file:
            return bytes(file.read())

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The file, decoded."""
        from shortlist.data.decoding import PictureError, decode

        try:
            content = self.content(row)
        except OSError as error:
            raise PictureError(str(error).partition("\n")[0] or type(error).__name__) from error
        return decode(content, at_least=at_least)

    def rows(self, rows: Tensor) -> "AddressedPictures":
        """Only these rows, in this order."""
        chosen = row_numbers(rows).tolist()
        return AddressedPictures(self.system, [self.paths[row] for row in chosen], [self.ids[row] for row in chosen])
