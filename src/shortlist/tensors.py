"""Shapes, aliases, checks and reductions shared by everything above.

A *target* is ``int64 (N,)``, one label a row, or ``bool (N, C)``, any number of labels a row, none included.
Checks here look at shapes, dtypes and devices only, so they never wait for a GPU; values are checked where data enters.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.machine import usable_cores

Scores: TypeAlias = Tensor
Probs: TypeAlias = Tensor
Target: TypeAlias = Tensor
Sets: TypeAlias = Tensor
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Reduction: TypeAlias = Literal["mean", "sum", "none"]

T = TypeVar("T")
P = ParamSpec("P")

NUMBER_THE_CLASSES = (
    ": number the labels by the columns of their classes, or name the classes, as columns of a data frame or with "
    "Predictions(classes=…)"
)
# Entries worked on at once: 8 MB in float32, so that a block and its temporaries stay near the processor.
BLOCK_ENTRIES = 2**21
# On other devices, where starting the work on a block takes longer than what its size saves.
DEVICE_BLOCK_ENTRIES = 2**24
DIGEST = "digest"  # its name in the header of a file
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


class TwoHeadScores(NamedTuple):
    """The output of a two-head network: multi-label scores, and the scores that propose pseudo-labels, (N, C) each."""

    scores: Scores
    proposal_scores: Scores


def by_device(implementations: Mapping[str, T], tensor: Tensor) -> T:
    """The implementation for the tensor's device.

    Each function with several implementations keeps a table of them by device type, such as ``"cpu"`` or ``"cuda"``; the
    entry ``"any"`` runs everywhere else.

    >>> by_device({"cpu": "numpy", "any": "torch"}, torch.zeros(1))
    'numpy'
    """
    return implementations.get(tensor.device.type, implementations["any"])


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """Leave a function out of the graphs of ``torch.compile``, as ``torch.compiler.disable`` does.

    That decorator loads the compiler when it is applied, which would make importing this library take seconds longer; this
    one loads nothing until something is compiled.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        outside_graphs: Callable[P, T] = torch.compiler.disable(function)
        return outside_graphs(*args, **kwargs)

    return called


def shape_of(tensor: Tensor) -> str:
    """``float32 (10, 3)``: how messages name a tensor."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def as_tensor(values: Any, name: str = "probs") -> Tensor:
    """The values as a tensor, without a copy where they are a tensor or an array; wide unsigned integers become int64."""
    tensor = tensor_of(values, name)
    return _signed(tensor, name) if tensor.dtype in WIDE_UNSIGNED else tensor


def _signed(tensor: Tensor, name: str) -> Tensor:
    """Unsigned integers as int64: torch can hold them, but neither compare nor add them."""
    signed = tensor.long()
    if tensor.dtype == torch.uint64 and bool((signed < 0).any()):
        raise InputError(f"{name}: expected numbers below 2^63, got {int(signed[signed < 0][0]) + 2**64}")
    return signed


def tensor_of(values: Any, name: str) -> Tensor:
    """The values as a tensor of their own dtype, without a copy where they are a tensor or an array."""
    if isinstance(values, Tensor):
        return values
    if hasattr(values, "to_numpy"):  # a data frame
        values = values.to_numpy()
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name}: expected an array without a mask; fill or drop what is masked")
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "fiub":
            hint = NUMBER_THE_CLASSES if name == "target" and values.dtype.kind in "OUST" else ""
            raise InputError(f"{name}: expected numbers, got an array of dtype {values.dtype}{hint}")
        if values.dtype == np.longdouble and values.dtype.itemsize > 8:
            values = values.astype(np.float64)
        # torch can neither hold read-only memory without a warning, nor step backwards, nor by parts of an item (of records).
        if not values.flags.writeable or any(stride < 0 or stride % values.itemsize for stride in values.strides):
            values = values.copy()
        return torch.from_numpy(values.astype(values.dtype.newbyteorder("="), copy=False))
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        texts = isinstance(values, list | tuple) and any(isinstance(value, str) for value in values)
        hint = f" of texts{NUMBER_THE_CLASSES}" if texts and name == "target" else ""
        raise InputError(f"{name}: expected a tensor or an array, got {type(values).__name__}{hint}") from error


def as_text(values: Array, name: str) -> Array:
    """An array of texts; bytes are read as UTF-8.

    >>> as_text(np.array(["élan".encode()]), "classes").tolist()
    ['élan']
    """
    if values.dtype.kind != "S":
        return values.astype(str)
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{name}: expected UTF-8 text, got other bytes") from None


def as_target(values: Any) -> Target:
    """The values as a target: any integer dtype becomes int64, booleans stay."""
    target = as_tensor(values, "target")
    integer = not target.is_floating_point() and not target.is_complex() and target.dtype != torch.bool
    return target.long() if integer and target.ndim == 1 else target


def check_scores(scores: Tensor, name: str = "scores") -> None:
    """Scores, or probabilities, are floating point (N, C), of at least one class."""
    check_tensor(scores, name)
    if scores.ndim != 2 or not scores.is_floating_point():
        raise InputError(f"{name}: expected floating point (N, C), got {shape_of(scores)}")
    if scores.shape[1] == 0:
        raise InputError(f"{name}: expected at least one class, got {shape_of(scores)}")


def check_tensor(values: Any, name: str) -> None:
    """A tensor, and not something that could be made one: losses are part of a graph that must not be cut."""
    if not isinstance(values, Tensor):
        raise InputError(f"{name}: expected a tensor, got {type(values).__name__}")


def check_target(scores: Tensor, target: Target, name: str = "scores") -> None:
    """The target has one of its two forms and belongs to these scores."""
    check_scores(scores, name)
    check_tensor(target, "target")
    _check_form(target, (scores.shape[0], scores.shape[1]), name)
    if target.device != scores.device:
        raise InputError(f"target is on {target.device} and {name} on {scores.device}: move one to the other")


def _check_form(target: Target, shape: tuple[int, int], name: str) -> None:
    rows, classes = shape
    if target.dtype == torch.int64 and target.ndim == 1:
        if len(target) != rows:
            raise InputError(f"target: expected one label for each of the {rows} rows of {name}, got {len(target)}")
    elif target.dtype == torch.bool and target.ndim == 2:
        if target.shape != (rows, classes):
            raise InputError(f"target: expected bool {(rows, classes)} like {name}, got {shape_of(target)}")
    else:
        raise InputError(
            f"target: expected int64 ({rows},), one label a row, or bool {(rows, classes)}, any number of labels a row; "
            f"got {shape_of(target)}" + ("; if it holds zeros and ones, give target.bool()" if target.ndim == 2 else "")
        )


def check_sets(sets: Sets, target: Target | None = None) -> None:
    """Sets are booleans (N, C), of at least one class."""
    if sets.dtype != torch.bool or sets.ndim != 2 or sets.shape[1] == 0:
        raise InputError(f"sets: expected bool (N, C) of at least one class, got {shape_of(sets)}")
    if target is not None:
        _check_form(target, (sets.shape[0], sets.shape[1]), "sets")


def is_single_label(target: Target) -> bool:
    """Whether the target holds exactly one label a row."""
    return target.ndim == 1


def pick(values: Tensor, target: Target) -> Tensor:
    """The entry of each row at its label, (N,)."""
    return values.gather(1, target[:, None]).squeeze(1)


def one_hot(target: Target, classes: int) -> Tensor:
    """The target as bool (N, C), whichever form it has."""
    if not is_single_label(target):
        return target
    marks = torch.zeros(len(target), classes, dtype=torch.bool, device=target.device)
    return marks.scatter_(1, target[:, None], True)


def working(values: Tensor) -> Tensor:
    """Half precision is computed in float32; float32 and float64 stay what they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def summed(values: Tensor) -> Tensor:
    """The sum of all entries in float64: on a CPU the same number by however many threads, among which torch divides long sums.

    >>> summed(torch.full((3, 2), 0.5))
    tensor(3., dtype=torch.float64)
    """
    if values.device.type != "cpu":
        return values.sum(dtype=torch.float64)
    known = values.float() if values.dtype == torch.bfloat16 else values  # which numpy does not have
    return torch.tensor(float(np.sum(known.detach().numpy(), dtype=np.float64)), dtype=torch.float64)


def row_blocks(rows: int, columns: int, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Slices over the rows, each of about ``entries`` entries and at least one row."""
    step = max(1, entries // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def blocks_of(values: Tensor, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """The row blocks of a matrix: about ``entries`` entries each on the CPU, larger ones on other devices."""
    at_once = by_device({"cpu": entries, "any": DEVICE_BLOCK_ENTRIES}, values)
    return row_blocks(len(values), values.shape[1], at_once)


def reduce(values: Tensor, reduction: Reduction) -> Tensor:
    """Mean, sum or neither; the mean of nothing is 0, so that an empty batch trains nothing."""
    if reduction == "mean":
        return values.mean() if values.numel() else values.sum()
    if reduction == "sum":
        return values.sum()
    if reduction == "none":
        return values
    raise InputError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")


def sealed(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The texts in the header of a safetensors file, with a digest of all that the file holds.

    >>> is_as_sealed(sealed({"kind": "a"}, {}), {}), is_as_sealed(sealed({"kind": "a"}, {}) | {"kind": "b"}, {})
    (True, False)
    """
    return {**header, DIGEST: _digest_of_file(header, tensors)}


def is_as_sealed(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> bool:
    """Whether a file holds what it held when it was sealed; files of earlier versions, without a digest, pass."""
    return DIGEST not in header or header[DIGEST] == _digest_of_file(header, tensors)


def _digest_of_file(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    texts = {name: text for name, text in header.items() if name != DIGEST}
    told = json.dumps([texts, digest_of(tensors)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Digest of tensors on the CPU by name, with their dtypes and shapes: equal for equal bits, whatever their order.

    >>> digest_of({"a": torch.zeros(2), "b": torch.ones(())}) == digest_of({"b": torch.ones(()), "a": torch.zeros(2)})
    True
    >>> digest_of({"a": torch.zeros(2)}) == digest_of({"a": -torch.zeros(2)})
    False
    """
    names = sorted(tensors)
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing releases the lock of Python
        parts = pool.map(_bits_digest, (tensors[name] for name in names))
        found = hashlib.sha256()
        for name, part in zip(names, parts, strict=True):
            found.update(f"{name} {shape_of(tensors[name])} ".encode("utf-8", "surrogatepass") + part)
    return found.hexdigest()[:32]


def _bits_digest(tensor: Tensor) -> bytes:
    return hashlib.sha256(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data).digest()
