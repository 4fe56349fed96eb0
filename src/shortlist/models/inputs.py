"""What a network is fed with: pictures of one size or features of one number, and how both are standardised."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from shortlist.checks import check_finite, whole
from shortlist.errors import InputError
from shortlist.tensors import as_tensor, check_tensor, row_blocks, shape_of

if TYPE_CHECKING:
    from shortlist.data.loading import Framing

Kind: TypeAlias = Literal["pictures", "features"]
CHANNELS = 3
FITS = ("crop", "stretch", "pad")
PIXELS_AT_ONCE = 2**24


@dataclass(frozen=True)
class Inputs:
    """Pictures or features, their size, and the mean and spread that they are standardised by.

    Args:
        kind: ``"pictures"`` or ``"features"``.
        size: side of the square pictures, or the number of features.
        mean: one number a channel on the scale from 0 to 1, or one a feature.
        std: likewise, above 0.
        fit: how a picture of another shape becomes a square, see :func:`~shortlist.data.load_pictures`; of no meaning for
            features.

    >>> inputs = Inputs("pictures", 32, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    >>> inputs.prepare(torch.full((1, 3, 32, 32), 255, dtype=torch.uint8)).unique()
    tensor([2.])
    >>> Inputs("features", 2, mean=(1.0, 0.0), std=(2.0, 1.0)).prepare(torch.tensor([[3.0, 4.0]]))
    tensor([[1., 4.]])
    """

    kind: Kind
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: "Framing" = "crop"
    _on: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"kind: expected 'pictures' or 'features', got {self.kind!r}")
        if self.fit not in FITS:
            raise InputError(f"fit: expected 'crop', 'stretch' or 'pad', got {self.fit!r}")
        size = whole(1)("size" if self.pictures else "features", self.size)
        wanted, each = (CHANNELS, "channel") if self.pictures else (size, "feature")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "mean", _numbers(self.mean, "mean", wanted, each))
        object.__setattr__(self, "std", _numbers(self.std, "std", wanted, each, above=0.0))

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a copy may go where the devices of this one are not."""
        return self.__dict__ | {"_on": {}}

    @property
    def pictures(self) -> bool:
        """Whether the inputs are pictures."""
        return self.kind == "pictures"

    @property
    def features(self) -> int | None:
        """The number of features; None where the inputs are pictures."""
        return None if self.pictures else self.size

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input, ``(3, size, size)`` or ``(features,)``."""
        return (CHANNELS, self.size, self.size) if self.pictures else (self.size,)

    def prepare(self, batch: Tensor) -> Tensor:
        """``(batch - mean) / std`` in float32, on the batch's device; pictures in channels-last memory.

        Args:
            batch: uint8 (N, 3, size, size), or floating point (N, features). Features are standardised in float32 whatever
                their precision, so that a row answers the same however it was stored.

        Shape: as the batch.
        """
        self.check(batch)
        mean, std = self.on(batch.device)
        if self.pictures:
            return batch.contiguous(memory_format=torch.channels_last).float().sub_(mean).div_(std)
        return (batch.float() - mean) / std

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Mean and spread on this device, brought there once: a copy with every batch would wait for it.

        Those of pictures are on the scale of their bytes and lie beside the channels. Whoever compiles :meth:`prepare` calls
        this first, else the graph is traced again when they are there.
        """
        if device not in self._on:
            with torch.inference_mode(False):  # they outlive whatever mode asks for them first
                mean, std = (torch.tensor(numbers, dtype=torch.float32) for numbers in (self.mean, self.std))
                if self.pictures:
                    mean, std = (255 * numbers.view(-1, 1, 1) for numbers in (mean, std))
                self._on[device] = mean.to(device), std.to(device)
        return self._on[device]

    def check(self, batch: Tensor) -> None:
        """The batch has the shape and the dtype of these inputs."""
        check_tensor(batch, self.kind)
        fits = batch.dtype == torch.uint8 if self.pictures else batch.is_floating_point()
        if not fits or batch.ndim != 1 + len(self.shape) or tuple(batch.shape[1:]) != self.shape:
            dtype = "uint8" if self.pictures else "floating point"
            wanted = ", ".join(map(str, ("N", *self.shape)))
            raise InputError(f"{self.kind}: expected {dtype} ({wanted}), got {shape_of(batch)}")

    def record(self) -> dict[str, Any]:
        """The fields as plain values, for JSON; :meth:`from_record` reads them back."""
        record = {"kind": self.kind, "size": self.size, "mean": list(self.mean), "std": list(self.std)}
        return record | {"fit": self.fit} if self.pictures else record

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Inputs":
        """The inputs that :meth:`record` described.

        >>> Inputs.from_record({"kind": "features", "size": 1, "mean": [0], "std": [2]})
        Inputs(kind='features', size=1, mean=(0.0,), std=(2.0,), fit='crop')
        """
        if not isinstance(record, Mapping):
            raise InputError(f"inputs: expected kind, size, mean and std by name, got {type(record).__name__}")
        wanted = {"kind", "size", "mean", "std"}
        missing, unknown = wanted - record.keys(), record.keys() - wanted - {"fit"}
        if missing or unknown:
            raise InputError(
                f"inputs: expected kind, size, mean, std and for pictures fit; {', '.join(sorted(missing)) or 'nothing'} is "
                f"missing, {', '.join(sorted(map(str, unknown))) or 'nothing'} is unknown"
            )
        return Inputs(**record)

    @staticmethod
    def of_pictures(images: Tensor, size: int | None = None, fit: "Framing" = "crop") -> "Inputs":
        """Pictures with the mean and the standard deviation that the channels of these have, from exact sums.

        Args:
            images: a sample, uint8 (N, 3, H, W).
            size: side that the network is fed with; that of the sample by default.
            fit: how other shapes become squares.

        >>> Inputs.of_pictures(torch.tensor([0, 255], dtype=torch.uint8).expand(1, 3, 2, 2)).mean
        (0.5, 0.5, 0.5)
        """
        images = as_tensor(images, "images")
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != CHANNELS:
            raise InputError(f"images: expected uint8 (N, 3, H, W), got {shape_of(images)}")
        if not images.numel():
            raise InputError("images: expected pictures to take the mean and spread of, got none")
        counts = torch.zeros(CHANNELS, 256, dtype=torch.int64)
        for rows in row_blocks(len(images), images[0].numel(), PIXELS_AT_ONCE):
            for channel in range(CHANNELS):
                counts[channel] += torch.bincount(images[rows, channel].flatten(), minlength=256).cpu()
        mean, std = zip(*(_mean_and_spread(row) for row in counts.tolist()), strict=True)
        return Inputs("pictures", images.shape[-1] if size is None else size, mean, std, fit)

    @staticmethod
    def of_features(features: Tensor) -> "Inputs":
        """Features with the mean and the standard deviation of these, (N, D); one that never changes is only centred.

        >>> Inputs.of_features(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
        Inputs(kind='features', size=2, mean=(2.0, 7.0), std=(1.0, 1.0), fit='crop')
        """
        features = as_tensor(features, "features")
        if features.ndim != 2 or not features.is_floating_point() or not features.numel():
            raise InputError(f"features: expected floating point (N, D) with rows and columns, got {shape_of(features)}")
        check_finite_features(features)
        mean, std, constant = [], [], []
        for columns in features.split(max(1, PIXELS_AT_ONCE // len(features)), dim=1):
            part = columns.double()
            mean += part.mean(0).tolist()
            std += part.std(0, correction=0).tolist()
            constant += (columns.amin(0) == columns.amax(0)).tolist()  # of equal numbers, rounding leaves some spread
        spread = [1.0 if same or not value > 0 else value for value, same in zip(std, constant, strict=True)]
        return Inputs("features", features.shape[1], tuple(mean), tuple(spread))


def check_finite_features(features: Tensor) -> None:
    """No NaN and nothing infinite among the features, which would become scores that mean nothing."""
    try:
        check_finite(features)
    except InputError as error:
        raise InputError(str(error).replace("scores:", "features:").replace("class", "column")) from None


def _numbers(values: Any, name: str, wanted: int, each: str, above: float = -math.inf) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != wanted:
        came = f"{len(numbers)} numbers" if numbers else str(values)[:60]
        raise InputError(f"{name}: expected {wanted} numbers, one a {each}, got {came}")
    wrong = next((number for number in numbers if not (math.isfinite(number) and number > above)), None)
    if wrong is not None:
        raise InputError(f"{name}: expected finite numbers{' above 0' if above == 0 else ''}, got {wrong}")
    return numbers


def _mean_and_spread(counts: list[int]) -> tuple[float, float]:
    """Of pixels on the scale from 0 to 1, from how often each of the 256 values occurs; a spread of 0 becomes 1."""
    number = sum(counts)
    total = sum(value * count for value, count in enumerate(counts))
    squares = sum(value * value * count for value, count in enumerate(counts))
    spread = math.sqrt(number * squares - total * total) / number  # whole numbers of any length until the root
    return total / number / 255, spread / 255 if spread else 1.0
