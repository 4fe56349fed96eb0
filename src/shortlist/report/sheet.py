"""Contact sheet: pictures of some classes in one image, grouped by superclass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from shortlist.checks import whole
from shortlist.data.dataset import TRAIN, Dataset, Split
from shortlist.data.randomness import check_seed
from shortlist.errors import InputError
from shortlist.report.style import INK, MUTED
from shortlist.tensors import Array, is_single_label
from shortlist.words import expected_one_of, similar

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

PAPER, TILE = "#fbfbf9", "#e4e6ea"
GAP, MARGIN = 6, 28
CAPTION = 250  # width of the names at the left
CAPTION_LINES, LINE = 3, 14  # of the labels below a picture


@dataclass(frozen=True)
class Strip:
    """One line of the sheet: a heading, a name, a remark, and the rows whose pictures it shows."""

    heading: str
    name: str
    remark: str
    rows: Sequence[int]


def contact_sheet(
    dataset: Dataset,
    *,
    split: str | None = None,
    classes: int = 12,
    per_class: int = 8,
    size: int = 96,
    seed: int = 0,
    only: Sequence[str] = (),
) -> "Image.Image":
    """Draw a contact sheet as a Pillow image.

    Args:
        dataset: a dataset of pictures.
        split: name of the split; by default train, or else the first.
        classes: number of classes; with several labels a row, number of lines.
        per_class: most pictures of each class.
        size: side of each picture in pixels.
        seed: chooses classes and pictures.
        only: names of classes or superclasses to choose from; all by default.
    """
    for number, name in ((classes, "classes"), (per_class, "per_class"), (size, "size")):
        whole(1)(name, number)
    chosen, name = _split(dataset, split)
    draws = np.random.default_rng(check_seed(seed))
    single = is_single_label(chosen.labels)
    labels = _labels_called(dataset, only)
    if single:
        strips = _class_strips(dataset, chosen, labels, classes, per_class, draws)
    else:
        strips = _strips(chosen, labels, classes, per_class, draws)
    captions = None if single else {row: _labels(dataset, chosen, row) for strip in strips for row in strip.rows}
    shown = f", {len(strips)} shown" if single and len(strips) < len(dataset.classes) else ""
    title = f"{dataset.name}, {name}: {len(chosen):,} pictures, {len(dataset.classes):,} classes{shown}"
    return _Sheet(title, strips, per_class, size, captions).drawn(_thumbnails(chosen, strips, size))


def _split(dataset: Dataset, name: str | None) -> tuple[Split, str]:
    if name is None:
        name = TRAIN if TRAIN in dataset.splits else next(iter(dataset.splits))
    if name not in dataset.splits:
        raise InputError(f"split: {expected_one_of(name, dataset.splits)}, got {name}")
    found = dataset.splits[name]
    if isinstance(found.inputs, torch.Tensor):
        raise InputError(f"{dataset.name}: expected pictures, got a table of {found.inputs.shape[1]} features")
    if not len(found):
        raise InputError(f"{dataset.name}: the split {name} is empty")
    return found, name


def _labels_called(dataset: Dataset, only: Sequence[str]) -> list[int]:
    """The classes with these names or superclasses; all if none is given."""
    above = dataset.superclasses or [""] * len(dataset.classes)
    unknown = [name for name in only if name not in dataset.classes and name not in above]
    if unknown:
        like = similar(unknown[0], [*dataset.classes, *set(above)])
        raise InputError(f"{unknown[0]}: expected a class or a superclass" + (f", such as {', '.join(like)}" if like else ""))
    pairs = enumerate(zip(dataset.classes, above, strict=True))
    return [label for label, (name, superclass) in pairs if not only or name in only or superclass in only]


def _class_strips(
    dataset: Dataset, split: Split, labels: Sequence[int], classes: int, per_class: int, draws: np.random.Generator
) -> list[Strip]:
    """Classes of some superclasses, grouped, so that similar classes are side by side.

    At most a third of all lines belong to one superclass, its commonest classes, so that several superclasses appear.
    """
    counts = split.counts(len(dataset.classes))
    there = [label for label in labels if counts[label]]
    above = dataset.superclasses or [""] * len(dataset.classes)
    members: dict[str, list[int]] = {}
    for label in sorted(
        draws.permutation(there).tolist(), key=lambda label: -int(counts[label]) if dataset.superclasses else 0
    ):
        members.setdefault(above[label], []).append(label)
    most = max(2, -(-classes // 3)) if len(members) > 1 else classes
    picked: list[int] = []
    names = sorted(members)
    held = [sum(int(counts[label]) for label in members[name]) for name in names]
    # Random order; superclasses with more pictures tend to come earlier: the first is that of a random picture, and so on.
    for place in np.argsort(draws.exponential(size=len(names)) / held).tolist():
        own = members[names[place]]
        picked += sorted(own[: min(most, classes - len(picked))], key=lambda label: dataset.classes[label])
    strips, last = [], None
    for label in picked:
        rows = draws.permutation(np.flatnonzero((split.labels == label).numpy()))[:per_class].tolist()
        strips.append(
            Strip(above[label] if above[label] != last else "", dataset.classes[label], f"{int(counts[label]):,}", rows)
        )
        last = above[label]
    return strips


def _strips(split: Split, labels: Sequence[int], lines: int, per_line: int, draws: np.random.Generator) -> list[Strip]:
    """Random rows, or rows with one of the labels, with all their labels below."""
    every = len(labels) == split.labels.shape[1]
    there = np.arange(len(split)) if every else np.flatnonzero(split.labels[:, list(labels)].any(1).numpy())
    rows = draws.permutation(there)[: lines * per_line].tolist()
    return [Strip("", "", "", rows[begin : begin + per_line]) for begin in range(0, len(rows), per_line)]


def _labels(dataset: Dataset, split: Split, row: int) -> list[str]:
    """The labels of a row, one a line; the last line counts those that do not fit."""
    names = [dataset.classes[label] for label in split.labels[row].nonzero()[:, 0].tolist()] or ["no label"]
    return names if len(names) <= CAPTION_LINES else [*names[: CAPTION_LINES - 1], f"and {len(names) - CAPTION_LINES + 1} more"]


def _thumbnails(split: Split, strips: Sequence[Strip], size: int) -> dict[int, Array]:
    """The pictures by row, without those that cannot be read."""
    from shortlist.data.loading import load_pictures

    rows = [row for strip in strips for row in strip.rows]
    assert not isinstance(split.inputs, torch.Tensor)
    loaded = load_pictures(split.inputs, size=size, rows=torch.tensor(rows), tolerance=1.0)
    return dict(zip(loaded.rows.tolist(), loaded.images.permute(0, 2, 3, 1).numpy(), strict=True))


class _Sheet:
    """Layout and drawing of a sheet."""

    def __init__(self, title: str, strips: Sequence[Strip], columns: int, size: int, captions: dict[int, list[str]] | None):
        self.title, self.strips, self.columns, self.size, self.captions = title, strips, columns, size, captions
        self.below = CAPTION_LINES * LINE + 8 if captions is not None else 0
        self.large, self.plain, self.small = (_font(points) for points in (20, 14, 11))
        self.left = MARGIN if captions is not None else MARGIN + CAPTION

    def drawn(self, thumbnails: dict[int, Array]) -> "Image.Image":
        """The whole sheet."""
        from PIL import Image, ImageDraw

        headings = sum(1 for strip in self.strips if strip.heading)
        height = 2 * MARGIN + 40 + len(self.strips) * (self.size + self.below + GAP) + headings * 22
        width = self.left + self.columns * (self.size + GAP) - GAP + MARGIN
        sheet = Image.new("RGB", (max(width, 420), height), PAPER)
        pen = ImageDraw.Draw(sheet)
        pen.text((MARGIN, MARGIN - 6), _fitted(self.title, self.large, sheet.width - 2 * MARGIN), INK, self.large)
        y = MARGIN + 40
        for strip in self.strips:
            if strip.heading:
                pen.text((MARGIN, y), _fitted(strip.heading, self.small, sheet.width - 2 * MARGIN), MUTED, self.small)
                y += 22
            self._strip(sheet, pen, strip, y, thumbnails)
            y += self.size + self.below + GAP
        return sheet

    def _strip(
        self, sheet: "Image.Image", pen: "ImageDraw.ImageDraw", strip: Strip, y: int, thumbnails: dict[int, Array]
    ) -> None:
        from PIL import Image

        middle = y + self.size // 2
        if strip.name:
            pen.text((MARGIN, middle - 18), _fitted(strip.name, self.plain, CAPTION - 16), INK, self.plain)
            pen.text((MARGIN, middle + 2), strip.remark, MUTED, self.small)
        for place, row in enumerate(strip.rows):
            x = self.left + place * (self.size + GAP)
            if row in thumbnails:
                sheet.paste(Image.fromarray(thumbnails[row]), (x, y))
                pen.rectangle((x - 1, y - 1, x + self.size, y + self.size), outline=TILE)  # so that white pictures have an edge
            else:
                pen.rectangle((x, y, x + self.size - 1, y + self.size - 1), TILE)
                pen.text((x + 8, middle - 7), _fitted("unreadable", self.small, self.size - 12), MUTED, self.small)
            for line, text in enumerate(self.captions[row] if self.captions is not None else ()):
                pen.text((x, y + self.size + 3 + LINE * line), _fitted(text, self.small, self.size), MUTED, self.small)


def _fitted(text: str, font: "ImageFont.FreeTypeFont", width: int) -> str:
    """The text on one line, shortened until it fits."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip(" ,") + "…"


def _font(points: int) -> "ImageFont.FreeTypeFont":
    """DejaVu Sans, which comes with matplotlib and covers most scripts."""
    from matplotlib import font_manager
    from PIL import ImageFont

    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), points)
