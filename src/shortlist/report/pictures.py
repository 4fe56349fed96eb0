"""Pictures of rows on a page: found by id among the data, small, embedded, and together no larger than a stated size."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from shortlist.checks import whole
from shortlist.data.dataset import TEST, Dataset, Split
from shortlist.data.thumbnails import jpeg_uri, small_jpeg
from shortlist.errors import InputError
from shortlist.tensors import is_single_label

if TYPE_CHECKING:
    from shortlist.sets.lists import LabelList

MOST_BYTES = 2_000_000  # of all pictures of a page
SIDE, QUALITY = 200, 76
NO_ROOM = "left out, to keep the page small"


class PagePictures:
    """The pictures of a page.

    Args:
        source: a dataset of pictures, or some splits, whose ids are those of the predictions; of paths, one may begin
            further up than the other.
        most_bytes: how much of the page all of them may take; the first ones are embedded until that is used up.
        side: longest side of a picture, in pixels.

    Attributes:
        used: bytes taken so far.
        left_out: number of pictures for which there was no room.
    """

    def __init__(self, source: Dataset | Split | Sequence[Split], *, most_bytes: int = MOST_BYTES, side: int = SIDE):
        self.most_bytes, self.side = whole(0)("most_bytes", most_bytes), whole(1)("side", side)
        self.used = self.left_out = 0
        splits = _splits(source)
        if any(split.input_kind != "pictures" for split in splits):
            raise InputError("pictures: expected data with pictures, got features")
        self._places: dict[str, tuple[Split, int]] = {}
        for split in splits:
            for row, name in enumerate(split.ids):
                self._places.setdefault(str(name), (split, row))
        self._made: dict[str, str] = {}

    def knows(self, name: str) -> bool:
        """Whether there is a picture with this id."""
        return self._find(name) is not None

    def _find(self, name: str) -> tuple[Split, int] | None:
        """The row with this id; of paths, one may begin further up than the other, if only one row ends like it."""
        exact = self._places.get(name)
        if exact is not None or name.isdecimal():
            return exact
        parts = PurePath(name).parts
        known = self._by_last_part.get(parts[-1] if parts else "", [])
        alike = [one for one in known if _same_end(PurePath(one).parts, parts)]
        return self._places[alike[0]] if len(alike) == 1 else None

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._places:
            found.setdefault(PurePath(name).name, []).append(name)
        return found

    def embed(self, answer: "LabelList") -> tuple[str | None, str]:
        """The picture of a row as a data URI, or None and the reason why there is none."""
        from shortlist.data.decoding import PictureError

        place = self._find(answer.id)
        if place is None:
            return None, "no picture with this id"
        if not _same_labels(*place, answer.target):
            return None, "the picture with this id has another label"
        if answer.id not in self._made:
            try:
                self._made[answer.id] = self._thumbnail(*place)
            except PictureError as error:
                return None, str(error)
        uri = self._made[answer.id]
        if self.used + len(uri) > self.most_bytes:
            self.left_out += 1
            return None, NO_ROOM
        self.used += len(uri)
        return uri, ""

    def _thumbnail(self, split: Split, row: int) -> str:
        image = split.inputs.decode(row, at_least=self.side).image  # type: ignore[union-attr]
        return jpeg_uri(small_jpeg(image, self.side, QUALITY))


def _same_end(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the shorter path is the end of the longer one."""
    length = min(len(one), len(other))
    return one[-length:] == other[-length:]


def _splits(source: Dataset | Split | Sequence[Split]) -> Sequence[Split]:
    """The splits to look for ids in, the test split first: ids that are row numbers begin again in every split."""
    if isinstance(source, Split):
        return [source]
    if isinstance(source, Dataset):
        return sorted(source.splits.values(), key=lambda split: split is not source.splits.get(TEST))
    return list(source)


def _same_labels(split: Split, row: int, labels: Sequence[str] | None) -> bool:
    if labels is None or split.target is None or split.classes is None:
        return True
    target = split.target[row]
    numbers = [int(target)] if is_single_label(split.target) else target.nonzero().flatten().tolist()
    return {str(split.classes[number]) for number in numbers} == set(labels)
