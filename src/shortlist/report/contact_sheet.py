"""A contact sheet: pictures of some classes side by side, those of one superclass together, as one image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from shortlist.checks import whole_number
from shortlist.data.dataset import TRAIN, Dataset, Split
from shortlist.errors import InputError
from shortlist.report.style import INK, MUTED
from shortlist.tensors import Array, is_single_label

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

PAPER, TILE = "#fbfbf9", "#e4e6ea"
GAP, MARGIN = 6, 28
CAPTION = 250  # width of the names at the left
CAPTION_LINES, LINE = 3, 14  # of the labels below a picture


@dataclass(frozen=True)
class Strip:
    """One line of the sheet: a heading, a name, a remark, and the rows whose pictures stand beside it."""

    heading: str
    name: str
    remark: str
    rows: Sequence[int]


def contact_sheet(
    dataset: Dataset, *, split: str | None = None, classes: int = 12, per_class: int = 8, size: int = 96, seed: int = 0
) -> "Image.Image":
    """The sheet as a Pillow image, ready to save.

    Args:
        dataset: one with pictures.
        split: which split; train by default, or the first.
        classes: how many classes; of data with many labels a row, how many lines of pictures.
        per_class: how many pictures of each, fewer where there are fewer.
        size: side of each picture in pixels.
        seed: other classes and other pictures.
    """
    for number, name in ((classes, "classes"), (per_class, "per_class"), (size, "size")):
        whole_number(number, name, 1)
    chosen, name = _split(dataset, split)
    draws = np.random.default_rng(seed)
    single = is_single_label(chosen.target)
    strips = _class_strips(dataset, chosen, classes, per_class, draws) if single else _strips(chosen, classes, per_class, draws)
    captions = None if single else {row: _labels(dataset, chosen, row) for strip in strips for row in strip.rows}
    title = f"{dataset.name}, {name}: {len(chosen):,} pictures, {len(dataset.classes):,} classes"
    return _Sheet(title, strips, per_class, size, captions).drawn(_thumbnails(chosen, strips, size))


def _split(dataset: Dataset, name: str | None) -> tuple[Split, str]:
    if name is None:
        name = TRAIN if TRAIN in dataset.splits else next(iter(dataset.splits))
    if name not in dataset.splits:
        raise InputError(f"split: expected one of {', '.join(dataset.splits)}, got {name}")
    found = dataset.splits[name]
    if isinstance(found.inputs, torch.Tensor):
        raise InputError(f"{dataset.name}: expected pictures, got a table of {found.inputs.shape[1]} features")
    if not len(found):
        raise InputError(f"{dataset.name}: the split {name} is empty")
    return found, name


def _class_strips(dataset: Dataset, split: Split, classes: int, per_class: int, draws: np.random.Generator) -> list[Strip]:
    """Classes of a few superclasses, all of them before the next, so that those which look alike stand together."""
    counts = split.counts(len(dataset.classes))
    there = [label for label in range(len(dataset.classes)) if counts[label]]
    above = dataset.superclasses or [""] * len(dataset.classes)
    order = {name: place for place, name in enumerate(draws.permutation(sorted({above[label] for label in there})))}
    picked = sorted(draws.permutation(there).tolist(), key=lambda label: order[above[label]])[:classes]
    strips, last = [], None
    for label in sorted(picked, key=lambda label: (order[above[label]], dataset.classes[label])):
        rows = draws.permutation(np.flatnonzero((split.target == label).numpy()))[:per_class].tolist()
        heading = above[label] if above[label] != last else ""
        last = above[label]
        strips.append(Strip(heading, dataset.classes[label], f"{int(counts[label]):,}", rows))
    return strips


def _strips(split: Split, lines: int, per_line: int, draws: np.random.Generator) -> list[Strip]:
    """Any rows, with their labels below."""
    rows = draws.permutation(len(split))[: lines * per_line].tolist()
    return [Strip("", "", "", rows[begin : begin + per_line]) for begin in range(0, len(rows), per_line)]


def _labels(dataset: Dataset, split: Split, row: int) -> list[str]:
    """The labels of a row, a line each, the last line counting those that have none."""
    names = [dataset.classes[label] for label in split.target[row].nonzero()[:, 0].tolist()] or ["no label"]
    return names if len(names) <= CAPTION_LINES else [*names[: CAPTION_LINES - 1], f"and {len(names) - CAPTION_LINES + 1} more"]


def _thumbnails(split: Split, strips: Sequence[Strip], size: int) -> dict[int, Array]:
    """The pictures by row; what cannot be read is missing."""
    from shortlist.data.loading import load_pictures

    rows = [row for strip in strips for row in strip.rows]
    assert not isinstance(split.inputs, torch.Tensor)
    loaded = load_pictures(split.inputs, size=size, rows=torch.tensor(rows), tolerance=1.0)
    return dict(zip(loaded.rows.tolist(), loaded.images.permute(0, 2, 3, 1).numpy(), strict=True))


class _Sheet:
    """Measures and draws."""

    def __init__(self, title: str, strips: Sequence[Strip], columns: int, size: int, captions: dict[int, list[str]] | None):
        self.title, self.strips, self.columns, self.size, self.captions = title, strips, columns, size, captions
        self.left = MARGIN if captions is not None else MARGIN + CAPTION
        self.below = CAPTION_LINES * LINE + 8 if captions is not None else 0
        self.large, self.plain, self.small = (_font(points) for points in (20, 14, 11))

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
                pen.text((MARGIN, y), _fitted(strip.heading.upper(), self.small, sheet.width - 2 * MARGIN), MUTED, self.small)
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
            else:
                pen.rectangle((x, y, x + self.size - 1, y + self.size - 1), TILE)
                pen.text((x + 8, middle - 7), _fitted("unreadable", self.small, self.size - 12), MUTED, self.small)
            for line, text in enumerate(self.captions[row] if self.captions is not None else ()):
                pen.text((x, y + self.size + 3 + LINE * line), _fitted(text, self.small, self.size), MUTED, self.small)


def _fitted(text: str, font: "ImageFont.FreeTypeFont", width: int) -> str:
    """The text, shortened until it fits."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip(" ,") + "…"


def _font(points: int) -> "ImageFont.FreeTypeFont":
    """DejaVu Sans, which comes with matplotlib and has most scripts."""
    from matplotlib import font_manager
    from PIL import ImageFont

    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), points)
