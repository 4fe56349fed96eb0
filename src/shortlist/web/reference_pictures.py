"""Reference pictures: small and larger JPEGs of the references, made when they are looked at, with their credits."""

import threading
from collections import OrderedDict
from typing import Literal, TypeAlias

from shortlist.column_names import CREDITS, LICENCES
from shortlist.data.dataset import Split
from shortlist.data.decoding import PictureError
from shortlist.data.pictures import Pictures
from shortlist.errors import InputError
from shortlist.web.references import References
from shortlist.web.uploads import jpeg

Size: TypeAlias = Literal["small", "large"]
SIDES: dict[str, int] = {"small": 240, "large": 1280}
QUALITY = 85
MOST_BYTES = 64 * 2**20


class ReferencePictures:
    """The pictures of references, as JPEG.

    Args:
        rows: the data that the references are of.
        references: which rows they are.
    """

    def __init__(self, rows: Split, references: References):
        if not isinstance(rows.inputs, Pictures):
            raise InputError("references: expected pictures, got features")
        self._pictures, self._rows, self._references = rows.inputs, rows, references
        self._made: OrderedDict[tuple[int, str], bytes] = OrderedDict()
        self._lock, self._bytes = threading.Lock(), 0

    @property
    def key(self) -> str:
        """Of which references these are: others may have another picture by the same number."""
        return self._references.data[:8]

    def jpeg(self, number: int, size: Size = "small") -> bytes | None:
        """The picture of a reference; None if there is no such reference, or its picture can no longer be read."""
        if not 0 <= number < len(self._references):
            return None
        return self.jpeg_of_row(int(self._references.rows[number]), size)

    def jpeg_of_row(self, row: int, size: Size = "small") -> bytes | None:
        """The picture of a row of the data; None if it can no longer be read."""
        key = (row, size)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        try:
            image = self._pictures.decode(row, at_least=SIDES[size]).image
        except PictureError:
            return None
        made = jpeg(image, SIDES[size], QUALITY)
        with self._lock:
            self._made[key] = made
            self._bytes += len(made)
            while self._bytes > MOST_BYTES:
                self._bytes -= len(self._made.popitem(last=False)[1])
        return made

    def credit(self, number: int) -> dict[str, str]:
        """Who made the picture and its licence, where the data say so: ``credit``, ``licence``."""
        row = int(self._references.rows[number])
        found = {}
        for name, columns in (("credit", CREDITS), ("licence", LICENCES)):
            values = [self._rows.columns[column][row] for column in self._rows.columns if column.strip().casefold() in columns]
            if values and values[0]:
                found[name] = str(values[0])
        return found
