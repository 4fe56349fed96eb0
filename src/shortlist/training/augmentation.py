"""Augmentation of training pictures: drawn for the whole batch at once, of which each process applies its own rows.

The draws depend only on the seed and the step, so a batch looks the same on one process or several, before and after a run is
resumed. Drawing and applying are separate, so that applying can be compiled together with the network.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data.pictures import larger_side
from shortlist.data.randomness import Purpose
from shortlist.data.transforms import flip_rows, random_boxes, resized_crop, windows
from shortlist.training.recipe import Augmentation
from shortlist.training.sampler import derived_seed

SHIFT = 1 / 8  # largest shift, relative to the side: 4 pixels of 32


def loading_size(kind: Augmentation, size: int) -> int:
    """The side at which training pictures are loaded, for crops of this size."""
    return larger_side(size) if kind in ("crop-flip", "resized-crop-flip") else size


class Augmenter:
    """Augmentation of the pictures of one process: uint8 (m, 3, H, W) → uint8 (m, 3, size, size).

    Args:
        kind: the kind of augmentation.
        size: side of the result.
        seed: seed of the draws.
    """

    def __init__(self, kind: Augmentation, size: int, seed: int):
        self.kind, self.size, self.seed = kind, size, seed
        self.margin = max(1, round(size * SHIFT)) if kind == "shift-flip" else 0
        self._generators: dict[torch.device, torch.Generator] = {}

    def draw(self, images: Tensor, number: int, start: int, total: int) -> tuple[Tensor, ...]:
        """The random flips, corners or boxes of the rows from ``start`` on, out of the ``total`` rows of batch ``number``."""
        if self.kind == "none":
            return ()
        device, mine = images.device, slice(start, start + len(images))
        generator = self._generators.setdefault(device, torch.Generator(device))
        generator.manual_seed(derived_seed(self.seed, Purpose.AUGMENTATION, number))
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
        if not draws:
            return images
        flips, *places = draws
        if self.kind == "resized-crop-flip":
            images = resized_crop(images, places[0], self.size)
        elif places:
            top, left = places[0].unbind()
            images = windows(pad(images, (self.margin,) * 4) if self.margin else images, top, left, self.size, self.size)
        return flip_rows(images, flips)

    def __call__(self, images: Tensor, number: int, start: int, total: int) -> Tensor:
        """Draw and apply."""
        return self.apply(images, *self.draw(images, number, start, total))
