"""Near duplicates among pictures that have been decoded anyway: what to keep of each, and the pairs on two sides of a split."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from shortlist.data.duplicates import fingerprints, near_duplicates, straddling
from shortlist.tensors import Array, row_blocks

THUMBNAIL = 8  # pixels
ALIKE = 6.0  # levels of 255 by which thumbnails of one picture differ on average, compressed again or cropped a little
SMALLEST = 16  # pixels: smaller pictures carry too little to tell copies from neighbours


class Signatures(NamedTuple):
    """What is kept of pictures.

    Args:
        prints: fingerprints, uint64 (N,).
        thumbnails: uint8 (N, 3, 8, 8).
    """

    prints: Array
    thumbnails: Tensor

    @staticmethod
    def of(images: Tensor, window: float = 1.0) -> "Signatures":
        """The signatures of pictures of one size.

        Args:
            images: uint8 (N, 3, H, W).
            window: the share of the side of the central window that is looked at.
        """
        side = min(images.shape[2:])
        inside = max(1, round(window * side))
        start = (side - inside) // 2
        seen = images[..., start : start + inside, start : start + inside]
        small = torch.empty(len(seen), 3, THUMBNAIL, THUMBNAIL, dtype=torch.uint8)
        for rows in row_blocks(len(seen), 3 * inside * inside):
            small[rows] = adaptive_avg_pool2d(seen[rows].float(), THUMBNAIL).round().to(torch.uint8)
        return Signatures(fingerprints(seen.contiguous()).numpy(), small)

    @staticmethod
    def joined(parts: Sequence["Signatures"]) -> "Signatures":
        """The signatures of several parts, one after another."""
        empty = Signatures(np.empty(0, np.uint64), torch.empty(0, 3, THUMBNAIL, THUMBNAIL, dtype=torch.uint8))
        every = [empty, *parts]
        return Signatures(np.concatenate([part.prints for part in every]), torch.cat([part.thumbnails for part in every]))


def sentence_on_lookalikes(
    signatures: Mapping[str, Signatures], ids: Mapping[str, Sequence[str]], policy: str = "keep"
) -> str | None:
    """A sentence if pictures of one split look like pictures of another; None if none do.

    Args:
        signatures: of the rows of each split.
        ids: the names of the same rows.
        policy: what was done about near duplicates before, for the advice.
    """
    whole = Signatures.joined(list(signatures.values()))
    sides = [name for name, part in signatures.items() for _ in range(len(part.prints))]
    names = [identity for name in signatures for identity in ids[name]]
    pairs = straddling(near_duplicates(whole.prints), sides)
    thumbnails = whole.thumbnails.float()
    apart = (thumbnails[pairs[:, 0]] - thumbnails[pairs[:, 1]]).abs().mean((1, 2, 3))
    pairs = pairs[apart <= ALIKE]
    if not len(pairs):
        return None
    one, other = pairs[0].tolist()
    advice = "; duplicates=together keeps them on one side of splits that are drawn, duplicates=drop leaves copies out"
    return (
        f"{len(pairs):,} of {len(sides):,} pictures have a near duplicate in another split, such as {names[one]} "
        f"({sides[one]}) and {names[other]} ({sides[other]}): results on them say little about new pictures"
        + (advice if policy == "keep" else "")
    )
