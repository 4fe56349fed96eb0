"""InputSpec: what a network reads (pictures of one size or a number of features) and how raw inputs are prepared for it."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from shortlist.checks import check_finite, flag, one_of, whole
from shortlist.data.feature_names import column_order, is_unnamed
from shortlist.data.pictures import larger_side
from shortlist.errors import InputError
from shortlist.tensors import as_tensor, check_tensor, row_blocks, shape_of
from shortlist.words import shown

if TYPE_CHECKING:
    from shortlist.data.loading import Framing

Kind: TypeAlias = Literal["pictures", "features"]
CHANNELS = 3
FITS = ("crop", "center", "stretch", "pad")
PIXELS_AT_ONCE = 2**24
# The statistics that most published weights were trained with.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class InputSpec:
    """What a network reads, and how raw inputs are prepared for it: ``(input - mean) / std``.

    Most specs come from one of the constructors: :meth:`pictures`, :meth:`imagenet` and :meth:`features` from known numbers,
    :meth:`from_pictures` and :meth:`from_features` from data. Training derives the spec from its data by default.

    Args:
        kind: ``"pictures"`` or ``"features"``.
        size: side of the square pictures in pixels, or the number of features.
        mean: one number per channel, on the scale from 0 to 1, or one per feature; None, together with ``std``, gives the
            network raw inputs as they are: uint8 pictures, or float32 features.
        std: the same, above 0.
        fit: how pictures become squares, ignored for features: ``"crop"``, the default, is the largest central square;
            ``"center"`` the central window of a square that is larger by 8/7 (224 pixels of 256), for networks trained on
            windows of such squares; see :func:`~shortlist.data.load_pictures` for ``"stretch"`` and ``"pad"``.
        feature_names: the name of each feature, by which the columns of tables are matched; empty, or the numbers from 0, for
            features that go by position.
        mirror: whether the network, outside of training, is run on each picture and its mirror image, whose features (or
            scores, of a network without features of its own) are averaged.

    >>> inputs = InputSpec("pictures", 32, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    >>> inputs.prepare(torch.full((1, 3, 32, 32), 255, dtype=torch.uint8)).unique()
    tensor([2.])
    >>> InputSpec("features", 2, mean=(1.0, 0.0), std=(2.0, 1.0)).prepare(torch.tensor([[3.0, 4.0]]))
    tensor([[1., 4.]])
    """

    kind: Kind
    size: int
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    fit: "Framing" = "crop"
    feature_names: tuple[str, ...] = ()
    mirror: bool = False
    _on: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of(*get_args(Kind))("kind", self.kind)
        one_of(*FITS)("fit", self.fit)
        if flag("mirror", self.mirror) and not self.is_pictures:
            raise InputError("mirror: expected False for features, which have no mirror image, got True")
        size = whole(1)("size" if self.is_pictures else "features", self.size)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "feature_names", _names(self.feature_names, 0 if self.is_pictures else size))
        if self.mean is None or self.std is None:
            if self.mean is not self.std:
                missing, given = ("mean", "std") if self.mean is None else ("std", "mean")
                raise InputError(f"{missing}: expected numbers, as {given} has, or None for both to leave inputs as they are")
            return
        wanted, each = (CHANNELS, "channel") if self.is_pictures else (size, "feature")
        object.__setattr__(self, "mean", _numbers(self.mean, "mean", wanted, each))
        object.__setattr__(self, "std", _numbers(self.std, "std", wanted, each, above=0.0))

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a copy may be used where the devices of this one do not exist."""
        return self.__dict__ | {"_on": {}}

    @staticmethod
    def pictures(
        size: int,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        *,
        fit: "Framing" = "crop",
        raw: bool = False,
    ) -> "InputSpec":
        """Square pictures; by default pixels are only scaled to the range from 0 to 1.

        Args:
            size: side in pixels.
            mean: subtracted after scaling to [0, 1]; one number, or one per channel.
            std: divided by after that; one number, or one per channel.
            fit: how pictures become squares: ``"crop"``, ``"center"``, ``"stretch"`` or ``"pad"``.
            raw: give the network uint8 pixels (N, 3, size, size) as they are.

        >>> InputSpec.pictures(32, mean=0.5).mean
        (0.5, 0.5, 0.5)
        >>> InputSpec.pictures(32, raw=True).prepare(torch.full((1, 3, 32, 32), 7, dtype=torch.uint8)).unique()
        tensor([7], dtype=torch.uint8)
        """
        if raw:
            return InputSpec("pictures", size, fit=fit)
        return InputSpec("pictures", size, _each(mean, CHANNELS), _each(std, CHANNELS), fit)

    @staticmethod
    def imagenet(size: int = 224, *, fit: "Framing" = "crop") -> "InputSpec":
        """Pictures with the mean and standard deviation of ImageNet, as most published weights expect them.

        >>> InputSpec.imagenet().std
        (0.229, 0.224, 0.225)
        """
        return InputSpec("pictures", size, IMAGENET_MEAN, IMAGENET_STD, fit)

    @staticmethod
    def features(
        number: int,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        *,
        feature_names: Sequence[str] = (),
    ) -> "InputSpec":
        """Rows of so many features, as they are unless a mean or a standard deviation is given; names match columns of tables.

        >>> InputSpec.features(2).prepare(torch.tensor([[3.0, 4.0]]))
        tensor([[3., 4.]])
        """
        if mean is None and std is None:
            return InputSpec("features", number, feature_names=tuple(feature_names))
        count = whole(1)("features", number)
        means, deviations = _each(0.0 if mean is None else mean, count), _each(1.0 if std is None else std, count)
        return InputSpec("features", number, means, deviations, feature_names=tuple(feature_names))

    @property
    def is_pictures(self) -> bool:
        """Whether the inputs are pictures."""
        return self.kind == "pictures"

    @property
    def raw(self) -> bool:
        """Whether the network gets its inputs as they are, without standardisation."""
        return self.mean is None

    @property
    def num_features(self) -> int | None:
        """The number of features; None for pictures."""
        return None if self.is_pictures else self.size

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input, ``(3, size, size)`` or ``(features,)``."""
        return (CHANNELS, self.size, self.size) if self.is_pictures else (self.size,)

    @property
    def preparation(self) -> str:
        """How a picture of any size becomes what the network reads, in words; empty for features.

        >>> print(InputSpec.imagenet(fit="crop").preparation)
        upright RGB, the largest central square, resized to 224 × 224 by Pillow's bilinear filter
        """
        if not self.is_pictures:
            return ""
        larger, filtered = larger_side(self.size), "by Pillow's bilinear filter"
        forms = {
            "crop": f"the largest central square, resized to {self.size} × {self.size} {filtered}",
            "center": f"the largest central square, resized to {larger} × {larger} {filtered}, and of that the central "
            f"{self.size} × {self.size} pixels",
            "stretch": f"the whole picture, resized to {self.size} × {self.size} {filtered}",
            "pad": f"the whole picture, its longer side resized to {self.size} {filtered}, in the middle of a square of the "
            "mean colour of its border",
        }
        return f"upright RGB, {forms[self.fit]}"

    def prepare(self, batch: Tensor) -> Tensor:
        """``(batch - mean) / std`` in float32, on the batch's device; pictures in channels-last memory. As it is where raw.

        Args:
            batch: uint8 (N, 3, size, size), or floating point (N, features). Features are converted to float32 whatever
                their precision, so that a row gets the same answer however it was stored.

        Shape: as the batch.
        """
        self.check(batch)
        if self.raw:
            return batch.contiguous() if self.is_pictures else batch.float()
        mean, std = self.on(batch.device)
        if self.is_pictures:
            return batch.contiguous(memory_format=torch.channels_last).float().sub_(mean).div_(std)
        return (batch.float() - mean) / std

    def example(self, rows: int = 2, device: torch.device | str = "cpu") -> Tensor:
        """A raw batch of zeros, for a network that is run once to learn about its output."""
        return torch.zeros(rows, *self.shape, dtype=torch.uint8 if self.is_pictures else torch.float32, device=device)

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation on this device, copied there once: a copy with every batch would wait for it.

        Those of pictures are on the scale of bytes and shaped to broadcast over channels. Call this before compiling
        :meth:`prepare`, otherwise the graph is traced again once they are there. Raw inputs have 0 and 1.
        """
        if device not in self._on:
            with torch.inference_mode(False):  # they outlive the mode in which they are first used
                self._on[device] = tuple(numbers.to(device) for numbers in self.standardisation())  # type: ignore[assignment]
        return self._on[device]

    def standardisation(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation, float32, on the scale of raw inputs and shaped to broadcast over a batch's rows."""
        if self.mean is None or self.std is None:
            return torch.zeros(()), torch.ones(())
        mean, std = (torch.tensor(numbers, dtype=torch.float32) for numbers in (self.mean, self.std))
        return (255 * mean.view(-1, 1, 1), 255 * std.view(-1, 1, 1)) if self.is_pictures else (mean, std)

    def check(self, batch: Tensor) -> None:
        """Check that the batch has the shape and the dtype of these inputs."""
        check_tensor(batch, self.kind)
        fits = batch.dtype == torch.uint8 if self.is_pictures else batch.is_floating_point()
        if not fits or batch.ndim != 1 + len(self.shape) or tuple(batch.shape[1:]) != self.shape:
            dtype = "uint8" if self.is_pictures else "floating point"
            wanted = ", ".join(map(str, ("N", *self.shape)))
            raise InputError(f"{self.kind}: expected {dtype} ({wanted}), got {shape_of(batch)}")

    def columns_of(self, names: Sequence[str]) -> list[int] | None:
        """The place of each feature among columns of these names; None to take the columns as they are.

        >>> InputSpec.features(2, feature_names=["width", "height"]).columns_of(["height", "width"])
        [1, 0]
        """
        return column_order(names, self.feature_names)

    def named(self, feature_names: Sequence[str]) -> "InputSpec":
        """The same inputs with these names of features, unless they have names already."""
        if self.is_pictures or self.feature_names:
            return self
        return replace(self, feature_names=tuple(feature_names))

    def is_close(self, other: "InputSpec") -> bool:
        """Whether both describe the same inputs, up to rounding of statistics that were computed from data.

        >>> InputSpec.pictures(8, 0.5, 0.25).is_close(InputSpec.pictures(8, 0.5, 0.2500001))
        True
        >>> InputSpec.pictures(8, 0.5, 0.25).is_close(InputSpec.pictures(8, 0.5, 0.3))
        False
        """
        if (self.shape, self.kind, self.fit, self.mirror) != (other.shape, other.kind, other.fit, other.mirror):
            return False
        if (self.mean is None) != (other.mean is None):
            return False
        if self.feature_names and other.feature_names and self.feature_names != other.feature_names:
            return False
        mine, theirs = ((*(one.mean or ()), *(one.std or ())) for one in (self, other))
        return all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(mine, theirs, strict=True))

    def record(self) -> dict[str, Any]:
        """The fields as plain values, for JSON; :meth:`from_record` reads them back."""
        mean, std = (None if numbers is None else list(numbers) for numbers in (self.mean, self.std))
        record: dict[str, Any] = {"kind": self.kind, "size": self.size, "mean": mean, "std": std}
        if self.feature_names:
            record["feature_names"] = list(self.feature_names)
        if self.mirror:
            record["mirror"] = True
        return record | {"fit": self.fit} if self.is_pictures else record

    def digest(self) -> str:
        """Digest of all fields: whatever becomes of an input before the network reads it.

        >>> InputSpec.pictures(8).digest()[:8], InputSpec.pictures(8, fit="center").digest()[:8]
        ('35ac5555', '0b43b607')
        """
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "InputSpec":
        """The inputs that :meth:`record` described.

        >>> InputSpec.from_record({"kind": "features", "size": 1, "mean": [0], "std": [2]})
        InputSpec(kind='features', size=1, mean=(0.0,), std=(2.0,), fit='crop', feature_names=(), mirror=False)
        """
        if not isinstance(record, Mapping):
            raise InputError(f"inputs: expected kind, size, mean and std by name, got {type(record).__name__}")
        wanted = {"kind", "size", "mean", "std"}
        missing, unknown = wanted - record.keys(), record.keys() - wanted - {"fit", "feature_names", "mirror"}
        if missing or unknown:
            raise InputError(
                "inputs: expected kind, size, mean, std, for pictures fit and for features feature_names; "
                f"{', '.join(sorted(missing)) or 'nothing'} is missing, "
                f"{', '.join(sorted(map(str, unknown))) or 'nothing'} is unknown"
            )
        return InputSpec(**record)

    @staticmethod
    def from_pictures(images: Tensor, size: int | None = None, fit: "Framing" = "crop") -> "InputSpec":
        """Pictures with the mean and the standard deviation of each channel of this sample, computed exactly.

        Args:
            images: a sample, uint8 (N, 3, H, W).
            size: side of the pictures that the network reads; that of the sample by default.
            fit: how pictures become squares.

        >>> InputSpec.from_pictures(torch.tensor([0, 255], dtype=torch.uint8).expand(1, 3, 2, 2)).mean
        (0.5, 0.5, 0.5)
        """
        images = as_tensor(images, "images")
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != CHANNELS:
            raise InputError(f"images: expected uint8 (N, 3, H, W), got {shape_of(images)}")
        if not images.numel():
            raise InputError("images: expected pictures to compute mean and standard deviation from, got none")
        counts = torch.zeros(CHANNELS, 256, dtype=torch.int64)
        for rows in row_blocks(len(images), images[0].numel(), PIXELS_AT_ONCE):
            for channel in range(CHANNELS):
                counts[channel] += torch.bincount(images[rows, channel].flatten(), minlength=256).cpu()
        mean, std = zip(*(_mean_and_spread(row) for row in counts.tolist()), strict=True)
        return InputSpec("pictures", images.shape[-1] if size is None else size, mean, std, fit)

    @staticmethod
    def from_features(features: Tensor, feature_names: Sequence[str] = ()) -> "InputSpec":
        """Features with the mean and the standard deviation of this sample, (N, D); constant features are only centred.

        >>> InputSpec.from_features(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
        InputSpec(kind='features', size=2, mean=(2.0, 7.0), std=(1.0, 1.0), fit='crop', feature_names=(), mirror=False)
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
            constant += (columns.amin(0) == columns.amax(0)).tolist()  # rounding gives equal numbers some spread
        spread = [1.0 if same or not value > 0 else value for value, same in zip(std, constant, strict=True)]
        return InputSpec("features", features.shape[1], tuple(mean), tuple(spread), feature_names=tuple(feature_names))


def check_finite_features(features: Tensor) -> None:
    """Refuse features that are NaN or infinite: their scores would mean nothing."""
    check_finite(features, "features")


def _each(value: float | Sequence[float], count: int) -> tuple[float, ...]:
    """One number for all, or the numbers as they are."""
    return (value,) * count if isinstance(value, int | float) else tuple(value)


def _numbers(values: Any, name: str, wanted: int, each: str, above: float = -math.inf) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != wanted:
        came = f"{len(numbers)} numbers" if numbers else str(values)[:60]
        raise InputError(f"{name}: expected {wanted} numbers, one per {each}, got {came}")
    wrong = next((number for number in numbers if not (math.isfinite(number) and number > above)), None)
    if wrong is not None:
        raise InputError(f"{name}: expected finite numbers{' above 0' if above == 0 else ''}, got {wrong}")
    return numbers


def _names(values: Any, wanted: int) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(name, str) for name in values):
        raise InputError(f"feature_names: expected a list of names, got {shown(values)}")
    if values and len(values) != wanted:
        raise InputError(f"feature_names: expected one for each of the {wanted} features, got {len(values)}")
    return () if is_unnamed(values) else tuple(values)


def _mean_and_spread(counts: list[int]) -> tuple[float, float]:
    """Mean and standard deviation on the scale from 0 to 1, from the counts of the 256 values; a deviation of 0 becomes 1."""
    number = sum(counts)
    total = sum(value * count for value, count in enumerate(counts))
    squares = sum(value * value * count for value, count in enumerate(counts))
    spread = math.sqrt(number * squares - total * total) / number  # exact integers up to the root
    return total / number / 255, spread / 255 if spread else 1.0
