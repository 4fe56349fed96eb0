"""Augmentation of training pictures: drawn for the whole batch at once, of which each process applies its own rows.

The draws depend only on the seed and the step, so a batch looks the same on one process or several, before and after a run is
resumed. Drawing and applying are separate, so that applying can be compiled together with the network.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data.pictures import larger_side
from shortlist.data.randomness import Purpose
from shortlist.data.transforms import flip_rows, random_boxes, resized_crop, windows
from shortlist.models.input_spec import InputSpec
from shortlist.training.recipe import Augmentation, Recipe
from shortlist.training.sampler import derived_seed

SHIFT = 1 / 8  # largest shift, relative to the side: 4 pixels of 32
SHIFTS = ("shift-flip", "reflected-shift-flip")


def loading_size(kind: Augmentation, size: int) -> int:
    """The side at which training pictures are loaded, for crops of this size."""
    return larger_side(size) if kind in ("crop-flip", "resized-crop-flip") else size


def make_augmenter(recipe: Recipe, inputs: InputSpec) -> "Augmenter":
    """The augmentation of a recipe; what is erased becomes the mean colour, which the network reads as zeros."""
    fill = (0.0, 0.0, 0.0) if inputs.mean is None else [255 * value for value in inputs.mean]
    return Augmenter(recipe.augmentation, inputs.size, recipe.seed, erase=recipe.erase, fill=fill)


class Augmenter:
    """Augmentation of the pictures of one process: uint8 (m, 3, H, W) → uint8 (m, 3, size, size).

    Args:
        kind: the kind of augmentation.
        size: side of the result.
        seed: seed of the draws.
        erase: side of a square that is erased from every picture, relative to ``size``; default 0, none.
        fill: what erased pixels become, one number for each channel, from 0 to 255.
    """

    def __init__(self, kind: Augmentation, size: int, seed: int, *, erase: float = 0.0, fill: Sequence[float] = (0, 0, 0)):
        self.kind, self.size, self.seed = kind, size, seed
        self.margin = max(1, round(size * SHIFT)) if kind in SHIFTS else 0
        self.hole, self.fill = round(size * erase), tuple(round(value) for value in fill)
        self._generators: dict[torch.device, torch.Generator] = {}

    def draw(self, images: Tensor, number: int, start: int, total: int) -> tuple[Tensor, ...]:
        """What is random about the rows from ``start`` on, out of the ``total`` rows of batch ``number``.

        Flips, then corners or boxes, each if the kind has them; last the centres of the squares that are erased.
        """
        device, mine = images.device, slice(start, start + len(images))
        generator = self._generators.setdefault(device, torch.Generator(device))
        generator.manual_seed(derived_seed(self.seed, Purpose.AUGMENTATION, number))
        draws = self._draw_windows(images, total, mine, generator)
        if not self.hole:
            return draws
        centers = torch.rand(2, total, generator=generator, device=device)[:, mine]
        return *draws, (centers * self.size).long().clamp_(max=self.size - 1)

    def _draw_windows(self, images: Tensor, total: int, mine: slice, generator: torch.Generator) -> tuple[Tensor, ...]:
        if self.kind == "none":
            return ()
        device = images.device
        uniform = torch.rand(3, total, generator=generator, device=device)[:, mine]
        flips = uniform[0] < 0.5
        if self.kind == "flip":
            return (flips,)
        if self.kind == "resized-crop-flip":
            alike = images.new_empty(1, *images.shape[1:]).expand(total, -1, -1, -1)  # a process may have no row
            return flips, random_boxes(alike, generator=generator)[mine]
        room = images.shape[-1] + 2 * self.margin - self.size
        # Every position equally likely; a draw just below 1 may round up, hence the clamp.
        return flips, (uniform[1:] * (room + 1)).long().clamp_(max=room)

    def apply(self, images: Tensor, *draws: Tensor) -> Tensor:
        """Apply these draws to the pictures."""
        if self.hole:
            rows, columns = draws[-1].unbind()
            return erase_squares(self._apply_windows(images, *draws[:-1]), rows, columns, self.hole, self.fill)
        return self._apply_windows(images, *draws)

    def _apply_windows(self, images: Tensor, *draws: Tensor) -> Tensor:
        if not draws:
            return images
        flips, *places = draws
        if self.kind == "resized-crop-flip":
            images = resized_crop(images, places[0], self.size)
        elif places:
            top, left = places[0].unbind()
            images = windows(self._padded(images), top, left, self.size, self.size)
        return flip_rows(images, flips)

    def _padded(self, images: Tensor) -> Tensor:
        if not self.margin:
            return images
        return reflected(images, self.margin) if self.kind == "reflected-shift-flip" else pad(images, (self.margin,) * 4)

    def __call__(self, images: Tensor, number: int, start: int, total: int) -> Tensor:
        """Draw and apply."""
        return self.apply(images, *self.draw(images, number, start, total))


def reflected(images: Tensor, margin: int) -> Tensor:
    """The pictures with this many pixels of their reflection on each side; the edge itself is not repeated.

    >>> reflected(torch.tensor([[[[1, 2, 3]]]]), 1)[0, 0, 1].tolist()
    [2, 1, 2, 3, 2]
    """
    for side in (2, 3):
        last = images.shape[side] - 1
        place = torch.arange(-margin, last + 1 + margin, device=images.device)
        images = images.index_select(side, (last - (last - place.abs()).abs()).clamp_(min=0))
    return images


def erase_squares(images: Tensor, rows: Tensor, columns: Tensor, side: int, fill: Sequence[int]) -> Tensor:
    """The pictures without the square of this side around a pixel of each, int64 (N,); it may lie partly outside.

    DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout", 2017, section 3.1.

    >>> erase_squares(torch.ones(1, 1, 3, 3), torch.tensor([0]), torch.tensor([2]), 2, (5,))[0, 0].tolist()
    [[1.0, 5.0, 5.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    inside = []
    for center, extent in ((rows, images.shape[2]), (columns, images.shape[3])):
        offset = torch.arange(extent, device=images.device) - (center - side // 2).view(-1, 1)
        inside.append((offset >= 0) & (offset < side))
    hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    color = torch.cat([torch.full((1, 1, 1), value, dtype=images.dtype, device=images.device) for value in fill])
    return torch.where(hole, color, images)
